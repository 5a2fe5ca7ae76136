// What happens to one row at a time: layer norm, embedding, and the vocabulary's softmax and best entries.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace {

void norm_row(const float* row, int n, const float* weight, const float* bias, float eps, float* out) {
    Vec total = Vec{};
    for (int i = 0; i < n; i += W) total += load_some(row + i, n - i);
    const float mean = sum(total) / static_cast<float>(n);
    Vec squares = Vec{};
    for (int i = 0; i < n; i += W) {
        const Vec away = load_some(row + i, n - i, mean) - mean;
        squares += away * away;
    }
    const float factor = 1.0f / std::sqrt(sum(squares) / static_cast<float>(n) + eps);
    for (int i = 0; i < n; i += W) {
        const int left = n - i;
        Vec v = (load_some(row + i, left) - mean) * factor;
        if (weight) v *= load_some(weight + i, left);
        if (bias) v += load_some(bias + i, left);
        store_some(out + i, v, left);
    }
}

void scale_and_add_rows(const float* row, float factor, const float* other, int n, float* out) {
    for (int i = 0; i < n; i += W)
        store_some(out + i, load_some(row + i, n - i) * factor + load_some(other + i, n - i), n - i);
}

float log_sum_exp_row(const float* row, int n) {
    Vec most = splat(-INFINITY);
    for (int i = 0; i < n; i += W) most = larger(load_some(row + i, n - i, -INFINITY), most);
    const float shift = largest(most);
    if (!(shift > -INFINITY && shift < INFINITY)) return shift - shift;  // NaN: nothing here is a number
    Vec total = Vec{};
    int i = 0;
    for (; i + W <= n; i += W) total += exponential(load(row + i) - shift);
    float all = sum(total);
    for (; i < n; ++i) all += std::exp(row[i] - shift);
    return shift + std::log(all);
}

void subtract_row(float* row, int n, float number) {
    for (int i = 0; i < n; i += W) store_some(row + i, load_some(row + i, n - i) - number, n - i);
}

void gate_row(const float* row, const float* gates, int n, float* out) {
    for (int i = 0; i < n; i += W) {
        const int left = n - i;
        store_some(out + i, load_some(row + i, left) / (1.0f + exponential(-load_some(gates + i, left))), left);
    }
}

void exp_row(float* row, int n, float shift) {
    for (int i = 0; i < n; i += W) store_some(row + i, exponential(load_some(row + i, n - i) - shift), n - i);
}

void mix_row(float* row, int n, float total, float weight, const float* other, float shift, float least) {
    for (int i = 0; i < n; i += W) {
        const int left = n - i;
        const Vec heard = larger(logarithm(load_some(other + i, left)) + shift, splat(least));
        store_some(row + i, (1.0f - weight) * (load_some(row + i, left) - total) + weight * heard, left);
    }
}

// A list kept sorted; a number goes behind those that equal it.
void insert(float value, int64_t index, int kept, float* values, int64_t* indices) {
    int place = kept;
    for (; place > 0 && value > values[place - 1]; --place) {
        values[place] = values[place - 1];
        indices[place] = indices[place - 1];
    }
    values[place] = value;
    indices[place] = index;
}

// Equal is what is equal after the subtraction, which rounds.
void top_row(const float* row, int n, float shift, int k, float* values, int64_t* indices) {
    for (int i = 0; i < k; ++i) insert(row[i] - shift, i, i, values, indices);
    for (int i = k; i < n; i += W) {
        const int left = n - i < W ? n - i : W;
        if (!any_above(load_some(row + i, left, -INFINITY) - shift, values[k - 1])) continue;
        for (int j = i; j < i + left; ++j)
            if (row[j] - shift > values[k - 1]) insert(row[j] - shift, j, k - 1, values, indices);
    }
}

}  // namespace
