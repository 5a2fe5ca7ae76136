// Fills in the table of kernels for the instruction set that the including file is compiled for.
#pragma once

#include "attention.h"
#include "linear_bfloat16.h"
#include "linear_float.h"
#include "linear_int8.h"
#include "rows.h"

namespace {

#if defined(__AVX512BF16__)
constexpr bool HAS_BFLOAT16 = true;
#else
constexpr bool HAS_BFLOAT16 = false;
struct Bfloat16 : Float {  // never asked for
    static void prepare(const float*, int, unsigned char*) {}
};
#endif

size_t panel_bytes(Precision precision, int in) {
    switch (precision) {
        case Precision::int8: return Int8::panel_bytes(in);
        case Precision::bfloat16: return Bfloat16::panel_bytes(in);
        default: return Float::panel_bytes(in);
    }
}

size_t operand_bytes(Precision precision, int in) {
    switch (precision) {
        case Precision::int8: return Int8::operand_bytes(in);
        case Precision::bfloat16: return Bfloat16::operand_bytes(in);
        default: return Float::operand_bytes(in);
    }
}

void pack(const float* weight, const float* bias, const Packed& w) {
    const size_t outs = static_cast<size_t>(w.panels) * PANEL;
    for (size_t i = 0; i < outs; ++i) w.bias[i] = bias && i < static_cast<size_t>(w.out) ? bias[i] : 0.0f;
    switch (w.precision) {
        case Precision::int8: return Int8::pack(weight, w);
        case Precision::bfloat16: return Bfloat16::pack(weight, w);
        default: return Float::pack(weight, w);
    }
}

void prepare(Precision precision, const float* row, int in, unsigned char* data, float* scale, int32_t* offset) {
    switch (precision) {
        case Precision::int8: return Int8::prepare(row, in, data, scale, offset);
        case Precision::bfloat16: return Bfloat16::prepare(row, in, data);
        default: std::memcpy(data, row, sizeof(float) * static_cast<size_t>(in));
    }
}

void linear(const Packed& w, const Operand& a, int row_0, int row_1, int panel_0, int panel_1, const Output& o) {
    switch (w.precision) {
        case Precision::int8: return multiply<Int8>(w, a, row_0, row_1, panel_0, panel_1, o);
        case Precision::bfloat16: return multiply<Bfloat16>(w, a, row_0, row_1, panel_0, panel_1, o);
        default: return multiply<Float>(w, a, row_0, row_1, panel_0, panel_1, o);
    }
}

const Kernels* table(const char* name) {
    static const Kernels kernels = {
        name,     HAS_BFLOAT16,       PANEL,        panel_bytes,     operand_bytes, pack,     prepare, linear,
        norm_row, scale_and_add_rows, attend_heads, log_sum_exp_row, subtract_row,  gate_row, exp_row, mix_row,
        top_row,
    };
    return &kernels;
}

}  // namespace
