from __future__ import annotations

import math
from unittest import mock

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dragoman.config import DecodingConfig
from dragoman.errors import ModelError
from dragoman.search import (
    Ensemble,
    SearchRequest,
    beam_search,
    draw_tokens,
    greedy_search,
    hypothesis_score,
    length_penalty,
    sample,
    score_serial,
)
from dragoman.sequences import Frame, Source, SourceBatch, Specials
from dragoman.text.tokenizer import BOS, EOS, PAD
from dragoman.translation.alignment import word_alignment, words_of
from oracle.search import HistoryModel, exhaustive


def requests(rows: int = 3, prefixes=(), seeds=(), **options) -> list[SearchRequest]:
    settings = DecodingConfig(**options)
    return [
        SearchRequest(Source((4 + row, 5)), settings, tuple(prefix), seed)
        for row, prefix, seed in zip(range(rows), prefixes or [()] * rows, seeds or [0] * rows, strict=True)
    ]


def forced(model: HistoryModel, request: SearchRequest, output: tuple[int, ...]) -> list[float]:
    [values] = score_serial(model, SourceBatch.of([request.source]), [output])
    return values


def tokens(results) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.tokens for hypothesis in row] for row in results]


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    vocab=st.integers(5, 7),
    longest=st.integers(1, 3),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 1.4]),
    formula=st.sampled_from(["gnmt", "power", "reward"]),
    least=st.integers(0, 1),
)
def test_a_beam_that_holds_everything_is_exhaustive_search(seed, vocab, longest, alpha, formula, least):
    model = HistoryModel(vocab, seed)
    width = vocab**longest
    asked = requests(
        rows=2, beam_size=width, n_best=3, length_penalty=alpha, length_penalty_formula=formula,
        max_length=longest, min_length=least,
    )  # fmt: skip
    for one, found in zip(asked, beam_search(model, asked), strict=True):
        best = exhaustive(model, one)[:3]
        assert [h.tokens for h in found] == [h.tokens for h in best]
        assert [h.score for h in found] == pytest.approx([h.score for h in best], abs=1e-12)


@given(seed=st.integers(0, 10_000), vocab=st.integers(5, 9))
def test_a_beam_as_wide_as_the_vocabulary_is_exhaustive_for_one_token_outputs(seed, vocab):
    model = HistoryModel(vocab, seed)
    asked = requests(rows=2, beam_size=vocab, n_best=2, max_length=1)
    for one, found in zip(asked, beam_search(model, asked), strict=True):
        assert [h.tokens for h in found] == [h.tokens for h in exhaustive(model, one)[:2]]


@given(seed=st.integers(0, 10_000), alpha=st.sampled_from([0.0, 0.6, 2.0]))
def test_a_beam_of_one_is_greedy_search(seed, alpha):
    model = HistoryModel(12, seed, sharpness=1.0)
    asked = requests(rows=4, beam_size=1, max_length=9, length_penalty=alpha)
    greedy, beam = greedy_search(model, asked), beam_search(model, asked)
    assert tokens(greedy) == tokens(beam)
    for (one,), (other,) in zip(greedy, beam, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-12)
        assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=1e-12)


@pytest.mark.parametrize("search", [greedy_search, beam_search, sample])
def test_batch_mates_change_nothing(search):
    model = HistoryModel(10, 3, sharpness=1.0)
    together = requests(rows=6, beam_size=3, n_best=2, max_length=8, sampling=True, seeds=range(6))
    results = search(model, together)
    for row in range(6):
        assert search(model, [together[row]]) == [results[row]]


@pytest.mark.parametrize("search", [greedy_search, beam_search, sample])
def test_a_log_probability_is_that_of_forced_decoding(search):
    model = HistoryModel(9, 5, sharpness=1.0)
    asked = requests(rows=4, beam_size=3, max_length=6, sampling=search is sample)
    for one, (best, *_) in zip(asked, search(model, asked), strict=True):
        expected = forced(model, one, best.tokens)
        assert best.token_log_probabilities == pytest.approx(expected, abs=1e-12)
        assert best.log_probability == pytest.approx(sum(expected), abs=1e-12)


@pytest.mark.parametrize("search", [greedy_search, beam_search, sample])
@pytest.mark.parametrize("seed", range(4))
def test_lengths_are_held(search, seed):
    asked = requests(rows=5, beam_size=3, min_length=3, max_length=4, sampling=search is sample)
    for row in search(HistoryModel(8, seed), asked):
        for hypothesis in row:
            assert 3 <= len(hypothesis.tokens) <= 4
            assert not {PAD, BOS, EOS} & set(hypothesis.tokens)
            assert math.isfinite(hypothesis.score)


