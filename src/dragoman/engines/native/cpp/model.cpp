#include "model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "guard.h"
#include "processor.h"

namespace dragoman {
namespace {

constexpr size_t WEIGHTS_CHUNK = size_t{1} << 25;
constexpr int64_t MOST = int64_t{1} << 30;    // rows of anything
constexpr int64_t WIDEST = int64_t{1} << 24;  // numbers of a row
constexpr int64_t BYTES = int64_t{1} << 17;   // products of bytes whose sum fits into 32 bits

bool is_between(int64_t least, int64_t value, int64_t most) { return least <= value && value <= most; }

void check_layout(const DragomanTable& table) {
    require(is_between(0, table.layout, static_cast<int>(Layout::alibi)), "there is no such layout of positions");
    require(table.layout != static_cast<int>(Layout::table) || (table.positions && is_between(1, table.longest, MOST)),
            "there is no table of positions");
}

void check_table(const DragomanTable& table, const char* otherwise) {
    const bool given = table.rows || (table.bytes && table.factors);
    require(given && is_between(1, table.count, MOST) && std::isfinite(table.scale), otherwise);
    check_layout(table);
}

// Of a model that listens.
void check_hearing(const DragomanModel& spec) {
    require(is_between(-1, spec.blank, spec.target.count - 1), "the blank is not in the vocabulary");
    require(spec.blank < 0 || (spec.mels > 0 && spec.cross), "what reads ids reads nothing off frames");
    if (spec.mels == 0) return;
    require(spec.cross, "a model without an encoder does not listen");
    const int64_t most = (spec.precision == static_cast<int>(Precision::int8) ? BYTES : WIDEST) / TAPS;
    const int32_t channels = spec.matrices->out;
    require(is_between(1, spec.mels, most), "the frames are too wide, or have no numbers");
    require(channels % 2 == 0 && is_between(1, channels / 2, most), "the channels are too many, or not even");
    require(spec.d_model <= WIDEST / 2, "the model is too wide");
    check_layout(spec.source);
    require(std::isfinite(spec.source.scale), "frames are scaled by what is no number");
}

// What the rest of the packing relies on; sizes of matrices are checked as they come.
const DragomanModel& checked(const DragomanModel& spec) {
    const Kernels* kernels = kernels_at(spec.kernels);
    require(kernels, "this processor has no such kernels");
    require(is_between(0, spec.precision, 2), "there is no such precision");
    require(spec.precision != static_cast<int>(Precision::bfloat16) || kernels->has_bfloat16,
            "these kernels do not multiply bfloat16");
    require(is_between(0, spec.activation, static_cast<int>(Activation::silu)), "there is no such activation");
    for (const int32_t size : {spec.d_model, spec.d_ff, spec.heads, spec.d_k, spec.d_v})
        require(is_between(1, size, WIDEST), "a size of the model is not between 1 and 2^24");
    const int64_t queries = int64_t{spec.heads} * spec.d_k, mixed = int64_t{spec.heads} * spec.d_v;
    require(queries + mixed <= WIDEST, "the heads are too wide");
    require(spec.precision != static_cast<int>(Precision::int8) ||
                std::max({int64_t{spec.d_model}, int64_t{spec.d_ff}, mixed}) <= BYTES,
            "the model is too wide for int8");
    require(is_between(0, spec.encoder_layers, 1 << 16) && is_between(0, spec.decoder_layers, 1 << 16),
            "the model has too many layers");
    require(spec.matrices && spec.norms, "the model has no weights");
    const int64_t layers = int64_t{spec.encoder_layers} + spec.decoder_layers;
    const int64_t crossing = spec.cross ? spec.decoder_layers : 0;
    const int64_t listening = spec.mels > 0 ? 2 : 0, heads = spec.blank >= 0 ? 1 : 0;
    require(spec.matrix_count == 5 * layers + 3 * crossing + listening + heads + 1,
            "there are not as many matrices as the layers need");
    require(spec.norm_count == 2 * layers + crossing + 2, "there are not as many norms as the layers need");
    check_table(spec.target, "there is no table of targets");
    if (spec.cross && !spec.mels) check_table(spec.source, "there is no table of sources");
    check_hearing(spec);
    const auto rotates = [](const DragomanTable& table) {
        return is_between(static_cast<int>(Layout::rotary), table.layout, static_cast<int>(Layout::rotary_cross));
    };
    const bool rotary = rotates(spec.target) || (spec.cross && rotates(spec.source));
    require(!rotary || spec.d_k % 2 == 0, "rotary positions need heads of even width");
    return spec;
}

void multiply(const int8_t* bytes, float factor, int count, float* to) {
    for (int i = 0; i < count; ++i) to[i] = static_cast<float>(bytes[i]) * factor;
}

}  // namespace

const float* Table::row(int64_t id, int width, float* made) const {
    if (rows) return rows + id * width;
    multiply(bytes + id * width, factors[id], width, made);
    return made;
}

void Table::check(const int64_t* ids, size_t given) const {
    require(ids || !given, "there are no ids");
    for (size_t i = 0; i < given; ++i)
        if (ids[i] < 0 || ids[i] >= count) throw NoSuchToken();
}

Model::Model(const DragomanModel& spec)
    : kernels(*kernels_at(checked(spec).kernels)),
      precision(static_cast<Precision>(spec.precision)),
      d_model(spec.d_model),
      d_ff(spec.d_ff),
      heads{spec.heads, spec.d_k, spec.d_v},
      pre_norm(spec.pre_norm != 0),
      cross(spec.cross != 0),
      activation(static_cast<Activation>(spec.activation)),
      mels(spec.mels),
      blank(spec.blank),
      source_positions(spec.source, spec.d_model, spec.d_k, spec.heads),
      target_positions(spec.target, spec.d_model, spec.d_k, spec.heads),
      nothing(spec.d_model, 0.0f),
      arena_(WEIGHTS_CHUNK) {
    const auto table = [](const DragomanTable& given) {
        return Table{given.rows, given.bytes, given.factors, given.count, given.scale};
    };
    if (cross) source = table(spec.source);
    target = table(spec.target);
    const DragomanMatrix* matrices = spec.matrices;
    const DragomanNorm* norms = spec.norms;
    if (mels) {
        const int channels = matrices->out;
        first = convolution(*matrices++, channels, mels);
        second = convolution(*matrices++, 2 * d_model, channels / 2);
    }
    encoder = stack(spec.encoder_layers, false, matrices, norms);
    decoder = stack(spec.decoder_layers, cross, matrices, norms);
    generator = packed(*matrices++, static_cast<int>(target.count), d_model);
    if (blank >= 0) head = packed(*matrices, generator.out, d_model);
    for (const Layer& layer : decoder.layers)
        for (const Packed* w : {&layer.query, &layer.key_value, &layer.output, &layer.cross_query, &layer.cross_output,
                                &layer.inner, &layer.outer})
            work += static_cast<double>(w->in) * w->out;
    work += static_cast<double>(generator.in) * generator.out;
}

void Model::check_rows(int64_t rows) const {
    const int64_t widest = std::max({1, heads.count, queries() / 16, mixed() / 16});
    require(rows <= MOST / widest, "there are too many rows");
}

Packed Model::packed(const DragomanMatrix& matrix, int out, int in) {
    require(matrix.weight || (matrix.bytes && matrix.factors), "a matrix has no weights");
    require(matrix.out == out && matrix.in == in, "a matrix is not of the size that the model needs");
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
    if (matrix.weight) {
        kernels.pack(matrix.weight, matrix.bias, w);
        return w;
    }
    // Panel by panel: all numbers at once would be four times the bytes.
    std::vector<float> rows(static_cast<size_t>(kernels.panel) * in);
    for (int panel = 0; panel < w.panels; ++panel) {
        const size_t first = static_cast<size_t>(panel) * kernels.panel;
        Packed some = w;
        some.out = std::min(kernels.panel, w.out - static_cast<int>(first));
        some.panels = 1;
        some.data += panel * w.panel_bytes;
        some.bias += first, some.scale += first, some.total += first;
        for (int i = 0; i < some.out; ++i)
            multiply(matrix.bytes + (first + i) * in, matrix.factors[first + i], in,
                     &rows[static_cast<size_t>(i) * in]);
        kernels.pack(rows.data(), matrix.bias ? matrix.bias + first : nullptr, some);
    }
    return w;
}

// Its inputs in the order in which they lie in memory: all numbers of a place, then those of the next.
Packed Model::convolution(const DragomanMatrix& matrix, int out, int in) {
    require(matrix.weight, "a matrix has no weights");
    require(matrix.out == out && matrix.in == TAPS * in, "a convolution is not of the size that the model needs");
    std::vector<float> ordered(static_cast<size_t>(out) * matrix.in);
    const float* from = matrix.weight;
    for (float* row = ordered.data(); row < ordered.data() + ordered.size(); row += matrix.in)
        for (int i = 0; i < in; ++i)
            for (int tap = 0; tap < TAPS; ++tap) row[static_cast<size_t>(tap) * in + i] = *from++;
    DragomanMatrix given = matrix;
    given.weight = ordered.data();
    return packed(given, out, matrix.in);
}

Norm Model::norm(const DragomanNorm& given) {
    const auto copy = [this](const float* numbers) -> const float* {
        if (!numbers) return nullptr;
        float* to = arena_.take<float>(d_model);
        std::memcpy(to, numbers, sizeof(float) * static_cast<size_t>(d_model));
        return to;
    };
    require(std::isfinite(given.eps) && given.eps >= 0.0f, "the epsilon of a norm is no number from 0 on");
    return {copy(given.weight), copy(given.bias), given.eps};
}

Stack Model::stack(int layers, bool has_cross, const DragomanMatrix*& matrices, const DragomanNorm*& norms) {
    Stack made;
    for (int i = 0; i < layers; ++i) {
        Layer layer;
        layer.query = packed(*matrices++, queries(), d_model);
        layer.key_value = packed(*matrices++, queries() + mixed(), d_model);
        layer.output = packed(*matrices++, d_model, mixed());
        layer.attention_norm = norm(*norms++);
        if (has_cross) {
            layer.cross_query = packed(*matrices++, queries(), d_model);
            layer.cross_key_value = packed(*matrices++, queries() + mixed(), d_model);
            layer.cross_output = packed(*matrices++, d_model, mixed());
            layer.cross_norm = norm(*norms++);
        }
        layer.inner = packed(*matrices++, d_ff, d_model);
        layer.outer = packed(*matrices++, d_model, d_ff);
        layer.feed_forward_norm = norm(*norms++);
        made.layers.push_back(layer);
    }
    made.has_end = norms->present != 0;
    made.end = norm(*norms++);
    return made;
}

}  // namespace dragoman
