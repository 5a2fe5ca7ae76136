#include "table.h"

const dragoman::Kernels* dragoman::avx512_bf16_kernels() { return table("avx512_bf16"); }