@pytest.mark.parametrize("search", [greedy_search, beam_search, sample])
def test_a_prefix_is_forced_and_the_rest_still_optimal(search):
    model = HistoryModel(7, 11)
    prefixes = [[4, 5], [], [6, 6]]
    asked = requests(rows=3, prefixes=prefixes, beam_size=400, max_length=3, sampling=search is sample)
    for prefix, one, (best, *_) in zip(prefixes, asked, search(model, asked), strict=True):
        assert list(best.tokens[: len(prefix)]) == prefix
        if search is beam_search:
            assert best.tokens == exhaustive(model, one)[0].tokens


@pytest.mark.parametrize("search", [greedy_search, beam_search])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_is_repeated(search, size):
    plain = requests(rows=6, beam_size=2, max_length=20, min_length=15)
    asked = requests(rows=6, beam_size=2, max_length=20, min_length=15, no_repeat_ngram=size)

    def repeats(results) -> bool:
        grams = [[row[0].tokens[i : i + size] for i in range(len(row[0].tokens) - size + 1)] for row in results]
        return any(len(set(found)) < len(found) for found in grams)

    model = HistoryModel(7, 2, sharpness=3.0)
    assert repeats(search(model, plain)), "the test needs a model that repeats itself when it may"
    # With n-grams of one token and three words only, outputs end early instead of repeating or getting stuck.
    assert not repeats(search(model, asked))


def test_the_maximum_length_follows_the_source():
    options = DecodingConfig(max_length_factor=2.0, max_length_offset=3)
    assert [SearchRequest(Source(ids), options).max_length for ids in ((4, 5), (4,))] == [7, 5]


def test_length_penalties_are_the_published_formulas():
    assert length_penalty(7, 0.6, "gnmt") == pytest.approx(((5 + 7) / 6) ** 0.6)
    assert length_penalty(7, 0.6, "power") == pytest.approx(7**0.6)
    assert length_penalty(7, 0.0, "gnmt") == 1.0
    assert hypothesis_score(-3.0, 7, 0.6) == -3.0 / length_penalty(7, 0.6)
    assert hypothesis_score(-3.0, 7, 0.6, "power") == -3.0 / length_penalty(7, 0.6, "power")
    assert hypothesis_score(-3.0, 7, 0.6, "reward") == pytest.approx(-3.0 + 7 * 0.6)


