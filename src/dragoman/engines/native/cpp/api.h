/* The interface of the library: plain C, called through ctypes. Every function that takes something checks it, returns
   a code, and throws nothing; `dragoman_message` says more about the last BAD_ARGUMENT or FAILED of this thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DRAGOMAN_EXPORT __attribute__((visibility("default")))

/* Changes with the meaning or the types of anything here or in training_api.h. */
#define DRAGOMAN_ABI 7

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DRAGOMAN_OK = 0,
    DRAGOMAN_NO_MEMORY = 1,
    DRAGOMAN_NO_SUCH_TOKEN = 2,
    DRAGOMAN_NOT_A_NUMBER = 3,
    DRAGOMAN_BAD_ARGUMENT = 4,
    DRAGOMAN_FAILED = 5,
    DRAGOMAN_TOO_LONG = 6 /* a sequence is longer than a table of positions */
};

typedef struct {
    const float* weight;  /* [out, in] */
    const int8_t* bytes;  /* [out, in] in place of `weight`, if that is null */
    const float* factors; /* [out], of `bytes` */
    const float* bias;    /* [out], or null */
    int32_t out, in;
} DragomanMatrix;

typedef struct {
    const float* weight; /* or null */
    const float* bias;   /* or null */
    float eps;
    int32_t present; /* 0: there is no such norm */
} DragomanNorm;

typedef struct {
    const float* rows; /* [count, d_model]; not looked at where frames are read; must outlive the model, as all here */
    const int8_t* bytes;  /* [count, d_model] in place of `rows`, which is null */
    const float* factors; /* [count], of `bytes` */
    int64_t count;
    float scale;
    /* Of sinusoids, made here: 1 interleaved, 2 concatenated, 3 and 4 concatenated as Marian and fairseq have them,
       5 interleaved, by which queries and keys of self-attention are rotated (rotary positions), 6 also those of
       cross-attention; 7: no sinusoids, but scores of self-attention that fall with the distance (ALiBi); 0: rows of a
       table, which are added. */
    int32_t layout;
    const float* positions; /* of layout 0: [longest, d_model] */
    int64_t longest;
} DragomanTable;

/* Matrices of a layer: query, key and value, output, inner, outer; of a decoder layer with cross-attention: query, key
   and value, output, cross query, cross key and value, cross output, inner, outer. Norms of a layer: of attention,
   cross-attention if there is one, feed-forward. All encoder layers first, then all decoder layers, each stack's norms
   followed by the one that ends it; then the generator, with an output for each target. Of a model that listens two more
   come first, convolutions over time of 5 inputs and stride 2 whose outputs are halved by a gated linear unit:
   [channels, mels, 5] and [2 * d_model, channels / 2, 5]; and after the generator what reads targets off frames, if
   there is such a head, with as many outputs. */
typedef struct {
    int32_t precision, kernels; /* kernels: an index below dragoman_kernels() */
    int32_t d_model, d_ff, heads, d_k, d_v;
    int32_t pre_norm, activation, cross;
    int32_t encoder_layers, decoder_layers;
    int32_t matrix_count, norm_count;
    int32_t mels;  /* numbers of a frame; 0 where sources are ids */
    int32_t blank; /* which output of the head says nothing; -1 where there is no head */
    DragomanTable source, target;
    const DragomanMatrix* matrices;
    const DragomanNorm* norms;
} DragomanModel;

/* How a log-probability is ranked: divided by ((5 + length) / 6) ^ alpha or length ^ alpha, or plus alpha * length. */
enum { DRAGOMAN_GNMT = 0, DRAGOMAN_POWER = 1, DRAGOMAN_REWARD = 2 };

/* What the end costs that an output at its limit must have, and each token of a prefix: its log-probability; nothing;
   nothing, nor does such an end count in the length. */
enum { DRAGOMAN_CHARGED = 0, DRAGOMAN_FREE = 1, DRAGOMAN_NO_END = 2 };

/* A sentence and what is searched for; lengths count tokens without the one that ends. Nothing of it is needed after
   the call that it is given to. */
typedef struct {
    const int64_t* source; /* framed ids; not looked at without an encoder */
    const float* frames;   /* [source_length, mels], of a model that listens in place of ids */
    const int64_t* prefix; /* what each output must begin with */
    const int64_t* never;  /* tokens that are never emitted */
    int64_t begin, end;
    double alpha;
    double ctc_weight; /* share of what the head reads off frames in each prediction; 0: none */
    int32_t source_length, prefix_length, never_count;
    int32_t beam_size, n_best; /* a beam of 1 is greedy search */
    int32_t min_length, max_length, no_repeat_ngram, formula;
    int32_t end_at_limit, early; /* early: a beam stops once it has finished as many outputs as it is wide */
} DragomanSentence;

