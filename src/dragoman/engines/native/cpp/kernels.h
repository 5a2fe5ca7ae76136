// What the model needs of an instruction set: a table of functions, one table for each set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragoman {

enum class Precision : int { float32 = 0, int8 = 1, bfloat16 = 2 };
enum class Activation : int { none = 0, relu = 1, gelu = 2, silu = 3 };

// A matrix [out, in] in the layout that the kernels read from front to back: panels of so many outputs, padded with
// zeros. `scale` and `total`, the sum of an output's
// bytes (int8 only), and `bias` have one number per output, padded likewise.
struct Packed {
    Precision precision = Precision::float32;
    int in = 0, out = 0, panels = 0;
    size_t panel_bytes = 0;
    unsigned char* data = nullptr;
    float* scale = nullptr;
    int32_t* total = nullptr;
    float* bias = nullptr;
};

// Rows as the kernels of a precision read them: float32 as they are, int8 with scale and offset of each row, or bfloat16.
struct Operand {
    const unsigned char* data = nullptr;
    size_t stride = 0;  // bytes from row to row
    const float* scale = nullptr;
    const int32_t* offset = nullptr;
};

// Where a product goes: stored after the activation, or added to what is there.
struct Output {
    float* data = nullptr;
    size_t stride = 0;  // numbers from row to row
    Activation activation = Activation::none;
    bool add = false;
};

constexpr int QUERIES = 16;  // that attend together

struct Rows {
    const float* data = nullptr;
    size_t stride = 0;
    int count = 0;
    int place = 0;                  // of the first among what they look at
    const float* slopes = nullptr;  // of each head, by which scores fall with the distance; null: they do not
};

struct Heads {
    int count = 0, d_k = 0, d_v = 0;
};

struct Kernels {
    const char* name;
    bool has_bfloat16;
    int panel;  // outputs in a panel
    // Bytes of one panel, and of one operand row, for matrices with so many inputs.
    size_t (*panel_bytes)(Precision, int in);
    size_t (*operand_bytes)(Precision, int in);
    // Fills data, scale and bias, for which room was made; `bias` may be null.
    void (*pack)(const float* weight, const float* bias, const Packed&);
    // One row of `in` numbers into an operand row; float32 is copied.
    void (*prepare)(Precision, const float* row, int in, unsigned char* data, float* scale, int32_t* offset);
    // Rows [row_0, row_1) times the outputs of panels [panel_0, panel_1).
    void (*linear)(const Packed&, const Operand&, int row_0, int row_1, int panel_0, int panel_1, const Output&);
    // (row - mean) / sqrt(variance + eps) * weight + bias; weight or bias may be null, out may be row.
    void (*norm)(const float* row, int n, const float* weight, const float* bias, float eps, float* out);
    // out = row * factor + other
    void (*scale_and_add)(const float* row, float factor, const float* other, int n, float* out);
    // Heads [head_0, head_1) of queries over the same `n` positions; each pointer is to a position's keys, then its
    // values. There are three more pointers, to anything readable, and room for `stride` scores, a multiple of 16, of
    // every head of one query and of one head of QUERIES.
    void (*attend)(const Rows& queries, const float* const* positions, int n, const Heads&, int head_0, int head_1,
                   int stride, float* scores, float* out, size_t out_stride);
    // log(sum(exp(row)))
    float (*log_sum_exp)(const float* row, int n);
    void (*subtract)(float* row, int n, float number);
    // out = row * sigmoid(gates); out may be row.
    void (*gate)(const float* row, const float* gates, int n, float* out);
    // row = exp(row - shift)
    void (*exponentials)(float* row, int n, float shift);
    // row = (1 - weight) * (row - total) + weight * max(log(other) + shift, least)
    void (*mix_logarithms)(float* row, int n, float total, float weight, const float* other, float shift, float least);
    // The `k` largest of row - shift, largest first, of equal ones the first.
    void (*top)(const float* row, int n, float shift, int k, float* values, int64_t* indices);
};

const Kernels* plain_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();  // with VNNI
const Kernels* avx512_bf16_kernels();

}  // namespace dragoman
