// Kernels of training that go row by row: dropout, residual connection and norm, ReLU, sums of columns, losses.
#pragma once

#include "simd.h"
#include "training.h"

namespace {

using dragoman::Drop;

typedef uint32_t Bits __attribute__((vector_size(W * 4)));

inline Bits mixed(Bits x) {  // the finaliser of MurmurHash3: each bit of x changes each bit of it half of the time
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    return x ^ (x >> 16);
}

// W numbers from the one at `place` on: 0 where they are dropped, else the scale.
inline Vec kept(const Drop& drop, uint32_t place) {
    Bits lanes;
    for (int i = 0; i < W; ++i) lanes[i] = static_cast<uint32_t>(i);
    const Bits drawn = mixed(mixed((lanes + place) ^ drop.seed_0) + drop.seed_1);
    // Compared as signed numbers, which every instruction set can.
    const IntVec low = (IntVec)(drawn ^ 0x80000000u) < static_cast<int32_t>(drop.limit ^ 0x80000000u);
    return low ? splat(0.0f) : splat(drop.scale);
}

inline float total(const float* p, int d) {
    Vec a{}, b{};
    int i = 0;
    for (; i + 2 * W <= d; i += 2 * W) a += load(p + i), b += load(p + i + W);
    for (; i < d; i += W) a += load_some(p + i, d - i);
    return sum(a + b);
}

void add_norm_rows(const float* z, const float* bias, const float* x, const float* gain, const float* offset, float eps,
                   const Drop& drop, int begin, int end, int d, float* sums, float* out, float* moments) {
    for (int row = begin; row < end; ++row) {
        const size_t at = static_cast<size_t>(row) * d;
        float* s = sums + at;
        Vec added{};
        for (int i = 0; i < d; i += W) {
            Vec v = load(x + at + i);
            if (z) {
                Vec part = load(z + at + i) + load(bias + i);
                if (drop.limit) part *= kept(drop, static_cast<uint32_t>(at + i));
                v += part;
            }
            store(s + i, v);
            added += v;
        }
        const float mean = sum(added) / d;
        Vec squares{};
        for (int i = 0; i < d; i += W) {
            const Vec v = load(s + i) - mean;
            squares = fused(v, v, squares);
        }
        const float scale = 1.0f / std::sqrt(sum(squares) / d + eps);
        for (int i = 0; i < d; i += W)
            store(out + at + i, fused((load(s + i) - mean) * scale, load(gain + i), load(offset + i)));
        moments[2 * row] = mean, moments[2 * row + 1] = scale;
    }
}

void add_norm_back_rows(const float* grad, const float* grad_sum, const float* sums, const float* moments,
                        const float* gain, const Drop& drop, int begin, int end, int d, float* grad_x, float* grad_z,
                        float* totals) {
    float *of_bias = totals, *of_gain = totals + d, *of_offset = totals + 2 * d;
    for (int row = begin; row < end; ++row) {
        const size_t at = static_cast<size_t>(row) * d;
        const float mean = moments[2 * row], scale = moments[2 * row + 1];
        Vec plain{}, weighted{};
        for (int i = 0; i < d; i += W) {
            const Vec g = load(grad + at + i), n = (load(sums + at + i) - mean) * scale, v = g * load(gain + i);
            store(of_offset + i, load(of_offset + i) + g);
            store(of_gain + i, fused(g, n, load(of_gain + i)));
            plain += v;
            weighted = fused(v, n, weighted);
        }
        const float a = sum(plain) / d, b = sum(weighted) / d;
        for (int i = 0; i < d; i += W) {
            const Vec n = (load(sums + at + i) - mean) * scale;
            Vec v = (load(grad + at + i) * load(gain + i) - a - n * b) * scale;
            if (grad_sum) v += load(grad_sum + at + i);
            store(grad_x + at + i, v);
            if (!grad_z) continue;
            if (drop.limit) v *= kept(drop, static_cast<uint32_t>(at + i));
            store(grad_z + at + i, v);
            store(of_bias + i, load(of_bias + i) + v);
        }
    }
}

void relu_rows(float* h, const float* bias, const Drop& drop, int begin, int end, int d) {
    for (int row = begin; row < end; ++row) {
        const size_t at = static_cast<size_t>(row) * d;
        for (int i = 0; i < d; i += W) {
            Vec v = load(h + at + i) + load(bias + i);
            v = splat(0.0f) > v ? splat(0.0f) : v;  // NaN stays NaN
            if (drop.limit) v *= kept(drop, static_cast<uint32_t>(at + i));
            store(h + at + i, v);
        }
    }
}

void relu_back_rows(float* grad, const float* h, float scale, int begin, int end, int d, float* sums) {
    for (int row = begin; row < end; ++row) {
        const size_t at = static_cast<size_t>(row) * d;
        for (int i = 0; i < d; i += W) {
            // What is 0 was dropped or below 0.
            const Vec v = load(h + at + i) == splat(0.0f) ? splat(0.0f) : load(grad + at + i) * scale;
            store(grad + at + i, v);
            store(sums + i, load(sums + i) + v);
        }
    }
}

void add_columns(const float* x, int begin, int end, int d, float* sums) {
    for (int row = begin; row < end; ++row)
        for (int i = 0; i < d; i += W) store(sums + i, load(sums + i) + load(x + static_cast<size_t>(row) * d + i));
}

// The largest of a row and where it first stands, and the mean.
struct Summary {
    float top, mean;
    int64_t likeliest;
};

Summary summary_of(const float* logits, int n) {
    Vec most = splat(-INFINITY), all{};
    for (int i = 0; i < n; i += W) {
        const Vec v = load_some(logits + i, n - i);
        all += v;
        most = larger(most, first_lanes(v, n - i, -INFINITY));
    }
    const float top = largest(most);
    int64_t likeliest = 0;
    while (likeliest < n - 1 && logits[likeliest] != top) ++likeliest;
    return {top, sum(all) / n, likeliest};
}

int64_t cross_entropy_row(float* logits, int n, int64_t label, float smoothing, double* sums) {
    const auto [top, mean, likeliest] = summary_of(logits, n);
    const float right = logits[label];
    Vec spread{};
    for (int i = 0; i < n; i += W) {
        const Vec v = exponential(load_some(logits + i, n - i) - top);
        store_some(logits + i, v, n - i);
        spread += first_lanes(v, n - i, 0.0f);
    }
    const float norm = sum(spread), log_norm = std::log(norm) + top;
    const Vec share = splat(1.0f / norm), even = splat(smoothing / n);
    for (int i = 0; i < n; i += W) store_some(logits + i, load_some(logits + i, n - i) * share - even, n - i);
    logits[label] -= 1.0f - smoothing;
    const double chosen = static_cast<double>(log_norm) - right;
    sums[0] += (1.0 - smoothing) * chosen + smoothing * (static_cast<double>(log_norm) - mean);
    sums[1] += chosen;
    return likeliest;
}

int64_t agreement_row(float* first, float* second, int n, int64_t label, float smoothing, float weight, double* sums) {
    const Summary one = summary_of(first, n), two = summary_of(second, n);
    Vec norms[2]{}, distance[2]{};  // sums of exponentials, and of them times the distance of the logits
    for (int i = 0; i < n; i += W) {
        const Vec x = load_some(first + i, n - i) - one.top, y = load_some(second + i, n - i) - two.top;
        const Vec p = first_lanes(exponential(x), n - i, 0.0f), q = first_lanes(exponential(y), n - i, 0.0f);
        norms[0] += p, norms[1] += q;
        distance[0] = fused(p, x - y, distance[0]), distance[1] = fused(q, x - y, distance[1]);
    }
    const float norm_p = sum(norms[0]), norm_q = sum(norms[1]), log_p = std::log(norm_p), log_q = std::log(norm_q);
    // KL(p, q) and KL(q, p)
    const float p_to_q = sum(distance[0]) / norm_p - (log_p - log_q),
                q_to_p = (log_p - log_q) - sum(distance[1]) / norm_q;
    const double logs = (static_cast<double>(log_p) + one.top + log_q + two.top) / 2;
    const double chosen = logs - (static_cast<double>(first[label]) + second[label]) / 2;
    const Vec share_p = splat(1.0f / norm_p), share_q = splat(1.0f / norm_q), even = splat(smoothing / n / 2);
    for (int i = 0; i < n; i += W) {
        const Vec x = load_some(first + i, n - i) - one.top, y = load_some(second + i, n - i) - two.top;
        const Vec p = exponential(x) * share_p, q = exponential(y) * share_q, far = x - y - (log_p - log_q);
        const Vec by_p = p * (far - p_to_q) + (p - q), by_q = q * (-far - q_to_p) + (q - p);
        store_some(first + i, fused(by_p, splat(weight / 4), p * 0.5f - even), n - i);
        store_some(second + i, fused(by_q, splat(weight / 4), q * 0.5f - even), n - i);
    }
    first[label] -= (1.0f - smoothing) / 2, second[label] -= (1.0f - smoothing) / 2;
    const double spread = logs - (static_cast<double>(one.mean) + two.mean) / 2;
    sums[0] += (1.0 - smoothing) * chosen + smoothing * spread + weight / 4.0 * (static_cast<double>(p_to_q) + q_to_p);
    sums[1] += chosen;
    return one.likeliest;
}

}  // namespace
