#include "search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <iterator>
#include <numeric>

#include "team.h"

namespace dragoman {

namespace {

constexpr float IMPOSSIBLE = -__builtin_inff();
constexpr size_t NEAR = size_t{1} << 25;  // weights of so many bytes stay in the caches that threads share
constexpr size_t SMALL = size_t{1} << 23;  // so few that reading them again costs little
constexpr int ROWS_SMALL = 12;             // about so many rows of a model with such weights are stepped together
constexpr int ROWS_ALONE = 32;             // with more weights, a thread that is to work alone has at least so many rows

double hypothesis_score(const DragomanSearch& options, double log_probability, size_t length) {
    const double counted = static_cast<double>(length);
    if (options.formula == DRAGOMAN_REWARD) return log_probability + options.alpha * counted;
    const double base = options.formula == DRAGOMAN_POWER ? counted : (5.0 + counted) / 6.0;
    return log_probability / std::pow(base, options.alpha);
}

// Tokens that would complete an n-gram already there.
std::vector<int64_t> closing_tokens(const std::vector<int64_t>& tokens, size_t size) {
    std::vector<int64_t> found;
    const auto tail = tokens.end() - static_cast<std::ptrdiff_t>(size - 1);
    for (size_t i = 0; i + size <= tokens.size(); ++i)
        if (std::equal(tail, tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(i)))
            found.push_back(tokens[i + size - 1]);
    return found;
}

// Which tokens each row may emit next.
class Constraints {
  public:
    Constraints(const DragomanSearch& options, int sentences)
        : options_(options), size_(static_cast<size_t>(options.no_repeat_ngram)) {
        banned_.assign(options.never, options.never + options.never_count);
        banned_.push_back(options.end);  // counted only before the minimum length
        shortest_ = sentences ? *std::min_element(options.max_lengths, options.max_lengths + sentences) : 0;
        for (int i = 0; i < sentences; ++i) longest_prefix_ = std::max(longest_prefix_, prefix(i));
    }

    // Fills in what is forbidden after `length` tokens; `tokens_of(row)` are a row's.
    template <class SentenceOf, class TokensOf>
    void apply(Step& step, int rows, int length, SentenceOf sentence_of, TokensOf tokens_of) {
        step.banned = banned_.data();
        step.banned_count = options_.never_count + (length < options_.min_length ? 1 : 0);
        const bool repeats = size_ > 0 && static_cast<size_t>(length) >= size_;
        step.rules = nullptr;
        if (!repeats && length < shortest_ && length >= longest_prefix_) return;
        rules_.assign(rows, Rule());
        for (int row = 0; row < rows; ++row) {
            const int sentence = sentence_of(row);
            Rule& rule = rules_[row];
            if (repeats) rule.banned = closing_tokens(tokens_of(row), size_);
            if (repeats) rule.otherwise = options_.end;
            if (length >= options_.max_lengths[sentence]) rule.only = options_.end;
            if (length < prefix(sentence)) rule.only = options_.prefixes[options_.prefix_starts[sentence] + length];
        }
        step.rules = rules_.data();
    }

  private:
    int prefix(int sentence) const {
        return options_.prefix_starts ? options_.prefix_starts[sentence + 1] - options_.prefix_starts[sentence] : 0;
    }

    const DragomanSearch& options_;
    const size_t size_;
    std::vector<int64_t> banned_;
    std::vector<Rule> rules_;
    int shortest_ = 0, longest_prefix_ = 0;
};

// The best continuations of each row.
struct Ranked {
    Ranked(int rows, int count) : each(count), values(static_cast<size_t>(rows) * count), tokens(values.size()) {}

    void into(Step& step) {
        step.count = each;
        step.values = values.data();
        step.indices = tokens.data();
    }
    void check(int rows) const {
        for (int i = 0; i < rows * each; ++i)
            if (std::isnan(values[i])) throw NotANumber();
    }

