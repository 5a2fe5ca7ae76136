#include "api.h"

#include <new>

#include "model.h"
#include "processor.h"
#include "search.h"

namespace dragoman {

namespace {

template <class Work>
int32_t guarded(Work work) {
    try {
        work();
        return DRAGOMAN_OK;
    } catch (const std::bad_alloc&) {
        return DRAGOMAN_NO_MEMORY;
    } catch (const NotANumber&) {
        return DRAGOMAN_NOT_A_NUMBER;
    }
}

bool known(const Table& table, const int64_t* ids, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (ids[i] < 0 || ids[i] >= table.count) return false;
    return true;
}

bool known_tokens(const Model& model, const DragomanSearch& options, int batch) {
    const int prefixed = options.prefix_starts ? options.prefix_starts[batch] : 0;
    return known(model.target, &options.begin, 1) && known(model.target, &options.end, 1) &&
           known(model.target, options.never, options.never_count) && known(model.target, options.prefixes, prefixed);
}

// What was found, as the caller reads it.
struct Kept : DragomanFound {
    explicit Kept(const Found& found) {
        for (const auto& sentence : found) {
            counts_.push_back(static_cast<int32_t>(sentence.size()));
            for (const Hypothesis& one : sentence) {
                lengths_.push_back(static_cast<int32_t>(one.tokens.size()));
                tokens_.insert(tokens_.end(), one.tokens.begin(), one.tokens.end());
                values_.insert(values_.end(), one.values.begin(), one.values.end());
            }
        }
        counts = counts_.data();
        lengths = lengths_.data();
        tokens = tokens_.data();
        values = values_.data();
    }

  private:
    std::vector<int32_t> counts_, lengths_;
    std::vector<int64_t> tokens_;
    std::vector<float> values_;
};

int32_t run(void* handle, const Step& step, int threads) {
    State& state = *static_cast<State*>(handle);
    if (!known(state.model.target, step.tokens, state.rows)) return DRAGOMAN_NO_SUCH_TOKEN;
    return guarded([&] { run_step(state, step, threads); });
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
    return guarded([&] { *state = run_start(model, ids, batch, width, positions, threads).release(); });
}

void dragoman_free_state(void* state) { delete static_cast<State*>(state); }

int32_t dragoman_reorder(void* state, const int64_t* indices, int32_t rows) {
    return guarded([&] { static_cast<State*>(state)->reorder(indices, rows); });
}

int32_t dragoman_search(const void* handle, const int64_t* ids, int32_t batch, int32_t width,
                        const DragomanSearch* options, int32_t threads, DragomanFound** found) {
    const Model& model = *static_cast<const Model*>(handle);
    *found = nullptr;
    if (model.cross && !known(model.source, ids, static_cast<size_t>(batch) * width)) return DRAGOMAN_NO_SUCH_TOKEN;
    if (!known_tokens(model, *options, batch)) return DRAGOMAN_NO_SUCH_TOKEN;
    return guarded([&] { *found = new Kept(search(model, ids, batch, width, *options, threads)); });
}

void dragoman_free_found(DragomanFound* found) { delete static_cast<Kept*>(found); }

int32_t dragoman_step(void* state, const int64_t* tokens, const float* position, float* log_probs, float* outputs,
                      int32_t threads) {
    Step step;
    step.tokens = tokens;
    step.position = position;
    step.all = log_probs;
    step.outputs = outputs;
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
