#include "training_api.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <vector>

#include "guard.h"
#include "processor.h"
#include "threads.h"

namespace dragoman {
namespace {

using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

// Kernels, and whose threads run them.
struct Training {
    Parallel parallel = nullptr;
    const TrainingKernels* kernels = nullptr;
};

constexpr int ALIGNED = 16;  // all widths but the vocabulary's are multiples of it

// Runs an export on the kernels and on so many threads.
template <class Work>
int32_t on(const void* handle, int32_t threads, const Work& work) {
    return guarded([&] {
        require(handle, "there are no kernels");
        work(*static_cast<const Training*>(handle), threads_of(threads));
    });
}

// Throws unless there are numbers for rows of this width.
void check_rows(int32_t rows, int32_t d, std::initializer_list<const void*> needed) {
    require(rows >= 0, "there are fewer than no rows");
    require(d > 0 && d % ALIGNED == 0 && d <= 1 << 24, "a width is no multiple of 16");
    for (const void* place : needed) require(place || rows == 0, "numbers are missing");
}

void check_labels(const int64_t* labels, int32_t rows, int32_t vocabulary, std::initializer_list<const void*> needed) {
    require(rows >= 0 && vocabulary > 0, "there are fewer than no rows, or no vocabulary");
    for (const void* place : needed) require(place || rows == 0, "numbers are missing");
    require(labels || rows == 0, "there are no labels");
    for (int32_t row = 0; row < rows; ++row)
        if (labels[row] < 0 || labels[row] >= vocabulary) throw NoSuchToken();
}

void check_attention(const TrainingKernels& kernels, const Attention* given) {
    require(given, "there is no attention");
    const Attention& a = *given;
    require(a.sentences >= 0 && a.heads > 0 && a.width > 0 && a.width % ALIGNED == 0,
            "heads are no multiple of 16 wide");
    require(int64_t{a.heads} * a.width <= std::min({a.query_stride, a.key_stride, 1 << 24}), "rows overlap");
    require(a.lanes > 0 && a.lanes % kernels.lanes == 0 && a.lanes <= 1 << 10, "lanes are no multiple of a vector's");
    require(a.query_starts && a.key_starts && a.weight_starts, "it is not said where sentences begin");
    require(a.query_starts[0] >= 0 && a.key_starts[0] >= 0 && a.weight_starts[0] >= 0,
            "a sentence begins before the first");
    for (int32_t i = 0; i < a.sentences; ++i) {
        const int64_t queries = int64_t{a.query_starts[i + 1]} - a.query_starts[i];
        const int64_t keys = int64_t{a.key_starts[i + 1]} - a.key_starts[i];
        const int64_t across = (keys + a.lanes - 1) / a.lanes * a.lanes;
        require(queries >= 0 && keys >= 0 && across * a.width <= INT32_MAX,
                "a sentence ends before it begins, or is too long");
        require(!a.causal || queries <= keys, "a causal sentence has more queries than keys");
        require(a.weight_starts[i + 1] - a.weight_starts[i] >= a.heads * queries * across, "weights overlap");
    }
    const bool empty = a.sentences == 0 || a.query_starts[a.sentences] == 0;
    require(empty || (a.query && a.key && a.value && a.weights && a.output), "numbers are missing");
}

const TrainingKernels* training_at(int32_t index) {
    if (index == 0) return plain_training();
#if defined(__x86_64__)
    if (index == 1 && processor_level() >= 1) return avx2_training();
    if (index == 2 && processor_level() >= 2) return avx512_training();
#endif
    return nullptr;
}

// job(rank) for each rank below `threads`, whoever does it: there may be fewer threads. What a job throws is thrown
// here, whoever's thread it was.
template <class Job>
void together(const Training& t, int threads, const Job& job) {
    struct Shared {
        const Job& job;
        int threads;
        std::atomic<int> next{0};
        std::mutex mutex;
        std::exception_ptr error;
        static void work(void* self) {
            Shared& shared = *static_cast<Shared*>(self);
            try {
                for (int rank; (rank = shared.next++) < shared.threads;) shared.job(rank);
            } catch (...) {
                std::lock_guard<std::mutex> lock(shared.mutex);
                if (!shared.error) shared.error = std::current_exception();
            }
        }
    } shared{job, threads, {}, {}, {}};
    if (threads > 1 && t.parallel) t.parallel(Shared::work, &shared, static_cast<unsigned>(threads), 0);
    else run_together(threads, [&](const Worker&) { Shared::work(&shared); });
    if (shared.error) std::rethrow_exception(shared.error);
}

int part(int64_t count, int rank, int threads) { return static_cast<int>(count * rank / threads); }

// job(begin, end) for as many parts of `count` rows.
template <class Job>
void share(const Training& t, int count, int threads, const Job& job) {
    together(t, threads, [&](int rank) { job(part(count, rank, threads), part(count, rank + 1, threads)); });
}

// job(begin, end, sums) for as many parts, each with sums of its own, which are then added in order.
template <class Job>
void share_sums(const Training& t, int count, int threads, int d, float* sums, const Job& job) {
    const int room = (d + 15) / 16 * 16;
    std::vector<float> parts(static_cast<size_t>(room) * threads);
    together(t, threads, [&](int rank) {
        float* own = parts.data() + static_cast<size_t>(room) * rank;
        job(part(count, rank, threads), part(count, rank + 1, threads), own);
    });
    for (int i = 0; i < d; ++i) sums[i] = parts[i];
    for (int rank = 1; rank < threads; ++rank)
        for (int i = 0; i < d; ++i) sums[i] += parts[static_cast<size_t>(room) * rank + i];
}

// Adds up loss, likelihood and hits; loss(row, sums) returns the likeliest token of a row.
template <class Loss>
void add_losses(const Training& t, const int64_t* labels, int rows, int threads, double* totals, const Loss& loss) {
    std::vector<double> sums(static_cast<size_t>(3) * threads);
    together(t, threads, [&](int rank) {
        double* own = sums.data() + static_cast<size_t>(3) * rank;
        for (int row = part(rows, rank, threads); row < part(rows, rank + 1, threads); ++row)
            own[2] += loss(row, own) == labels[row];
    });
    for (size_t i = 0; i < sums.size(); ++i) totals[i % 3] += sums[i];
}

// work(sentence, room) for each sentence, as threads become free.
template <class Work>
void each_sentence(const Training& t, const Attention& a, int threads, const Work& work) {
    int queries = 0, keys = 0;
    for (int i = 0; i < a.sentences; ++i) {
        queries = std::max(queries, a.query_starts[i + 1] - a.query_starts[i]);
        keys = std::max(keys, a.key_starts[i + 1] - a.key_starts[i]);
    }
    const size_t room = t.kernels->attention_room(a, queries, keys);
    std::atomic<int> next{0};
    together(t, threads, [&](int) {
        std::vector<float> own(room);
        for (int i; (i = next++) < a.sentences;) work(i, own.data());
    });
}

}  // namespace
}  // namespace dragoman

