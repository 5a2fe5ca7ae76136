// Sinusoids of positions (paper 3.5), made when they are first needed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace dragoman {

enum class Layout : int32_t { given = 0, interleaved = 1, concatenated = 2 };

class Positions {
  public:
    Positions(Layout layout, int d_model);

    // Rows [0, count), `d_model` numbers each; they stay where they are.
    const float* rows(int count);

  private:
    void fill(int position, float* row) const;

    const Layout layout_;
    const int d_model_;
    std::vector<double> wavelengths_;  // of each pair of columns, divided by 2 pi
    std::mutex mutex_;
    std::vector<std::unique_ptr<float[]>> tables_;  // each twice as long as the one before, which others may still read
    int made_ = 0;
};

}  // namespace dragoman