@given(
    st.integers(0, 1000), st.booleans(), st.integers(1, 6), st.floats(0.3, 3.0), st.integers(0, 6), st.floats(0.05, 1.0)
)
def test_draws_follow_the_distribution_that_was_asked_for(seed, equals, head, temperature, top_k, top_p):
    logits = torch.randn(1, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    log_probs = (logits.round() if equals else logits).log_softmax(-1)
    # Oracle: cut, renormalise, cut again, renormalise, plain NumPy style.
    weights = (log_probs[0] / temperature).softmax(0)
    order = weights.argsort(descending=True, stable=True)
    kept = order[: top_k or 6]
    renormalised = weights[kept] / weights[kept].sum()
    # A sum of just top_p is one token or another by its last bit.
    assume(all(abs(total - top_p) > 1e-9 for total in renormalised.cumsum(0)[:-1]))
    nucleus = [i for i in range(len(kept)) if renormalised[:i].sum() < top_p]
    final = renormalised[nucleus] / renormalised[nucleus].sum()
    grid = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    with mock.patch("dragoman.search.sampling.HEAD", head):
        drawn = draw_tokens(log_probs.expand(2000, -1), grid, temperature, top_k, top_p)
    shares = torch.bincount(drawn, minlength=6) / 2000
    expected = torch.zeros(6, dtype=torch.float64)
    expected[kept[nucleus]] = final
    assert (shares - expected).abs().max() <= 1 / 1000


def test_what_is_drawn_does_not_depend_on_how_many_are_sorted_first():
    draw = torch.Generator().manual_seed(1)
    log_probs, uniform = torch.randn(300, 500, generator=draw).log_softmax(-1), torch.rand(300, generator=draw)
    for options in ({}, {"top_k": 70}, {"top_p": 0.3}, {"top_p": 0.9}, {"temperature": 0.1}):
        drawn = draw_tokens(log_probs, uniform, **options)
        with mock.patch("dragoman.search.sampling.HEAD", 500):
            assert torch.equal(drawn, draw_tokens(log_probs, uniform, **options)), options


def test_samples_depend_on_seed_row_and_draw_only():
    model = HistoryModel(30, 1, sharpness=0.5)
    asked = requests(rows=2, sampling=True, n_best=3, seeds=[5, 5], max_length=6)
    first, second = sample(model, asked)
    assert len({hypothesis.tokens for hypothesis in first}) > 1
    assert first != second, "sources differ, so must outputs"
    assert sample(model, asked) == [first, second]
    other = requests(rows=2, sampling=True, n_best=3, seeds=[5, 5], max_length=6, sampling_seed=2)
    assert sample(model, other) != [first, second]


def test_an_ensemble_averages_probabilities():
    members = [HistoryModel(6, 1), HistoryModel(6, 2)]
    source = SourceBatch.of([Source((4,))])
    mixed, _ = Ensemble(members, [1.0, 3.0]).step(Ensemble(members).start(source), torch.tensor([BOS]))
    parts = [model.distribution([4, EOS], [BOS]).exp() for model in members]
    assert torch.allclose(mixed[0].exp(), 0.25 * parts[0] + 0.75 * parts[1], atol=1e-12)
    twice = Ensemble([members[0], members[0]])
    asked = requests(rows=3, beam_size=4, max_length=5)
    assert tokens(beam_search(twice, asked)) == tokens(beam_search(members[0], asked))
    with pytest.raises(ValueError, match="positive weights"):
        Ensemble(members, [1.0])


@pytest.mark.parametrize("search", [greedy_search, beam_search, sample])
def test_special_ids_may_be_others(search):
    """Founding systems number their special tokens differently: a model with ids exchanged gives outputs exchanged."""

    class Renumbered(HistoryModel):
        swap = torch.tensor([3, 1, 0, 2, *range(4, 9)])  # ours -> theirs: pad 3, bos 0, eos 2

        def distribution(self, source, history):
            back = self.swap.argsort()
            ours = super().distribution(back[source].tolist(), back[history].tolist())
            return ours[back]

    asked = requests(rows=3, beam_size=3, max_length=5, sampling=search is sample)
    specials = Specials(pad=3, unk=1, bos=0, eos=2)
    theirs = [
        SearchRequest(
            Source(tuple(Renumbered.swap[list(one.source.ids)].tolist()), (), specials), one.options,
            frame=Frame(0, 2), never=(3, 0),
        )
        for one in asked
    ]  # fmt: skip
    assert tokens(search(Renumbered(9, 4), theirs)) == tokens(search(HistoryModel(9, 4), asked))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_unlikely_early_ends_do_not_stop_a_likely_output(alpha):
    """A model that is sure of its next token: at each step the runners-up are ends that nobody wants."""

    class Sure(HistoryModel):
        def distribution(self, source, history):
            right = EOS if len(history) > 20 else 4 + len(history) % 3
            probabilities = torch.full((self.vocab,), 1e-6, dtype=torch.float64)
            probabilities[EOS] = 1e-4
            probabilities[right] = 0.999
            return probabilities.log()

    asked = requests(rows=1, beam_size=4, length_penalty=alpha, max_length=30)
    ((best, *_),) = beam_search(Sure(8), asked)
    ((greedy,),) = greedy_search(Sure(8), asked)
    assert best.tokens == greedy.tokens
    assert len(best.tokens) == 20


def test_a_forced_prefix_keeps_its_own_value_whatever_else_is_forbidden():
    model = HistoryModel(9, 3)
    asked = requests(rows=1, prefixes=[[4, 4, 4, 4]], beam_size=3, n_best=3, max_length=6, no_repeat_ngram=1)
    for found in beam_search(model, asked)[0]:
        expected = forced(model, asked[0], found.tokens)
        assert found.token_log_probabilities == pytest.approx(expected, abs=1e-12)


def test_a_model_that_gives_nan_is_an_error_and_no_endless_loop():
    class Broken(HistoryModel):
        def distribution(self, source, history):
            return torch.full((self.vocab,), math.nan, dtype=torch.float64)

    for search in (greedy_search, beam_search, sample):
        with pytest.raises(ModelError, match="NaN"):
            search(Broken(8), requests(rows=2, beam_size=3))


def test_words_are_what_stands_between_blanks():
    assert words_of(["\u2581Two", "\u2581do", "gs", ".", "\u2581", "\u2581\u2581run"]) == [0, 1, 1, 1, None, 2]
    assert words_of(["K", "AE", "T"]) == [0, 1, 2], "a word vocabulary has no blanks in its pieces"
    pairs = [(0, 0), (1, 1), (2, 1), (2, 2)]
    assert word_alignment(["\u2581A", "\u2581ho", "use"], ["\u2581Ein", "\u2581Ha", "us"], pairs) == [(0, 0), (1, 1)]
