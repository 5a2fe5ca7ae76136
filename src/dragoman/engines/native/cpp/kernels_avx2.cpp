#include "table.h"

const dragoman::Kernels* dragoman::avx2_kernels() { return table("avx2"); }
