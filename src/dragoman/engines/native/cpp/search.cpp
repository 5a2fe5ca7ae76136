#include "search.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "guard.h"
#include "threads.h"

namespace dragoman {
namespace {

constexpr size_t NEAR = size_t{1} << 25;   // weights of so many bytes stay in the caches that threads share
constexpr size_t SMALL = size_t{1} << 23;  // so few that reading them again costs little
constexpr int ROWS_SMALL = 12;             // about so many rows of a model with such weights are stepped together
constexpr int ROWS_ALONE = 32;          // with more weights, a thread that is to work alone has at least so many rows
constexpr int64_t MOST_ROWS = 1 << 24;  // at once

// How many parts some sentences are searched in, each by one thread, which then waits for nobody. That pays when a
// step's products take longer than reading the weights, which every part does for itself. Of a small model parts are
// small too, for what a step writes and reads again of many rows does not stay in the cache of a core; each thread has
// as many of them.
int parts_of(const Model& model, int sentences, int64_t rows, int threads) {
    const int64_t rounds = model.bytes() < SMALL ? rows / (int64_t{threads} * ROWS_SMALL) : 1;
    rows = std::max(rows, int64_t{1});
    const int64_t least = model.bytes() < NEAR ? 1 : (int64_t{ROWS_ALONE} * sentences + rows - 1) / rows;
    return static_cast<int>(std::min(threads * std::max(int64_t{1}, rounds), sentences / least));
}

// Where each part begins, and where the last one ends: parts have about as many tokens.
std::vector<int> borders_of(const Model& model, const std::vector<std::unique_ptr<Sentence>>& sentences, int parts) {
    const int count = static_cast<int>(sentences.size());
    std::vector<int> borders{0};
    std::vector<int64_t> passed{0};
    for (const auto& sentence : sentences) passed.push_back(passed.back() + 1 + model.places(sentence->options.length));
    for (int part = 1; part < parts; ++part) {
        const int64_t wanted = passed.back() * part / parts;
        const auto place = std::lower_bound(passed.begin(), passed.end(), wanted);
        const int least = borders.back() + 1, most = count - (parts - part);
        borders.push_back(std::clamp(static_cast<int>(place - passed.begin()), least, most));
    }
    borders.push_back(count);
    return borders;
}

}  // namespace

int64_t Search::admit(const DragomanSentence* given, int count) {
    int64_t rows = 0;
    for (const auto& part : parts_) rows += part->group.beams();
    std::vector<std::unique_ptr<Sentence>> sentences;
    int64_t beams = 0;
    for (int i = 0; i < count; ++i) {
        check(model_, given[i]);
        sentences.push_back(std::make_unique<Sentence>(model_, given[i], next_ + i));
        beams += given[i].beam_size;
    }
    require(rows + beams <= MOST_ROWS, "there are too many sentences at once");
    const int64_t first = next_;
    if (count == 0) return first;
    next_ += count;
    try {
        add(std::move(sentences), parts_.empty() ? parts_of(model_, count, beams, threads_) : 0);
    } catch (...) {
        for (int i = 0; i < count; ++i) cancel(first + i);
        throw;
    }
    return first;
}

// As so many new parts, or to those that have the fewest rows.
void Search::add(std::vector<std::unique_ptr<Sentence>> sentences, int parts) {
    if (!parts_.empty()) {
        for (auto& sentence : sentences) {
            Group& group = roomiest(sentence->options.beam_size);
            group.admit(std::move(sentence));
        }
        return;
    }
    const std::vector<int> borders = borders_of(model_, sentences, std::max(1, parts));
    for (size_t part = 0; part + 1 < borders.size(); ++part) {
        Group& group = more();
        for (int i = borders[part]; i < borders[part + 1]; ++i) group.admit(std::move(sentences[i]));
    }
}

Group& Search::more() {
    parts_.push_back(std::unique_ptr<Part>(new Part{Group(model_), {}}));
    return parts_.back()->group;
}

// The part with the fewest rows, or a new one where one thread more, or a smaller part, is of use.
Group& Search::roomiest(int beam_size) {
    const auto fewer = [](const auto& a, const auto& b) { return a->group.beams() < b->group.beams(); };
    Group& found = (*std::min_element(parts_.begin(), parts_.end(), fewer))->group;
    const size_t bytes = model_.bytes();
    const int most = bytes < SMALL ? 2 * ROWS_SMALL : bytes < NEAR ? 0 : ROWS_ALONE;
    const bool of_use = bytes < SMALL || parts_.size() < static_cast<size_t>(threads_);
    return of_use && found.beams() > 0 && found.beams() + beam_size > most ? more() : found;
}

void Search::advance(int steps, bool until_finished) {
    std::atomic<bool> enough{false};
    const auto run = [&](Part& part, int threads) {
        for (int i = 0; i < steps && part.group.goes_on() && !enough; ++i) {
            part.group.step(threads, part.finished);
            if (until_finished && !part.finished.empty()) enough = true;
        }
    };
    const int count = static_cast<int>(parts_.size());
    if (count == 1) {
        run(*parts_[0], threads_);
    } else {
        std::atomic<int> next{0};
        run_together(std::min(threads_, count), [&](const Worker&) {
            for (int i; (i = next++) < count;) run(*parts_[i], 1);  // whoever is done takes the next
        });
    }
    for (const auto& part : parts_) {
        std::move(part->finished.begin(), part->finished.end(), std::back_inserter(finished_));
        part->finished.clear();
    }
    const auto over = [](const auto& part) { return !part->group.goes_on(); };
    parts_.erase(std::remove_if(parts_.begin(), parts_.end(), over), parts_.end());
}

int Search::live() const {
    int count = 0;
    for (const auto& part : parts_) count += part->group.sentences();
    return count;
}

std::vector<Finished> Search::take() {
    const auto earlier = [](const Finished& a, const Finished& b) { return a.number < b.number; };
    std::sort(finished_.begin(), finished_.end(), earlier);
    return std::exchange(finished_, {});
}

std::vector<Finished> Search::peek(int64_t number) const {
    for (const Finished& one : finished_)
        if (one.number == number) return {one};
    for (const auto& part : parts_)
        if (const Sentence* one = part->group.find(number)) return {{number, DRAGOMAN_OK, one->so_far()}};
    return {};
}

bool Search::cancel(int64_t number) {
    const auto is_it = [&](const Finished& one) { return one.number == number; };
    const auto place = std::find_if(finished_.begin(), finished_.end(), is_it);
    if (place != finished_.end()) {
        finished_.erase(place);
        return true;
    }
    for (const auto& part : parts_)
        if (part->group.cancel(number)) return true;
    return false;
}

}  // namespace dragoman
