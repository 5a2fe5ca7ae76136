#include "table.h"

const dragoman::Kernels* dragoman::avx512_kernels() { return table("avx512"); }
