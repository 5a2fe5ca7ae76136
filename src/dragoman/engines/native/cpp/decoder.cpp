// One step of the decoder: a token of each row in, log-probabilities of the next one out.
#include <algorithm>

#include "pass.h"

namespace dragoman {

namespace {

constexpr float LEAST = -1.0e9f;  // stands for what is impossible where it is forced, so that it can be ranked
constexpr int ROWS_EACH = 24;  // with fewer, members share the rows of a stage instead of taking some of their own

void decode_layers(State& state, const Step& step, Pass& pass) {
    const Model& m = state.model;
    const size_t width = m.key_values();
    for (int row = pass.begin(); row < pass.end(); ++row)
        pass.embed(m.target, m.target_positions, row, step.tokens[row], step.position);
    pass.wait();
    const auto position = [&](int) { return step.position; };
    for (size_t i = 0; i < m.decoder.layers.size(); ++i) {
        const Layer& layer = m.decoder.layers[i];
        const Block& newest = state.blocks.back();
        const Output key_value{newest.data + i * newest.rows * width, width, Activation::none, false};
        const Operand a = pass.enter(layer.attention_norm);
        pass.multiply(a, {{layer.query, pass.to_query()}, {layer.key_value, key_value}});
        if (m.target_positions.turns()) pass.turn(pass.s.query, key_value.data, width, position);
        pass.attend(
            [&](int row, const float** where) {
                const int* past = state.past[row].data();
                const int count = state.length + 1;
                for (int t = 0; t < count; ++t)
                    where[t] = state.blocks[t].data + (i * state.blocks[t].rows + past[t]) * width;
                return count;
            },
            [](int row) { return row + 1; });
        pass.attention_output(layer.output);
        if (m.cross) {
            const Operand b = pass.enter(layer.cross_norm);
            pass.multiply(b, {{layer.cross_query, pass.to_query()}});
            if (m.target_positions.turns_cross()) pass.turn(pass.s.query, nullptr, width, position);
            pass.attend(
                [&](int row, const float** where) {
                    const int sentence = state.sentence[row], count = state.tokens[sentence];
                    const float* place = state.memory[i] + state.first[sentence] * width;
                    for (int t = 0; t < count; ++t) where[t] = place + t * width;
                    return count;
                },
                [&](int row) {
                    int last = row + 1;
                    while (last < state.rows && state.sentence[last] == state.sentence[row]) ++last;
                    return last;
                });
            pass.attention_output(layer.cross_output);
        }
        pass.feed_forward(layer);
    }
}

// The best log-probabilities of a row that is held to a rule of its own.
void top_by_rule(const Model& m, const Step& step, const Rule& rule, float* row, float* values, int64_t* indices) {
    const int vocabulary = m.generator.out;
    // At the model's own value, even where it was forbidden; what the model finds impossible stays finite.
    const auto leave = [&](int64_t token, float value) {
        std::fill(row, row + vocabulary, -__builtin_inff());
        row[token] = value < LEAST ? LEAST : value;
        m.kernels.top(row, vocabulary, step.count, values, indices);
    };
    if (rule.only >= 0) return leave(rule.only, row[rule.only]);
    const float otherwise = rule.otherwise < 0 ? 0.0f : row[rule.otherwise];
    for (int i = 0; i < step.banned_count; ++i) row[step.banned[i]] = -__builtin_inff();
    for (int64_t token : rule.banned) row[token] = -__builtin_inff();
    m.kernels.top(row, vocabulary, step.count, values, indices);
    if (rule.otherwise >= 0 && values[0] == -__builtin_inff()) leave(rule.otherwise, otherwise);
}

void finish_row(const Model& m, const Step& step, int row, float* logits) {
    const int vocabulary = m.generator.out;
    const float total = m.kernels.log_sum_exp(logits, vocabulary);
    if (step.all) return m.kernels.subtract(logits, vocabulary, total);
    float* values = step.values + static_cast<size_t>(row) * step.count;
    int64_t* indices = step.indices + static_cast<size_t>(row) * step.count;
    if (step.rules) {
        m.kernels.subtract(logits, vocabulary, total);
        return top_by_rule(m, step, step.rules[row], logits, values, indices);
    }
    for (int i = 0; i < step.banned_count; ++i) logits[step.banned[i]] = -__builtin_inff();
    m.kernels.top(logits, vocabulary, step.count, values, indices);
    for (int i = 0; i < step.count; ++i) values[i] -= total;
}

}  // namespace

void decode(State& state, const Step& step, int threads) {
    const Model& m = state.model;
    state.grow();
    Scratch& s = state.scratch(threads);
    const size_t vocabulary = m.generator.out;
    float* logits = step.all ? step.all : state.logits(vocabulary * state.rows);
    const bool apart = state.rows >= ROWS_EACH * threads;  // each member takes rows of its own: nobody waits
    Barrier barrier;
    barrier.set(threads);
    const auto job = [&](Member member, int row_0, int row_1) {
        Pass pass(m, s, member, row_0, row_1);
        decode_layers(state, step, pass);
        const Operand a = pass.leave(m.decoder, step.outputs);
        pass.multiply(a, {{m.generator, {logits, vocabulary, Activation::none, false}}});
        for (int row = pass.begin(); row < pass.end(); ++row) finish_row(m, step, row, logits + row * vocabulary);
    };
    const auto share = [&](int rank) {
        const Member member{rank, threads, &barrier, rank};
        if (apart) job({0, 1, nullptr, rank}, member.begin(state.rows), member.end(state.rows));
        else job(member, 0, state.rows);
    };
    if (threads == 1 || !run_together(threads, share)) job({}, 0, state.rows);
    ++state.length;
}

}  // namespace dragoman
