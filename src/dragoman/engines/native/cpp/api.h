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
    /* Of sinusoids, made here: 1 interleaved, 2 concatenated, 3 interleaved, by which queries and keys of
       self-attention are turned (rotary positions), 4 also those of cross-attention; 0: the caller gives positions,
       which are added. */
    int32_t layout;
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

enum { DRAGOMAN_OK = 0, DRAGOMAN_NO_MEMORY = 1, DRAGOMAN_NO_SUCH_TOKEN = 2, DRAGOMAN_NOT_A_NUMBER = 3 };

/* How a log-probability is ranked: divided by ((5 + length) / 6) ^ alpha or length ^ alpha, or plus alpha * length. */
enum { DRAGOMAN_GNMT = 0, DRAGOMAN_POWER = 1, DRAGOMAN_REWARD = 2 };

/* What a search looks for; lengths count tokens without the one that ends. */
typedef struct {
    int32_t beam_size, n_best; /* a beam of 1 is greedy search */
    int32_t min_length, no_repeat_ngram, formula;
    double alpha;
    int64_t begin, end;
    const int64_t* never; /* tokens that are never emitted */
    int32_t never_count;
    const int32_t* max_lengths;   /* of each sentence */
    const int64_t* prefixes;      /* what each output must begin with, one after the other */
    const int32_t* prefix_starts; /* where that of each sentence starts, and where the last ends; null: there are none */
} DragomanSearch;

/* What a search found: `counts` of each sentence, best first; `lengths`, `tokens` and `values` (log-probabilities) of
   all of them, one after the other. The last token of each ends it. */
typedef struct {
    const int32_t* counts;
    const int32_t* lengths;
    const int64_t* tokens;
    const float* values;
} DragomanFound;

/* How many sets of kernels this processor can run, slowest first; the name of one; whether it multiplies bfloat16. */
DRAGOMAN_EXPORT int32_t dragoman_kernels(void);
DRAGOMAN_EXPORT const char* dragoman_kernels_name(int32_t index);
DRAGOMAN_EXPORT int32_t dragoman_kernels_bfloat16(int32_t index);

/* Packs the weights, which are not needed afterwards. Null if there is no memory. */
DRAGOMAN_EXPORT void* dragoman_model(const DragomanModel* spec);
DRAGOMAN_EXPORT void dragoman_free_model(void* model);
DRAGOMAN_EXPORT size_t dragoman_model_bytes(const void* model);

/* Encodes ids [batch, width], padded; positions is [width, d_model], or null where sinusoids are made
   here. Without an encoder only `batch` counts. */
DRAGOMAN_EXPORT int32_t dragoman_start(const void* model, const int64_t* ids, int32_t batch, int32_t width,
                                       const float* positions, int32_t threads, void** state);
DRAGOMAN_EXPORT void dragoman_free_state(void* state);
DRAGOMAN_EXPORT int32_t dragoman_reorder(void* state, const int64_t* indices, int32_t rows);

/* A whole search over ids [batch, width], padded, by a model whose sinusoids are made here. `found` is to be freed, even
   if the search failed. */
DRAGOMAN_EXPORT int32_t dragoman_search(const void* model, const int64_t* ids, int32_t batch, int32_t width,
                                        const DragomanSearch* options, int32_t threads, DragomanFound** found);
DRAGOMAN_EXPORT void dragoman_free_found(DragomanFound* found);

/* One token of each row in; log-probabilities [rows, vocabulary] of the next one out, and unless `outputs` is null
   what they were made from [rows, d_model]. */
DRAGOMAN_EXPORT int32_t dragoman_step(void* state, const int64_t* tokens, const float* position, float* log_probs,
                                      float* outputs, int32_t threads);
/* The same, but only the `count` likeliest that are not banned: values and indices [rows, count]. */
DRAGOMAN_EXPORT int32_t dragoman_step_top(void* state, const int64_t* tokens, const float* position,
                                          const int64_t* banned, int32_t banned_count, int32_t count, float* values,
                                          int64_t* indices, int32_t threads);

#ifdef __cplusplus
}
#endif
