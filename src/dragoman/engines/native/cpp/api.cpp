#include "api.h"

#include <new>

#include "model.h"
#include "processor.h"

namespace dragoman {

namespace {

// Below so many multiplications a stage is too short for two threads to pay.
constexpr double WORTH_A_THREAD = 2.0e6;

int useful(const Model& model, int rows, int threads) {
    return model.work * rows < WORTH_A_THREAD ? 1 : threads;
}

template <class Work>
int32_t guarded(Work work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return DRAGOMAN_NO_MEMORY;
    }
}

bool known(const Table& table, const int64_t* ids, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (ids[i] < 0 || ids[i] >= table.count) return false;
    return true;
}

int32_t run(void* handle, const Step& step, int threads) {
    State& state = *static_cast<State*>(handle);
    if (!known(state.model.target, step.tokens, state.rows)) return DRAGOMAN_NO_SUCH_TOKEN;
    return guarded([&] {
        const int most = useful(state.model, state.rows, threads);
        state.model.decoding.run(state.rows, most, [&](int some) { decode(state, step, some); });
        return DRAGOMAN_OK;
    });
}

}  // namespace

}  // namespace dragoman

using namespace dragoman;

int32_t dragoman_kernels(void) {
    int32_t count = 0;
    while (kernels_at(count)) ++count;
    return count;
}

const char* dragoman_kernels_name(int32_t index) { return kernels_at(index)->name; }

int32_t dragoman_kernels_bfloat16(int32_t index) { return kernels_at(index)->has_bfloat16; }

void* dragoman_model(const DragomanModel* spec) {
    try {
        return new Model(*spec);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void dragoman_free_model(void* model) { delete static_cast<Model*>(model); }

size_t dragoman_model_bytes(const void* model) { return static_cast<const Model*>(model)->bytes(); }

int32_t dragoman_start(const void* handle, const int64_t* ids, int32_t batch, int32_t width, const float* positions,
                       int32_t threads, void** state) {
    const Model& model = *static_cast<const Model*>(handle);
    if (model.cross && !known(model.source, ids, static_cast<size_t>(batch) * width)) return DRAGOMAN_NO_SUCH_TOKEN;
    return guarded([&] {
        auto made = std::make_unique<State>(model, batch);
        if (model.cross)
            model.encoding.run(batch * width + 1, useful(model, batch * width, threads),
                               [&](int some) { encode(*made, ids, width, positions, some); });
        *state = made.release();
        return DRAGOMAN_OK;
    });
}

void dragoman_free_state(void* state) { delete static_cast<State*>(state); }

int32_t dragoman_reorder(void* state, const int64_t* indices, int32_t rows) {
    return guarded([&] {
        static_cast<State*>(state)->reorder(indices, rows);
        return DRAGOMAN_OK;
    });
}

int32_t dragoman_step(void* state, const int64_t* tokens, const float* position, float* log_probs, int32_t threads) {
    Step step;
    step.tokens = tokens;
    step.position = position;
    step.all = log_probs;
    return run(state, step, threads);
}

int32_t dragoman_step_top(void* state, const int64_t* tokens, const float* position, const int64_t* banned,
                          int32_t banned_count, int32_t count, float* values, int64_t* indices, int32_t threads) {
    Step step;
    step.tokens = tokens;
    step.position = position;
    step.banned = banned;
    step.banned_count = banned_count;
    step.count = count;
    step.values = values;
    step.indices = indices;
    return run(state, step, threads);
}
