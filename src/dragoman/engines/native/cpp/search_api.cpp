// Exports: whole searches and running ones.
#include <climits>
#include <memory>
#include <utility>

#include "guard.h"
#include "search.h"

namespace dragoman {
namespace {

// What was found, as the caller reads it.
struct Kept : DragomanFound {
    explicit Kept(const std::vector<Finished>& found) {
        for (const Finished& sentence : found) {
            numbers_.push_back(sentence.number);
            codes_.push_back(sentence.code);
            counts_.push_back(static_cast<int32_t>(sentence.outputs.size()));
            for (const Hypothesis& one : sentence.outputs) {
                lengths_.push_back(static_cast<int32_t>(one.tokens.size()));
                tokens_.insert(tokens_.end(), one.tokens.begin(), one.tokens.end());
                values_.insert(values_.end(), one.values.begin(), one.values.end());
            }
        }
        static_cast<DragomanFound&>(*this) = {static_cast<int64_t>(numbers_.size()),
                                              numbers_.data(),
                                              codes_.data(),
                                              counts_.data(),
                                              lengths_.data(),
                                              tokens_.data(),
                                              values_.data()};
    }

  private:
    std::vector<int32_t> codes_, counts_, lengths_;
    std::vector<int64_t> numbers_, tokens_;
    std::vector<float> values_;
};

std::unique_ptr<Search> opened(const void* model, int32_t threads) {
    require(model, "there is no model");
    return std::make_unique<Search>(*static_cast<const Model*>(model), threads_of(threads));
}

int64_t admitted(Search& search, const DragomanSentence* sentences, int32_t count) {
    require(count >= 0 && (sentences || count == 0), "there are no sentences");
    return search.admit(sentences, count);
}

// Lets one caller at a time drive a running search; its result is a code of api.h.
template <class Work>
int32_t driven(void* handle, Work work) {
    return guarded([&] {
        auto& search = given<Search>(handle, "there is no search");
        const Exclusive own(search.used);
        work(search);
    });
}

}  // namespace
}  // namespace dragoman

using namespace dragoman;

int32_t dragoman_search(const void* model, const DragomanSentence* sentences, int32_t count, int32_t threads,
                        DragomanFound** found) {
    return guarded([&] {
        require(found, "there is no place for what is found");
        *found = nullptr;
        const auto search = opened(model, threads);
        admitted(*search, sentences, count);
        search->advance(INT_MAX, false);
        *found = new Kept(search->take());
    });
}

void dragoman_free_found(DragomanFound* found) { delete static_cast<Kept*>(found); }

int32_t dragoman_open(const void* model, int32_t threads, void** search) {
    return guarded([&] {
        require(search, "there is no place for the search");
        *search = nullptr;
        *search = opened(model, threads).release();
    });
}

int32_t dragoman_admit(void* handle, const DragomanSentence* sentences, int32_t count, int64_t* first) {
    return driven(handle, [&](Search& search) {
        require(first, "there is no place for the number");
        *first = admitted(search, sentences, count);
    });
}

int32_t dragoman_advance(void* handle, int32_t steps, int32_t until_finished, int32_t* live) {
    return driven(handle, [&](Search& search) {
        require(live, "there is no place for the number");
        require(steps >= 0, "there are fewer than no steps");
        search.advance(steps, until_finished != 0);
        *live = search.live();
    });
}

int32_t dragoman_take(void* handle, DragomanFound** found) {
    return driven(handle, [&](Search& search) {
        require(found, "there is no place for what is found");
        *found = new Kept(search.take());
    });
}

int32_t dragoman_peek(void* handle, int64_t number, DragomanFound** found) {
    return driven(handle, [&](Search& search) {
        require(found, "there is no place for what is found");
        *found = new Kept(search.peek(number));
    });
}

int32_t dragoman_cancel(void* handle, int64_t number, int32_t* dropped) {
    return driven(handle, [&](Search& search) {
        require(dropped, "there is no place for the answer");
        *dropped = search.cancel(number);
    });
}

void dragoman_close(void* search) { delete static_cast<Search*>(search); }
