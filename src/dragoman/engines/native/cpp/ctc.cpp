#include "ctc.h"

#include <algorithm>
#include <cmath>

namespace dragoman {
namespace {

constexpr float NEVER = -__builtin_inff();
constexpr float UNLIKELY = -100.0f;     // of a token in a mixture at least
constexpr long double DOWN = 0x1p-40L;  // what LIFT raised

}  // namespace

void Prefix::begin(const Model& model, const Packed& heard) {
    const size_t panel = model.kernels.panel;
    const float* blank = chance_of(heard, panel, model.blank);
    in_blank_[0] = 1.0L;
    for (int t = 0; t < heard.in; ++t) in_blank_[t + 1] = in_blank_[t] * blank[t * panel] * DOWN;
    last_ = model.blank;
}

void Prefix::extend(const Model& model, const Packed& heard, const Prefix& other, int64_t token) {
    const size_t panel = model.kernels.panel;
    const float *blank = chance_of(heard, panel, model.blank), *own = chance_of(heard, panel, token);
    const bool again = token == other.last_;  // then a blank must stand between them
    long double in_blank = 0.0L, in_token = 0.0L, total = 0.0L;
    for (int t = 0; t < heard.in; ++t) {
        const long double before = again ? other.in_blank_[t] : other.in_blank_[t] + other.in_token_[t];
        const long double here = own[t * panel] * DOWN;
        total += before * here;
        in_blank = in_blank_[t + 1] = (in_blank + in_token) * (blank[t * panel] * DOWN);
        in_token = in_token_[t + 1] = (in_token + before) * here;
    }
    total_ = total;
    last_ = token;
}

void Prefix::weigh(float* shares) const {
    const long double factor = total_ > 0.0L ? LIFT / total_ : 0.0L;
    for (size_t t = 0; t + 1 < in_blank_.size(); ++t)
        shares[t] = static_cast<float>((in_blank_[t] + in_token_[t]) * factor);
}

void Prefix::mix(const Model& model, const Packed& heard, const float* sums, double weight, int64_t end, float total,
                 float* row) const {
    const size_t panel = model.kernels.panel;
    const int vocabulary = heard.out;
    const bool alone = weight == 1.0;
    const float share = static_cast<float>(weight), least = alone ? NEVER : UNLIKELY;
    if (!(total_ > 0.0L)) {  // they cannot be said in so few places: the decoder goes on alone, or it ends
        if (!alone) return model.kernels.subtract(row, vocabulary, total);
        std::fill(row, row + vocabulary, NEVER);
        row[end] = 0.0f;
        return;
    }
    if (alone) std::fill(row, row + vocabulary, 0.0f), total = 0.0f;
    const float last = row[last_], ended = row[end];
    const float twice = 2.0f * std::log(LIFT);  // of the shares and of what they are multiplied by
    model.kernels.mix_logarithms(row, vocabulary, total, share, sums, -twice, least);
    const auto mixed = [&](float own, long double chance) {
        return (1.0f - share) * (own - total) + share * std::max(static_cast<float>(std::log(chance / total_)), least);
    };
    const float* own = chance_of(heard, panel, last_);
    long double again = 0.0L;
    for (int t = 0; t < heard.in; ++t) again += in_blank_[t] * (own[t * panel] * DOWN);
    row[last_] = mixed(last, again);
    row[model.blank] = NEVER;
    row[end] = mixed(ended, in_blank_.back() + in_token_.back());
}

}  // namespace dragoman
