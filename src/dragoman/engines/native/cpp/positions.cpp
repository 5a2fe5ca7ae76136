#include "positions.h"

#include <cmath>
#include <cstring>

namespace dragoman {

Positions::Positions(Layout layout, int d_model, int d_k)
    : width(layout >= Layout::rotary ? d_k : d_model), layout_(layout) {
    for (int pair = 0; pair < width && layout != Layout::given; pair += 2)
        wavelengths_.push_back(std::pow(10000.0, pair / static_cast<double>(width)));
}

const float* Positions::rows(int count) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (count > made_) {
        int more = made_ ? made_ : 64;
        while (more < count) more *= 2;
        const size_t each = width;
        std::unique_ptr<float[]> table(new float[more * each]);
        if (made_) std::memcpy(table.get(), tables_.back().get(), sizeof(float) * made_ * each);
        for (int position = made_; position < more; ++position) fill(position, table.get() + position * each);
        tables_.push_back(std::move(table));
        made_ = more;
    }
    return tables_.empty() ? nullptr : tables_.back().get();
}

// In double precision, rounded once. An odd width has one sine more than cosines.
void Positions::fill(int position, float* row) const {
    const int sines = static_cast<int>(wavelengths_.size());
    for (int i = 0; i < sines; ++i) {
        const double angle = position / wavelengths_[i];
        const bool split = layout_ == Layout::concatenated;
        row[split ? i : 2 * i] = static_cast<float>(std::sin(angle));
        if (2 * i + 1 < width) row[split ? sines + i : 2 * i + 1] = static_cast<float>(std::cos(angle));
    }
}

}  // namespace dragoman