using namespace dragoman;

const void* dragoman_training(void* parallel, int32_t kernels) {
    static Training made[3];
    const TrainingKernels* found = training_at(kernels);
    if (!found) return nullptr;
    made[kernels] = {reinterpret_cast<Parallel>(parallel), found};
    return &made[kernels];
}

int32_t dragoman_add_norm(const void* handle, const float* z, const float* bias, const float* x, const float* gain,
                          const float* offset, float eps, const Drop* drop, int32_t rows, int32_t d, float* sum,
                          float* out, float* moments, int32_t threads) {
    return on(handle, threads, [&](const Training& t, int some) {
        check_rows(rows, d, {bias, x, gain, offset, drop, sum, out, moments});
        share(t, rows, some, [&](int begin, int end) {
            t.kernels->add_norm(z, bias, x, gain, offset, eps, *drop, begin, end, d, sum, out, moments);
        });
    });
}

int32_t dragoman_add_norm_back(const void* handle, const float* grad, const float* grad_sum, const float* sum,
                               const float* moments, const float* gain, const Drop* drop, int32_t rows, int32_t d,
                               float* grad_x, float* grad_z, float* sums, int32_t threads) {
    return on(handle, threads, [&](const Training& t, int some) {
        check_rows(rows, d, {grad, sum, moments, gain, drop, grad_x});
        require(sums, "numbers are missing");
        share_sums(t, rows, some, 3 * d, sums, [&](int begin, int end, float* own) {
            t.kernels->add_norm_back(grad, grad_sum, sum, moments, gain, *drop, begin, end, d, grad_x, grad_z, own);
        });
    });
}

