// int8: a weight is a byte times its output's scale, an activation a byte times its row's scale; products are summed
// exactly in 32 bits. A panel is [in / 4][PANEL][4] bytes.
//
// Processors multiply unsigned by signed bytes. AVX-512 VNNI sums four such products in 32 bits: there activations use
// -127 to 127, weights are stored plus 128, and 128 times the sum of the activations is taken off. AVX2 sums two in 16
// bits, which two full bytes could overflow: there, and without either, weights use -63 to 63, and activations 0 to 128
// above the least of their row, so that four products always fit; their zero times the sum of the weights is taken off.
#pragma once

#include "linear.h"

namespace {

struct Int8 {
#if defined(__AVX512VNNI__)
    static constexpr bool WIDE = true;
    static constexpr int MOST = 12, OFFSET = 128, LARGEST = 127, AHEAD = 8192;
#else
    static constexpr bool WIDE = false;
    static constexpr int MOST = W == 8 ? 6 : 4, OFFSET = 0, LARGEST = 63;
#endif

    // What makes bytes up to `largest` of numbers up to `most`; numbers next to nothing are nothing.
    static float inverse(float most, float largest) { return most > 1e-30f ? largest / most : 0.0f; }

    static int groups(int in) { return (in + 7) / 8 * 2; }
    static size_t panel_bytes(int in) { return static_cast<size_t>(groups(in)) * PANEL * 4; }
    static size_t operand_bytes(int in) { return (static_cast<size_t>(in) + 63) / 64 * 64 + 64; }

    static void pack(const float* weight, const Packed& w) {
        std::memset(w.data, OFFSET, w.panel_bytes * w.panels);
        for (int out = 0; out < w.out; ++out) {
            const float* row = weight + static_cast<size_t>(out) * w.in;
            Vec high = Vec{}, zero = Vec{};
            for (int k = 0; k < w.in; k += W) {
                const Vec v = load_some(row + k, w.in - k);
                high = larger(v, larger(-v, high));
                zero += v * 0.0f;
            }
            const float most = largest(high), factor = inverse(most, LARGEST);
            const float check = sum(zero);
            w.scale[out] = most / static_cast<float>(LARGEST) + check;
            if (check != check) continue;  // of NaN and infinity there are no bytes: the scale makes NaN of the output
            unsigned char* to = w.data + out / PANEL * w.panel_bytes + out % PANEL * 4;
            IntVec total = IntVec{};
            for (int k = 0; k < w.in; k += 4 * W) {
                IntVec q[4];
                for (int j = 0; j < 4; ++j) {
                    const int left = w.in - k - j * W;
                    const Vec v = left > 0 ? load_some(row + k + j * W, left) : Vec{};
                    q[j] = nearest(v * factor);
                    total += q[j];
                    q[j] = (q[j] + OFFSET) & 255;
                }
                unsigned char bytes[4 * W];
                store_bytes(bytes, q);
                const int last = w.in - k < 4 * W ? (w.in - k + 3) / 4 : W;  // what is beyond the row is zero
                for (int i = 0; i < last; ++i, to += PANEL * 4) std::memcpy(to, bytes + 4 * i, 4);
            }
            for (int i = 0; i < W; ++i) w.total[out] += total[i];
        }
    }

    // `offset`: of VNNI the sum of the bytes, else the byte that stands for zero.
    static void prepare(const float* row, int in, unsigned char* data, float* scale, int32_t* offset) {
        Vec low = Vec{}, high = Vec{}, zero = Vec{};
        for (int i = 0; i < in; i += W) {
            const Vec v = load_some(row + i, in - i);
            low = larger(-v, low);
            high = larger(v, high);
            zero += v * 0.0f;
        }
        const float down = largest(low), up = largest(high), check = sum(zero);
        const float range = WIDE ? (down > up ? down : up) : down + up;
        const float factor = inverse(range, 127.0f);
        *scale = range / 127.0f + check;
        *offset = 0;
        if (check != check) {  // of NaN and infinity there are no bytes: the scale makes NaN of the row
            std::memset(data, 0, static_cast<size_t>(groups(in)) * 4);
            return;
        }
        const int32_t first = WIDE ? 0 : static_cast<int32_t>(std::nearbyint(down * factor));
        IntVec totals = IntVec{};
        for (int i = 0; i < in; i += 4 * W) {  // rows are padded to 64 bytes
            IntVec q[4];
            for (int j = 0; j < 4; ++j) {
                const int left = in - i - j * W;
                const Vec v = left > 0 ? load_some(row + i + j * W, left) : Vec{};
                q[j] = nearest(v * factor) + first;
                totals += q[j];
            }
            store_bytes(data + i, q);
        }
        *offset = first;
        for (int i = 0; WIDE && i < W; ++i) *offset += totals[i];
    }

