/* The interface of the library: plain C, called through ctypes. Functions that can fail return null or a code. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DRAGOMAN_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const float* weight; /* [out, in] */
    const float* bias;   /* [out], or null */
    int32_t out, in;
} DragomanMatrix;

typedef struct {
    const float* weight; /* or null */
    const float* bias;   /* or null */
    float eps;
    int32_t present; /* 0: there is no such norm */
} DragomanNorm;

typedef struct {
    const float* rows; /* [count, d_model]; must outlive the model */
    int64_t count;
    float scale;
} DragomanTable;

/* Matrices of a layer: query, key and value, output, inner, outer; of a decoder layer with cross-attention: query, key
   and value, output, cross query, cross key and value, cross output, inner, outer. Norms of a layer: of attention,
   cross-attention if there is one, feed-forward. All encoder layers first, then all decoder layers, each stack's norms
   followed by the one that ends it; the generator is the last matrix. */
typedef struct {
    int32_t precision, kernels; /* kernels: an index below dragoman_kernels() */
    int32_t d_model, d_ff, heads, d_k, d_v;
    int32_t pre_norm, activation, cross;
    int32_t encoder_layers, decoder_layers;
    int64_t pad;
    DragomanTable source, target;
    const DragomanMatrix* matrices;
    const DragomanNorm* norms;
} DragomanModel;

enum { DRAGOMAN_OK = 0, DRAGOMAN_NO_MEMORY = 1, DRAGOMAN_NO_SUCH_TOKEN = 2 };

/* How many sets of kernels this processor can run, slowest first; the name of one; whether it multiplies bfloat16. */
DRAGOMAN_EXPORT int32_t dragoman_kernels(void);
DRAGOMAN_EXPORT const char* dragoman_kernels_name(int32_t index);
DRAGOMAN_EXPORT int32_t dragoman_kernels_bfloat16(int32_t index);

/* Packs the weights, which are not needed afterwards. Null if there is no memory. */
DRAGOMAN_EXPORT void* dragoman_model(const DragomanModel* spec);
DRAGOMAN_EXPORT void dragoman_free_model(void* model);
DRAGOMAN_EXPORT size_t dragoman_model_bytes(const void* model);

/* Encodes ids [batch, width], padded; positions is [width, d_model]. Without an encoder only `batch` counts. */
DRAGOMAN_EXPORT int32_t dragoman_start(const void* model, const int64_t* ids, int32_t batch, int32_t width,
                                       const float* positions, int32_t threads, void** state);
DRAGOMAN_EXPORT void dragoman_free_state(void* state);
DRAGOMAN_EXPORT int32_t dragoman_reorder(void* state, const int64_t* indices, int32_t rows);

/* One token of each row in; log-probabilities [rows, vocabulary] of the next one out. */
DRAGOMAN_EXPORT int32_t dragoman_step(void* state, const int64_t* tokens, const float* position, float* log_probs,
                                      int32_t threads);
/* The same, but only the `count` likeliest that are not banned: values and indices [rows, count]. */
DRAGOMAN_EXPORT int32_t dragoman_step_top(void* state, const int64_t* tokens, const float* position,
                                          const int64_t* banned, int32_t banned_count, int32_t count, float* values,
                                          int64_t* indices, int32_t threads);

#ifdef __cplusplus
}
#endif
