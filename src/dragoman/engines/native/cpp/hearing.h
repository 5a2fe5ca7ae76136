// Frames of sound as what enters the encoder: two convolutions of stride 2, each through a gated linear unit
// (`nn/subsampling.py`). An output is a product of the frames around it, which lie one after the other in memory.
#pragma once

#include "arena.h"
#include "model.h"

namespace dragoman {

// What one thread hears with, some places at a time.
class Ear {
  public:
    static constexpr int MOST = 64;  // places at once: enough rows for a product, few enough to stay in the cache

    explicit Ear(const Model& model);
    // Places [from, to), at most MOST, of a sound of so many frames, as rows of that stride.
    void hear(const float* frames, int count, int from, int to, float* out, size_t stride);

  private:
    void convolve(const Packed& weights, const float* inputs, int width, int outputs, float* out, size_t stride);

    const Model& m_;
    const int channels_;  // after the unit
    Arena arena_{1 << 20};
    float *frames_, *narrow_, *wide_;
    unsigned char* operand_;
    float* scale_;
    int32_t* offset_;
};

}  // namespace dragoman
