// int8: a weight is a byte times its output's scale, an activation a byte times its row's scale; products are summed
// exactly in 32 bits, so every instruction set gives the same sum. A panel is [in / 4][PANEL][4] bytes.
//
// Both sides use -127 to 127. AVX-512 VNNI multiplies unsigned by signed bytes: there weights are stored plus 128, and
// 128 times the sum of the activations is taken off. Elsewhere on x86, |w| times (a with the sign of w) is the same
// product, and two of them fit into 16 bits: 2 * 127 * 127 < 2^15.
#pragma once

#include "linear.h"

namespace {

struct Int8 {
#if defined(__AVX512VNNI__)
    static constexpr int MOST = 12, OFFSET = 128, AHEAD = 8192;
#else
    static constexpr int MOST = 4, OFFSET = 0;
#endif

    // What makes bytes of numbers up to `most`; numbers next to nothing are nothing.
    static float inverse(float most) { return most > 1e-30f ? 127.0f / most : 0.0f; }

    static int groups(int in) { return (in + 3) / 4; }
    static size_t panel_bytes(int in) { return static_cast<size_t>(groups(in)) * PANEL * 4; }
    static size_t operand_bytes(int in) { return (static_cast<size_t>(in) + 63) / 64 * 64 + 64; }

    static void pack(const float* weight, const Packed& w) {
        std::memset(w.data, OFFSET, w.panel_bytes * w.panels);
        for (int out = 0; out < w.out; ++out) {
            const float* row = weight + static_cast<size_t>(out) * w.in;
            float most = 0.0f;
            for (int k = 0; k < w.in; ++k) most = std::fabs(row[k]) > most ? std::fabs(row[k]) : most;
            const float factor = inverse(most);
            w.scale[out] = most / 127.0f;
            unsigned char* to = w.data + out / PANEL * w.panel_bytes + out % PANEL * 4;
            for (int k = 0; k < w.in; ++k) {
                const int value = static_cast<int>(std::nearbyint(row[k] * factor)) + OFFSET;
                to[static_cast<size_t>(k / 4) * PANEL * 4 + k % 4] = static_cast<unsigned char>(value);
            }
        }
    }

    static void prepare(const float* row, int in, unsigned char* data, float* scale, int32_t* total) {
        Vec most = Vec{}, zero = Vec{};
        for (int i = 0; i < in; i += W) {
            const Vec v = load_some(row + i, in - i);
            most = larger(v < Vec{} ? -v : v, most);
            zero += v * 0.0f;
        }
        const float limit = largest(most), check = sum(zero), factor = inverse(limit);
        *scale = limit / 127.0f + check;
        *total = 0;
        if (check != check) {  // of NaN and infinity there are no bytes: the scale makes NaN of the row
            std::memset(data, 0, static_cast<size_t>(in));
            return;
        }
        int8_t* to = reinterpret_cast<int8_t*>(data);
        IntVec totals = IntVec{};
        for (int i = 0; i < in; i += W) {  // rows are padded to 64 bytes
            const IntVec q = nearest(load_some(row + i, in - i) * factor);
            totals += q;
            store_bytes(to + i, __builtin_convertvector(q, ByteVec));
        }
        for (int i = 0; i < W; ++i) *total += totals[i];
    }

    template <int ROWS>
    static void multiply(const Packed& w, const Operand& a, int row, int panel, Vec* low, Vec* high) {
        const unsigned char* from = w.data + panel * w.panel_bytes;
        const unsigned char* rows[ROWS];
        IntVec sums[ROWS][2];
        for (int r = 0; r < ROWS; ++r) {
            rows[r] = a.data + (row + r) * a.stride;
            sums[r][0] = sums[r][1] = IntVec{} - OFFSET * a.sum[row + r];
        }
        accumulate<ROWS>(from, rows, groups(w.in), sums);
        const Vec scale_0 = load(w.scale + panel * PANEL), scale_1 = load(w.scale + panel * PANEL + W);
        for (int r = 0; r < ROWS; ++r) {
            low[r] = __builtin_convertvector(sums[r][0], Vec) * (scale_0 * a.scale[row + r]);
            high[r] = __builtin_convertvector(sums[r][1], Vec) * (scale_1 * a.scale[row + r]);
        }
    }

    static int32_t four(const unsigned char* p) {
        int32_t bytes;
        std::memcpy(&bytes, p, 4);
        return bytes;
    }

    template <int ROWS>
    static void accumulate(const unsigned char* from, const unsigned char** rows, int groups, IntVec (*sums)[2]) {
        for (int k = 0; k < groups; ++k, from += PANEL * 4) {
#if defined(__AVX512VNNI__)
            call_ahead<ROWS>(from + AHEAD), call_ahead<ROWS>(from + AHEAD + 64);
            const __m512i w0 = _mm512_loadu_si512(from), w1 = _mm512_loadu_si512(from + 64);
            for (int r = 0; r < ROWS; ++r) {
                const __m512i x = _mm512_set1_epi32(four(rows[r] + 4 * k));
                sums[r][0] = (IntVec)_mm512_dpbusd_epi32((__m512i)sums[r][0], w0, x);
                sums[r][1] = (IntVec)_mm512_dpbusd_epi32((__m512i)sums[r][1], w1, x);
            }
#elif defined(__AVX2__)
            const __m256i* place = reinterpret_cast<const __m256i*>(from);
            const __m256i ones = _mm256_set1_epi16(1);
            for (int i = 0; i < 2; ++i) {
                const __m256i v = _mm256_loadu_si256(place + i), size = _mm256_abs_epi8(v);
                for (int r = 0; r < ROWS; ++r) {
                    const __m256i x = _mm256_sign_epi8(_mm256_set1_epi32(four(rows[r] + 4 * k)), v);
                    const __m256i products = _mm256_madd_epi16(_mm256_maddubs_epi16(size, x), ones);
                    sums[r][i] += (IntVec)products;
                }
            }
#else
            const int8_t* bytes = reinterpret_cast<const int8_t*>(from);
            for (int r = 0; r < ROWS; ++r) {
                const int8_t* x = reinterpret_cast<const int8_t*>(rows[r] + 4 * k);
                for (int i = 0; i < PANEL; ++i)
                    for (int j = 0; j < 4; ++j) sums[r][i / W][i % W] += bytes[4 * i + j] * x[j];
            }
#endif
        }
    }
};

}  // namespace
