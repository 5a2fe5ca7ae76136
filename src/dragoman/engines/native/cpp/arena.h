// Memory taken piece by piece and given back all at once. Big chunks ask for huge pages: a decoding step reads every
// weight, and with small pages the processor would spend time on finding them.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace dragoman {

struct Release {
    void operator()(float* place) const { std::free(place); }
};
using Pages = std::unique_ptr<float, Release>;

// At least so many bytes, aligned to a cache line; not initialised.
inline Pages take_pages(size_t bytes) {
    constexpr size_t HUGE_PAGE = size_t{1} << 21;
    const size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
    if (bytes > SIZE_MAX - alignment) throw std::bad_alloc();
    bytes = (bytes + !bytes + alignment - 1) / alignment * alignment;
    Pages pages(static_cast<float*>(std::aligned_alloc(alignment, bytes)));
    if (!pages) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    if (alignment == HUGE_PAGE) madvise(pages.get(), bytes, MADV_HUGEPAGE);
#endif
    return pages;
}

class Arena {
  public:
    explicit Arena(size_t chunk) : chunk_(chunk) {}
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Room for `count` of T, aligned to a cache line; not initialised.
    template <class T>
    T* take(size_t count) {
        if (count > (SIZE_MAX - 63) / sizeof(T)) throw std::bad_alloc();
        const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
        if (bytes > left_) grow(bytes);
        T* place = reinterpret_cast<T*>(next_);
        next_ += bytes;
        left_ -= bytes;
        size_ += bytes;
        return place;
    }

    // Bytes taken so far.
    size_t size() const { return size_; }

  private:
    void grow(size_t bytes) {
        const size_t size = bytes > chunk_ ? bytes : chunk_;
        chunks_.push_back(take_pages(size));
        next_ = reinterpret_cast<unsigned char*>(chunks_.back().get());
        left_ = size;
    }

    size_t chunk_, left_ = 0, size_ = 0;
    unsigned char* next_ = nullptr;
    std::vector<Pages> chunks_;
};

}  // namespace dragoman
