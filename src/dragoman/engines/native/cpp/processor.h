// Which kernels this processor can run.
#pragma once

#include "kernels.h"

namespace dragoman {

// Slowest first; null beyond the last.
const Kernels* kernels_at(int index);

}  // namespace dragoman
