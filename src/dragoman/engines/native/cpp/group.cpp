#include "group.h"

#include <algorithm>
#include <utility>

#include "guard.h"

namespace dragoman {
namespace {

// Sentences encoded; one that is the same as that before it not once more.
std::unique_ptr<State> start(const Model& model, const std::vector<std::unique_ptr<Sentence>>& sentences, int threads) {
    std::vector<int64_t> ids, owners;
    std::vector<int32_t> lengths;
    const Options* before = nullptr;
    Sources sources;
    for (const auto& sentence : sentences) {
        const Options& options = sentence->options;
        if (!model.cross || !before || options.source != before->source || options.frames != before->frames) {
            ids.insert(ids.end(), options.source.begin(), options.source.end());
            lengths.push_back(options.length);
            sources.frames.push_back(options.frames.data());
        }
        before = &options;
        owners.push_back(static_cast<int64_t>(lengths.size()) - 1);
        sources.read |= options.ctc_weight > 0.0;
    }
    sources.ids = ids.data();
    sources.lengths = lengths.data();
    sources.count = static_cast<int>(lengths.size());
    auto state = run_start(model, sources, threads);
    if (lengths.size() < owners.size()) state->reorder(owners.data(), static_cast<int>(owners.size()));
    return state;
}

}  // namespace

void Group::admit(std::unique_ptr<Sentence> sentence) { waiting_.push_back(std::move(sentence)); }

int Group::beams() const {
    int rows = 0;
    for (const auto* some : {&live_, &waiting_})
        for (const auto& sentence : *some) rows += sentence->options.beam_size;
    return rows;
}

const Sentence* Group::find(int64_t number) const {
    for (const auto* some : {&live_, &waiting_})
        for (const auto& sentence : *some)
            if (sentence->number == number) return sentence.get();
    return nullptr;
}

bool Group::cancel(int64_t number) {
    const auto is_it = [&](const std::unique_ptr<Sentence>& one) { return one->number == number; };
    const auto waits = std::find_if(waiting_.begin(), waiting_.end(), is_it);
    if (waits != waiting_.end()) {
        waiting_.erase(waits);
        return true;
    }
    const auto lives = std::find_if(live_.begin(), live_.end(), is_it);
    if (lives == live_.end()) return false;
    std::vector<int64_t> rows;
    int64_t row = 0;
    for (auto one = live_.begin(); one != live_.end(); ++one)
        for (int i = 0; i < (*one)->rows(); ++i, ++row)
            if (one != lives) rows.push_back(row);
    keep(rows);
    live_.erase(lives);
    return true;
}

void Group::step(int threads, std::vector<Finished>& finished) {
    const int32_t code = guarded([&] {
        join(threads);
        ask();
        Step step;
        step.tokens = newest_.data();
        step.rules = rules_.data();
        run_step(*state_, step, threads);
        rank(finished);
    });
    if (code == DRAGOMAN_OK) return;
    for (auto* some : {&live_, &waiting_}) {
        for (const auto& sentence : *some) finished.push_back({sentence->number, code, {}});
        some->clear();
    }
    state_.reset();
}

void Group::join(int threads) {
    if (waiting_.empty()) return;
    live_.reserve(live_.size() + waiting_.size());
    auto more = start(model_, waiting_, threads);
    if (state_) state_->join(*more);
    else state_ = std::move(more);
    std::move(waiting_.begin(), waiting_.end(), std::back_inserter(live_));
    waiting_.clear();
}

void Group::ask() {
    const size_t rows = static_cast<size_t>(state_->count());
    size_t candidates = 0, row = 0, place = 0;
    for (const auto& sentence : live_) candidates += static_cast<size_t>(sentence->rows()) * sentence->each();
    newest_.resize(rows);
    rules_.resize(rows);
    values_.resize(candidates);
    tokens_.resize(candidates);
    for (const auto& sentence : live_) {
        sentence->ask(&newest_[row], &rules_[row], &values_[place], &tokens_[place]);
        row += sentence->rows();
        place += static_cast<size_t>(sentence->rows()) * sentence->each();
    }
}

void Group::rank(std::vector<Finished>& finished) {
    parents_.clear();
    std::vector<std::unique_ptr<Sentence>> going;
    going.reserve(live_.size());
    finished.reserve(finished.size() + live_.size());
    int first = 0;
    size_t place = 0;
    for (auto& sentence : live_) {
        const int rows = sentence->rows();
        const size_t before = parents_.size(), candidates = static_cast<size_t>(rows) * sentence->each();
        int32_t code = guarded([&] { sentence->advance(&values_[place], &tokens_[place], first, parents_); });
        if (code != DRAGOMAN_OK) parents_.resize(before);
        first += rows;
        place += candidates;
        if (parents_.size() > before) {
            going.push_back(std::move(sentence));
            continue;
        }
        Finished done{sentence->number, code, {}};
        if (code == DRAGOMAN_OK) done.outputs = sentence->found();
        finished.push_back(std::move(done));
    }
    live_ = std::move(going);
    keep(parents_);
}

// Keeps these rows of the state, in this order.
void Group::keep(const std::vector<int64_t>& rows) {
    if (rows.empty()) return state_.reset();
    bool same = rows.size() == state_->rows.size();
    for (size_t row = 0; same && row < rows.size(); ++row) same = rows[row] == static_cast<int64_t>(row);
    if (!same) state_->reorder(rows.data(), static_cast<int>(rows.size()));
}

}  // namespace dragoman
