// What decoding carries from step to step, and the buffers of a pass.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "ctc.h"
#include "model.h"

namespace dragoman {

// Buffers for so many rows.
struct Scratch {
    Scratch(const Model& model, int rows, int positions, int threads);

    float *x, *query, *mixed, *inner, *key_value;
    size_t x_stride, query_stride, mixed_stride, inner_stride;
    size_t scores_each;       // of one thread: a row of `reach` for each head, or for each of QUERIES
    size_t operand_stride;    // bytes, the same for rows of any width: workers may be at different stages
    float *row, *scores;      // one for each thread
    const float** positions;  // likewise
    unsigned char* operand;
    float* scale;
    int32_t* offset;
    int rows, reach;  // `reach`: positions that a row can attend to, and 3
    int threads;

  private:
    Arena arena_;
};

// Keys and values of encoded sentences.
struct Memory {
    std::vector<int> first, tokens;  // of each sentence: its place and its size
    std::vector<float*> layers;      // of each decoder layer: [position][key_values]
    std::vector<Packed> heard;       // of each sentence: see ctc.h; nothing where that is not read
    Arena arena{1 << 16};

    int longest() const;
    int total() const { return first.empty() ? 0 : first.back() + tokens.back(); }
};

// The keys and values of one step, [layer][row][key_values], in memory that some steps after one another share.
struct Block {
    std::shared_ptr<float> data;
    int rows = 0;
};

struct Place {
    int block, row;
};

// A hypothesis: the sentence it looks at, and where the keys and values of its tokens are.
struct Row {
    std::shared_ptr<const Memory> memory;  // null without an encoder
    int sentence = 0;
    std::vector<Place> past;
    std::shared_ptr<const Prefix> said;  // where what is read off frames counts

    int length() const { return static_cast<int>(past.size()); }
    Row copy() const;
    bool looks_where(const Row& other) const { return memory == other.memory && sentence == other.sentence; }
};

class State {
  public:
    explicit State(const Model& owner) : model(owner) {}

    const Model& model;
    std::vector<Row> rows;
    std::vector<Block> blocks;
    std::atomic_flag used = ATOMIC_FLAG_INIT;

    int count() const { return static_cast<int>(rows.size()); }
    int longest() const;  // tokens of a row so far
    // Indices are below `count()`.
    void reorder(const int64_t* indices, int count);
    // Takes the rows of another one, whichever step they are at.
    void join(State& other);
    // Makes room for the keys and values of one more step of each row; returns its block.
    const Block& grow();
    Scratch& scratch(int threads);
    float* logits(size_t count) { return numbers(logits_, count); }
    float* shares(size_t count) { return numbers(shares_, count); }

  private:
    static float* numbers(std::vector<float>& kept, size_t count) {
        if (kept.size() < count) kept.resize(count);
        return kept.data();
    }
    void collect();
    int free_block();
    std::shared_ptr<float> room(size_t count);

    std::shared_ptr<float> chunk_;
    size_t next_ = 0, end_ = 0;  // of the chunk's numbers
    size_t limit_ = 64;          // of blocks, before those are freed that no row needs
    std::vector<int> free_;
    std::unique_ptr<Scratch> scratch_;
    std::vector<float> logits_, shares_;
};

// What one row may emit, and where its best go.
struct Rule {
    const int64_t* banned = nullptr;
    int banned_count = 0;
    std::vector<int64_t> also_banned;
    int64_t otherwise = -1;  // what is left where everything is forbidden
    int64_t only = -1;       // nothing but this
    double ctc_weight = 0.0;
    int64_t end = 0;  // what says that an output is over
    int count = 0;    // so many of the best
    float* values = nullptr;
    int64_t* indices = nullptr;
};

struct Step {
    const int64_t* tokens = nullptr;
    float* all = nullptr;         // [rows, vocabulary] log-probabilities, or null
    float* outputs = nullptr;     // [rows, d_model] what the generator reads, or null
    const Rule* rules = nullptr;  // of each row, without `all`
};

// Sentences of so many ids each, one after the other, as a state; tokens out of the vocabulary are errors. Or sounds of
// so many frames each.
struct Sources {
    const int64_t* ids = nullptr;
    std::vector<const float*> frames;
    const int32_t* lengths = nullptr;
    int count = 0;
    bool read = false;  // off frames, too
};

// With up to so many threads: keys and values of the memory of some sentences, and one step of a state.
std::shared_ptr<const Memory> encode(const Model& model, const Sources& sources, int threads);
void decode(State& state, const Step& step, int threads);

// The same with as many of the threads as are of use. Without an encoder only the number of sources counts.
std::unique_ptr<State> run_start(const Model& model, const Sources& sources, int threads);
void run_step(State& state, const Step& step, int threads);

}  // namespace dragoman
