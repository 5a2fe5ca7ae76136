// Greedy and beam search over a model. The searches in Python, in `decoding`, are the oracle: both do the same in the
// same order and find the same, bit by bit.
#pragma once

#include <vector>

#include "model.h"

namespace dragoman {

// A finished output: its tokens, the last of which ends it, and the log-probability of each.
struct Hypothesis {
    std::vector<int64_t> tokens;
    std::vector<float> values;
    double score = 0.0;  // what outputs are ranked by
};

using Found = std::vector<std::vector<Hypothesis>>;  // of each sentence, best first

// Thrown where a model gives what is no number.
struct NotANumber {};

// Outputs for sentences ids [batch, width], padded. A sentence for which everything is impossible has none.
Found search(const Model& model, const int64_t* ids, int batch, int width, const DragomanSearch& options, int threads);

}  // namespace dragoman
