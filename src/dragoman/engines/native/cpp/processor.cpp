#include "processor.h"

namespace dragoman {

int processor_level() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512vnni"))
        return 1;
    return __builtin_cpu_supports("avx512bf16") ? 3 : 2;
#endif
    return 0;
}

const Kernels* kernels_at(int index) {
    if (index < 0 || index > processor_level()) return nullptr;
#if defined(__x86_64__)
    constexpr const Kernels* (*FASTER[])() = {avx2_kernels, avx512_kernels, avx512_bf16_kernels};
    if (index > 0) return FASTER[index - 1]();
#endif
    return plain_kernels();
}

}  // namespace dragoman
