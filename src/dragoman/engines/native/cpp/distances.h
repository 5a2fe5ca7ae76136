// Scores that fall with the distance of the key (ALiBi).
#pragma once

#include "simd.h"

namespace {

// Lowers the score of each of `n` keys by `slope` times how far it is from `place`. There is room for whole vectors.
inline void lower_by_distance(float* scores, int n, int place, float slope) {
    Vec ahead;
    for (int i = 0; i < W; ++i) ahead[i] = static_cast<float>(i - place);
    for (int i = 0; i < n; i += W) {
        store(scores + i, load(scores + i) - larger(ahead, -ahead) * splat(slope));
        ahead += splat(static_cast<float>(W));
    }
}

}  // namespace
