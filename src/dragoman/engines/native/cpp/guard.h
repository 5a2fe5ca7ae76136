// The border of the library: what callers may give is checked, and nothing that is thrown leaves it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <new>

#include "api.h"

namespace dragoman {

// Thrown where a caller breaks the rules of api.h; `what` says which, without allocating anything.
class BadArgument : public std::exception {
  public:
    explicit BadArgument(const char* text) : text_(text) {}
    const char* what() const noexcept override { return text_; }

  private:
    const char* text_;
};

struct NoSuchToken {};  // an id that is not in the vocabulary
struct NotANumber {};   // a model that gives what is no number
struct TooLong {};      // a sequence that is longer than a table of positions

inline void require(bool condition, const char* otherwise) {
    if (!condition) throw BadArgument(otherwise);
}

inline int threads_of(int32_t threads) {
    require(threads >= 1, "there is no thread");
    return threads < 1024 ? threads : 1024;
}

// What a caller's handle stands for.
template <class T>
T& given(void* handle, const char* otherwise) {
    require(handle, otherwise);
    return *static_cast<T*>(handle);
}

// Keeps the text of a failure for `dragoman_message`, of this thread.
void remember(const char* text) noexcept;

// Runs what an export does; its result is a code of api.h.
template <class Work>
int32_t guarded(Work work) noexcept {
    try {
        work();
        return DRAGOMAN_OK;
    } catch (const BadArgument& error) {
        remember(error.what());
        return DRAGOMAN_BAD_ARGUMENT;
    } catch (const NoSuchToken&) {
        return DRAGOMAN_NO_SUCH_TOKEN;
    } catch (const NotANumber&) {
        return DRAGOMAN_NOT_A_NUMBER;
    } catch (const TooLong&) {
        return DRAGOMAN_TOO_LONG;
    } catch (const std::bad_alloc&) {
        return DRAGOMAN_NO_MEMORY;
    } catch (const std::exception& error) {
        remember(error.what());
        return DRAGOMAN_FAILED;
    } catch (...) {
        remember("unknown");
        return DRAGOMAN_FAILED;
    }
}

// What only one thread may use at a time; whoever finds it in use is refused.
class Exclusive {
  public:
    explicit Exclusive(std::atomic_flag& used) : used_(used) {
        require(!used_.test_and_set(std::memory_order_acquire), "it is in use by another thread");
    }
    ~Exclusive() { used_.clear(std::memory_order_release); }
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;

  private:
    std::atomic_flag& used_;
};

}  // namespace dragoman
