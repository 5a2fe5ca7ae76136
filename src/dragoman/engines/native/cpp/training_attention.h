// Attention of short sentences, forward and backward, on packed rows: no padding, no mask, no copies of heads.
#pragma once

#include "distances.h"
#include "simd.h"
#include "training.h"

namespace {

using dragoman::Attention;
using dragoman::AttentionGradients;

// A matrix whose strides are `row` from row to row and `column` from column to column.
struct Strided {
    const float* data;
    int row, column;
};

// Rows [0, ROWS) and columns [0, VECTORS * W) of a·b, summed over `depth`, times `factor`.
template <int ROWS, int VECTORS>
inline void product_tile(const Strided& a, const float* b, int b_stride, int depth, float factor, float* c,
                         int c_stride) {
    Vec sums[ROWS][VECTORS];
    for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = Vec{};
    for (int k = 0; k < depth; ++k) {
        Vec row[VECTORS];
        for (int v = 0; v < VECTORS; ++v) row[v] = load(b + static_cast<size_t>(k) * b_stride + v * W);
        for (int r = 0; r < ROWS; ++r) {
            const Vec x = splat(a.data[static_cast<size_t>(r) * a.row + static_cast<size_t>(k) * a.column]);
            for (int v = 0; v < VECTORS; ++v) sums[r][v] = fused(x, row[v], sums[r][v]);
        }
    }
    for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < VECTORS; ++v) store(c + static_cast<size_t>(r) * c_stride + v * W, sums[r][v] * factor);
}

template <int ROWS>
inline void product_rows(const Strided& a, const float* b, int b_stride, int depth, int columns, float factor, float* c,
                         int c_stride) {
    int column = 0;
    for (; column + 2 * W <= columns; column += 2 * W)
        product_tile<ROWS, 2>(a, b + column, b_stride, depth, factor, c + column, c_stride);
    for (; column < columns; column += W)
        product_tile<ROWS, 1>(a, b + column, b_stride, depth, factor, c + column, c_stride);
}

// c = a·b · factor, with `columns` a multiple of W.
inline void product(Strided a, int rows, const float* b, int b_stride, int depth, int columns, float factor, float* c,
                    int c_stride) {
    constexpr int MOST = W == 4 ? 4 : 6;
    int row = 0;
    for (; row + MOST <= rows; row += MOST, a.data += static_cast<size_t>(MOST) * a.row)
        product_rows<MOST>(a, b, b_stride, depth, columns, factor, c + static_cast<size_t>(row) * c_stride, c_stride);
    for (; row + 2 <= rows; row += 2, a.data += 2 * static_cast<size_t>(a.row))
        product_rows<2>(a, b, b_stride, depth, columns, factor, c + static_cast<size_t>(row) * c_stride, c_stride);
    if (row < rows)
        product_rows<1>(a, b, b_stride, depth, columns, factor, c + static_cast<size_t>(row) * c_stride, c_stride);
}

inline int round_up(int n, int lanes) { return (n + lanes - 1) / lanes * lanes; }

