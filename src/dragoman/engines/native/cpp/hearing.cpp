#include "hearing.h"

#include <algorithm>
#include <cstring>

namespace dragoman {
namespace {

constexpr int BESIDE = TAPS / 2;

int inputs_of(int outputs) { return 2 * outputs + TAPS - 2; }

// Rows [from, from + count) of a matrix of so many; zeros where it has none.
void copy_rows(const float* rows, int64_t there, int64_t from, int count, int width, float* to) {
    const int64_t begin = std::clamp<int64_t>(-from, 0, count), end = std::clamp<int64_t>(there - from, begin, count);
    std::fill(to, to + begin * width, 0.0f);
    if (begin < end)
        std::memcpy(to + begin * width, rows + (from + begin) * width, sizeof(float) * (end - begin) * width);
    std::fill(to + end * width, to + static_cast<int64_t>(count) * width, 0.0f);
}

}  // namespace

Ear::Ear(const Model& model) : m_(model), channels_(model.first.out / 2) {
    const size_t some = inputs_of(MOST);
    frames_ = arena_.take<float>(static_cast<size_t>(inputs_of(inputs_of(MOST))) * m_.mels);
    narrow_ = arena_.take<float>(some * channels_);
    wide_ = arena_.take<float>(std::max(some * m_.first.out, static_cast<size_t>(MOST) * m_.second.out));
    const auto bytes = [&](const Packed& w) { return m_.kernels.operand_bytes(m_.precision, w.in); };
    operand_ = arena_.take<unsigned char>(some * std::max(bytes(m_.first), bytes(m_.second)));
    scale_ = arena_.take<float>(some);
    offset_ = arena_.take<int32_t>(some);
}

void Ear::hear(const float* frames, int count, int from, int to, float* out, size_t stride) {
    const int64_t halved = (int64_t{count} + 1) / 2, first = 2 * int64_t{from} - BESIDE;
    const int needed = inputs_of(to - from);
    // What lies beyond the sound's ends is zero for both, whatever the first one would make of it.
    const int begin = static_cast<int>(std::max<int64_t>(0, -first));
    const int end = static_cast<int>(std::min<int64_t>(needed, halved - first));
    copy_rows(frames, count, 2 * (first + begin) - BESIDE, inputs_of(end - begin), m_.mels, frames_);
    std::fill(narrow_, narrow_ + static_cast<size_t>(begin) * channels_, 0.0f);
    convolve(m_.first, frames_, m_.mels, end - begin, narrow_ + static_cast<size_t>(begin) * channels_, channels_);
    std::fill(narrow_ + static_cast<size_t>(end) * channels_, narrow_ + static_cast<size_t>(needed) * channels_, 0.0f);
    convolve(m_.second, narrow_, channels_, to - from, out, stride);
}

void Ear::convolve(const Packed& w, const float* inputs, int width, int outputs, float* out, size_t stride) {
    const size_t step = 2 * static_cast<size_t>(width), each = m_.kernels.operand_bytes(m_.precision, w.in);
    Operand a{reinterpret_cast<const unsigned char*>(inputs), sizeof(float) * step, nullptr, nullptr};
    if (m_.precision != Precision::float32) {
        for (int row = 0; row < outputs; ++row)
            m_.kernels.prepare(m_.precision, inputs + row * step, w.in, operand_ + row * each, scale_ + row,
                               offset_ + row);
        a = {operand_, each, scale_, offset_};
    }
    m_.kernels.linear(w, a, 0, outputs, 0, w.panels, {wide_, static_cast<size_t>(w.out), Activation::none, false});
    for (int row = 0; row < outputs; ++row) {
        const float* both = wide_ + static_cast<size_t>(row) * w.out;
        m_.kernels.gate(both, both + w.out / 2, w.out / 2, out + row * stride);
    }
}

}  // namespace dragoman
