// Sinusoids of positions (paper 3.5), made when they are first needed: rows added to tokens, or the angles by which
// rotary positions rotate queries and keys.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace dragoman {

enum class Layout : int32_t { given = 0, interleaved = 1, concatenated = 2, rotary = 3, rotary_cross = 4 };

class Positions {
  public:
    // Rows are as wide as what they are added to, or as a head's queries where they rotate those.
    Positions(Layout layout, int d_model, int d_k);

    // Rows [0, count), `width` numbers each; they stay where they are.
    const float* rows(int count);
    Layout layout() const { return layout_; }
    bool rotary() const { return layout_ >= Layout::rotary; }
    bool rotary_cross() const { return layout_ == Layout::rotary_cross; }

    const int width;

  private:
    void fill(int position, float* row) const;

    const Layout layout_;
    std::vector<double> wavelengths_;  // of each pair of columns, divided by 2 pi
    std::mutex mutex_;
    std::vector<std::unique_ptr<float[]>> tables_;  // each twice as long as the one before, which others may still read
    int made_ = 0;
};

}  // namespace dragoman
