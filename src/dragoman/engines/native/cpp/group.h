// Sentences that are searched for together: at each step all their rows go through the model as one.
#pragma once

#include <memory>
#include <vector>

#include "sentence.h"

namespace dragoman {

// A sentence that left: its outputs, best first, or a code of api.h that says why there are none.
struct Finished {
    int64_t number = 0;
    int32_t code = 0;
    std::vector<Hypothesis> outputs;
};

class Group {
  public:
    explicit Group(const Model& model) : model_(model) {}

    void admit(std::unique_ptr<Sentence> sentence);
    // Drops a sentence, if it is here.
    bool cancel(int64_t number);
    // The sentence of that number, or null.
    const Sentence* find(int64_t number) const;
    bool goes_on() const { return !live_.empty() || !waiting_.empty(); }
    int sentences() const { return static_cast<int>(live_.size() + waiting_.size()); }
    int beams() const;  // rows, when all beams are as wide as they are to be

    // One step of all sentences, those admitted since the last one too; whoever is done leaves. If memory is short,
    // all leave without outputs.
    void step(int threads, std::vector<Finished>& finished);

  private:
    void join(int threads);
    void ask();
    void rank(std::vector<Finished>& finished);
    void keep(const std::vector<int64_t>& rows);

    const Model& model_;
    std::unique_ptr<State> state_;
    std::vector<std::unique_ptr<Sentence>> live_, waiting_;
    // Of the rows of a step.
    std::vector<int64_t> newest_, tokens_, parents_;
    std::vector<Rule> rules_;
    std::vector<float> values_;
};

}  // namespace dragoman