    const int each;
    std::vector<float> values;
    std::vector<int64_t> tokens;
};

// A live hypothesis: its log-probability, the row it continues, its newest token and that token's part of it.
struct Line {
    float total;
    int parent;
    int64_t token;
    float value;
};

// The finished hypotheses of one sentence.
class Pool {
  public:
    void add(Hypothesis one, const DragomanSearch& options) {
        double total = 0.0;
        for (float value : one.values) total += value;
        one.score = hypothesis_score(options, total, one.values.size());
        const auto place = std::upper_bound(scores_.begin(), scores_.end(), one.score, std::greater<double>());
        scores_.insert(place, one.score);
        finished_.push_back(std::move(one));
    }

    std::vector<Hypothesis> best(int count) {
        const auto better = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
        std::stable_sort(finished_.begin(), finished_.end(), better);
        if (finished_.size() > static_cast<size_t>(count)) finished_.resize(count);
        return std::move(finished_);
    }

    // Whether to stop, given the best live log-probability and its tokens so far.
    bool is_full(float best_live, int length, int max_length, const DragomanSearch& options) const {
        if (best_live == IMPOSSIBLE) return true;
        const size_t size = options.beam_size, wanted = options.n_best;
        // Unlikely early ends alone must not stop a likely hypothesis that goes on: it is compared as it stands.
        if (scores_.size() >= size && hypothesis_score(options, best_live, length) <= scores_[size - 1]) return true;
        if (scores_.size() < wanted) return false;
        // A log-probability only falls, and what is made of it only rises with length: this bounds every continuation.
        return hypothesis_score(options, best_live, std::max(max_length, length) + 1) <= scores_[wanted - 1];
    }

  private:
    std::vector<Hypothesis> finished_;
    std::vector<double> scores_;  // best first
};

// The live hypotheses of all unfinished sentences: `width` rows for each, in the order of `sentences`.
class Beam {
  public:
    Beam(State& state, const DragomanSearch& options)
        : state_(state),
          options_(options),
          constraints_(options, state.rows),
          pools_(state.rows),
          tokens_(state.rows, options.begin),
          totals_(state.rows, 0.0f),
          ranked_(state.rows * options.beam_size, std::min(2 * options.beam_size, state.model.generator.out)),
          best_(2 * static_cast<size_t>(options.beam_size)),
          place_(best_.size()) {
        sentences_.resize(state.rows);
        std::iota(sentences_.begin(), sentences_.end(), 0);
    }

    bool goes_on() const { return !sentences_.empty(); }

    // Ranks continuations, finishes those that end, keeps the best others of each unfinished sentence.
    void step(int threads) {
        Step step;
        const int rows = static_cast<int>(tokens_.size()), length = static_cast<int>(steps_.size());
        step.tokens = tokens_.data();
        ranked_.into(step);
        constraints_.apply(
            step, rows, length, [&](int row) { return sentences_[row / width_]; },
            [&](int row) { return trace(steps_.back()[row], length - 1).tokens; });
        run_step(state_, step, threads);
        ranked_.check(rows);
        std::vector<int> going;
        std::vector<Line> lines;
        for (size_t i = 0; i < sentences_.size(); ++i) {
            const int sentence = sentences_[i];
            const size_t before = lines.size();
            advance(static_cast<int>(i), length, lines);
            if (pools_[sentence].is_full(lines[before].total, length + 1, options_.max_lengths[sentence], options_))
                lines.resize(before);
            else
                going.push_back(sentence);
        }
        sentences_ = std::move(going);
        if (goes_on()) descend(std::move(lines));
    }

    Found found() {
        Found all;
        for (Pool& pool : pools_) all.push_back(pool.best(options_.n_best));
        return all;
    }