#if defined(__AVX2__)
// Eight rows of eight numbers, to columns.
inline void transpose_eight(const float* from, int stride, float* to, int to_stride) {
    __m256 r[8], t[8];
    for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + static_cast<size_t>(i) * stride);
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; ++j) {
            r[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            r[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xEE);
        }
    for (int i = 0; i < 4; ++i) {
        _mm256_storeu_ps(to + static_cast<size_t>(i) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + static_cast<size_t>(i + 4) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}
#endif

// [rows, width] to [width][across], the rest 0; the width is a multiple of 8
inline void transpose(const float* from, int stride, int rows, int width, int across, float* to) {
    int row = 0;
#if defined(__AVX2__)
    for (; row + 8 <= rows; row += 8)
        for (int i = 0; i < width; i += 8)
            transpose_eight(from + static_cast<size_t>(row) * stride + i, stride, to + i * across + row, across);
#endif
    for (int i = 0; i < width; ++i)
        for (int j = row; j < across; ++j)
            to[i * across + j] = j < rows ? from[static_cast<size_t>(j) * stride + i] : 0.0f;
}

// One head of one sentence.
struct Head {
    int queries, keys, across;
    const float *query, *key, *value;
    float *weights, *output;
    size_t query_at, key_at, out_at;

    Head(const Attention& a, int sentence, int head) {
        const int q = a.query_starts[sentence], k = a.key_starts[sentence];
        queries = a.query_starts[sentence + 1] - q, keys = a.key_starts[sentence + 1] - k;
        across = round_up(keys, a.lanes);
        const size_t column = static_cast<size_t>(head) * a.width;
        query_at = static_cast<size_t>(q) * a.query_stride + column;
        key_at = static_cast<size_t>(k) * a.key_stride + column;
        out_at = (static_cast<size_t>(q) * a.heads) * a.width + column;
        query = a.query + query_at, key = a.key + key_at, value = a.value + key_at, output = a.output + out_at;
        weights = a.weights + a.weight_starts[sentence] + static_cast<size_t>(head) * queries * across;
    }
};

inline void softmax(float* row, int n, int across) {
    Vec most = splat(-INFINITY), added{};
    for (int i = 0; i < n; i += W) most = larger(most, first_lanes(load(row + i), n - i, -INFINITY));
    const float top = largest(most);
    for (int i = 0; i < across; i += W) {
        const Vec v = i < n ? first_lanes(exponential(load(row + i) - top), n - i, 0.0f) : Vec{};
        store(row + i, v);
        added += v;
    }
    const float share = 1.0f / sum(added);
    for (int i = 0; i < n; i += W) store(row + i, load(row + i) * share);
}

size_t attention_room(const Attention& a, int longest_query, int longest_key) {
    const size_t across = static_cast<size_t>(round_up(longest_key, a.lanes));
    return across * (static_cast<size_t>(a.width) + static_cast<size_t>(longest_query));
}

void attend_sentence(const Attention& a, int sentence, float* room) {
    const float factor = 1.0f / std::sqrt(static_cast<float>(a.width));
    for (int head = 0; head < a.heads; ++head) {
        const Head h(a, sentence, head);
        transpose(h.key, a.key_stride, h.keys, a.width, h.across, room);
        product({h.query, a.query_stride, 1}, h.queries, room, h.across, a.width, h.across, factor, h.weights,
                h.across);
        for (int i = 0; i < h.queries; ++i) {
            const int n = a.causal ? i + 1 : h.keys;
            float* row = h.weights + static_cast<size_t>(i) * h.across;
            if (a.slopes) lower_by_distance(row, n, i, a.slopes[head]);
            softmax(row, n, h.across);
        }
        product({h.weights, h.across, 1}, h.queries, h.value, a.key_stride, h.keys, a.width, 1.0f, h.output,
                a.heads * a.width);
    }
}

void attend_sentence_back(const Attention& a, const AttentionGradients& g, int sentence, float* room) {
    const float factor = 1.0f / std::sqrt(static_cast<float>(a.width));
    const int out_stride = a.heads * a.width;
    for (int head = 0; head < a.heads; ++head) {
        const Head h(a, sentence, head);
        const float* grad = g.output + h.out_at;
        float* slope = room + static_cast<size_t>(a.width) * h.across;  // by the scores
        transpose(h.value, a.key_stride, h.keys, a.width, h.across, room);
        product({grad, out_stride, 1}, h.queries, room, h.across, a.width, h.across, 1.0f, slope, h.across);
        for (int i = 0; i < h.queries; ++i) {
            const float* weights = h.weights + static_cast<size_t>(i) * h.across;
            float* row = slope + static_cast<size_t>(i) * h.across;
            Vec added{};
            for (int j = 0; j < h.across; j += W) added = fused(load(weights + j), load(row + j), added);
            const float mean = sum(added);
            for (int j = 0; j < h.across; j += W) store(row + j, (load(row + j) - mean) * load(weights + j));
        }
        product({h.weights, 1, h.across}, h.keys, grad, out_stride, h.queries, a.width, 1.0f, g.value + h.key_at,
                a.key_stride);
        product({slope, h.across, 1}, h.queries, h.key, a.key_stride, h.keys, a.width, factor, g.query + h.query_at,
                a.query_stride);
        product({slope, 1, h.across}, h.keys, h.query, a.query_stride, h.queries, a.width, factor, g.key + h.key_at,
                a.key_stride);
    }
}

}  // namespace
