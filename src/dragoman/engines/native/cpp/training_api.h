/* The interface to training's kernels: plain C, called through ctypes, checked and guarded as api.h. Matrices are
   float32, rows without gaps; `d` is a multiple of 16. Sizes of memory are the caller's to check. */
#pragma once

#include "api.h"
#include "training.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The function GOMP_parallel of the OpenMP library whose threads are to do the work, so that those of PyTorch, which
   wait by spinning, are not in the way; null is threads of one's own. Returns what the others begin with, or null if
   `kernels` (0 plain, 1 AVX2, 2 AVX-512) are not for this processor. */
DRAGOMAN_EXPORT const void* dragoman_training(void* parallel, int32_t kernels);

/* `sums` are bias, gain and offset, [3][d]; `moments` is [rows][2]. */
DRAGOMAN_EXPORT int32_t dragoman_add_norm(const void* training, const float* z, const float* bias, const float* x,
                                          const float* gain, const float* offset, float eps, const dragoman::Drop* drop,
                                          int32_t rows, int32_t d, float* sum, float* out, float* moments,
                                          int32_t threads);
DRAGOMAN_EXPORT int32_t dragoman_add_norm_back(const void* training, const float* grad, const float* grad_sum,
                                               const float* sum, const float* moments, const float* gain,
                                               const dragoman::Drop* drop, int32_t rows, int32_t d, float* grad_x,
                                               float* grad_z, float* sums, int32_t threads);
DRAGOMAN_EXPORT int32_t dragoman_relu(const void* training, float* h, const float* bias, const dragoman::Drop* drop,
                                      int32_t rows, int32_t d, int32_t threads);
DRAGOMAN_EXPORT int32_t dragoman_relu_back(const void* training, float* grad, const float* h, float scale, int32_t rows,
                                           int32_t d, float* sums, int32_t threads);
DRAGOMAN_EXPORT int32_t dragoman_column_sums(const void* training, const float* x, int32_t rows, int32_t d, float* sums,
                                             int32_t threads);
DRAGOMAN_EXPORT int32_t dragoman_attend(const void* training, const dragoman::Attention* attention, int32_t threads);
DRAGOMAN_EXPORT int32_t dragoman_attend_back(const void* training, const dragoman::Attention* attention,
                                             const dragoman::AttentionGradients* gradients, int32_t threads);
/* Logits become slopes; totals are loss, likelihood and hits, added to. */
DRAGOMAN_EXPORT int32_t dragoman_cross_entropy(const void* training, float* logits, const int64_t* labels, int32_t rows,
                                               int32_t vocabulary, float smoothing, double* totals, int32_t threads);
DRAGOMAN_EXPORT int32_t dragoman_agreement(const void* training, float* first, float* second, const int64_t* labels,
                                           int32_t rows, int32_t vocabulary, float smoothing, float weight,
                                           double* totals, int32_t threads);

#ifdef __cplusplus
}
#endif
