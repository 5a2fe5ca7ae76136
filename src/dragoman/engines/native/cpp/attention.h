// Attention of one query to positions that may lie anywhere in memory.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace {

using namespace dragoman;

// Dot products of a query with four keys.
inline void dot_four(const float* query, const float* const* positions, int key, int n, float scale, float* scores) {
    Vec sums[4] = {};
    int i = 0;
    for (; i + W <= n; i += W) {
        const Vec q = load(query + i);
        for (int j = 0; j < 4; ++j) sums[j] = fused(q, load(positions[j] + key + i), sums[j]);
    }
    if (i < n) {
        const Vec q = load_part(query + i, n - i);
        for (int j = 0; j < 4; ++j) sums[j] = fused(q, load_part(positions[j] + key + i, n - i), sums[j]);
    }
    sum_four(sums, scale, scores);
}

// Scores become weights that sum to 1. There is room up to a whole vector.
inline void softmax(float* scores, int n) {
    Vec most = splat(-INFINITY);
    for (int i = 0; i < n; i += W) most = larger(first_lanes(load(scores + i), n - i, -INFINITY), most);
    const float shift = largest(most);
    Vec total = Vec{};
    for (int i = 0; i < n; i += W) {
        const Vec e = exponential(first_lanes(load(scores + i), n - i, -INFINITY) - shift);
        store(scores + i, e);
        total += e;  // of lanes beyond the end next to nothing
    }
    const float factor = 1.0f / sum(total);
    for (int i = 0; i < n; i += W) store(scores + i, load(scores + i) * factor);
}

// VECTORS * W numbers of every position's values, weighed: kept in registers over the positions.
template <int VECTORS>
inline void weigh(const float* const* positions, int n, const float* weights, int offset, float* out) {
    Vec sums[VECTORS] = {};
    for (int t = 0; t < n; ++t) {
        const float* value = positions[t] + offset;
        for (int i = 0; i < VECTORS; ++i) sums[i] = fused(load(value + i * W), splat(weights[t]), sums[i]);
    }
    for (int i = 0; i < VECTORS; ++i) store(out + i * W, sums[i]);
}

inline void weigh_part(const float* const* positions, int n, const float* weights, int offset, int left, float* out) {
    Vec sums = Vec{};
    for (int t = 0; t < n; ++t) sums = fused(load_some(positions[t] + offset, left), splat(weights[t]), sums);
    store_some(out, sums, left);
}

// Stage by stage over all heads: those of one stage do not wait for each other.
void attend_heads(const float* query, const float* const* positions, int n, const Heads& heads, int head_0,
                  int head_1, int stride, float* scores, float* out) {
    const int d_k = heads.d_k, d_v = heads.d_v, values = heads.count * d_k;
    const float scale = 1.0f / std::sqrt(static_cast<float>(d_k));
    for (int t = 0; t < n; t += 4)
        for (int head = head_0; head < head_1; ++head)
            dot_four(query + head * d_k, positions + t, head * d_k, d_k, scale, scores + (head - head_0) * stride + t);
    for (int head = head_0; head < head_1; ++head) softmax(scores + (head - head_0) * stride, n);
    for (int head = head_0; head < head_1; ++head) {
        const float* weights = scores + (head - head_0) * stride;
        const int offset = values + head * d_v;
        int i = 0;
        for (; i + 4 * W <= d_v; i += 4 * W) weigh<4>(positions, n, weights, offset + i, out + head * d_v + i);
        for (; i < d_v; i += W) weigh_part(positions, n, weights, offset + i, d_v - i, out + head * d_v + i);
    }
}

}  // namespace