/* What was found, sentence by sentence: its number, a code (without outputs if it is not OK) and how many outputs, best
   first; `lengths`, `tokens` and `values` (log-probabilities) of all outputs, one after the other. The last token of
   each ends it. */
typedef struct {
    int64_t sentences;
    const int64_t* numbers;
    const int32_t* codes;
    const int32_t* counts;
    const int32_t* lengths;
    const int64_t* tokens;
    const float* values;
} DragomanFound;

/* The number above, and the size of a structure by its name, 0 if there is none: callers compare before anything. */
DRAGOMAN_EXPORT int32_t dragoman_abi(void);
DRAGOMAN_EXPORT size_t dragoman_size_of(const char* name);
DRAGOMAN_EXPORT const char* dragoman_message(void);

/* How many sets of kernels this processor can run, slowest first; the name of one, or null; whether it multiplies
   bfloat16. */
DRAGOMAN_EXPORT int32_t dragoman_kernels(void);
DRAGOMAN_EXPORT const char* dragoman_kernels_name(int32_t index);
DRAGOMAN_EXPORT int32_t dragoman_kernels_bfloat16(int32_t index);

/* Packs the weights, which are not needed afterwards. What frees takes null too. */
DRAGOMAN_EXPORT int32_t dragoman_model(const DragomanModel* spec, void** model);
DRAGOMAN_EXPORT void dragoman_free_model(void* model);
DRAGOMAN_EXPORT size_t dragoman_model_bytes(const void* model);

/* Encodes `batch` sentences of so many ids each, or frames, one after the other. Without an encoder only `batch`
   counts. */
DRAGOMAN_EXPORT int32_t dragoman_start(const void* model, const int64_t* ids, const float* frames,
                                       const int32_t* lengths, int32_t batch, int32_t threads, void** state);
DRAGOMAN_EXPORT void dragoman_free_state(void* state);
/* Keeps the rows at `indices`, in that order. */
DRAGOMAN_EXPORT int32_t dragoman_reorder(void* state, const int64_t* indices, int32_t rows);
/* Appends the rows of another state of the same model, whichever step they are at; the other one is left empty. */
DRAGOMAN_EXPORT int32_t dragoman_join(void* state, void* other);

/* One token of each row in; log-probabilities [rows, vocabulary] of the next one out, and unless `outputs` is null
   what they were made from [rows, d_model]. */
DRAGOMAN_EXPORT int32_t dragoman_step(void* state, const int64_t* tokens, int32_t rows, float* log_probs,
                                      float* outputs, int32_t threads);
/* The same, but only the `count` likeliest, the banned ones at -inf: values and indices [rows, count]. */
DRAGOMAN_EXPORT int32_t dragoman_step_top(void* state, const int64_t* tokens, int32_t rows, const int64_t* banned,
                                          int32_t banned_count, int32_t count, float* values, int64_t* indices,
                                          int32_t threads);

/* Whole searches. `found` is to be freed. */
DRAGOMAN_EXPORT int32_t dragoman_search(const void* model, const DragomanSentence* sentences, int32_t count,
                                        int32_t threads, DragomanFound** found);
DRAGOMAN_EXPORT void dragoman_free_found(DragomanFound* found);

/* The same as it runs: sentences come between steps and leave when they are done. They are numbered in the order of
   admission; `first` is the number of the first one admitted. */
DRAGOMAN_EXPORT int32_t dragoman_open(const void* model, int32_t threads, void** search);
DRAGOMAN_EXPORT int32_t dragoman_admit(void* search, const DragomanSentence* sentences, int32_t count, int64_t* first);
/* Up to `steps` steps, none after one that finishes a sentence if `until_finished`; `live` is how many go on. */
DRAGOMAN_EXPORT int32_t dragoman_advance(void* search, int32_t steps, int32_t until_finished, int32_t* live);
/* What is finished and was not taken before. */
DRAGOMAN_EXPORT int32_t dragoman_take(void* search, DragomanFound** found);
/* What a sentence has so far, which stays there: the hypotheses of its live rows, best first, then the finished ones;
   no sentence if it is not there any more. */
DRAGOMAN_EXPORT int32_t dragoman_peek(void* search, int64_t number, DragomanFound** found);
/* Drops a sentence; `dropped` is 0 if it was not there any more. */
DRAGOMAN_EXPORT int32_t dragoman_cancel(void* search, int64_t number, int32_t* dropped);
DRAGOMAN_EXPORT void dragoman_close(void* search);

#ifdef __cplusplus
}
#endif