  private:
    // Adds the lines of a sentence that live on; those that end go to its pool.
    void advance(int index, int length, std::vector<Line>& lines) {
        const int first = index * width_, each = ranked_.each, candidates = width_ * each;
        const size_t offset = static_cast<size_t>(first) * each, size = options_.beam_size;
        sums_.resize(candidates);
        for (int i = 0; i < candidates; ++i) sums_[i] = totals_[first + i / each] + ranked_.values[offset + i];
        const int some = std::min(2 * options_.beam_size, candidates);
        state_.model.kernels.top(sums_.data(), candidates, some, best_.data(), place_.data());
        const auto line = [&](int rank) {
            const size_t from = offset + place_[rank];
            const int parent = first + static_cast<int>(place_[rank]) / each;
            return Line{best_[rank], parent, ranked_.tokens[from], ranked_.values[from]};
        };
        const size_t wanted = lines.size() + size;
        for (int rank = 0; rank < some; ++rank) {
            const Line one = line(rank);
            if (one.total == IMPOSSIBLE) continue;
            if (one.token != options_.end) {
                if (lines.size() < wanted) lines.push_back(one);
            } else if (rank < options_.beam_size) {
                pools_[sentences_[index]].add(trace(one, length), options_);
            }
        }
        Line dead = line(0);
        dead.total = IMPOSSIBLE;
        lines.resize(wanted, dead);
    }

    // Lets the chosen lines become the live rows; finished sentences leave the batch.
    void descend(std::vector<Line> lines) {
        const size_t before = tokens_.size(), rows = lines.size();
        width_ = options_.beam_size;
        tokens_.resize(rows);
        totals_.resize(rows);
        std::vector<int64_t> parents(rows);
        bool same = rows == before;
        for (size_t row = 0; row < rows; ++row) {
            tokens_[row] = lines[row].token;
            totals_[row] = lines[row].total;
            parents[row] = lines[row].parent;
            same = same && parents[row] == static_cast<int64_t>(row);
        }
        steps_.push_back(std::move(lines));
        if (!same) state_.reorder(parents.data(), static_cast<int>(rows));
    }

    // A hypothesis from its first to its newest token, `line`, which continues a row of step `length` - 1.
    Hypothesis trace(Line line, int length) const {
        Hypothesis one;
        one.tokens.resize(length + 1);
        one.values.resize(length + 1);
        for (int i = length; i >= 0; --i) {
            one.tokens[i] = line.token;
            one.values[i] = line.value;
            if (i > 0) line = steps_[i - 1][line.parent];
        }
        return one;
    }

