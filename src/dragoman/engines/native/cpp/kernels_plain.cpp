#include "table.h"

const dragoman::Kernels* dragoman::plain_kernels() { return table("plain"); }
