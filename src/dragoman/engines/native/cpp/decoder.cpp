// One step of the decoder: a token of each row in, log-probabilities of the next one out.
#include <algorithm>
#include <utility>

#include "pass.h"

namespace dragoman {
namespace {

constexpr float LEAST = -1.0e9f;  // stands for what is impossible where it is forced, so that it can be ranked
constexpr int ROWS_EACH = 24;     // with fewer, workers share the rows of a stage instead of taking some of their own

// What is added to a row's newest token, or what its angles are; made before the state grows by it.
class Position {
  public:
    explicit Position(const State& state)
        : state_(state),
          rows_(state.model.target_positions.rows(state.longest() + 1)),
          width_(state.model.target_positions.width) {}

    const float* operator()(int row) const {
        return rows_ + static_cast<size_t>(state_.rows[row].length() - 1) * width_;
    }

  private:
    const State& state_;
    const float* rows_;
    const size_t width_;
};

void decode_layers(State& state, const Step& step, const Position& position, const Block& newest, Pass& pass) {
    const Model& m = state.model;
    const size_t width = m.key_values();
    for (int row = pass.begin(); row < pass.end(); ++row)
        pass.embed(m.target, m.target_positions, row, m.target.row(step.tokens[row], m.d_model, pass.x(row)),
                   position(row));
    pass.wait();
    for (size_t i = 0; i < m.decoder.layers.size(); ++i) {
        const Layer& layer = m.decoder.layers[i];
        const Output key_value{newest.data.get() + i * newest.rows * width, width, Activation::none, false};
        const Operand a = pass.enter(layer.attention_norm);
        pass.multiply(a, {{layer.query, pass.to_query()}, {layer.key_value, key_value}});
        if (m.target_positions.rotary()) pass.rotate(pass.s.query, key_value.data, width, position);
        pass.attend(
            [&](int row, const float** where) {
                for (const Place& place : state.rows[row].past) {
                    const Block& block = state.blocks[place.block];
                    *where++ = block.data.get() + (i * block.rows + place.row) * width;
                }
                return state.rows[row].length();
            },
            [](int row) { return row + 1; }, m.target_positions.slopes(),
            [&](int row) { return state.rows[row].length() - 1; });
        pass.attention_output(layer.output);
        if (m.cross) {
            const Operand b = pass.enter(layer.cross_norm);
            pass.multiply(b, {{layer.cross_query, pass.to_query()}});
            if (m.target_positions.rotary_cross()) pass.rotate(pass.s.query, nullptr, width, position);
            pass.attend(
                [&](int row, const float** where) {
                    const Memory& memory = *state.rows[row].memory;
                    const int sentence = state.rows[row].sentence, count = memory.tokens[sentence];
                    const float* place = memory.layers[i] + memory.first[sentence] * width;
                    for (int t = 0; t < count; ++t) where[t] = place + t * width;
                    return count;
                },
                [&](int row) {
                    int last = row + 1;
                    while (last < state.count() && state.rows[last].looks_where(state.rows[row])) ++last;
                    return last;
                });
            pass.attention_output(layer.cross_output);
        }
        pass.feed_forward(layer);
    }
}

// The best log-probabilities of a row, which is held to a rule: logits less `total`.
void top_by_rule(const Model& m, const Rule& rule, float* logits, float total) {
    const int vocabulary = m.generator.out;
    const float never = -__builtin_inff();
    // At the model's own value, even where it was forbidden; what the model finds impossible stays finite.
    const auto leave = [&](int64_t token, float logit) {
        std::fill(logits, logits + vocabulary, never);
        logits[token] = logit;
        m.kernels.top(logits, vocabulary, total, rule.count, rule.values, rule.indices);
        if (rule.values[0] < LEAST) rule.values[0] = LEAST, rule.indices[0] = token;
    };
    if (rule.only >= 0) return leave(rule.only, logits[rule.only]);
    const float otherwise = rule.otherwise < 0 ? 0.0f : logits[rule.otherwise];
    for (int i = 0; i < rule.banned_count; ++i) logits[rule.banned[i]] = never;
    for (int64_t token : rule.also_banned) logits[token] = never;
    m.kernels.top(logits, vocabulary, total, rule.count, rule.values, rule.indices);
    if (rule.otherwise >= 0 && rule.values[0] == never) leave(rule.otherwise, otherwise);
}

// What is read off frames, of the rows in which it counts.
class Reading {
  public:
    Reading(State& state, const Step& step) : state_(state), step_(step), m_(state.model) {
        bool any = false;
        for (int row = 0; row < state.count(); ++row) {
            said_.emplace_back();
            if (!step.rules || !(step.rules[row].ctc_weight > 0.0)) continue;
            said_[row] = std::make_shared<Prefix>(heard(row).in);
            longest_ = std::max<size_t>(longest_, heard(row).in);
            any = true;
        }
        each_ = longest_ + m_.generator.out;
        if (any) shares_ = state.shares(each_ * said_.size());
    }

