// Attention of queries to positions that may lie anywhere in memory. What a query gets does not depend on the others.
#pragma once

#include <cmath>
#include <cstring>

#include "distances.h"
#include "kernels.h"
#include "simd.h"

namespace {

using namespace dragoman;

constexpr int NEAR = 64;  // positions whose keys of one head the nearest cache holds beside the queries; of four

// Dot products of some queries with four keys.
template <int QUERIES>
inline __attribute__((always_inline)) void dot_four(const float* query, size_t query_stride,
                                                    const float* const* positions, int key, int n, float scale,
                                                    float* scores, size_t stride) {
    const float *k_0 = positions[0] + key, *k_1 = positions[1] + key, *k_2 = positions[2] + key,
                *k_3 = positions[3] + key;
    Vec sums[QUERIES][4];
    for (int q = 0; q < QUERIES; ++q) sums[q][0] = sums[q][1] = sums[q][2] = sums[q][3] = Vec{};
    const auto add = [&](int i, auto read) __attribute__((always_inline)) {
        const Vec keys[4] = {read(k_0 + i), read(k_1 + i), read(k_2 + i), read(k_3 + i)};
        for (int q = 0; q < QUERIES; ++q) {
            const Vec x = read(query + q * query_stride + i);
            for (int j = 0; j < 4; ++j) sums[q][j] = fused(x, keys[j], sums[q][j]);
        }
    };
    int i = 0;
    for (; i + W <= n; i += W) add(i, [](const float* p) { return load(p); });
    if (i < n) add(i, [&](const float* p) { return load_part(p, n - i); });
    for (int q = 0; q < QUERIES; ++q) sum_four(sums[q], scale, scores + q * stride);
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

// Adds VECTORS * W numbers of every position's values, weighed for some queries; kept in registers over the positions.
template <int VECTORS, int QUERIES>
inline void weigh(const float* const* positions, int n, const float* weights, size_t stride, int offset, float* out,
                  size_t out_stride) {
    Vec sums[QUERIES][VECTORS];
    for (int q = 0; q < QUERIES; ++q)
        for (int i = 0; i < VECTORS; ++i) sums[q][i] = load(out + q * out_stride + i * W);
    for (int t = 0; t < n; ++t) {
        const float* value = positions[t] + offset;
        for (int i = 0; i < VECTORS; ++i) {
            const Vec v = load(value + i * W);
            for (int q = 0; q < QUERIES; ++q) sums[q][i] = fused(v, splat(weights[q * stride + t]), sums[q][i]);
        }
    }
    for (int q = 0; q < QUERIES; ++q)
        for (int i = 0; i < VECTORS; ++i) store(out + q * out_stride + i * W, sums[q][i]);
}

inline void weigh_part(const float* const* positions, int n, const float* weights, int offset, int left, float* out) {
    Vec sums = load_some(out, left);
    for (int t = 0; t < n; ++t) sums = fused(load_some(positions[t] + offset, left), splat(weights[t]), sums);
    store_some(out, sums, left);
}

// Adds a head's values, weighed; `values`: where they begin.
template <int QUERIES>
inline void mix(const float* const* positions, int n, const float* weights, size_t stride, int values, int d_v,
                float* out, size_t out_stride) {
    int i = 0;
    for (; i + 4 * W <= d_v; i += 4 * W)
        weigh<4, QUERIES>(positions, n, weights, stride, values + i, out + i, out_stride);
    for (; i < d_v; i += W)
        for (int q = 0; q < QUERIES; ++q)
            weigh_part(positions, n, weights + q * stride, values + i, d_v - i, out + q * out_stride + i);
}

// One head of a few queries, two at a time: what is read of some positions serves all of them while it is near.
inline void attend_some(const Rows& queries, const float* const* positions, int n, const Heads& heads, int head,
                        size_t stride, float* scores, float* out, size_t out_stride) {
    const int d_k = heads.d_k, d_v = heads.d_v, values = heads.count * d_k + head * d_v, pairs = queries.count / 2 * 2;
    const float scale = 1.0f / std::sqrt(static_cast<float>(d_k));
    const float* first = queries.data + head * d_k;
    for (int begin = 0; begin < n; begin += NEAR)
        for (int q = 0; q < queries.count; q += 2)
            for (int t = begin; t < n && t < begin + NEAR; t += 4) {
                const float* query = first + q * queries.stride;
                float* to = scores + q * stride + t;
                if (q < pairs) dot_four<2>(query, queries.stride, positions + t, head * d_k, d_k, scale, to, stride);
                else dot_four<1>(query, 0, positions + t, head * d_k, d_k, scale, to, 0);
            }
    for (int q = 0; q < queries.count; ++q) {
        if (queries.slopes) lower_by_distance(scores + q * stride, n, queries.place + q, queries.slopes[head]);
        softmax(scores + q * stride, n);
        std::memset(out + q * out_stride, 0, d_v * sizeof(float));
    }
    for (int begin = 0; begin < n; begin += NEAR)
        for (int q = 0; q < queries.count; q += 2) {
            const int some = n - begin < NEAR ? n - begin : NEAR;
            const float* weights = scores + q * stride + begin;
            float* to = out + q * out_stride;
            if (q < pairs) mix<2>(positions + begin, some, weights, stride, values, d_v, to, out_stride);
            else mix<1>(positions + begin, some, weights, 0, values, d_v, to, 0);
        }
}

// Stage by stage over all heads: those of one stage do not wait for each other.
inline void attend_one(const Rows& query, const float* const* positions, int n, const Heads& heads, int head_0,
                       int head_1, size_t stride, float* scores, float* out) {
    const int d_k = heads.d_k, d_v = heads.d_v;
    const float scale = 1.0f / std::sqrt(static_cast<float>(d_k));
    const auto of = [&](int head) { return scores + (head - head_0) * stride; };
    for (int t = 0; t < n; t += 4)
        for (int head = head_0; head < head_1; ++head)
            dot_four<1>(query.data + head * d_k, 0, positions + t, head * d_k, d_k, scale, of(head) + t, 0);
    for (int head = head_0; head < head_1; ++head) {
        if (query.slopes) lower_by_distance(of(head), n, query.place, query.slopes[head]);
        softmax(of(head), n);
    }
    std::memset(out + head_0 * d_v, 0, (head_1 - head_0) * d_v * sizeof(float));
    for (int head = head_0; head < head_1; ++head)
        mix<1>(positions, n, of(head), 0, heads.count * d_k + head * d_v, d_v, out + head * d_v, 0);
}

void attend_heads(const Rows& queries, const float* const* positions, int n, const Heads& heads, int head_0, int head_1,
                  int stride, float* scores, float* out, size_t out_stride) {
    if (queries.count == 1) return attend_one(queries, positions, n, heads, head_0, head_1, stride, scores, out);
    for (int head = head_0; head < head_1; ++head)
        for (int row = 0; row < queries.count; row += QUERIES) {
            const int some = queries.count - row < QUERIES ? queries.count - row : QUERIES;
            const Rows part{queries.data + row * queries.stride, queries.stride, some, queries.place + row,
                            queries.slopes};
            attend_some(part, positions, n, heads, head, stride, scores, out + row * out_stride + head * heads.d_v,
                        out_stride);
        }
}

}  // namespace
