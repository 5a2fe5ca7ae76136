#include "processor.h"

namespace dragoman {

const Kernels* kernels_at(int index) {
    const Kernels* found[4] = {plain_kernels()};
    int count = 1;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        found[count++] = avx2_kernels();
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512vnni")) {
            found[count++] = avx512_kernels();
            if (__builtin_cpu_supports("avx512bf16")) found[count++] = avx512_bf16_kernels();
        }
    }
#endif
    return index >= 0 && index < count ? found[index] : nullptr;
}

}  // namespace dragoman
