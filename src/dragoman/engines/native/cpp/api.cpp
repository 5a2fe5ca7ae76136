// Exports: the library itself, models and states.
#include "api.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "guard.h"
#include "processor.h"
#include "state.h"
#include "training.h"

namespace dragoman {
namespace {

constexpr int MOST_BATCH = 1 << 30;

thread_local char message[256] = "";

constexpr std::pair<const char*, size_t> SIZES[] = {{"DragomanMatrix", sizeof(DragomanMatrix)},
                                                    {"DragomanNorm", sizeof(DragomanNorm)},
                                                    {"Drop", sizeof(Drop)},
                                                    {"DragomanTable", sizeof(DragomanTable)},
                                                    {"DragomanModel", sizeof(DragomanModel)},
                                                    {"Attention", sizeof(Attention)},
                                                    {"DragomanSentence", sizeof(DragomanSentence)},
                                                    {"DragomanFound", sizeof(DragomanFound)},
                                                    {"AttentionGradients", sizeof(AttentionGradients)}};

State& state_of(void* handle) { return given<State>(handle, "there is no state"); }

// One step of a state that nobody else uses meanwhile.
void run(State& state, const Step& step, int32_t rows, int32_t threads) {
    require(rows == state.count(), "there are not as many tokens as rows");
    state.model.target.check(step.tokens, static_cast<size_t>(rows));
    run_step(state, step, threads_of(threads));
}

}  // namespace

void remember(const char* text) noexcept { std::snprintf(message, sizeof(message), "%s", text); }

}  // namespace dragoman

using namespace dragoman;

int32_t dragoman_abi(void) { return DRAGOMAN_ABI; }

size_t dragoman_size_of(const char* name) {
    for (const auto& [known, size] : SIZES)
        if (name && std::strcmp(name, known) == 0) return size;
    return 0;
}

const char* dragoman_message(void) { return message; }

int32_t dragoman_kernels(void) {
    int32_t count = 0;
    while (kernels_at(count)) ++count;
    return count;
}

const char* dragoman_kernels_name(int32_t index) {
    const Kernels* kernels = kernels_at(index);
    return kernels ? kernels->name : nullptr;
}

int32_t dragoman_kernels_bfloat16(int32_t index) {
    const Kernels* kernels = kernels_at(index);
    return kernels && kernels->has_bfloat16;
}

int32_t dragoman_model(const DragomanModel* spec, void** model) {
    return guarded([&] {
        require(model, "there is no place for the model");
        *model = nullptr;
        require(spec, "there is no description of the model");
        *model = new Model(*spec);
    });
}

void dragoman_free_model(void* model) { delete static_cast<Model*>(model); }

size_t dragoman_model_bytes(const void* model) { return model ? static_cast<const Model*>(model)->bytes() : 0; }

int32_t dragoman_start(const void* handle, const int64_t* ids, const float* frames, const int32_t* lengths,
                       int32_t batch, int32_t threads, void** state) {
    return guarded([&] {
        require(state, "there is no place for the state");
        *state = nullptr;
        require(handle, "there is no model");
        const Model& model = *static_cast<const Model*>(handle);
        require(batch >= 0 && batch <= MOST_BATCH, "there are fewer than no sentences, or too many");
        require(!model.cross || lengths || batch == 0, "there are no lengths");
        Sources sources{ids, {}, lengths, batch, false};
        for (int32_t i = 0; model.mels > 0 && i < batch; ++i) {
            require(frames || lengths[i] == 0, "there are no frames");
            sources.frames.push_back(frames);
            if (lengths[i] > 0) frames += static_cast<size_t>(lengths[i]) * model.mels;
        }
        *state = run_start(model, sources, threads_of(threads)).release();
    });
}

void dragoman_free_state(void* state) { delete static_cast<State*>(state); }

int32_t dragoman_reorder(void* handle, const int64_t* indices, int32_t rows) {
    return guarded([&] {
        State& state = state_of(handle);
        const Exclusive own(state.used);
        require(rows >= 0 && (indices || rows == 0), "there are no indices");
        for (int32_t i = 0; i < rows; ++i)
            require(indices[i] >= 0 && indices[i] < state.count(), "an index is not one of a row");
        state.model.check_rows(rows);
        state.reorder(indices, rows);
    });
}

int32_t dragoman_join(void* handle, void* other) {
    return guarded([&] {
        State &state = state_of(handle), &more = state_of(other);
        const Exclusive own(state.used), also(more.used);
        require(&state.model == &more.model, "the states are of different models");
        state.model.check_rows(int64_t{state.count()} + more.count());
        state.join(more);
    });
}

int32_t dragoman_step(void* handle, const int64_t* tokens, int32_t rows, float* log_probs, float* outputs,
                      int32_t threads) {
    return guarded([&] {
        State& state = state_of(handle);
        const Exclusive own(state.used);
        require(log_probs || rows == 0, "there is no place for log-probabilities");
        Step step;
        step.tokens = tokens;
        step.all = log_probs;
        step.outputs = outputs;
        run(state, step, rows, threads);
    });
}

int32_t dragoman_step_top(void* handle, const int64_t* tokens, int32_t rows, const int64_t* banned,
                          int32_t banned_count, int32_t count, float* values, int64_t* indices, int32_t threads) {
    return guarded([&] {
        State& state = state_of(handle);
        const Exclusive own(state.used);
        require(banned_count >= 0, "fewer than no tokens are banned");
        require(count >= 1 && count <= state.model.generator.out, "so many tokens there are not");
        require((values && indices) || rows == 0, "there is no place for the likeliest");
        state.model.target.check(banned, static_cast<size_t>(banned_count));
        std::vector<Rule> rules(static_cast<size_t>(state.count()));
        for (size_t row = 0; row < rules.size(); ++row) {
            rules[row].banned = banned;
            rules[row].banned_count = banned_count;
            rules[row].count = count;
            rules[row].values = values + row * count;
            rules[row].indices = indices + row * count;
        }
        Step step;
        step.tokens = tokens;
        step.rules = rules.data();
        run(state, step, rows, threads);
    });
}
