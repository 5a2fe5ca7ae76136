#include "positions.h"

#include <cmath>
#include <cstring>

#include "guard.h"

namespace dragoman {
namespace {

int width_of(Layout layout, int d_model, int d_k) {
    if (layout == Layout::alibi) return 0;
    return layout >= Layout::rotary ? d_k : d_model;
}

}  // namespace

Positions::Positions(const DragomanTable& table, int d_model, int d_k, int heads)
    : width(width_of(static_cast<Layout>(table.layout), d_model, d_k)),
      layout_(static_cast<Layout>(table.layout)),
      table_(table.positions),
      longest_(table.longest) {
    for (int pair = 0; pair < width && layout_ != Layout::table; pair += 2)
        wavelengths_.push_back(std::pow(10000.0, pair / static_cast<double>(width)));
    if (layout_ == Layout::marian || layout_ == Layout::fairseq) {
        require(width >= 4 && width % 2 == 0, "such positions have an even width of 4 or more");
        const int last = width / 2 - 1;  // each divides in its own precision
        const float step = layout_ == Layout::marian ? static_cast<float>(std::log(10000.0)) / static_cast<float>(last)
                                                     : static_cast<float>(std::log(10000.0) / last);
        for (int i = 0; i <= last; ++i)
            rates_.push_back(static_cast<float>(std::exp(static_cast<double>(static_cast<float>(i) * -step))));
    }
    // The slopes of the largest power of two, then every second one of twice as many heads.
    int power = 1;
    while (2 * power <= heads) power *= 2;
    for (int head = 0; layout_ == Layout::alibi && head < heads; ++head)
        slopes_.push_back(static_cast<float>(
            std::exp2(head < power ? -8.0 * (head + 1) / power : -4.0 * (2 * (head - power) + 1) / power)));
}

const float* Positions::rows(int64_t count) {
    if (count > longest()) throw TooLong();
    if (layout_ == Layout::table) return table_;
    std::lock_guard<std::mutex> lock(mutex_);
    if (count > made_) {
        int64_t more = made_ ? made_ : 64;
        while (more < count) more *= 2;
        const size_t each = width;
        std::unique_ptr<float[]> table(new float[more * each]);
        if (made_) std::memcpy(table.get(), tables_.back().get(), sizeof(float) * made_ * each);
        for (int64_t position = made_; position < more; ++position) fill(position, table.get() + position * each);
        tables_.push_back(std::move(table));
        made_ = more;
    }
    return tables_.empty() ? nullptr : tables_.back().get();
}

// In double precision, rounded once. An odd width has one sine more than cosines.
void Positions::fill(int64_t position, float* row) const {
    const size_t half = rates_.size();
    if (half > 0) {  // angles in single precision, as Marian and fairseq have them
        const float place = static_cast<float>(position + (layout_ == Layout::fairseq ? 2 : 0));
        for (size_t i = 0; i < half; ++i) {
            const double angle = place * rates_[i];
            row[i] = static_cast<float>(std::sin(angle));
            row[half + i] = static_cast<float>(std::cos(angle));
        }
        return;
    }
    const int sines = static_cast<int>(wavelengths_.size());
    for (int i = 0; i < sines; ++i) {
        const double angle = static_cast<double>(position) / wavelengths_[i];
        const bool split = layout_ == Layout::concatenated;
        row[split ? i : 2 * i] = static_cast<float>(std::sin(angle));
        if (2 * i + 1 < width) row[split ? sines + i : 2 * i + 1] = static_cast<float>(std::cos(angle));
    }
}

}  // namespace dragoman
