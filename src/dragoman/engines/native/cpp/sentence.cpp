#include "sentence.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "guard.h"

namespace dragoman {
namespace {

constexpr float IMPOSSIBLE = -__builtin_inff();
constexpr int MOST = 1 << 30;       // tokens of anything
constexpr int MOST_BEAM = 1 << 12;  // the square of twice it is counted

// Tokens that would complete an n-gram already there.
std::vector<int64_t> closing_tokens(const std::vector<int64_t>& tokens, size_t size) {
    std::vector<int64_t> found;
    const auto tail = tokens.end() - static_cast<std::ptrdiff_t>(size - 1);
    for (size_t i = 0; i + size <= tokens.size(); ++i)
        if (std::equal(tail, tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(i)))
            found.push_back(tokens[i + size - 1]);
    return found;
}

}  // namespace

void check(const Model& model, const DragomanSentence& given) {
    for (const int32_t size : {given.source_length, given.prefix_length, given.never_count, given.min_length,
                               given.max_length, given.no_repeat_ngram})
        require(size >= 0 && size <= MOST, "a length of a sentence is not between 0 and 2^30");
    require(given.beam_size >= 1 && given.beam_size <= MOST_BEAM, "the beam is not between 1 and 4,096");
    require(given.n_best >= 1, "fewer than one output is asked for");
    require(given.formula >= DRAGOMAN_GNMT && given.formula <= DRAGOMAN_REWARD, "there is no such length penalty");
    require(given.end_at_limit >= DRAGOMAN_CHARGED && given.end_at_limit <= DRAGOMAN_NO_END,
            "there is no such end at the limit");
    require(std::isfinite(given.alpha), "the length penalty is no number");
    require(given.ctc_weight >= 0.0 && given.ctc_weight <= 1.0, "a share is not between 0 and 1");
    require(given.ctc_weight == 0.0 || model.blank >= 0, "the model has nothing that reads off frames");
    if (model.cross) {
        if (!model.mels) model.source.check(given.source, static_cast<size_t>(given.source_length));
        require(!model.mels || given.frames || given.source_length == 0, "there are no frames");
        if (model.places(given.source_length) > model.source_positions.longest()) throw TooLong();
    }
    model.target.check(given.prefix, static_cast<size_t>(given.prefix_length));
    model.target.check(given.never, static_cast<size_t>(given.never_count));
    model.target.check(&given.begin, 1);
    model.target.check(&given.end, 1);
}

Options::Options(const Model& model, const DragomanSentence& given)
    : frames(given.frames, given.frames + static_cast<size_t>(given.source_length) * model.mels),
      source(given.source, given.source + (model.cross && !model.mels ? given.source_length : 0)),
      prefix(given.prefix, given.prefix + given.prefix_length),
      never_or_end(given.never, given.never + given.never_count),
      begin(given.begin),
      end(given.end),
      alpha(given.alpha),
      ctc_weight(given.ctc_weight),
      length(model.cross ? given.source_length : 0),
      beam_size(given.beam_size),
      n_best(given.n_best),
      min_length(given.min_length),
      max_length(given.max_length),
      no_repeat_ngram(given.no_repeat_ngram),
      formula(given.formula),
      end_at_limit(given.end_at_limit),
      early(given.early != 0) {
    never_or_end.push_back(end);
}

double Options::score(double log_probability, size_t length) const {
    const double counted = static_cast<double>(length);
    if (formula == DRAGOMAN_REWARD) return log_probability + alpha * counted;
    const double base = formula == DRAGOMAN_POWER ? counted : (5.0 + counted) / 6.0;
    return log_probability / std::pow(base, alpha);
}

void Pool::add(Hypothesis one, const Options& options) {
    double total = 0.0;
    for (float value : one.values) total += value;
    const size_t most = static_cast<size_t>(options.max_length), length = one.values.size();
    const bool uncounted = options.end_at_limit == DRAGOMAN_NO_END && most > 0 && length > most;
    one.score = options.score(total, length - uncounted);
    const auto place = std::upper_bound(scores_.begin(), scores_.end(), one.score, std::greater<double>());
    scores_.insert(place, one.score);
    finished_.push_back(std::move(one));
}

std::vector<Hypothesis> Pool::best(int count) {
    const auto better = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
    std::stable_sort(finished_.begin(), finished_.end(), better);
    if (finished_.size() > static_cast<size_t>(count)) finished_.resize(count);
    return std::move(finished_);
}

bool Pool::is_full(float best_live, int length, const Options& options) const {
    if (best_live == IMPOSSIBLE) return true;
    const size_t size = options.beam_size, wanted = options.n_best;
    // Unlikely early ends alone must not stop a likely hypothesis that goes on: it is compared as it stands.
    if (scores_.size() >= size && options.early) return true;
    if (scores_.size() >= size && options.score(best_live, length) <= scores_[size - 1]) return true;
    if (scores_.size() < wanted) return false;
    // A log-probability only falls, and what is made of it only rises with length: this bounds every continuation.
    return options.score(best_live, std::max(options.max_length, length) + 1) <= scores_[wanted - 1];
}

void Sentence::ask(int64_t* newest, Rule* rules, float* values, int64_t* tokens) const {
    const int banned = static_cast<int>(options.never_or_end.size()) - (length_ < options.min_length ? 0 : 1);
    const size_t length = static_cast<size_t>(length_), size = static_cast<size_t>(options.no_repeat_ngram);
    for (int row = 0; row < rows(); ++row) {
        newest[row] = tokens_[row];
        Rule& rule = rules[row];
        rule = {};
        rule.banned = options.never_or_end.data();
        rule.banned_count = banned;
        rule.ctc_weight = options.ctc_weight;
        rule.end = options.end;
        rule.count = each();
        rule.values = values + static_cast<size_t>(row) * rule.count;
        rule.indices = tokens + static_cast<size_t>(row) * rule.count;
        if (size > 0 && length >= size) close(rule, row);
        if (length_ >= options.max_length) rule.only = options.end;
        if (length < options.prefix.size()) rule.only = options.prefix[length];
    }
}

// Forbids n-grams that the row has already.
void Sentence::close(Rule& rule, int row) const {
    const Line& line = lines_[lines_.size() - rows() + row];
    rule.also_banned = closing_tokens(trace(line, steps() - 1).tokens, static_cast<size_t>(options.no_repeat_ngram));
    rule.otherwise = options.end;
}

void Sentence::advance(const float* values, const int64_t* tokens, int first, std::vector<int64_t>& parents) {
    for (int i = 0, candidates = rows() * each(); i < candidates; ++i)
        if (std::isnan(values[i])) throw NotANumber();
    if (options.beam_size == 1) {
        const float value = is_free() ? 0.0f : values[0];
        return advance_greedily(value, tokens[0], first, parents);
    }
    std::vector<float> free;
    if (is_free()) {
        free.assign(values, values + rows() * each());
        for (float& value : free)
            if (value != IMPOSSIBLE) value = 0.0f;
        values = free.data();
    }
    const std::vector<Line> lines = continued(values, tokens);
    ++length_;
    if (pool_.is_full(lines[0].total, length_, options)) return;
    check_length();
    tokens_.resize(lines.size());
    totals_.resize(lines.size());
    for (size_t row = 0; row < lines.size(); ++row) {
        tokens_[row] = lines[row].token;
        totals_[row] = lines[row].total;
        parents.push_back(first + lines[row].parent);
    }
    lines_.insert(lines_.end(), lines.begin(), lines.end());
}

void Sentence::advance_greedily(float value, int64_t token, int first, std::vector<int64_t>& parents) {
    const Line line{value, 0, token, value};
    ++length_;
    if (token == options.end) return pool_.add(trace(line, steps()), options);
    check_length();
    tokens_[0] = token;
    lines_.push_back(line);
    parents.push_back(first);
}

// The newest tokens stand at the position `length_`.
void Sentence::check_length() const {
    if (length_ >= model_.target_positions.longest()) throw TooLong();
}

// The lines that live on, as many as the beam is wide; those that end go to the pool.
std::vector<Sentence::Line> Sentence::continued(const float* values, const int64_t* tokens) {
    const int each = this->each(), candidates = rows() * each, some = std::min(2 * options.beam_size, candidates);
    std::vector<float> sums(candidates), best(some);
    std::vector<int64_t> place(some);
    for (int i = 0; i < candidates; ++i) sums[i] = totals_[i / each] + values[i];
    model_.kernels.top(sums.data(), candidates, 0.0f, some, best.data(), place.data());
    const auto line = [&](int rank) {
        const int from = static_cast<int>(place[rank]);
        return Line{best[rank], from / each, tokens[from], values[from]};
    };
    std::vector<Line> lines;
    const size_t size = static_cast<size_t>(options.beam_size);
    lines.reserve(size);
    for (int rank = 0; rank < some; ++rank) {
        const Line one = line(rank);
        if (one.total == IMPOSSIBLE) continue;
        if (one.token != options.end) {
            if (lines.size() < size) lines.push_back(one);
        } else if (rank < options.beam_size) {
            pool_.add(trace(one, steps()), options);
        }
    }
    Line dead = line(0);
    dead.total = IMPOSSIBLE;
    lines.resize(size, dead);
    return lines;
}

std::vector<Hypothesis> Sentence::so_far() const {
    std::vector<Hypothesis> found;
    if (!lines_.empty())
        for (auto line = lines_.end() - rows(); line != lines_.end(); ++line)
            if (options.beam_size == 1 || line->total != IMPOSSIBLE) found.push_back(trace(*line, steps() - 1));
    found.insert(found.end(), pool_.all().begin(), pool_.all().end());
    return found;
}

// A hypothesis from its first to its newest token, `line`, which continues a row of the last of so many steps.
Hypothesis Sentence::trace(Line line, size_t steps) const {
    const size_t size = static_cast<size_t>(options.beam_size);
    Hypothesis one;
    one.tokens.resize(steps + 1);
    one.values.resize(steps + 1);
    for (size_t i = steps + 1; i-- > 0;) {
        one.tokens[i] = line.token;
        one.values[i] = line.value;
        if (i > 0) line = lines_[(i - 1) * size + line.parent];
    }
    return one;
}

}  // namespace dragoman
