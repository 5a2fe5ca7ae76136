#include "threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace dragoman {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int SPINS = 2000;
constexpr std::chrono::microseconds AWAKE{200};  // about what a search does between two steps
constexpr std::chrono::seconds RETRY{1};         // before more threads are asked for where there were none

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

// Workers stay awake for a moment after a job, because the next step of a search follows soon, then sleep.
class ThreadPool {
  public:
    ~ThreadPool() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            over_ = true;
            ++number_;
        }
        wake_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    int size() const { return static_cast<int>(threads_.size()) + 1; }

    // Up to `wanted` threads, the caller's among them: as many as the system gives.
    void grow(int wanted) {
        if (size() >= wanted || Clock::now() < retry_) return;
        try {
            threads_.reserve(wanted);
            while (size() < wanted)
                threads_.emplace_back([this, rank = size(), seen = number_.load()] { work(rank, seen); });
        } catch (const std::system_error&) {
            retry_ = Clock::now() + RETRY;
        } catch (const std::bad_alloc&) {
            retry_ = Clock::now() + RETRY;
        }
    }

    void run(int threads, const std::function<void(const Worker&)>& job) {
        Barrier barrier(threads);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = &job;
            barrier_ = &barrier;
            wanted_ = threads;
            left_.store(size() - 1, std::memory_order_relaxed);
            number_.fetch_add(1, std::memory_order_release);
        }
        if (asleep_.load() > 0) wake_.notify_all();
        call(0);
        for (int i = 0; left_.load(std::memory_order_acquire); ++i) i < SPINS ? pause() : (void)sched_yield();
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }

  private:
    void work(int rank, int seen) {
        for (;;) {
            seen = next(seen);
            if (over_) return;
            if (rank < wanted_) call(rank);
            left_.fetch_sub(1, std::memory_order_release);
        }
    }

    void call(int rank) {
        try {
            (*job_)({rank, wanted_, barrier_, rank});
        } catch (...) {
            barrier_->open();
            std::lock_guard<std::mutex> lock(mutex_);
            if (!error_) error_ = std::current_exception();
        }
    }

    int next(int seen) {
        const auto until = Clock::now() + AWAKE;
        while (Clock::now() < until)
            for (int i = 0; i < 50; ++i, pause())
                if (number_.load(std::memory_order_acquire) != seen) return number_.load(std::memory_order_acquire);
        std::unique_lock<std::mutex> lock(mutex_);
        ++asleep_;
        wake_.wait(lock, [&] { return number_.load() != seen; });
        --asleep_;
        return number_.load();
    }

    std::vector<std::thread> threads_;
    Clock::time_point retry_{};
    std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<int> number_{0}, left_{0}, asleep_{0};
    const std::function<void(const Worker&)>* job_ = nullptr;
    Barrier* barrier_ = nullptr;
    int wanted_ = 0;
    std::exception_ptr error_;
    bool over_ = false;
};

// The pool of this process, for one caller at a time; null while somebody else has it.
class Lease {
  public:
    Lease() : lock_(turn(), std::try_to_lock) {
        static ThreadPool* pool = nullptr;
        static pid_t owner = 0;
        if (!lock_) return;
        if (owner != getpid()) {  // a forked process has none of its parent's threads; what is left of them is let go
            pool = new ThreadPool;
            owner = getpid();
        }
        pool_ = pool;
    }

    ThreadPool* get() const { return pool_; }

  private:
    static std::mutex& turn() {
        static std::mutex mutex;
        return mutex;
    }

    std::unique_lock<std::mutex> lock_;
    ThreadPool* pool_ = nullptr;
};

}  // namespace

void Barrier::wait() {
    const int turn = turn_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
        arrived_.store(0, std::memory_order_relaxed);
        turn_.store(turn + 1, std::memory_order_release);
        return;
    }
    for (int i = 0; turn_.load(std::memory_order_acquire) == turn; ++i) {
        if (open_.load(std::memory_order_acquire)) return;
        i < SPINS ? pause() : (void)sched_yield();
    }
}

void run_together(int threads, const std::function<void(const Worker&)>& job) {
    if (threads > 1) {
        const Lease lease;
        if (lease.get()) {
            lease.get()->grow(threads);
            const int size = std::min(threads, lease.get()->size());
            if (size > 1) return lease.get()->run(size, job);
        }
    }
    job({});
}

}  // namespace dragoman
