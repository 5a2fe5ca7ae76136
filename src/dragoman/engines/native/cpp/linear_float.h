// float32: a panel is [in][PANEL] numbers.
#pragma once

#include "linear.h"

namespace {

struct Float {
    static constexpr int MOST = W == 16 ? 12 : W == 8 ? 6 : 4, AHEAD = 2048;

    static size_t panel_bytes(int in) { return sizeof(float) * PANEL * static_cast<size_t>(in); }
    static size_t operand_bytes(int in) { return (sizeof(float) * static_cast<size_t>(in) + 63) / 64 * 64 + 64; }

    static void pack(const float* weight, const Packed& w) {
        for (int panel = 0; panel < w.panels; ++panel) {
            float* to = reinterpret_cast<float*>(w.data + panel * w.panel_bytes);
            for (int first = 0; first < w.in; first += 16)  // whole cache lines of both
                for (int i = 0; i < PANEL; ++i) {
                    const int out = panel * PANEL + i, last = first + 16 < w.in ? first + 16 : w.in;
                    for (int k = first; k < last; ++k)
                        to[k * PANEL + i] = out < w.out ? weight[static_cast<size_t>(out) * w.in + k] : 0.0f;
                }
        }
    }

    template <int ROWS>
    static void multiply(const Packed& w, const Operand& a, int row, int panel, Vec* low, Vec* high) {
        const float* from = reinterpret_cast<const float*>(w.data + panel * w.panel_bytes);
        const float* rows[ROWS];
        Vec sums[ROWS][2];
        for (int r = 0; r < ROWS; ++r) {
            rows[r] = reinterpret_cast<const float*>(a.data + (row + r) * a.stride);
            sums[r][0] = sums[r][1] = Vec{};
        }
        for (int k = 0; k < w.in; ++k, from += PANEL) {
            for (int i = 0; i < PANEL; i += 16) prefetch<ROWS>(from + AHEAD + i);
            const Vec w0 = load(from), w1 = load(from + W);
            for (int r = 0; r < ROWS; ++r) {
                const Vec x = splat(rows[r][k]);
                sums[r][0] = fused(x, w0, sums[r][0]);
                sums[r][1] = fused(x, w1, sums[r][1]);
            }
        }
        for (int r = 0; r < ROWS; ++r) low[r] = sums[r][0], high[r] = sums[r][1];
    }
};

}  // namespace
