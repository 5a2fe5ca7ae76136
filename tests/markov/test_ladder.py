from __future__ import annotations

import doctest
import importlib
import itertools
import math
import pkgutil
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dragoman.markov
from dragoman.config import DecodingConfig, ModelConfig
from dragoman.engines import ModuleEngine
from dragoman.errors import ConfigError, DataError
from dragoman.markov import (
    RUNGS,
    FirstOrder,
    MaskedSkips,
    MatrixSkips,
    Measure,
    SecondOrder,
    Skips,
    ZerothOrder,
    framing,
    measure,
    one_layer_transformer,
    table,
)
from dragoman.markov.mask import Ballots
from dragoman.models import build_model
from dragoman.search import NextTokenModel, SearchRequest, beam_search, greedy_search, sample, score_serial
from dragoman.sequences import Source, SourceBatch
from dragoman.text import tokenizer

VOCAB = 9
texts = st.lists(st.lists(st.integers(4, VOCAB - 1), max_size=6), min_size=1, max_size=12)
histories = st.lists(st.integers(1, VOCAB - 1).filter(lambda i: i != 2), max_size=5)
ENTRIES = "<pad> <unk> <s> </s> check whether the battery program log and find out it ran down please"
WORDS = ENTRIES.split()


def ids(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


PROGRAM = ids("check the program log and find out whether it ran please")
BATTERY = ids("check the battery log and find out whether it ran down please")


@pytest.fixture(scope="module")
def heard() -> list[list[int]]:
    return [PROGRAM, BATTERY] * 200


def request(prefixes, **options) -> list[SearchRequest]:
    chosen = DecodingConfig(max_length=15, **options)
    return [SearchRequest(Source(()), chosen, tuple(prefix)) for prefix in prefixes]


# The oracle: the same definitions, one event at a time, in exact fractions.


def contexts(kind: str, history: list[int]) -> list[tuple[int, ...]]:
    framed = [2, *history]
    if kind in ("zeroth-order", "first-order", "second-order"):
        order = ("zeroth-order", "first-order", "second-order").index(kind)
        return [tuple([0, 0, *framed][len(framed) + 2 - order :])]
    if len(framed) <= 2:
        return [tuple([0, *framed][-2:])]
    return [(earlier, framed[-1]) for earlier in sorted(set(framed[1:-1]))]


def evidence(kind: str, sequences, history: list[int]) -> dict[int, Fraction]:
    rows = {context: Counter() for context in contexts(kind, history)}
    for sequence in sequences:
        for place, word in enumerate([*sequence, 3]):
            for context in contexts(kind, sequence[:place]):
                if context in rows:
                    rows[context][word] += 1
    found = Counter()
    for row in rows.values():
        for word, count in row.items():
            found[word] += Fraction(count, row.total() if kind == "skips" else 1)
    return found


def distribution(kind: str, sequences, history: list[int], k: Fraction, backoff: Fraction) -> list[Fraction]:
    below = {"zeroth-order": None, "first-order": "zeroth-order", "second-order": "first-order", "skips": "first-order"}
    heard = kind
    while not (found := evidence(heard, sequences, history)):
        heard = below[heard]
    mass = [found.get(word, 0) + (0 if word in (0, 2) else k) for word in range(VOCAB)]
    if below[kind] and backoff:
        lower = distribution(below[kind], sequences, history, k, backoff)
        mass = [own + backoff * other for own, other in zip(mass, lower, strict=True)]
    return [one / sum(mass) for one in mass]


@settings(max_examples=60)
@given(
    rung=st.sampled_from([ZerothOrder, FirstOrder, SecondOrder, Skips]),
    sequences=texts,
    history=histories,
    k=st.sampled_from([0.0, 0.25]),
    backoff=st.sampled_from([0.0, 1.5]),
)
def test_probabilities_are_those_of_the_definition(rung, sequences, history, k, backoff):
    found = rung.fit(sequences, VOCAB, k=k, backoff=backoff).next(history)
    expected = distribution(rung.kind, sequences, history, Fraction(k), Fraction(backoff))
    assert found.tolist() == pytest.approx([float(one) for one in expected], abs=1e-12)


@given(sequences=texts, history=histories)
@settings(max_examples=40)
def test_without_smoothing_the_fractions_are_exact(sequences, history):
    found = SecondOrder.fit(sequences, VOCAB, k=0.0).next(history).tolist()
    exact = distribution("second-order", sequences, history, Fraction(0), Fraction(0))
    assert found == [one.numerator / one.denominator for one in exact]


@pytest.mark.parametrize("module", [one.name for one in pkgutil.iter_modules(dragoman.markov.__path__)])
def test_the_examples_in_the_documentation_hold(module):
    assert doctest.testmod(importlib.import_module(f"dragoman.markov.{module}")).failed == 0


def test_there_are_examples_in_the_documentation():
    finder = doctest.DocTestFinder()
    for name, least in (("one_hot", 5), ("orders", 15), ("skips", 10), ("matrices", 8)):
        found = finder.find(importlib.import_module(f"dragoman.markov.{name}"))
        assert sum(len(one.examples) for one in found) >= least


def test_the_special_ids_are_those_of_every_vocabulary():
    assert (framing.PAD, framing.BOS, framing.EOS) == (tokenizer.PAD, tokenizer.BOS, tokenizer.EOS)


# What each rung knows, in the words of the road.


def test_the_skips_vote_nearly_even_and_the_mask_makes_it_plain(heard):
    history, answers = PROGRAM[:-1], ids("down please")
    assert Skips.fit(heard, len(WORDS), k=0.0).votes(history)[answers].tolist() == [4.0, 5.0]
    masked = MaskedSkips.fit(heard, len(WORDS), k=0.0)
    assert masked.votes(history)[answers].tolist() == [0.0, 1.0]
    assert masked.votes(BATTERY[:-2])[answers].tolist() == [1.0, 0.0]
    assert set(masked.attended(ids("ran")[0]).tolist()) == set(ids("battery program"))


@pytest.mark.parametrize("rung", [MaskedSkips, MatrixSkips])
def test_greedy_completion_of_a_prompt_recalls_what_stands_far_back(rung, heard):
    model = rung.fit(heard, len(WORDS), k=0.0)
    done = greedy_search(model, request([ids("check the program"), ids("check the battery")]))
    assert [list(row[0].tokens) for row in done] == [PROGRAM, BATTERY]
    assert all(row[0].log_probability == pytest.approx(math.log(1 / 2)) for row in done)


def test_second_order_tells_apart_what_first_order_cannot():
    battery = ids("check whether the battery ran down please")
    program = ids("check whether the program ran please")
    sequences = [battery] * 40 + [program] * 60
    prompts = request([ids("check whether the battery ran"), ids("check whether the program ran")])
    second = greedy_search(SecondOrder.fit(sequences, len(WORDS), k=0.0), prompts)
    assert [list(row[0].tokens) for row in second] == [battery, program]
    first = greedy_search(FirstOrder.fit(sequences, len(WORDS), k=0.0), prompts)
    assert [list(row[0].tokens) for row in first] == [ids("check whether the battery ran please"), program]


def test_each_rung_predicts_the_commands_better_than_the_one_below(heard):
    found = [rung.fit(heard, len(WORDS), k=0.0).perplexity(heard) for rung in (ZerothOrder, FirstOrder, MaskedSkips)]
    assert found == sorted(found, reverse=True)
    # One choice of two is left in 25 tokens.
    assert found[-1] == pytest.approx(2 ** (2 / 25))


# The mask


@settings(max_examples=40)
@given(sequences=texts)
def test_no_round_of_learning_makes_the_mask_worse(sequences):
    skips = Skips.fit(sequences * 5, VOCAB)
    ballots = Ballots.collect(sequences * 5, skips.pairs, skips.first)
    mask = torch.rand(len(skips.mask), dtype=torch.float64)
    for _ in range(6):
        better = ballots.improve(mask)
        assert ballots.worth(better) >= ballots.worth(mask) - 1e-9
        assert ((better >= 0) & (better <= 1)).all()
        mask = better


def test_left_out_shares_are_those_of_all_other_events():
    sequences = [[4, 5, 6], [4, 5, 7], [4, 5, 6]]
    skips = Skips.fit(sequences, VOCAB)
    ballots = Ballots.collect(sequences, skips.pairs, skips.first)
    feature = skips.pairs.find(torch.tensor([4 * VOCAB + 5]))[0]
    assert ballots.shares[ballots.features == feature].tolist() == [0.5, 0.0, 0.5]
    # Events: three sequences of four tokens each; the third of each is the one after 5.
    assert ballots.events[ballots.features == feature].tolist() == [2, 6, 10]
    assert ballots.alone[[2, 10]].tolist() == [0.5, 0.5]


def test_a_mask_learns_nothing_from_what_was_seen_once():
    assert MaskedSkips.fit([PROGRAM, BATTERY], len(WORDS)).mask.tolist() == [1.0] * len(
        Skips.fit([PROGRAM, BATTERY], len(WORDS)).mask
    )


# The same as matrix products


@settings(max_examples=40)
@given(sequences=texts, histories=st.lists(st.lists(st.integers(4, VOCAB - 1), min_size=4, max_size=4), min_size=1))
def test_matrix_products_give_what_the_look_up_gives(sequences, histories):
    looked_up = MaskedSkips.fit(sequences, VOCAB)
    looked_up.mask = torch.rand(len(looked_up.mask), dtype=torch.float64).round(decimals=1)
    products = MatrixSkips(looked_up.pairs, looked_up.first, mask=looked_up.mask)
    for length in range(5):
        rows = torch.tensor([[2, *history[:length]] for history in histories])
        expected = looked_up.evidence(rows)
        torch.testing.assert_close(products.evidence(rows), expected, atol=1e-12, rtol=0)
        x = products.attend(rows)[:, :-1]
        x = torch.cat([x, torch.zeros(len(rows), VOCAB, dtype=torch.float64)], dim=1)
        votes = products.feed_forward()(x[None])[0, :, 2 * VOCAB :]
        torch.testing.assert_close(votes, expected, atol=1e-12, rtol=0)


def test_a_mask_that_silences_everything_leaves_the_last_word_alone():
    skips = Skips.fit([[4, 5, 6], [4, 5, 7]], VOCAB)
    model = MatrixSkips(skips.pairs, skips.first, mask=torch.zeros_like(skips.mask))
    assert model.votes([4, 5]).tolist() == [0.0] * VOCAB
    assert torch.equal(model.next([4, 5]), model.lower.next([4, 5]))
    assert not model.feed_forward()(torch.ones(1, 1, 3 * VOCAB, dtype=torch.float64)).any()


def test_a_feature_is_on_for_both_its_words_only(heard):
    model = MatrixSkips.fit(heard, len(WORDS))
    assert set(model.feature_matrix.to_dense().unique().tolist()) == {-1.0, 0.0, 1.0}
    on = model.features(torch.tensor([[2, *PROGRAM[:-1]]]))[0]
    pairs = model.pairs.contexts[model._open][on > 0]
    assert [divmod(int(pair), len(WORDS)) for pair in pairs] == [tuple(ids("program ran"))]
    assert on.max() == 1.0


# The protocol


@pytest.mark.parametrize("rung", RUNGS)
def test_every_rung_is_a_next_token_model_for_every_search(rung, heard):
    model = rung.fit(heard, len(WORDS))
    assert isinstance(model, NextTokenModel)
    prompts = request([ids("check the program"), [], ids("log")], beam_size=3)
    for search in (greedy_search, beam_search, sample):
        together = search(model, prompts)
        for row, prompt in enumerate(prompts):
            alone = search(model, [prompt]) if search is not sample else [together[row]]
            assert together[row][0].tokens == alone[0][0].tokens
            given = score_serial(model, SourceBatch.nothing(1), [together[row][0].tokens])
            assert sum(given[0]) == pytest.approx(together[row][0].log_probability, abs=1e-9)


@settings(max_examples=25)
@given(rung=st.sampled_from(RUNGS), sequences=texts, sequence=st.lists(st.integers(4, VOCAB - 1), max_size=6))
def test_steps_multiply_to_the_probability_of_the_sequence(rung, sequences, sequence):
    model = rung.fit(sequences, VOCAB, k=0.1)
    chain = [float(model.next(sequence[:place])[word]) for place, word in enumerate([*sequence, 3])]
    assert model.log_probability(sequence) == pytest.approx(math.log(math.prod(chain)), abs=1e-9)
    assert model.perplexity([sequence, sequence]) == pytest.approx(math.prod(chain) ** (-1 / len(chain)))


@pytest.mark.parametrize("rung", RUNGS)
def test_all_short_sequences_together_are_no_more_than_certain(rung):
    model = rung.fit([[4, 5], [5], [4, 4]], 6, k=0.3)
    total = sum(
        math.exp(model.log_probability(sequence))
        for length in range(4)
        for sequence in itertools.product([1, 4, 5], repeat=length)
    )
    assert 0.8 < total <= 1.0


def test_a_measure_adds_up_and_does_not_depend_on_the_batch():
    sequences = [[4, 5, 6], [4], [], [6, 6, 4, 5], [5, 4]]
    model = SecondOrder.fit(sequences[:3], VOCAB, k=0.1)
    whole, split = measure(model, sequences), measure(model, sequences, batch=2)
    assert split.log_probability == pytest.approx(whole.log_probability)
    assert (split.correct, split.tokens) == (whole.correct, whole.tokens)
    assert whole.tokens == 15
    assert whole.perplexity == pytest.approx(math.exp(-whole.log_probability / 15))


def test_correct_predictions_are_counted_one_by_one():
    model = FirstOrder.fit([[4, 5]] * 3 + [[4, 6]], VOCAB, k=0.0)
    assert measure(model, [[4, 5]]) == Measure(math.log(0.75), 3, 3)
    assert measure(model, [[4, 6]]).accuracy == pytest.approx(2 / 3)
    assert model.perplexity([[5, 4]]) == math.inf


# The top


def test_the_one_layer_transformer_is_the_causal_model_of_its_configuration():
    config = ModelConfig(
        family="causal", target_vocab=VOCAB, d_model=16, num_heads=2, d_ff=32, num_decoder_layers=1, norm="pre",
        tie_embeddings="decoder", dropout=0.0,
    )  # fmt: skip
    model = one_layer_transformer(VOCAB, d_model=16, num_heads=2, d_ff=32, dropout=0.0)
    built = build_model(config)
    built.load_state_dict(model.state_dict())
    ids = torch.randint(4, VOCAB, (3, 6))
    assert torch.equal(built.eval()(ids), model.eval()(ids))


def test_the_one_layer_transformer_is_measured_like_the_rungs():
    model = one_layer_transformer(VOCAB, d_model=16, num_heads=2, d_ff=32).double()
    sequences = [[4, 5, 6], [7], [5, 5, 8, 4]]
    found = measure(ModuleEngine(model), sequences)
    rows = [torch.tensor([[2, *sequence, 3]]) for sequence in sequences]
    given = [model(row[:, :-1]).log_softmax(-1).gather(2, row[:, 1:, None]).sum().item() for row in rows]
    assert found.log_probability == pytest.approx(sum(given), abs=1e-9)
    assert found.tokens == 11


# Real sizes


def test_a_vocabulary_of_thousands_takes_memory_for_what_occurred_only():
    random = np.random.default_rng(0)
    sequences = [(4 + random.zipf(1.4, size=10) % 4990).tolist() for _ in range(2000)]
    model = MaskedSkips.fit(sequences, 5000)
    assert len(model.pairs.words) <= sum(10 * 9 // 2 + 2 for _ in sequences)
    second = SecondOrder.fit(sequences, 5000)
    assert second.table.counts.sum() == sum(len(one) + 1 for one in sequences)
    assert model.next(sequences[0][:5]).sum() == pytest.approx(1.0)


def test_counting_in_many_pieces_is_counting_at_once(monkeypatch):
    sequences = [[4 + (place * step) % 5 for place in range(step)] for step in range(1, 20)]
    whole = Skips.fit(sequences, VOCAB)
    monkeypatch.setattr(table, "_EVENTS_AT_ONCE", 7)
    pieces = Skips.fit(sequences, VOCAB)
    assert all(torch.equal(whole.parts()[name], pieces.parts()[name]) for name in whole.parts())


def test_the_rung_below_is_what_its_own_fit_would_give():
    sequences = [[4, 5, 6], [], [5, 5], [8]]
    second = SecondOrder.fit(sequences, VOCAB)
    for below, rung in ((second.lower, FirstOrder), (second.lower.lower, ZerothOrder)):
        own = rung.fit(sequences, VOCAB)
        assert all(torch.equal(own.parts()[name], below.parts()[name]) for name in own.parts())


def test_even_empty_sequences_can_be_learned_from():
    for rung in RUNGS:
        model = rung.fit([[], []], VOCAB, k=0.0)
        assert model.next([])[3] == 1.0
        assert model.next([4, 5])[3] == 1.0


# Mistakes


def test_nothing_to_count_and_unknown_ids_are_refused():
    for rung in RUNGS:
        with pytest.raises(DataError, match="nothing to count"):
            rung.fit([], VOCAB)
        for wrong in (VOCAB, -1):
            with pytest.raises(DataError, match="outside the vocabulary"):
                rung.fit([[4], [wrong]], VOCAB)


@pytest.mark.parametrize("change", [{"k": -0.1}, {"k": math.nan}, {"backoff": math.inf}])
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(ConfigError, match="out of range"):
        FirstOrder.fit([[4]], VOCAB, **change)


def test_too_large_a_vocabulary_is_refused():
    with pytest.raises(ConfigError, match="vocabulary"):
        FirstOrder.fit([[4]], 3_000_000)
