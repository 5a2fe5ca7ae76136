// One pass of some rows through layers, by one or several workers who share the work of each stage.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "state.h"
#include "threads.h"

namespace dragoman {

struct Product {
    const Packed& weights;
    Output output;
};

class Pass {
  public:
    Pass(const Model& model, Scratch& scratch, Worker worker, int row_0, int row_1)
        : m(model), s(scratch), worker_(worker), row_0(row_0), row_1(row_1) {}

    // x = embedding of an id, or what else stands for a place, at a position
    void embed(const Table& table, const Positions& positions, int row, const float* vector, const float* position) {
        const float* added = positions.inside() ? m.nothing.data() : position;
        m.kernels.scale_and_add(vector, table.scale, added, m.d_model, x(row));
    }

    // Rotates queries by the angles of their positions, and keys in rows of that stride, if there are any.
    template <class Position>
    void rotate(float* queries, float* keys, size_t width, Position position) {
        for (int row = begin(); row < end(); ++row) {
            if (queries) rotate_row(queries + row * s.query_stride, position(row));
            if (keys) rotate_row(keys + row * width, position(row));
        }
        worker_.wait();
    }

    // What a sublayer with this norm reads. Pre-norm: the norm of x. Post-norm: x itself, once the norm that is still
    // due from the sublayer before has been applied.
    Operand enter(const Norm& norm) {
        const Norm* due = due_;
        if (!m.pre_norm) due_ = &norm;
        return prepared(due, m.pre_norm ? &norm : nullptr);
    }

    // What follows the stack reads; as float32 [rows, d_model] it also goes to `outputs`, unless that is null.
    Operand leave(const Stack& stack, float* outputs = nullptr) {
        const Norm* due = due_;
        due_ = nullptr;
        return prepared(due, stack.has_end ? &stack.end : nullptr, outputs);
    }

    // Rows of a buffer as the kernels read them.
    Operand operand(const float* data, int width, size_t stride) {
        if (m.precision == Precision::float32) return plain(data, stride);
        for (int row = begin(); row < end(); ++row) prepare(row, data + row * stride, width);
        worker_.wait();
        return packed();
    }

    // Several products of the same rows as one stage.
    void multiply(const Operand& a, std::initializer_list<Product> products) {
        int panels = 0, passed = 0;
        for (const Product& p : products) panels += p.weights.panels;
        const int first = worker_.begin(panels), last = worker_.end(panels);
        for (const Product& p : products) {
            const int from = first > passed ? first - passed : 0;
            const int to = last - passed < p.weights.panels ? last - passed : p.weights.panels;
            if (from < to) m.kernels.linear(p.weights, a, row_0, row_1, from, to, p.output);
            passed += p.weights.panels;
        }
        worker_.wait();
    }

    Output to_query() const { return {s.query, s.query_stride, Activation::none, false}; }
    Output to_x() const { return {s.x, s.x_stride, Activation::none, true}; }

    // Each row attends, as `positions` tells it: fills in pointers, returns how many. Rows from `row` to before
    // `together(row)` attend to the same. With `slopes` of the heads scores fall with the distance from `place(row)`.
    template <class Positions, class Together, class Place>
    void attend(Positions positions, Together together, const float* slopes, Place place) {
        const int heads = m.heads.count;
        const int items = (row_1 - row_0) * heads, end = worker_.end(items);
        const float** where = s.positions + static_cast<size_t>(worker_.thread) * s.reach;
        float* scores = s.scores + static_cast<size_t>(worker_.thread) * s.scores_each;
        for (int item = worker_.begin(items); item < end;) {
            const int row = row_0 + item / heads, head = item % heads, left = end - item;
            const bool whole = head == 0 && left >= heads;  // some rows, else some heads of one row
            const int rows = whole ? std::min(together(row) - row, left / heads) : 1;
            const int last = whole ? heads : std::min(heads, head + left);
            const int count = positions(row, where);
            for (int i = count; count > 0 && i < count + 3; ++i) where[i] = where[0];
            const Rows queries{s.query + row * s.query_stride, s.query_stride, rows, slopes ? place(row) : 0, slopes};
            m.kernels.attend(queries, where, count, m.heads, head, last, s.reach, scores,
                             s.mixed + row * s.mixed_stride, s.mixed_stride);
            item += whole ? rows * heads : last - head;
        }
        worker_.wait();
    }

    template <class Positions, class Together>
    void attend(Positions positions, Together together) {
        attend(positions, together, nullptr, [](int) { return 0; });
    }

    void attention_output(const Packed& output) {
        const Operand mixed = operand(s.mixed, m.mixed(), s.mixed_stride);
        multiply(mixed, {{output, to_x()}});
    }

    void feed_forward(const Layer& layer) {
        const Operand a = enter(layer.feed_forward_norm);
        const Output inner{s.inner, s.inner_stride, m.activation, false};
        multiply(a, {{layer.inner, inner}});
        const Operand b = operand(s.inner, m.d_ff, s.inner_stride);
        multiply(b, {{layer.outer, to_x()}});
    }

    float* x(int row) const { return s.x + row * s.x_stride; }
    int begin() const { return row_0 + worker_.begin(row_1 - row_0); }
    int end() const { return row_0 + worker_.end(row_1 - row_0); }
    void wait() const { worker_.wait(); }

    const Model& m;
    Scratch& s;

  private:
    // Columns 2i and 2i + 1 of each head are a complex number; `angles` has a sine and a cosine for each.
    void rotate_row(float* row, const float* angles) const {
        for (int head = 0; head < m.heads.count; ++head, row += m.heads.d_k)
            for (int i = 0; i < m.heads.d_k; i += 2) {
                const float sine = angles[i], cosine = angles[i + 1], a = row[i], b = row[i + 1];
                row[i] = a * cosine - b * sine;
                row[i + 1] = a * sine + b * cosine;
            }
    }

    Operand prepared(const Norm* due, const Norm* norm, float* outputs = nullptr) {
        const bool copied = norm || m.precision != Precision::float32;
        if (!copied && !due && !outputs) return plain(s.x, s.x_stride);
        float* normed = s.row + static_cast<size_t>(worker_.thread) * m.d_model;
        for (int row = begin(); row < end(); ++row) {
            const float* from = x(row);
            if (due) m.kernels.norm(from, m.d_model, due->weight, due->bias, due->eps, x(row));
            if (norm) m.kernels.norm(from, m.d_model, norm->weight, norm->bias, norm->eps, normed);
            if (copied) prepare(row, norm ? normed : from, m.d_model);
            if (outputs) std::copy_n(norm ? normed : from, m.d_model, outputs + static_cast<size_t>(row) * m.d_model);
        }
        worker_.wait();
        return copied ? packed() : plain(s.x, s.x_stride);
    }

    void prepare(int row, const float* from, int width) {
        m.kernels.prepare(m.precision, from, width, s.operand + row * s.operand_stride, s.scale + row, s.offset + row);
    }

    Operand packed() const { return {s.operand, s.operand_stride, s.scale, s.offset}; }
    static Operand plain(const float* data, size_t stride) {
        return {reinterpret_cast<const unsigned char*>(data), sizeof(float) * stride, nullptr, nullptr};
    }

    Worker worker_;
    int row_0, row_1;
    const Norm* due_ = nullptr;
};

}  // namespace dragoman
