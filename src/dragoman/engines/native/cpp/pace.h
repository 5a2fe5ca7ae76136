// Chooses between one thread and several by what each took lately. Both give the same bits, so trying costs only time:
// on a machine whose cores are busy with other work, threads that wait for each other can be many times slower.
#pragma once

#include <atomic>
#include <chrono>

namespace dragoman {

class Pace {
  public:
    // Runs work(threads) with the better number of threads, and now and then with the other one.
    template <class Work>
    void run(int rows, int threads, Work work) {
        if (threads == 1) return work(1);
        Kind& kind = kinds_[size_of(rows)];
        const int calls = kind.calls.fetch_add(1, std::memory_order_relaxed);
        const float one = kind.seconds[0].load(std::memory_order_relaxed);
        bool several = kind.seconds[1].load(std::memory_order_relaxed) <= one;
        if (several && one == 0.0f) several = kind.seconds[1].load(std::memory_order_relaxed) == 0.0f;
        else if (calls >= kind.next.load(std::memory_order_relaxed)) {
            several = !several;
            const int gap = kind.gap.load(std::memory_order_relaxed);
            kind.next.store(calls + gap, std::memory_order_relaxed);
            kind.gap.store(gap < LONGEST ? 2 * gap : LONGEST, std::memory_order_relaxed);
        }
        const auto start = std::chrono::steady_clock::now();
        work(several ? threads : 1);
        const std::chrono::duration<float> took = std::chrono::steady_clock::now() - start;
        const float each = took.count() / static_cast<float>(rows);
        std::atomic<float>& known = kind.seconds[several];
        const float before = known.load(std::memory_order_relaxed);
        known.store(before == 0.0f ? each : 0.75f * before + 0.25f * each, std::memory_order_relaxed);
    }

  private:
    static constexpr int SIZES = 20, LONGEST = 256;
    struct Kind {
        std::atomic<float> seconds[2] = {{0.0f}, {0.0f}};  // a row's, with one thread and with several
        std::atomic<int> calls{0}, next{16}, gap{16};
    };

    static int size_of(int rows) {
        int size = 0;
        while (rows >>= 1) ++size;
        return size < SIZES ? size : SIZES - 1;
    }

    Kind kinds_[SIZES];
};

}  // namespace dragoman
