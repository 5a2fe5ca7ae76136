// bfloat16: weights and activations rounded to it, products summed in float32, two at a time. A panel is
// [in / 2][PANEL][2] numbers. Only where the processor multiplies them itself; elsewhere it would be slower than
// float32.
#pragma once

#include "linear.h"

#if defined(__AVX512BF16__)

namespace {

inline uint16_t rounded_bfloat16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

struct Bfloat16 {
    static constexpr int MOST = 8, AHEAD = 8192;  // of 12 rows GCC 12 does not keep the sums in registers

    static int pairs(int in) { return (in + 1) / 2; }
    static size_t panel_bytes(int in) { return static_cast<size_t>(pairs(in)) * PANEL * 4; }
    static size_t operand_bytes(int in) { return (static_cast<size_t>(in) * 2 + 63) / 64 * 64 + 64; }

    static void pack(const float* weight, const Packed& w) {
        std::memset(w.data, 0, w.panel_bytes * w.panels);
        for (int out = 0; out < w.out; ++out) {
            unsigned char* to = w.data + out / PANEL * w.panel_bytes + out % PANEL * 4;
            for (int k = 0; k < w.in; ++k) {
                const uint16_t value = rounded_bfloat16(weight[static_cast<size_t>(out) * w.in + k]);
                std::memcpy(to + static_cast<size_t>(k / 2) * PANEL * 4 + k % 2 * 2, &value, 2);
            }
        }
    }

    static void prepare(const float* row, int in, unsigned char* data) {
        for (int i = 0; i < in; i += W) {  // rows are padded to 64 bytes
            const __m256bh v = _mm512_cvtneps_pbh((__m512)load_some(row + i, in - i));
            std::memcpy(data + 2 * static_cast<size_t>(i), &v, 32);
        }
    }

    template <int ROWS>
    static void multiply(const Packed& w, const Operand& a, int row, int panel, Vec* low, Vec* high) {
        const unsigned char* rows[ROWS];
        IntVec sums[ROWS][2];  // bits of float32; as such GCC 12 keeps them in registers
        for (int r = 0; r < ROWS; ++r) {
            rows[r] = a.data + (row + r) * a.stride;
            sums[r][0] = sums[r][1] = IntVec{};
        }
        accumulate<ROWS>(w.data + panel * w.panel_bytes, rows, pairs(w.in), sums);
        for (int r = 0; r < ROWS; ++r) low[r] = (Vec)sums[r][0], high[r] = (Vec)sums[r][1];
    }

    template <int ROWS>
    static void accumulate(const unsigned char* from, const unsigned char** rows, int pairs, IntVec (*sums)[2]) {
        for (int k = 0; k < pairs; ++k, from += PANEL * 4) {
            prefetch<ROWS>(from + AHEAD), prefetch<ROWS>(from + AHEAD + 64);
            const __m512i w0 = _mm512_loadu_si512(from), w1 = _mm512_loadu_si512(from + 64);
            for (int r = 0; r < ROWS; ++r) {
                int32_t two;
                std::memcpy(&two, rows[r] + 4 * k, 4);
                const __m512i x = _mm512_set1_epi32(two);
                sums[r][0] = (IntVec)_mm512_dpbf16_ps((__m512)sums[r][0], (__m512bh)w0, (__m512bh)x);
                sums[r][1] = (IntVec)_mm512_dpbf16_ps((__m512)sums[r][1], (__m512bh)w1, (__m512bh)x);
            }
        }
    }
};

}  // namespace

#endif
