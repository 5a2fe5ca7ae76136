#include "model.h"

#include <algorithm>
#include <cstring>

#include "processor.h"

namespace dragoman {

namespace {

constexpr size_t WEIGHTS_CHUNK = size_t{1} << 25;

}  // namespace

Model::Model(const DragomanModel& spec)
    : kernels(*kernels_at(spec.kernels)),
      precision(static_cast<Precision>(spec.precision)),
      d_model(spec.d_model),
      d_ff(spec.d_ff),
      heads{spec.heads, spec.d_k, spec.d_v},
      pre_norm(spec.pre_norm != 0),
      cross(spec.cross != 0),
      activation(static_cast<Activation>(spec.activation)),
      pad(spec.pad),
      source_positions(static_cast<Layout>(spec.source.layout), spec.d_model, spec.d_k),
      target_positions(static_cast<Layout>(spec.target.layout), spec.d_model, spec.d_k),
      nothing(spec.d_model, 0.0f),
      arena_(WEIGHTS_CHUNK) {
    source = {spec.source.rows, spec.source.count, spec.source.scale};
    target = {spec.target.rows, spec.target.count, spec.target.scale};
    const DragomanMatrix* matrices = spec.matrices;
    const DragomanNorm* norms = spec.norms;
    encoder = stack(spec.encoder_layers, false, matrices, norms);
    decoder = stack(spec.decoder_layers, cross, matrices, norms);
    generator = packed(*matrices);
    for (const Layer& layer : decoder.layers)
        for (const Packed* w : {&layer.query, &layer.key_value, &layer.output, &layer.cross_query, &layer.cross_output,
                                &layer.inner, &layer.outer})
            work += static_cast<double>(w->in) * w->out;
    work += static_cast<double>(generator.in) * generator.out;
}

Packed Model::packed(const DragomanMatrix& matrix) {
    Packed w;
    w.precision = precision;
    w.in = matrix.in;
    w.out = matrix.out;
    w.panels = (matrix.out + kernels.panel - 1) / kernels.panel;
    w.panel_bytes = kernels.panel_bytes(precision, matrix.in);
    w.data = arena_.take<unsigned char>(w.panel_bytes * w.panels);
    const size_t outs = static_cast<size_t>(w.panels) * kernels.panel;
    w.bias = arena_.take<float>(outs);
    w.scale = arena_.take<float>(outs);
    std::fill(w.scale, w.scale + outs, 0.0f);
    w.total = arena_.take<int32_t>(outs);
    std::fill(w.total, w.total + outs, 0);
    kernels.pack(matrix.weight, matrix.bias, w);
    return w;
}

Norm Model::norm(const DragomanNorm& given) {
    const auto copy = [this](const float* numbers) -> const float* {
        if (!numbers) return nullptr;
        float* to = arena_.take<float>(d_model);
        std::memcpy(to, numbers, sizeof(float) * static_cast<size_t>(d_model));
        return to;
    };
    return {copy(given.weight), copy(given.bias), given.eps};
}

Stack Model::stack(int layers, bool has_cross, const DragomanMatrix*& matrices, const DragomanNorm*& norms) {
    Stack made;
    for (int i = 0; i < layers; ++i) {
        Layer layer;
        layer.query = packed(*matrices++);
        layer.key_value = packed(*matrices++);
        layer.output = packed(*matrices++);
        layer.attention_norm = norm(*norms++);
        if (has_cross) {
            layer.cross_query = packed(*matrices++);
            layer.cross_key_value = packed(*matrices++);
            layer.cross_output = packed(*matrices++);
            layer.cross_norm = norm(*norms++);
        }
        layer.inner = packed(*matrices++);
        layer.outer = packed(*matrices++);
        layer.feed_forward_norm = norm(*norms++);
        made.layers.push_back(layer);
    }
    made.has_end = norms->present != 0;
    made.end = norm(*norms++);
    return made;
}

Scratch::Scratch(const Model& m, int row_count, int reach_count, int members)
    : x_stride(apart(m.d_model)),
      query_stride(apart(m.queries())),
      mixed_stride(apart(m.mixed())),
      inner_stride(apart(m.d_ff)),
      operand_stride(m.kernels.operand_bytes(m.precision, std::max({m.d_model, m.mixed(), m.d_ff}))),
      rows(row_count),
      reach((reach_count + 3 + 15) / 16 * 16),
      arena_(1 << 20) {
    const size_t n = static_cast<size_t>(rows), some = static_cast<size_t>(members);
    x = arena_.take<float>(n * x_stride);
    query = arena_.take<float>(n * query_stride);
    mixed = arena_.take<float>(n * mixed_stride);
    inner = arena_.take<float>(n * inner_stride);
    key_value = arena_.take<float>(n * m.key_values());
    row = arena_.take<float>(some * m.d_model);
    scores_each = static_cast<size_t>(std::max(m.heads.count, QUERIES)) * reach;
    scores = arena_.take<float>(some * scores_each);
    positions = arena_.take<const float*>(some * reach);
    operand = arena_.take<unsigned char>(n * operand_stride);
    scale = arena_.take<float>(n);
    offset = arena_.take<int32_t>(n);
}

void State::make_memory() {
    const int positions = first.empty() ? 0 : first.back() + tokens.back();
    for (size_t i = 0; i < model.decoder.layers.size(); ++i)
        memory.push_back(memory_arena_.take<float>(static_cast<size_t>(positions) * model.key_values()));
}

// Keys and values stay where they are: a row only remembers where its past is.
void State::reorder(const int64_t* indices, int count) {
    std::vector<std::vector<int>> new_past(count);
    std::vector<int> new_sentence(count);
    for (int i = 0; i < count; ++i) {
        new_sentence[i] = sentence[indices[i]];
        if (length > 0) new_past[i] = past[indices[i]];
    }
    past = std::move(new_past);
    sentence = std::move(new_sentence);
    rows = count;
}

// Room for the keys and values of one more step.
void State::grow() {
    const size_t size = model.decoder.layers.size() * rows * model.key_values();
    blocks.push_back({arena_.take<float>(size), rows});
    past.resize(rows);
    for (int row = 0; row < rows; ++row) past[row].push_back(row);
}

Scratch& State::scratch(int members) {
    int reach = length + 4;
    for (int count : tokens) reach = std::max(reach, count + 3);
    if (!scratch_ || scratch_->rows < rows || scratch_->reach < reach || members_ < members) {
        scratch_.reset();
        scratch_ = std::make_unique<Scratch>(model, rows, std::max(64, 2 * reach), members);
        members_ = members;
    }
    return *scratch_;
}

float* State::logits(size_t count) {
    if (logits_.size() < count) logits_.resize(count);
    return logits_.data();
}

std::unique_ptr<State> run_start(const Model& m, const int64_t* ids, int batch, int width, const float* positions,
                                 int threads) {
    auto state = std::make_unique<State>(m, batch);
    if (m.cross) {
        if (!positions) positions = m.source_positions.rows(width);
        m.encoding.run(batch * width + 1, m.useful(batch * width, threads),
                       [&](int some) { encode(*state, ids, width, positions, some); });
    }
    return state;
}

void run_step(State& state, const Step& given, int threads) {
    const Model& m = state.model;
    Step step = given;
    if (!step.position)
        step.position = m.target_positions.rows(state.length + 1) + size_t{1} * state.length * m.target_positions.width;
    m.decoding.run(state.rows, m.useful(state.rows, threads), [&](int some) { decode(state, step, some); });
}

}  // namespace dragoman
