// The encoder, without padding: only the real tokens of the sentences, one after the other.
#include <algorithm>

#include "pass.h"

namespace dragoman {

namespace {

constexpr int ROWS_EACH = 24;  // with fewer, workers share the rows of a stage instead of taking some of their own
constexpr int CHUNK = 128;     // rows at once, so that they stay in the cache

// Sentences that are encoded, and what for.
struct Work {
    const Model& model;
    const int64_t* ids;
    const float* positions;
    Memory& memory;
};

// Sentences [from, to) through the stack and into every layer's memory.
void encode_some(const Work& work, Scratch& s, const Worker& worker, int from, int to) {
    const Model& m = work.model;
    const Memory& memory = work.memory;
    const int start = memory.first[from], rows = memory.first[to - 1] + memory.tokens[to - 1] - start;
    const size_t width = m.key_values();
    Pass pass(m, s, worker, 0, rows);
    const auto sentence_of = [&](int row) {
        return static_cast<int>(std::upper_bound(memory.first.begin() + from, memory.first.begin() + to, start + row) -
                                memory.first.begin()) -
               1;
    };
    const auto position = [&](int row) {
        const int place = start + row - memory.first[sentence_of(row)];
        return work.positions + static_cast<size_t>(place) * m.source_positions.width;
    };
    for (int row = pass.begin(); row < pass.end(); ++row)
        pass.embed(m.source, m.source_positions, row, work.ids[start + row], position(row));
    pass.wait();
    for (const Layer& layer : m.encoder.layers) {
        const Operand a = pass.enter(layer.attention_norm);
        pass.multiply(
            a, {{layer.query, pass.to_query()}, {layer.key_value, {s.key_value, width, Activation::none, false}}});
        if (m.source_positions.rotary()) pass.rotate(s.query, s.key_value, width, position);
        pass.attend(
            [&](int row, const float** where) {
                const int sentence = sentence_of(row), count = memory.tokens[sentence];
                const float* place = s.key_value + (memory.first[sentence] - start) * width;
                for (int i = 0; i < count; ++i) where[i] = place + i * width;
                return count;
            },
            [&](int row) {
                const int sentence = sentence_of(row);
                return memory.first[sentence] + memory.tokens[sentence] - start;
            },
            m.source_positions.slopes(), [&](int row) { return start + row - memory.first[sentence_of(row)]; });
        pass.attention_output(layer.output);
        pass.feed_forward(layer);
    }
    const Operand encoded = pass.leave(m.encoder);
    for (size_t i = 0; i < m.decoder.layers.size(); ++i) {
        float* keys = memory.layers[i] + start * width;
        pass.multiply(encoded, {{m.decoder.layers[i].cross_key_value, {keys, width, Activation::none, false}}});
        if (m.source_positions.rotary_cross()) pass.rotate(nullptr, keys, width, position);
    }
}

// The same, a few sentences at a time.
void encode_range(const Work& work, Scratch& s, const Worker& worker, int from, int to) {
    const std::vector<int>& tokens = work.memory.tokens;
    while (from < to) {
        int last = from, rows = 0;
        while (last < to && (rows == 0 || rows + tokens[last] <= s.rows)) rows += tokens[last++];
        if (rows > 0) encode_some(work, s, worker, from, last);
        from = last;
    }
}

std::shared_ptr<Memory> make_memory(const Model& m, const Sources& sources) {
    auto memory = std::make_shared<Memory>();
    for (int i = 0; i < sources.count; ++i) {
        memory->first.push_back(memory->total());
        memory->tokens.push_back(sources.lengths[i]);
    }
    for (size_t i = 0; i < m.decoder.layers.size(); ++i)
        memory->layers.push_back(memory->arena.take<float>(static_cast<size_t>(memory->total()) * m.key_values()));
    return memory;
}

}  // namespace

std::shared_ptr<const Memory> encode(const Model& m, const Sources& sources, int threads) {
    const auto memory = make_memory(m, sources);
    const int total = memory->total(), longest = memory->longest(), count = sources.count;
    if (total == 0) return memory;
    const Work work{m, sources.ids, m.source_positions.rows(longest), *memory};
    const int rows = std::max(longest, std::min(total, CHUNK));
    if (threads == 1 || total < ROWS_EACH * threads || longest > total / threads) {
        Scratch all(m, rows, longest, threads);
        run_together(threads, [&](const Worker& worker) { encode_range(work, all, worker, 0, count); });
        return memory;
    }
    std::vector<std::unique_ptr<Scratch>> own;
    own.reserve(threads);
    for (int i = 0; i < threads; ++i) own.push_back(std::make_unique<Scratch>(m, rows, longest, 1));
    run_together(threads, [&](const Worker& worker) {
        const auto border = [&](int rank) {  // sentences that begin in a worker's share of the tokens
            if (rank == worker.size) return count;
            const int token = static_cast<int>(static_cast<int64_t>(total) * rank / worker.size);
            const auto place = std::lower_bound(memory->first.begin(), memory->first.end(), token);
            return rank ? static_cast<int>(place - memory->first.begin()) : 0;
        };
        encode_range(work, *own[worker.rank], {}, border(worker.rank), border(worker.rank + 1));
    });
    return memory;
}

}  // namespace dragoman
