// Sinusoids of positions (paper 3.5), made when they are first needed: rows added to tokens, or the angles by which
// rotary positions rotate queries and keys; or, without any, the slopes of ALiBi. Or the rows of a table.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "api.h"

namespace dragoman {

// Marian's and fairseq's are concatenated too, with other wavelengths; fairseq counts from 2.
enum class Layout : int32_t { table, interleaved, concatenated, marian, fairseq, rotary, rotary_cross, alibi };

class Positions {
  public:
    // Rows are as wide as what they are added to, or as a head's queries where they rotate those.
    Positions(const DragomanTable& table, int d_model, int d_k, int heads);

    // Rows [0, count), `width` numbers each; they stay where they are. Throws if a table has not as many.
    const float* rows(int64_t count);
    // The most rows there are.
    int64_t longest() const { return layout_ == Layout::table ? longest_ : INT64_MAX; }
    // Whether they are a matter of attention, so that nothing is added to tokens.
    bool inside() const { return layout_ >= Layout::rotary; }
    bool rotary() const { return layout_ == Layout::rotary || layout_ == Layout::rotary_cross; }
    bool rotary_cross() const { return layout_ == Layout::rotary_cross; }

    // By which the scores of each head of self-attention fall with the distance; null where they do not.
    const float* slopes() const { return slopes_.empty() ? nullptr : slopes_.data(); }

    const int width;

  private:
    void fill(int64_t position, float* row) const;

    const Layout layout_;
    const float* const table_;  // the caller's memory
    const int64_t longest_;
    std::vector<float> slopes_;
    std::vector<double> wavelengths_;  // of each pair of columns, divided by 2 pi
    std::vector<float> rates_;         // of Marian and fairseq in their place: radians for each position
    std::mutex mutex_;
    std::vector<std::unique_ptr<float[]>> tables_;  // each twice as long as the one before, which others may still read
    int64_t made_ = 0;
};

}  // namespace dragoman