    template <int ROWS>
    static void multiply(const Packed& w, const Operand& a, int row, int panel, Vec* low, Vec* high) {
        const unsigned char* from = w.data + panel * w.panel_bytes;
        const unsigned char* rows[ROWS];
        IntVec sums[ROWS][2];
        for (int r = 0; r < ROWS; ++r) {
            rows[r] = a.data + (row + r) * a.stride;
            sums[r][0] = sums[r][1] = IntVec{} - OFFSET * (WIDE ? a.offset[row + r] : 0);
        }
        accumulate<ROWS>(from, rows, groups(w.in), sums);
        const Vec scale_0 = load(w.scale + panel * PANEL), scale_1 = load(w.scale + panel * PANEL + W);
        const IntVec total_0 = load_int(w.total + panel * PANEL), total_1 = load_int(w.total + panel * PANEL + W);
        for (int r = 0; r < ROWS; ++r) {
            const int32_t zero = WIDE ? 0 : a.offset[row + r];
            low[r] = __builtin_convertvector(sums[r][0] - zero * total_0, Vec) * (scale_0 * a.scale[row + r]);
            high[r] = __builtin_convertvector(sums[r][1] - zero * total_1, Vec) * (scale_1 * a.scale[row + r]);
        }
    }

    static int32_t four(const unsigned char* p) {
        int32_t bytes;
        std::memcpy(&bytes, p, 4);
        return bytes;
    }

    template <int ROWS>
    static void accumulate(const unsigned char* from, const unsigned char** rows, int groups, IntVec (*sums)[2]) {
#if defined(__AVX512VNNI__)
        for (int k = 0; k < groups; ++k, from += PANEL * 4) {
            prefetch<ROWS>(from + AHEAD), prefetch<ROWS>(from + AHEAD + 64);
            const __m512i w0 = _mm512_loadu_si512(from), w1 = _mm512_loadu_si512(from + 64);
            for (int r = 0; r < ROWS; ++r) {
                const __m512i x = _mm512_set1_epi32(four(rows[r] + 4 * k));
                sums[r][0] = (IntVec)_mm512_dpbusd_epi32((__m512i)sums[r][0], w0, x);
                sums[r][1] = (IntVec)_mm512_dpbusd_epi32((__m512i)sums[r][1], w1, x);
            }
        }
#elif defined(__AVX2__)
        const __m256i ones = _mm256_set1_epi16(1);
        for (int k = 0; k < groups; k += 2, from += PANEL * 8) {
            const __m256i* place = reinterpret_cast<const __m256i*>(from);
            const __m256i w0 = _mm256_loadu_si256(place), w1 = _mm256_loadu_si256(place + 1);
            const __m256i w2 = _mm256_loadu_si256(place + 2), w3 = _mm256_loadu_si256(place + 3);
            for (int r = 0; r < ROWS; ++r) {
                const __m256i x = _mm256_set1_epi32(four(rows[r] + 4 * k)),
                              y = _mm256_set1_epi32(four(rows[r] + 4 * k + 4));
                const __m256i low = _mm256_add_epi16(_mm256_maddubs_epi16(x, w0), _mm256_maddubs_epi16(y, w2));
                const __m256i high = _mm256_add_epi16(_mm256_maddubs_epi16(x, w1), _mm256_maddubs_epi16(y, w3));
                sums[r][0] += (IntVec)_mm256_madd_epi16(low, ones);
                sums[r][1] += (IntVec)_mm256_madd_epi16(high, ones);
            }
        }
#else
        for (int k = 0; k < groups; ++k, from += PANEL * 4) {
            const int8_t* bytes = reinterpret_cast<const int8_t*>(from);
            for (int r = 0; r < ROWS; ++r) {
                const unsigned char* x = rows[r] + 4 * k;
                for (int i = 0; i < PANEL; ++i)
                    for (int j = 0; j < 4; ++j) sums[r][i / W][i % W] += bytes[4 * i + j] * x[j];
            }
        }
#endif
    }
};

}  // namespace
