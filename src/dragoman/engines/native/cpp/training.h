// Training's own kernels: what a step computes besides its large matrix products, on rows without padding.
//
// Each is one pass over its numbers where PyTorch takes several. Dropout is drawn from (seed, place), so that the
// backward pass draws the same again and no mask is kept. All widths but the vocabulary's are multiples of 16.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragoman {

// What is dropped: each number whose draw of 32 bits is below `limit`; the others are multiplied by `scale`.
struct Drop {
    uint32_t limit = 0, seed_0 = 0, seed_1 = 0;
    float scale = 1.0f;
};

// Sentences of queries and of keys: rows [starts[i], starts[i + 1]) of matrices whose rows have these strides.
struct Attention {
    const float *query, *key, *value;
    const int32_t *query_starts, *key_starts;
    const int64_t* weight_starts;  // where a sentence's weights begin: [heads][queries][keys rounded up to `lanes`]
    int32_t sentences, heads, width, causal, lanes;  // lanes: a multiple of the kernels' vectors
    int32_t query_stride, key_stride;
    float* weights;
    float* output;        // [queries, heads * width]
    const float* slopes;  // of each head, by which scores fall with the distance; null: they do not
};

struct AttentionGradients {
    const float* output;
    float *query, *key, *value;  // strides as in `Attention`
};

struct TrainingKernels {
    int lanes;  // of a vector
    // Rows [begin, end) of sum = x + dropped(z + bias), out = norm(sum); z may be null. `sum` may be z.
    void (*add_norm)(const float* z, const float* bias, const float* x, const float* gain, const float* offset,
                     float eps, const Drop&, int begin, int end, int d, float* sum, float* out, float* moments);
    // From the gradient of `out` (and of `sum`, may be null) those of x and z, and, added to, of bias, gain, offset.
    void (*add_norm_back)(const float* grad, const float* grad_sum, const float* sum, const float* moments,
                          const float* gain, const Drop&, int begin, int end, int d, float* grad_x, float* grad_z,
                          float* sums);
    // In place: dropped(max(0, h + bias)).
    void (*relu)(float* h, const float* bias, const Drop&, int begin, int end, int d);
    // In place, from what `relu` left in h; `sums` is the gradient of bias, added to.
    void (*relu_back)(float* grad, const float* h, float scale, int begin, int end, int d, float* sums);
    // Adds rows [begin, end) to `sums`.
    void (*column_sums)(const float* x, int begin, int end, int d, float* sums);
    // One sentence, all heads; `room` has `attention_room` numbers.
    size_t (*attention_room)(const Attention&, int longest_query, int longest_key);
    void (*attend)(const Attention&, int sentence, float* room);
    void (*attend_back)(const Attention&, const AttentionGradients&, int sentence, float* room);
    // One row of logits becomes its loss's derivative; returns the likeliest token; sums are loss and likelihood.
    int64_t (*cross_entropy)(float* logits, int vocabulary, int64_t label, float smoothing, double* sums);
    // The same of two rows that predict one label, of R-Drop's loss; returns the likeliest token of the first.
    int64_t (*agreement)(float* first, float* second, int vocabulary, int64_t label, float smoothing, float weight,
                         double* sums);
};

const TrainingKernels* plain_training();
const TrainingKernels* avx2_training();
const TrainingKernels* avx512_training();

}  // namespace dragoman
