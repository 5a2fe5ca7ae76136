// Threads that wait for work, and the barrier between the stages of what they do together.
#pragma once

#include <atomic>
#include <functional>

namespace dragoman {

// Everyone waits until everyone is there. Waits are short: it spins, and gives way when it takes longer, so that a
// machine with other work to do does not stand still.
class Barrier {
  public:
    explicit Barrier(int size) : size_(size) {}
    void wait();
    void open() { open_.store(true, std::memory_order_release); }  // for good: somebody will never come

  private:
    const int size_;
    std::atomic<int> arrived_{0}, turn_{0};
    std::atomic<bool> open_{false};
};

// One of those who work together on the same rows.
struct Worker {
    int rank = 0, size = 1;
    Barrier* barrier = nullptr;
    int thread = 0;  // which of the threads it is; workers of different groups have the same rank

    void wait() const {
        if (size > 1) barrier->wait();
    }
    int begin(int count) const { return static_cast<int>(static_cast<long long>(count) * rank / size); }
    int end(int count) const { return static_cast<int>(static_cast<long long>(count) * (rank + 1) / size); }
};

// Calls `job` once on each of up to `threads` threads and returns when all are done. There are fewer, at least the
// caller's, where no more can be had or they are at work for somebody else. What a job throws is thrown here.
void run_together(int threads, const std::function<void(const Worker&)>& job);

}  // namespace dragoman
