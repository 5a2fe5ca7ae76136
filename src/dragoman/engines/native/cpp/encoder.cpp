// The encoder, without padding: only the real tokens of the sentences, one after the other.
#include <algorithm>

#include "pass.h"

namespace dragoman {

namespace {

constexpr int ROWS_EACH = 24;  // with fewer, members share the rows of a stage instead of taking some of their own
constexpr int CHUNK = 128;     // rows at once, so that they stay in the cache

struct Source {
    std::vector<int64_t> ids;
    std::vector<int> places;  // position of each token in its sentence
};

// Sentences [from, to) through the stack and into every layer's memory.
void encode_some(State& state, const Source& source, const float* positions, Scratch& s, Member member, int from,
                 int to) {
    const Model& m = state.model;
    const int start = state.first[from], rows = state.first[to - 1] + state.tokens[to - 1] - start;
    const size_t width = m.key_values();
    Pass pass(m, s, member, 0, rows);
    const auto position = [&](int row) {
        return positions + static_cast<size_t>(source.places[start + row]) * m.source_positions.width;
    };
    for (int row = pass.begin(); row < pass.end(); ++row)
        pass.embed(m.source, m.source_positions, row, source.ids[start + row], position(row));
    pass.wait();
    const auto sentence_of = [&](int row) {
        return static_cast<int>(std::upper_bound(state.first.begin() + from, state.first.begin() + to, start + row) -
                                state.first.begin()) - 1;
    };
    for (const Layer& layer : m.encoder.layers) {
        const Operand a = pass.enter(layer.attention_norm);
        pass.multiply(a, {{layer.query, pass.to_query()}, {layer.key_value, {s.key_value, width, Activation::none, false}}});
        if (m.source_positions.turns()) pass.turn(s.query, s.key_value, width, position);
        pass.attend(
            [&](int row, const float** where) {
                const int sentence = sentence_of(row), count = state.tokens[sentence];
                const float* place = s.key_value + (state.first[sentence] - start) * width;
                for (int i = 0; i < count; ++i) where[i] = place + i * width;
                return count;
            },
            [&](int row) {
                const int sentence = sentence_of(row);
                return state.first[sentence] + state.tokens[sentence] - start;
            });
        pass.attention_output(layer.output);
        pass.feed_forward(layer);
    }
    const Operand memory = pass.leave(m.encoder);
    for (size_t i = 0; i < m.decoder.layers.size(); ++i) {
        float* keys = state.memory[i] + start * width;
        pass.multiply(memory, {{m.decoder.layers[i].cross_key_value, {keys, width, Activation::none, false}}});
        if (m.source_positions.turns_cross()) pass.turn(nullptr, keys, width, position);
    }
}

// The same, a few sentences at a time.
void encode_range(State& state, const Source& source, const float* positions, Scratch& s, Member member, int from,
                  int to) {
    while (from < to) {
        int last = from, rows = 0;
        while (last < to && (rows == 0 || rows + state.tokens[last] <= s.rows)) rows += state.tokens[last++];
        if (rows > 0) encode_some(state, source, positions, s, member, from, last);
        from = last;
    }
}

}  // namespace

void encode(State& state, const int64_t* ids, int width, const float* positions, int threads) {
    const Model& m = state.model;
    Source source;
    int longest = 0;
    for (int sentence = 0; sentence < state.rows; ++sentence) {
        state.first.push_back(static_cast<int>(source.ids.size()));
        for (int i = 0; i < width; ++i) {
            const int64_t id = ids[static_cast<size_t>(sentence) * width + i];
            if (id == m.pad) continue;
            source.ids.push_back(id);
            source.places.push_back(i);
        }
        state.tokens.push_back(static_cast<int>(source.ids.size()) - state.first.back());
        longest = std::max(longest, state.tokens.back());
    }
    state.make_memory();
    const int total = static_cast<int>(source.ids.size());
    if (total == 0) return;
    const int rows = std::max(longest, std::min(total, CHUNK));
    if (threads > 1 && total >= ROWS_EACH * threads && longest <= total / threads) {
        std::vector<std::unique_ptr<Scratch>> own;
        for (int i = 0; i < threads; ++i) own.push_back(std::make_unique<Scratch>(m, rows, longest, 1));
        const auto border = [&](int rank) {  // sentences that begin in a member's share of the tokens
            const int token = static_cast<int>(static_cast<int64_t>(total) * rank / threads);
            return static_cast<int>(std::lower_bound(state.first.begin(), state.first.end(), token) - state.first.begin());
        };
        const auto job = [&](int rank) {
            const int last = rank + 1 == threads ? state.rows : border(rank + 1);
            encode_range(state, source, positions, *own[rank], Member{}, rank ? border(rank) : 0, last);
        };
        if (run_together(threads, job)) return;
        for (int rank = 0; rank < threads; ++rank) job(rank);
        return;
    }
    Scratch all(m, rows, longest, threads);
    Barrier barrier;
    barrier.set(threads);
    const auto job = [&](int rank) {
        encode_range(state, source, positions, all, {rank, threads, &barrier, rank}, 0, state.rows);
    };
    if (threads > 1 && run_together(threads, job)) return;
    encode_range(state, source, positions, all, {}, 0, state.rows);
}

}  // namespace dragoman
