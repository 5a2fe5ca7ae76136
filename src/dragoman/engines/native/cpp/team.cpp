#include "team.h"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace dragoman {

namespace {

constexpr int SPINS = 2000;
constexpr std::chrono::microseconds AWAKE{200};  // about what a search does between two steps

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// Workers stay awake for a moment after a job, because the next step of a search follows soon, then sleep.
class Team {
  public:
    explicit Team(int size) {
        for (int rank = 1; rank < size; ++rank) threads_.emplace_back([this, rank] { work(rank); });
    }
    ~Team() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            over_ = true;
            ++number_;
        }
        wake_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    int size() const { return static_cast<int>(threads_.size()) + 1; }

    void run(int threads, const std::function<void(int)>& job) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = &job;
            threads_wanted_ = threads;
            left_.store(size() - 1, std::memory_order_relaxed);
            number_.fetch_add(1, std::memory_order_release);
        }
        if (asleep_.load() > 0) wake_.notify_all();
        job(0);
        for (int i = 0; left_.load(std::memory_order_acquire); ++i) i < SPINS ? pause() : (void)sched_yield();
    }

  private:
    void work(int rank) {
        int seen = 0;
        for (;;) {
            seen = next(seen);
            if (over_) return;
            if (rank < threads_wanted_) (*job_)(rank);
            left_.fetch_sub(1, std::memory_order_release);
        }
    }

    int next(int seen) {
        const auto until = std::chrono::steady_clock::now() + AWAKE;
        while (std::chrono::steady_clock::now() < until)
            for (int i = 0; i < 50; ++i, pause())
                if (number_.load(std::memory_order_acquire) != seen) return number_.load(std::memory_order_acquire);
        std::unique_lock<std::mutex> lock(mutex_);
        ++asleep_;
        wake_.wait(lock, [&] { return number_.load() != seen; });
        --asleep_;
        return number_.load();
    }

    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<int> number_{0}, left_{0}, asleep_{0};
    const std::function<void(int)>* job_ = nullptr;
    int threads_wanted_ = 0;
    bool over_ = false;
};

}  // namespace

void Barrier::wait() {
    const int turn = turn_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
        arrived_.store(0, std::memory_order_relaxed);
        turn_.store(turn + 1, std::memory_order_release);
        return;
    }
    for (int i = 0; turn_.load(std::memory_order_acquire) == turn; ++i) i < SPINS ? pause() : (void)sched_yield();
}

bool run_together(int threads, const std::function<void(int)>& job) {
    static std::mutex turn;
    static Team* team = nullptr;
    static pid_t owner = 0;
    std::unique_lock<std::mutex> lock(turn, std::try_to_lock);
    if (!lock) return false;
    if (owner != getpid()) {  // a forked process has none of its parent's threads; what is left of them is let go
        team = nullptr;
        owner = getpid();
    }
    if (!team || team->size() < threads) {
        delete team;
        team = nullptr;
        team = new Team(threads);
    }
    team->run(threads, job);
    return true;
}

}  // namespace dragoman