int32_t dragoman_relu(const void* handle, float* h, const float* bias, const Drop* drop, int32_t rows, int32_t d,
                      int32_t threads) {
    return on(handle, threads, [&](const Training& t, int some) {
        check_rows(rows, d, {h, bias, drop});
        share(t, rows, some, [&](int begin, int end) { t.kernels->relu(h, bias, *drop, begin, end, d); });
    });
}

int32_t dragoman_relu_back(const void* handle, float* grad, const float* h, float scale, int32_t rows, int32_t d,
                           float* sums, int32_t threads) {
    return on(handle, threads, [&](const Training& t, int some) {
        check_rows(rows, d, {grad, h});
        require(sums, "numbers are missing");
        share_sums(t, rows, some, d, sums,
                   [&](int begin, int end, float* own) { t.kernels->relu_back(grad, h, scale, begin, end, d, own); });
    });
}

int32_t dragoman_column_sums(const void* handle, const float* x, int32_t rows, int32_t d, float* sums,
                             int32_t threads) {
    return on(handle, threads, [&](const Training& t, int some) {
        check_rows(rows, d, {x});
        require(sums, "numbers are missing");
        share_sums(t, rows, some, d, sums,
                   [&](int begin, int end, float* own) { t.kernels->column_sums(x, begin, end, d, own); });
    });
}

int32_t dragoman_attend(const void* handle, const Attention* attention, int32_t threads) {
    return on(handle, threads, [&](const Training& t, int some) {
        check_attention(*t.kernels, attention);
        each_sentence(t, *attention, some, [&](int i, float* room) { t.kernels->attend(*attention, i, room); });
    });
}

int32_t dragoman_attend_back(const void* handle, const Attention* attention, const AttentionGradients* gradients,
                             int32_t threads) {
    return on(handle, threads, [&](const Training& t, int some) {
        check_attention(*t.kernels, attention);
        require(gradients && gradients->output && gradients->query && gradients->key && gradients->value,
                "numbers are missing");
        each_sentence(t, *attention, some,
                      [&](int i, float* room) { t.kernels->attend_back(*attention, *gradients, i, room); });
    });
}

int32_t dragoman_cross_entropy(const void* handle, float* logits, const int64_t* labels, int32_t rows,
                               int32_t vocabulary, float smoothing, double* totals, int32_t threads) {
    return on(handle, threads, [&](const Training& t, int some) {
        check_labels(labels, rows, vocabulary, {logits});
        require(totals, "numbers are missing");
        add_losses(t, labels, rows, some, totals, [&](int row, double* sums) {
            float* place = logits + static_cast<size_t>(row) * vocabulary;
            return t.kernels->cross_entropy(place, vocabulary, labels[row], smoothing, sums);
        });
    });
}

int32_t dragoman_agreement(const void* handle, float* first, float* second, const int64_t* labels, int32_t rows,
                           int32_t vocabulary, float smoothing, float weight, double* totals, int32_t threads) {
    return on(handle, threads, [&](const Training& t, int some) {
        check_labels(labels, rows, vocabulary, {first, second});
        require(totals, "numbers are missing");
        add_losses(t, labels, rows, some, totals, [&](int row, double* sums) {
            const size_t at = static_cast<size_t>(row) * vocabulary;
            return t.kernels->agreement(first + at, second + at, vocabulary, labels[row], smoothing, weight, sums);
        });
    });
}
