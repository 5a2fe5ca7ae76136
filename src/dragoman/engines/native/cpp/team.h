// Threads that wait for work, and the barrier between the stages of what they do together.
#pragma once

#include <atomic>
#include <functional>

namespace dragoman {

// Everyone waits until everyone is there. Waits are short: it spins, and gives way when it takes longer, so that a
// machine with other work to do does not stand still.
class Barrier {
  public:
    void set(int size) { size_ = size; }
    void wait();

  private:
    int size_ = 1;
    std::atomic<int> arrived_{0}, turn_{0};
};

// One of those who work together on the same rows.
struct Member {
    int rank = 0, size = 1;
    Barrier* barrier = nullptr;
    int lane = 0;  // which of the threads it is; members of different groups have the same rank

    void wait() const {
        if (size > 1) barrier->wait();
    }
    int begin(int count) const { return static_cast<int>(static_cast<long long>(count) * rank / size); }
    int end(int count) const { return static_cast<int>(static_cast<long long>(count) * (rank + 1) / size); }
};

// Calls job(rank) for each rank below `threads`, on as many threads, and returns when all are done. If the threads are
// at work for somebody else, it says no and calls nothing.
bool run_together(int threads, const std::function<void(int)>& job);

}  // namespace dragoman
