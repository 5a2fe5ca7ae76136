// The search for the outputs of one sentence: greedy, or with a beam. The searches in Python, in `decoding`, are the
// oracle: both do the same in the same order and find the same, bit by bit.
#pragma once

#include <algorithm>
#include <vector>

#include "state.h"

namespace dragoman {

// A finished output: its tokens, the last of which ends it, and the log-probability of each.
struct Hypothesis {
    std::vector<int64_t> tokens;
    std::vector<float> values;
    double score = 0.0;  // what outputs are ranked by
};

// What a sentence asks for, kept after the caller's own is gone.
struct Options {
    Options(const Model& model, const DragomanSentence& given);

    std::vector<float> frames;
    std::vector<int64_t> source, prefix, never_or_end;  // the end, last, counts only before the minimum length
    int64_t begin, end;
    double alpha, ctc_weight;
    int length;  // ids of the source, or frames
    int beam_size, n_best, min_length, max_length, no_repeat_ngram, formula, end_at_limit;
    bool early;

    // What hypotheses are ranked by.
    double score(double log_probability, size_t length) const;
};

// Throws if a sentence asks for what cannot be.
void check(const Model& model, const DragomanSentence& given);

// The finished hypotheses of a sentence.
class Pool {
  public:
    void add(Hypothesis one, const Options& options);
    std::vector<Hypothesis> best(int count);
    const std::vector<Hypothesis>& all() const { return finished_; }
    // Whether to stop, given the best live log-probability and its tokens so far.
    bool is_full(float best_live, int length, const Options& options) const;

  private:
    std::vector<Hypothesis> finished_;
    std::vector<double> scores_;  // best first
};

// A sentence that is searched for, some rows at each step: one at first, then as many as the beam is wide.
class Sentence {
  public:
    Sentence(const Model& model, const DragomanSentence& given, int64_t number)
        : number(number), options(model, given), model_(model), tokens_{options.begin}, totals_{0.0f} {}

    const int64_t number;
    const Options options;

    int rows() const { return static_cast<int>(tokens_.size()); }
    // Of each row's continuations so many are looked at.
    int each() const { return options.beam_size == 1 ? 1 : std::min(2 * options.beam_size, model_.generator.out); }
    // Fills in the newest token of each row and what may follow it; the best are to go to `values` and `tokens`.
    void ask(int64_t* newest, Rule* rules, float* values, int64_t* tokens) const;
    // Ranks what was asked for. Adds the rows that go on, as indices from `first` on; none if the sentence is done.
    void advance(const float* values, const int64_t* tokens, int first, std::vector<int64_t>& parents);
    std::vector<Hypothesis> found() { return pool_.best(options.n_best); }
    // What its outputs will come from: the hypotheses of all live rows that are possible, best first, and all finished
    // ones, which end with the token that ends them.
    std::vector<Hypothesis> so_far() const;

  private:
    // A live hypothesis: its log-probability, the row it continues, its newest token and that token's part of it.
    struct Line {
        float total;
        int parent;
        int64_t token;
        float value;
    };

    void advance_greedily(float value, int64_t token, int first, std::vector<int64_t>& parents);
    std::vector<Line> continued(const float* values, const int64_t* tokens);
    size_t steps() const { return lines_.size() / static_cast<size_t>(options.beam_size); }
    Hypothesis trace(Line line, size_t steps) const;
    void close(Rule& rule, int row) const;
    void check_length() const;
    // Whether the next token is forced, as the end is at the limit, and costs nothing.
    bool is_free() const {
        return options.end_at_limit != DRAGOMAN_CHARGED &&
               (length_ >= options.max_length || static_cast<size_t>(length_) < options.prefix.size());
    }

    const Model& model_;
    int length_ = 0;
    std::vector<int64_t> tokens_;  // the newest of each row
    std::vector<float> totals_;    // the log-probability of each row
    std::vector<Line> lines_;      // of each step `beam_size` of them
    Pool pool_;
};

}  // namespace dragoman