    // Rows [from, to), before any of them is mixed: those of a sound stand together.
    void read(int from, int to) {
        for (int row = from; row < to; ++row) {
            if (!counts(row)) continue;
            const Prefix* before = state_.rows[row].said.get();
            if (before) said_[row]->extend(m_, heard(row), *before, step_.tokens[row]);
            else said_[row]->begin(m_, heard(row));
            said_[row]->weigh(shares(row));
        }
        for (int row = from, last; row < to; row = last) {
            last = row + 1;
            if (!counts(row)) continue;
            while (last < to && counts(last) && state_.rows[last].looks_where(state_.rows[row])) ++last;
            const Operand a{reinterpret_cast<const unsigned char*>(shares_), sizeof(float) * each_, nullptr, nullptr};
            m_.kernels.linear(heard(row), a, row, last, 0, heard(row).panels,
                              {shares_ + longest_, each_, Activation::none, false});
        }
    }

    // The best of a row, or all, from its logits.
    void finish(int row, float* logits) const {
        float total = m_.kernels.log_sum_exp(logits, m_.generator.out);
        if (step_.all) return m_.kernels.subtract(logits, m_.generator.out, total);
        const Rule& rule = step_.rules[row];
        if (counts(row)) {
            said_[row]->mix(m_, heard(row), shares(row) + longest_, rule.ctc_weight, rule.end, total, logits);
            total = 0.0f;
        }
        top_by_rule(m_, rule, logits, total);
    }

    // What was read is the rows' own from now on.
    void keep() {
        for (size_t row = 0; row < said_.size(); ++row)
            if (said_[row]) state_.rows[row].said = std::move(said_[row]);
    }

  private:
    bool counts(int row) const { return said_[row] != nullptr; }
    const Packed& heard(int row) const { return state_.rows[row].memory->heard[state_.rows[row].sentence]; }
    float* shares(int row) const { return shares_ + row * each_; }

    State& state_;
    const Step& step_;
    const Model& m_;
    std::vector<std::shared_ptr<Prefix>> said_;
    size_t longest_ = 0, each_ = 0;  // places, and numbers of a row: a share of each, then what they sum to
    float* shares_ = nullptr;
};

}  // namespace

void decode(State& state, const Step& step, int threads) {
    const Model& m = state.model;
    const int rows = state.count();
    const size_t vocabulary = m.generator.out;
    float* logits = step.all ? step.all : state.logits(vocabulary * rows);
    Scratch& s = state.scratch(threads);
    const Position position(state);
    const Block& newest = state.grow();
    Reading reading(state, step);
    const auto pass_through = [&](const Worker& worker, int row_0, int row_1) {
        Pass pass(m, s, worker, row_0, row_1);
        decode_layers(state, step, position, newest, pass);
        const Operand a = pass.leave(m.decoder, step.outputs);
        pass.multiply(a, {{m.generator, {logits, vocabulary, Activation::none, false}}});
        reading.read(pass.begin(), pass.end());
        for (int row = pass.begin(); row < pass.end(); ++row) reading.finish(row, logits + row * vocabulary);
    };
    run_together(threads, [&](const Worker& worker) {
        // With many rows each worker takes some of its own: nobody waits.
        if (rows < ROWS_EACH * worker.size) return pass_through(worker, 0, rows);
        pass_through({0, 1, nullptr, worker.thread}, worker.begin(rows), worker.end(rows));
    });
    reading.keep();
}

}  // namespace dragoman