    State& state_;
    const DragomanSearch& options_;
    Constraints constraints_;
    std::vector<Pool> pools_;
    std::vector<int> sentences_;
    int width_ = 1;  // one row per sentence at first; the first step makes beam_size of it
    std::vector<int64_t> tokens_;
    std::vector<float> totals_, sums_;
    Ranked ranked_;
    std::vector<float> best_;
    std::vector<int64_t> place_;
    std::vector<std::vector<Line>> steps_;
};

Found greedy_search(State& state, const DragomanSearch& options, int threads) {
    const int sentences = state.rows;
    Constraints constraints(options, sentences);
    std::vector<Hypothesis> texts(sentences);
    std::vector<int> rows(sentences);
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<int64_t> tokens(sentences, options.begin), alive;
    Ranked ranked(sentences, 1);
    for (int length = 0; !rows.empty(); ++length) {
        const int count = static_cast<int>(rows.size());
        Step step;
        step.tokens = tokens.data();
        ranked.into(step);
        constraints.apply(
            step, count, length, [&](int row) { return rows[row]; }, [&](int row) { return texts[rows[row]].tokens; });
        run_step(state, step, threads);
        ranked.check(count);
        alive.clear();
        for (int row = 0; row < count; ++row) {
            const int64_t token = ranked.tokens[row];
            texts[rows[row]].tokens.push_back(token);
            texts[rows[row]].values.push_back(ranked.values[row]);
            if (token == options.end) continue;
            const size_t place = alive.size();
            alive.push_back(row);
            tokens[place] = token;
            rows[place] = rows[row];
        }
        tokens.resize(alive.size());
        rows.resize(alive.size());
        if (alive.size() < static_cast<size_t>(count) && !alive.empty())
            state.reorder(alive.data(), static_cast<int>(alive.size()));
    }
    Found found;
    for (Hypothesis& text : texts) found.push_back({std::move(text)});
    return found;
}

Found beam_search(State& state, const DragomanSearch& options, int threads) {
    Beam beam(state, options);
    while (beam.goes_on()) beam.step(threads);
    return beam.found();
}

// How many parts a batch is searched in, each by one thread, which then waits for nobody. That pays when a step's
// products take longer than reading the weights, which every part does for itself. Of a small model parts are small
// too, for what a step writes and reads again of many rows does not stay in the cache of a core; each thread has as
// many of them.
int parts_of(const Model& model, int batch, const DragomanSearch& options, int threads) {
    const int rounds = model.bytes() < SMALL ? batch * options.beam_size / (threads * ROWS_SMALL) : 1;
    const int least = model.bytes() < NEAR ? 1 : (ROWS_ALONE + options.beam_size - 1) / options.beam_size;
    return std::min(threads * std::max(1, rounds), batch / least);
}

// Where each part begins, and where the last one ends: parts have about as many tokens.
std::vector<int> borders_of(const Model& model, const int64_t* ids, int batch, int width, int parts) {
    std::vector<int> borders{0};
    std::vector<int64_t> passed{0};
    for (int row = 0; row < batch; ++row) {
        const int64_t* from = ids + static_cast<size_t>(row) * width;
        passed.push_back(passed.back() + 1 + width - std::count(from, from + width, model.pad));
    }
    for (int part = 1; part < parts; ++part) {
        const int64_t wanted = passed.back() * part / parts;
        const auto place = std::lower_bound(passed.begin(), passed.end(), wanted);
        const int least = borders.back() + 1, most = batch - (parts - part);
        borders.push_back(std::clamp(static_cast<int>(place - passed.begin()), least, most));
    }
    borders.push_back(batch);
    return borders;
}

// Sentences encoded, one that is the same as that before it not once more.
std::unique_ptr<State> start(const Model& model, const int64_t* ids, int batch, int width, int threads) {
    if (!model.cross) return run_start(model, ids, batch, width, nullptr, threads);
    std::vector<int64_t> distinct, owners;
    int count = 0;
    for (int row = 0; row < batch; ++row) {
        const int64_t* from = ids + static_cast<size_t>(row) * width;
        if (row == 0 || !std::equal(from, from + width, from - width)) {
            distinct.insert(distinct.end(), from, from + width);
            ++count;
        }
        owners.push_back(count - 1);
    }
    if (count == batch) return run_start(model, ids, batch, width, nullptr, threads);
    auto state = run_start(model, distinct.data(), count, width, nullptr, threads);
    state->reorder(owners.data(), batch);
    return state;
}

}  // namespace

Found search(const Model& model, const int64_t* ids, int batch, int width, const DragomanSearch& options, int threads) {
    const auto some = [&](int from, int to, int members) {
        DragomanSearch own = options;
        own.max_lengths += from;
        if (own.prefix_starts) own.prefix_starts += from;
        const auto state = start(model, ids + static_cast<size_t>(from) * width, to - from, width, members);
        return own.beam_size == 1 ? greedy_search(*state, own, members) : beam_search(*state, own, members);
    };
    const int parts = parts_of(model, batch, options, threads);
    if (parts < 2) return some(0, batch, threads);
    const std::vector<int> borders = borders_of(model, ids, batch, width, parts);
    std::vector<Found> found(parts);
    std::vector<std::exception_ptr> errors(parts);
    std::atomic<int> next{0};
    const auto job = [&](int) {
        for (int part = next++; part < parts; part = next++) {  // whoever is done takes the next
            try {
                found[part] = some(borders[part], borders[part + 1], 1);
            } catch (...) {
                errors[part] = std::current_exception();
            }
        }
    };
    if (threads == 1 || !run_together(std::min(threads, parts), job)) job(0);
    Found all;
    for (int part = 0; part < parts; ++part) {
        if (errors[part]) std::rethrow_exception(errors[part]);
        std::move(found[part].begin(), found[part].end(), std::back_inserter(all));
    }
    return all;
}

}  // namespace dragoman
