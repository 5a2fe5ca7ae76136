// Which kernels this processor can run.
#pragma once

#include "kernels.h"

namespace dragoman {

// 0 any processor, 1 with AVX2, 2 with AVX-512 and its products of bytes, 3 with those of bfloat16 too.
int processor_level();

// Slowest first; null beyond the last.
const Kernels* kernels_at(int index);

}  // namespace dragoman
