// A model's weights in the kernels' layout.
#pragma once

#include <vector>

#include "api.h"
#include "arena.h"
#include "kernels.h"
#include "pace.h"
#include "positions.h"

namespace dragoman {

// From row to row, such that the same column of many rows does not fall into the same few places of the cache.
inline size_t row_stride(int width) { return (static_cast<size_t>(width) + 15) / 16 * 16 + 16; }

constexpr int TAPS = 5;  // inputs of an output of a convolution; the next one looks at those two further on

struct Norm {
    const float* weight = nullptr;
    const float* bias = nullptr;
    float eps = 0.0f;
};

struct Layer {
    Packed query, key_value, output;
    Packed cross_query, cross_key_value, cross_output;  // of a decoder that looks at a memory
    Packed inner, outer;
    Norm attention_norm, cross_norm, feed_forward_norm;
};

struct Stack {
    std::vector<Layer> layers;
    bool has_end = false;
    Norm end;
};

// In the caller's memory: numbers, or bytes with a factor for each row.
struct Table {
    const float* rows = nullptr;
    const int8_t* bytes = nullptr;
    const float* factors = nullptr;
    int64_t count = 0;
    float scale = 1.0f;

    // The numbers of a row, which are made in `made` if they are not there.
    const float* row(int64_t id, int width, float* made) const;

    // Throws if an id is not in it, or is to be found at null.
    void check(const int64_t* ids, size_t count) const;
};

class Model {
  public:
    // Throws if the caller's numbers do not fit together.
    explicit Model(const DragomanModel& spec);

    const Kernels& kernels;
    const Precision precision;
    const int d_model, d_ff;
    const Heads heads;
    const bool pre_norm, cross;
    const Activation activation;
    const int mels, blank;  // 0 where ids are read; -1 where nothing is read off frames
    Packed first, second;   // convolutions of frames, each as a product of `TAPS` neighbours
    Stack encoder, decoder;
    Table source, target;
    mutable Positions source_positions, target_positions;
    const std::vector<float> nothing;  // added to tokens where positions are not
    Packed generator, head;
    double work = 0.0;  // multiplications of one decoder row

    int queries() const { return heads.count * heads.d_k; }
    int mixed() const { return heads.count * heads.d_v; }
    size_t key_values() const { return row_stride(queries() + mixed()); }  // from position to position
    // How many rows enter the encoder for so many ids, or frames.
    int64_t places(int64_t length) const { return mels ? (length + 3) / 4 : length; }
    size_t bytes() const { return arena_.size(); }
    // So many of the threads are of use for so many rows.
    int useful(int rows, int threads) const { return work * rows < WORTH_A_THREAD ? 1 : threads; }
    // Throws if rows of a pass are too many to be counted, heads and all.
    void check_rows(int64_t rows) const;

    mutable Pace encoding, decoding;

  private:
    Packed packed(const DragomanMatrix& matrix, int out, int in);
    Packed convolution(const DragomanMatrix& matrix, int out, int in);
    Norm norm(const DragomanNorm& given);
    Stack stack(int layers, bool cross, const DragomanMatrix*& matrices, const DragomanNorm*& norms);

    // Below so many multiplications a stage is too short for two threads to pay.
    static constexpr double WORTH_A_THREAD = 2.0e6;

    Arena arena_;
};

}  // namespace dragoman
