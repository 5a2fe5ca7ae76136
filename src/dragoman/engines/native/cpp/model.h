// A model's weights in the kernels' layout, and what decoding carries from step to step.
#pragma once

#include <memory>
#include <vector>

#include "api.h"
#include "arena.h"
#include "kernels.h"
#include "pace.h"
#include "positions.h"

namespace dragoman {

// A distance from row to row, so that the same column of many rows does not fall into the same few places of the cache.
inline size_t apart(int width) { return (static_cast<size_t>(width) + 15) / 16 * 16 + 16; }

struct Norm {
    const float* weight = nullptr;
    const float* bias = nullptr;
    float eps = 0.0f;
};

struct Layer {
    Packed query, key_value, output;
    Packed cross_query, cross_key_value, cross_output;  // of a decoder that looks at a memory
    Packed inner, outer;
    Norm attention_norm, cross_norm, feed_forward_norm;
};

struct Stack {
    std::vector<Layer> layers;
    bool has_end = false;
    Norm end;
};

struct Table {
    const float* rows = nullptr;  // the caller's memory
    int64_t count = 0;
    float scale = 1.0f;
};

class Model {
  public:
    explicit Model(const DragomanModel& spec);

    const Kernels& kernels;
    const Precision precision;
    const int d_model, d_ff;
    const Heads heads;
    const bool pre_norm, cross;
    const Activation activation;
    const int64_t pad;
    Stack encoder, decoder;
    Table source, target;
    mutable Positions source_positions, target_positions;
    const std::vector<float> nothing;  // added to tokens where positions are not
    Packed generator;
    double work = 0.0;  // multiplications of one decoder row

    int queries() const { return heads.count * heads.d_k; }
    int mixed() const { return heads.count * heads.d_v; }
    size_t key_values() const { return apart(queries() + mixed()); }  // from position to position
    size_t bytes() const { return arena_.size(); }
    // So many of the threads are of use for so many rows.
    int useful(int rows, int threads) const { return work * rows < WORTH_A_THREAD ? 1 : threads; }

    mutable Pace encoding, decoding;

  private:
    Packed packed(const DragomanMatrix& matrix);
    Norm norm(const DragomanNorm& given);
    Stack stack(int layers, bool cross, const DragomanMatrix*& matrices, const DragomanNorm*& norms);

    // Below so many multiplications a stage is too short for two threads to pay.
    static constexpr double WORTH_A_THREAD = 2.0e6;

    Arena arena_;
};

// Buffers for so many rows.
struct Scratch {
    Scratch(const Model& model, int rows, int positions, int members);

    float *x, *query, *mixed, *inner, *key_value;
    size_t x_stride, query_stride, mixed_stride, inner_stride;
    size_t scores_each;  // of one member: a row of `reach` for each head, or for each of QUERIES
    size_t operand_stride;  // bytes, the same for rows of any width: members may be at different stages
    float *row, *scores;             // one for each member
    const float** positions;         // likewise
    unsigned char* operand;
    float* scale;
    int32_t* offset;
    int rows, reach;  // `reach`: positions that a row can attend to, and 3

  private:
    Arena arena_;
};

// The keys and values of one step: [layer][row][key_values].
struct Block {
    float* data;
    int rows;
};

class State {
  public:
    State(const Model& owner, int sentences) : model(owner), rows(sentences), memory_arena_(1 << 16), arena_(1 << 18) {
        sentence.resize(sentences);
        for (int i = 0; i < sentences; ++i) sentence[i] = i;
    }

    const Model& model;
    int rows, length = 0;
    std::vector<int> sentence;           // of each row
    std::vector<int> first, tokens;      // of each sentence: its place in the memory and its size
    std::vector<float*> memory;          // of each layer: [position][key_values]
    std::vector<Block> blocks;           // of each step
    std::vector<std::vector<int>> past;  // of each row: its row in each step's block

    void make_memory();
    void reorder(const int64_t* indices, int count);
    void grow();
    Scratch& scratch(int members);
    float* logits(size_t count);

  private:
    Arena memory_arena_, arena_;
    std::unique_ptr<Scratch> scratch_;
    int members_ = 0;
    std::vector<float> logits_;
};

// What one row may emit, where rows differ.
struct Rule {
    std::vector<int64_t> banned;  // besides what all rows may not
    int64_t otherwise = -1;       // what is left where everything is forbidden
    int64_t only = -1;            // nothing but this
};

struct Step {
    const int64_t* tokens = nullptr;
    const float* position = nullptr;  // or null, if the model has sinusoids
    float* all = nullptr;  // [rows, vocabulary] log-probabilities, or null
    float* outputs = nullptr;  // [rows, d_model] what the generator reads, or null
    int count = 0;         // else so many of the best
    float* values = nullptr;
    int64_t* indices = nullptr;
    const int64_t* banned = nullptr;
    int banned_count = 0;
    const Rule* rules = nullptr;  // of each row, or null
};

void encode(State& state, const int64_t* ids, int width, const float* positions, int threads);
void decode(State& state, const Step& step, int threads);

// The same with as many of the threads as are of use: a new state for ids [batch, width], and one step of it.
// `positions` may be null if the model has sinusoids.
std::unique_ptr<State> run_start(const Model& model, const int64_t* ids, int batch, int width, const float* positions,
                                 int threads);
void run_step(State& state, const Step& step, int threads);

}  // namespace dragoman
