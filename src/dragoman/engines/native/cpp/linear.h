// Matrix products: rows of activations times a packed matrix.
//
// A tile is up to MOST rows times one panel of 2 vectors of outputs, kept in registers over the whole depth. Each
// output is summed over the depth in one order, so a row's result depends on nothing but the row.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace {

using namespace dragoman;

constexpr int PANEL = 2 * W;

// Weights that are needed soon: for few rows to the nearest cache; for many, whose own numbers fill that, to the next.
template <int ROWS>
inline void prefetch(const void* place) {
    __builtin_prefetch(place, 0, ROWS > 6 ? 2 : 3);
}

inline Vec activated(Vec v, Activation activation) {
    switch (activation) {
        case Activation::none: return v;
        case Activation::relu: return splat(0.0f) > v ? splat(0.0f) : v;  // NaN stays NaN
        case Activation::gelu: return 0.5f * v * (1.0f + error_function(v * 0.70710678118654752f));
        case Activation::silu: return v / (1.0f + exponential(-v));
    }
    return v;
}

// The usual ways to write whole panels, each a loop without a branch; everything else number by number of vectors.
template <int ROWS>
inline __attribute__((always_inline)) void write(const Vec* low, const Vec* high, const Packed& w, int row, int panel,
                                                 const Output& o) {
    const int first = panel * PANEL, left = w.out - first;
    const Vec bias_0 = load(w.bias + first), bias_1 = load(w.bias + first + W);
    float* out = o.data + row * o.stride + first;
    if (left >= PANEL && o.add) {
        for (int r = 0; r < ROWS; ++r, out += o.stride) {
            store(out, load(out) + (low[r] + bias_0));
            store(out + W, load(out + W) + (high[r] + bias_1));
        }
    } else if (left >= PANEL && (o.activation == Activation::none || o.activation == Activation::relu)) {
        const Vec floor = splat(o.activation == Activation::relu ? 0.0f : -INFINITY);
        for (int r = 0; r < ROWS; ++r, out += o.stride) {
            const Vec a = low[r] + bias_0, b = high[r] + bias_1;
            store(out, floor > a ? floor : a);  // NaN stays NaN
            store(out + W, floor > b ? floor : b);
        }
    } else {
        for (int r = 0; r < ROWS; ++r, out += o.stride) {
            const Vec part[2] = {low[r] + bias_0, high[r] + bias_1};
            for (int i = 0; i < 2 && left > i * W; ++i) {
                Vec v = activated(part[i], o.activation);
                if (o.add) v += load_some(out + i * W, left - i * W);
                store_some(out + i * W, v, left - i * W);
            }
        }
    }
}

template <class Kind, int ROWS>
void tile(const Packed& w, const Operand& a, int row, int panel, const Output& o) {
    Vec low[ROWS], high[ROWS];
    Kind::template multiply<ROWS>(w, a, row, panel, low, high);
    write<ROWS>(low, high, w, row, panel, o);
}

template <class Kind, int ROWS>
struct Tiles {
    static void call(int rows, const Packed& w, const Operand& a, int row, int panel, const Output& o) {
        if (rows == ROWS) tile<Kind, ROWS>(w, a, row, panel, o);
        else Tiles<Kind, ROWS - 1>::call(rows, w, a, row, panel, o);
    }
};
template <class Kind>
struct Tiles<Kind, 0> {
    static void call(int, const Packed&, const Operand&, int, int, const Output&) {}
};

template <class Kind>
void multiply(const Packed& w, const Operand& a, int row_0, int row_1, int panel_0, int panel_1, const Output& o) {
    const int64_t rows = row_1 - row_0;
    const int tiles = static_cast<int>((rows + Kind::MOST - 1) / Kind::MOST);
    for (int panel = panel_0; panel < panel_1; ++panel)
        for (int i = 0; i < tiles; ++i) {
            const int begin = row_0 + static_cast<int>(rows * i / tiles);
            const int end = row_0 + static_cast<int>(rows * (i + 1) / tiles);
            Tiles<Kind, Kind::MOST>::call(end - begin, w, a, begin, panel, o);
        }
}

}  // namespace
