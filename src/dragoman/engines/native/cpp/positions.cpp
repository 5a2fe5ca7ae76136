#include "positions.h"

#include <cmath>
#include <cstring>

namespace dragoman {

Positions::Positions(Layout layout, int d_model) : layout_(layout), d_model_(d_model) {
    for (int pair = 0; pair < d_model && layout != Layout::given; pair += 2)
        wavelengths_.push_back(std::pow(10000.0, pair / static_cast<double>(d_model)));
}

const float* Positions::rows(int count) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (count > made_) {
        int more = made_ ? made_ : 64;
        while (more < count) more *= 2;
        const size_t width = d_model_;
        std::unique_ptr<float[]> table(new float[more * width]);
        if (made_) std::memcpy(table.get(), tables_.back().get(), sizeof(float) * made_ * width);
        for (int position = made_; position < more; ++position) fill(position, table.get() + position * width);
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
        const bool apart = layout_ == Layout::concatenated;
        row[apart ? i : 2 * i] = static_cast<float>(std::sin(angle));
        if (2 * i + 1 < d_model_) row[apart ? sines + i : 2 * i + 1] = static_cast<float>(std::cos(angle));
    }
}

}  // namespace dragoman
