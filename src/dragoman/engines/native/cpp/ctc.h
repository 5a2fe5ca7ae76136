// Connectionist temporal classification (Graves et al. 2006): how likely a sound is to begin with the tokens of a row,
// and with each token after them. `Prefixes` of `search/ctc.py` is the oracle.
//
// Of an encoded sound each place has a probability for every token and for the blank. They lie as weights of a product
// [places, vocabulary] in float32, times LIFT, so that none that counts is too small for that.
#pragma once

#include <cstdint>
#include <vector>

#include "model.h"

namespace dragoman {

constexpr float LIFT = 0x1p40f;

inline const float* chance_of(const Packed& heard, size_t panel, int64_t token) {
    const size_t place = token;
    return reinterpret_cast<const float*>(heard.data + place / panel * heard.panel_bytes) + place % panel;
}

// Tokens that a sound may begin with. Products of many probabilities are as small as only a long double can be.
class Prefix {
  public:
    explicit Prefix(int places) : in_blank_(places + 1), in_token_(places + 1) {}

    // No tokens.
    void begin(const Model& model, const Packed& heard);
    // Those of another one, and one more.
    void extend(const Model& model, const Packed& heard, const Prefix& other, int64_t token);
    // By what the probabilities of each place are to be multiplied, times LIFT: their sum is that of each next token.
    void weigh(float* shares) const;
    // From the logarithms of the decoder's probabilities and `total`, that of their sum, and those sums, a row of the
    // mixture: log-probabilities of the next token.
    void mix(const Model& model, const Packed& heard, const float* sums, double weight, int64_t end, float total,
             float* row) const;

  private:
    std::vector<long double> in_blank_, in_token_;  // after so many places, the last one a blank, or none
    long double total_ = 1.0L;
    int64_t last_ = 0;
};

}  // namespace dragoman
