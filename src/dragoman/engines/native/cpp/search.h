// A running search: sentences come between steps and leave when they are done, each with its own options. What one
// gets depends neither on the others nor on when it came.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "group.h"

namespace dragoman {

class Search {
  public:
    Search(const Model& model, int threads) : model_(model), threads_(threads) {}

    std::atomic_flag used = ATOMIC_FLAG_INIT;

    // Returns the number of the first; the others follow.
    int64_t admit(const DragomanSentence* sentences, int count);
    // Up to so many steps; none after one that finishes a sentence, if that is wanted.
    void advance(int steps, bool until_finished);
    int live() const;
    // In the order of their numbers.
    std::vector<Finished> take();
    bool cancel(int64_t number);
    // What a sentence has so far; nothing if it is not there any more.
    std::vector<Finished> peek(int64_t number) const;

  private:
    struct Part {
        Group group;
        std::vector<Finished> finished;
    };

    void add(std::vector<std::unique_ptr<Sentence>> sentences, int parts);
    Group& roomiest(int beam_size);
    Group& more();

    const Model& model_;
    const int threads_;
    int64_t next_ = 0;
    std::vector<std::unique_ptr<Part>> parts_;
    std::vector<Finished> finished_;
};

}  // namespace dragoman
