#include "state.h"

#include <algorithm>
#include <utility>

#include "guard.h"

namespace dragoman {
namespace {

constexpr size_t CHUNK = size_t{1} << 16;  // numbers

}  // namespace

Scratch::Scratch(const Model& m, int row_count, int reach_count, int thread_count)
    : x_stride(row_stride(m.d_model)),
      query_stride(row_stride(m.queries())),
      mixed_stride(row_stride(m.mixed())),
      inner_stride(row_stride(m.d_ff)),
      operand_stride(m.kernels.operand_bytes(m.precision, std::max({m.d_model, m.mixed(), m.d_ff}))),
      rows(row_count),
      reach((reach_count + 3 + 15) / 16 * 16),
      threads(thread_count),
      arena_(1 << 20) {
    const size_t n = static_cast<size_t>(rows), some = static_cast<size_t>(threads);
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

Row Row::copy() const {
    Row other{memory, sentence, {}, said};
    other.past.reserve(past.size() + 8);  // it is about to grow
    other.past = past;
    return other;
}

int Memory::longest() const { return tokens.empty() ? 0 : *std::max_element(tokens.begin(), tokens.end()); }

int State::longest() const {
    int most = 0;
    for (const Row& row : rows) most = std::max(most, row.length());
    return most;
}

// Keys and values stay where they are: a row only remembers where its past is.
void State::reorder(const int64_t* indices, int count) {
    std::vector<int> last(rows.size(), -1);
    for (int i = 0; i < count; ++i) last[indices[i]] = i;
    std::vector<Row> kept(count);
    for (int i = 0; i < count; ++i) {
        Row& from = rows[indices[i]];
        if (last[indices[i]] == i) kept[i] = std::move(from);
        else kept[i] = from.copy();
    }
    rows = std::move(kept);
}

void State::join(State& other) {
    std::vector<int> moved(other.blocks.size(), -1);
    rows.reserve(rows.size() + other.rows.size());
    free_.reserve(free_.size() + other.blocks.size());
    for (size_t i = 0; i < other.blocks.size(); ++i) {
        if (!other.blocks[i].data) continue;
        moved[i] = free_block();
        blocks[moved[i]] = std::move(other.blocks[i]);
    }
    for (Row& row : other.rows) {
        for (Place& place : row.past) place.block = moved[place.block];
        rows.push_back(std::move(row));
    }
    other.rows.clear();
    other.blocks.clear();
    other.free_.clear();
}

const Block& State::grow() {
    if (blocks.size() - free_.size() >= limit_) collect();
    const int more = count(), slot = free_block();
    blocks[slot] = {room(model.decoder.layers.size() * more * model.key_values()), more};
    for (Row& row : rows)
        if (row.past.size() == row.past.capacity()) row.past.reserve(2 * row.past.size() + 8);
    for (int row = 0; row < more; ++row) rows[row].past.push_back({slot, row});
    return blocks[slot];
}

// Small blocks come from one chunk, which the system need not be asked for each time.
std::shared_ptr<float> State::room(size_t count) {
    if (count > end_ - next_) {
        const size_t size = std::max(count, CHUNK);
        chunk_ = std::shared_ptr<float>(take_pages(sizeof(float) * size));
        next_ = 0;
        end_ = size;
    }
    std::shared_ptr<float> found(chunk_, chunk_.get() + next_);
    next_ += count;  // a multiple of 16, as strides are
    return found;
}

// Frees the blocks that no row needs any more.
void State::collect() {
    std::vector<bool> needed(blocks.size());
    for (const Row& row : rows)
        for (const Place& place : row.past) needed[place.block] = true;
    free_.clear();
    free_.reserve(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
        if (needed[i]) continue;
        blocks[i] = {};
        free_.push_back(static_cast<int>(i));
    }
    limit_ = std::max(size_t{64}, 2 * (blocks.size() - free_.size()));
}

int State::free_block() {
    if (free_.empty()) {
        blocks.emplace_back();
        return static_cast<int>(blocks.size()) - 1;
    }
    const int slot = free_.back();
    free_.pop_back();
    return slot;
}

Scratch& State::scratch(int threads) {
    int reach = longest() + 4;
    const Memory* seen = nullptr;
    for (const Row& row : rows) {
        if (!row.memory || row.memory.get() == seen) continue;
        seen = row.memory.get();
        reach = std::max(reach, seen->longest() + 3);
    }
    if (!scratch_ || scratch_->rows < count() || scratch_->reach < reach || scratch_->threads < threads) {
        scratch_.reset();
        scratch_ = std::make_unique<Scratch>(model, count(), std::max(64, 2 * reach), threads);
    }
    return *scratch_;
}

std::unique_ptr<State> run_start(const Model& m, const Sources& sources, int threads) {
    auto state = std::make_unique<State>(m);
    m.check_rows(sources.count);
    state->rows.resize(sources.count);
    if (!m.cross) return state;
    int64_t total = 0;
    for (int i = 0; i < sources.count; ++i) {
        require(sources.lengths[i] >= 0, "a sentence has fewer than no tokens");
        total += m.places(sources.lengths[i]);
    }
    m.check_rows(total + 1);
    if (!m.mels) m.source.check(sources.ids, static_cast<size_t>(total));
    const int rows = static_cast<int>(total) + 1;
    std::shared_ptr<const Memory> memory;
    m.encoding.run(rows, m.useful(rows, threads), [&](int some) { memory = encode(m, sources, some); });
    for (int i = 0; i < sources.count; ++i) {
        state->rows[i].memory = memory;
        state->rows[i].sentence = i;
    }
    return state;
}

void run_step(State& state, const Step& given, int threads) {
    const Model& m = state.model;
    const int rows = state.count();
    if (rows == 0) return;
    m.decoding.run(rows, m.useful(rows, threads), [&](int some) { decode(state, given, some); });
}

}  // namespace dragoman
