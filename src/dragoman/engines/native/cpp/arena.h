// Memory taken piece by piece and given back all at once. Big chunks ask for huge pages: a decoding step reads every
// weight, and with small pages the processor would spend time on finding them.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <vector>

namespace dragoman {

class Arena {
  public:
    explicit Arena(size_t chunk) : chunk_(chunk) {}
    ~Arena() {
        for (void* chunk : chunks_) std::free(chunk);
    }
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Room for `count` of T, aligned to a cache line; not initialised.
    template <class T>
    T* take(size_t count) {
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
    static constexpr size_t HUGE_PAGE = size_t{1} << 21;

    void grow(size_t bytes) {
        size_t size = bytes > chunk_ ? bytes : chunk_;
        const size_t alignment = size >= HUGE_PAGE ? HUGE_PAGE : 64;
        size = (size + alignment - 1) / alignment * alignment;
        void* chunk = std::aligned_alloc(alignment, size);
        if (!chunk) throw std::bad_alloc();
        chunks_.push_back(chunk);
#if defined(MADV_HUGEPAGE)
        if (alignment == HUGE_PAGE) madvise(chunk, size, MADV_HUGEPAGE);
#endif
        next_ = static_cast<unsigned char*>(chunk);
        left_ = size;
    }

    size_t chunk_, left_ = 0, size_ = 0;
    unsigned char* next_ = nullptr;
    std::vector<void*> chunks_;
};

}  // namespace dragoman
