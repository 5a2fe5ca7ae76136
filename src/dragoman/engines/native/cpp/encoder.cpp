// The encoder, without padding: only the real tokens of the sentences, one after the other.
#include <algorithm>
#include <cmath>

#include "hearing.h"
#include "pass.h"

namespace dragoman {
namespace {

constexpr int ROWS_EACH = 24;  // with fewer, workers share the rows of a stage instead of taking some of their own
constexpr int CHUNK = 128;     // rows at once, so that they stay in the cache

// Sentences that are encoded, and what for.
struct Work {
    const Model& model;
    const Sources& sources;
    const float* positions;
    Memory& memory;
};

// What some workers encode with.
struct Buffers {
    Buffers(const Work& work, int rows, int reach, int threads) : scratch(work.model, rows, reach, threads) {
        for (int i = 0; i < threads && work.model.mels > 0; ++i) ears.push_back(std::make_unique<Ear>(work.model));
        if (work.sources.read) logits.resize(static_cast<size_t>(rows) * work.model.head.out);
    }

    Scratch scratch;
    std::vector<std::unique_ptr<Ear>> ears;  // of each thread
    std::vector<float> logits;               // of what is read off frames
};

// Some rows of sounds into x: a worker's own ones, as many of a sound at once as an ear takes.
template <class SentenceOf, class Position>
void hear(const Work& work, Ear& ear, Pass& pass, int start, SentenceOf sentence_of, Position position) {
    const Model& m = work.model;
    const Memory& memory = work.memory;
    for (int row = pass.begin(), end = pass.end(); row < end;) {
        const int sentence = sentence_of(row), place = start + row - memory.first[sentence];
        const int some = std::min({end - row, memory.tokens[sentence] - place, Ear::MOST});
        const float* frames = work.sources.frames[sentence];
        ear.hear(frames, work.sources.lengths[sentence], place, place + some, pass.x(row), pass.s.x_stride);
        for (const int last = row + some; row < last; ++row)
            pass.embed(m.source, m.source_positions, row, pass.x(row), position(row));
    }
}

// Probabilities of what each place says, from what the encoder gave, into the panels of each sentence's own.
template <class SentenceOf>
void read_off(const Work& work, const Operand& encoded, float* logits, Pass& pass, int start, SentenceOf sentence_of) {
    const Model& m = work.model;
    const size_t vocabulary = m.head.out, panel = m.kernels.panel;
    pass.multiply(encoded, {{m.head, {logits, vocabulary, Activation::none, false}}});
    for (int row = pass.begin(); row < pass.end(); ++row) {
        float* own = logits + row * vocabulary;
        m.kernels.exponentials(own, m.head.out, m.kernels.log_sum_exp(own, m.head.out) - std::log(LIFT));
        const int sentence = sentence_of(row);
        const Packed& heard = work.memory.heard[sentence];
        const size_t place = start + row - work.memory.first[sentence];
        for (size_t first = 0, i = 0; first < vocabulary; first += panel, ++i) {
            float* to = reinterpret_cast<float*>(heard.data + i * heard.panel_bytes) + place * panel;
            const size_t some = std::min(panel, vocabulary - first);
            std::fill(std::copy_n(own + first, some, to), to + panel, 0.0f);
        }
    }
}

// Sentences [from, to) through the stack and into every layer's memory.
void encode_some(const Work& work, Buffers& own, const Worker& worker, int from, int to) {
    const Model& m = work.model;
    Scratch& s = own.scratch;
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
    if (m.mels) hear(work, *own.ears[worker.thread], pass, start, sentence_of, position);
    for (int row = pass.begin(); row < pass.end() && !m.mels; ++row)
        pass.embed(m.source, m.source_positions, row,
                   m.source.row(work.sources.ids[start + row], m.d_model, pass.x(row)), position(row));
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
    if (work.sources.read) read_off(work, encoded, own.logits.data(), pass, start, sentence_of);
    for (size_t i = 0; i < m.decoder.layers.size(); ++i) {
        float* keys = memory.layers[i] + start * width;
        pass.multiply(encoded, {{m.decoder.layers[i].cross_key_value, {keys, width, Activation::none, false}}});
        if (m.source_positions.rotary_cross()) pass.rotate(nullptr, keys, width, position);
    }
}

// The same, a few sentences at a time.
void encode_range(const Work& work, Buffers& own, const Worker& worker, int from, int to) {
    const std::vector<int>& tokens = work.memory.tokens;
    while (from < to) {
        int last = from, rows = 0;
        while (last < to && (rows == 0 || rows + tokens[last] <= own.scratch.rows)) rows += tokens[last++];
        if (rows > 0) encode_some(work, own, worker, from, last);
        from = last;
    }
}

// Room for what is read off frames, as weights of a product without offsets.
void make_heard(const Model& m, Memory& memory) {
    const size_t outs = static_cast<size_t>(m.head.panels) * m.kernels.panel;
    float* nothing = memory.arena.take<float>(outs);
    std::fill(nothing, nothing + outs, 0.0f);
    for (const int places : memory.tokens) {
        Packed heard;
        heard.in = places;
        heard.out = m.head.out;
        heard.panels = m.head.panels;
        heard.panel_bytes = m.kernels.panel_bytes(Precision::float32, places);
        heard.data = memory.arena.take<unsigned char>(heard.panel_bytes * heard.panels);
        heard.bias = nothing;
        memory.heard.push_back(heard);
    }
}

std::shared_ptr<Memory> make_memory(const Model& m, const Sources& sources) {
    auto memory = std::make_shared<Memory>();
    for (int i = 0; i < sources.count; ++i) {
        memory->first.push_back(memory->total());
        memory->tokens.push_back(static_cast<int>(m.places(sources.lengths[i])));
    }
    if (sources.read) make_heard(m, *memory);
    for (size_t i = 0; i < m.decoder.layers.size(); ++i)
        memory->layers.push_back(memory->arena.take<float>(static_cast<size_t>(memory->total()) * m.key_values()));
    return memory;
}

}  // namespace

std::shared_ptr<const Memory> encode(const Model& m, const Sources& sources, int threads) {
    const auto memory = make_memory(m, sources);
    const int total = memory->total(), longest = memory->longest(), count = sources.count;
    if (total == 0) return memory;
    const Work work{m, sources, m.source_positions.rows(longest), *memory};
    const int rows = std::max(longest, std::min(total, CHUNK));
    if (threads == 1 || total < ROWS_EACH * threads || longest > total / threads) {
        Buffers all(work, rows, longest, threads);
        run_together(threads, [&](const Worker& worker) { encode_range(work, all, worker, 0, count); });
        return memory;
    }
    std::vector<std::unique_ptr<Buffers>> own;
    own.reserve(threads);
    for (int i = 0; i < threads; ++i) own.push_back(std::make_unique<Buffers>(work, rows, longest, 1));
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
