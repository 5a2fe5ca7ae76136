"""Rows own their step: what joins a state or a running search gets, bit by bit, what it gets alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.engines import NativeEngine
from dragoman.engines.native import NativeSearch, load_library
from dragoman.engines.native.sentences import Output
from dragoman.errors import ModelError
from dragoman.nn import InputEmbedding, Transformer
from dragoman.profiles.parts import PositionTable
from dragoman.search import SearchRequest, beam_search, greedy_search
from dragoman.sequences import SourceBatch
from dragoman.sequences import sources_of as plain_sources_of
from dragoman.text.tokenizer import BOS, EOS, PAD
from engines.native_models import VOCAB, small_engine, small_model

pytestmark = pytest.mark.skipif(isinstance(load_library(), str), reason=str(load_library()))
KINDS: tuple[dict[str, Any], ...] = (
    {"precision": "float32"},
    {"precision": "int8", "positions": "rotary-cross"},
    {"precision": "float32", "family": "causal", "positions": "rotary"},
    {"precision": "int8", "norm": "pre", "positions": "concatenated"},
)
SCHEDULES = 240


def engine_of(kind: dict[str, Any], seed: int) -> NativeEngine:
    """A small engine; with `table` its positions are rows of a table."""
    if "table" not in kind:
        return small_engine(seed, **kind)
    model = small_model(seed)
    assert isinstance(model, Transformer)
    for embedding in (model.source_embedding, model.target_embedding):
        assert isinstance(embedding, InputEmbedding)
        embedding.positions = PositionTable(torch.randn(30, 16))
    return NativeEngine(model, kind["precision"])


def sources_of(draw: random.Random, count: int) -> list[list[int]]:
    return [[draw.randrange(4, VOCAB) for _ in range(draw.randrange(9))] + [EOS] for _ in range(count)]


def padded(rows: list[list[int]]) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


class Alone:
    """A row that steps by itself, to be compared with one that has company."""

    def __init__(self, engine: NativeEngine, source: list[int]) -> None:
        self.engine, self.source, self.past = engine, source, []

    def copy(self) -> Alone:
        other = Alone(self.engine, self.source)
        other.past = list(self.past)
        return other

    def step(self, token: int) -> torch.Tensor:
        """Log-probabilities, by a state made anew from everything that the row was given."""
        self.past.append(token)
        state = self.engine.start(SourceBatch.of_padded(torch.tensor([self.source]), PAD))
        for one in self.past:
            log_probs, state = self.engine.step(state, torch.tensor([one]))
        return log_probs[0]


@pytest.mark.parametrize("kind", [*KINDS, {"precision": "float32", "table": True}], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_rows_at_other_steps_change_no_bit(kind: dict[str, Any], seed: int) -> None:
    draw, engine = random.Random(seed), engine_of(kind, seed)
    state, alone = None, []
    for step in range(12):
        if step % 3 == 0:
            rows = sources_of(draw, draw.randrange(1, 4))
            more = engine.start(SourceBatch.of_padded(padded(rows), PAD))
            state = more if state is None else state.join(more)
            alone += [Alone(engine, row) for row in rows]
        assert state is not None
        tokens = [draw.randrange(VOCAB) for _ in alone]
        expected = torch.stack([row.step(token) for row, token in zip(alone, tokens, strict=True)])
        if step % 2:
            found, state = engine.step(state, torch.tensor(tokens))
            assert torch.equal(found, expected)
        else:
            values, best, state = engine.step_top(state, torch.tensor(tokens), 4, torch.tensor([BOS]))
            ranked = expected.index_fill(1, torch.tensor([BOS]), -torch.inf).sort(dim=1, descending=True, stable=True)
            assert torch.equal(values, ranked.values[:, :4])
            assert torch.equal(best, ranked.indices[:, :4])
        assert state.lengths.tolist() == [len(row.past) for row in alone]
        keep = [draw.randrange(len(alone)) for _ in range(draw.randrange(1, 7))]
        state, alone = state.reorder(torch.tensor(keep)), [alone[index].copy() for index in keep]


def test_the_table_of_positions_is_the_longest_sequence() -> None:
    """A state is as it was; in a running search only the sentence that grew too long leaves with the error."""
    engine, options = engine_of({"precision": "float32", "table": True}, 1), DecodingConfig(min_length=40)
    with pytest.raises(ModelError, match="longer than the model's table"):
        engine.start(SourceBatch.of_padded(torch.full((1, 31), 5), PAD))
    state = engine.start(SourceBatch.of_padded(torch.full((1, 30), 5), PAD))
    for _ in range(30):
        _, state = engine.step(state, torch.tensor([5]))
    with pytest.raises(ModelError, match="longer than the model's table"):
        engine.step(state, torch.tensor([5]))
    assert state.lengths.tolist() == [30]
    running = NativeSearch(engine.native, 1)
    with pytest.raises(ModelError, match="longer than the model's table"):
        running.admit([[5] * 31], options, [9], begin=BOS, end=EOS, never=())
    asked = {"begin": BOS, "end": EOS, "never": (PAD,)}
    for beam_size in (1, 3):
        chosen = options.replace({"beam_size": beam_size})
        [fits, grows] = running.admit([[5, EOS], [6, EOS]], chosen, [29, 30], **asked)
        while running.live:
            running.step()
        found = {one.number: one for one in running.take()}
        assert len(found[fits].outputs[0][0]) == 30
        assert isinstance(found[grows].error, ModelError)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("seed", range(4))
def test_searches_with_a_table_are_those_of_its_own_steps(seed: int, beam_size: int) -> None:
    engine, draw = engine_of({"precision": "float32", "table": True}, seed), random.Random(seed)
    options = DecodingConfig(beam_size=beam_size, n_best=beam_size, max_length_offset=4)
    asked = [SearchRequest(source, options) for source in plain_sources_of([row[:-1] for row in sources_of(draw, 7)])]
    stepped = (beam_search if beam_size > 1 else greedy_search)(engine, asked)
    assert engine.search(asked) == stepped


def test_states_of_different_models_do_not_join() -> None:
    engine, other = small_engine(1), small_engine(2)
    state = engine.start(SourceBatch.of_padded(torch.tensor([[5, EOS]]), PAD))
    with pytest.raises(ValueError, match="different models"):
        state.join(other.start(SourceBatch.of_padded(torch.tensor([[5, EOS]]), PAD)))
    with pytest.raises(ValueError, match="itself"):
        state.join(state)
    more = engine.start(SourceBatch.of_padded(torch.tensor([[6, EOS], [7, EOS]]), PAD))
    state.join(more)
    assert (state.rows, more.rows) == (3, 0)
    empty, _ = engine.step(more, torch.tensor([], dtype=torch.long))
    assert empty.shape == (0, VOCAB)


def test_a_state_that_lives_long_forgets_what_no_row_needs() -> None:
    """Rows come and go for more steps than blocks are kept before the state looks which it still needs."""
    engine, draw = small_engine(5), random.Random(5)
    state, alone = engine.start(SourceBatch.of_padded(torch.tensor([[5, 6, EOS]]), PAD)), [Alone(engine, [5, 6, EOS])]
    for step in range(200):
        tokens = [draw.randrange(VOCAB) for _ in alone]
        found, state = engine.step(state, torch.tensor(tokens))
        for row, token in zip(alone, tokens, strict=True):
            row.past.append(token)
        if step % 25 == 24:
            for index, row in enumerate(alone):
                token = row.past.pop()
                assert torch.equal(row.step(token), found[index])
        if step % 5 == 4:
            source = sources_of(draw, 1)
            state.join(engine.start(SourceBatch.of_padded(torch.tensor(source), PAD)))
            keep = sorted(draw.sample(range(len(alone) + 1), min(3, len(alone) + 1)))
            alone.append(Alone(engine, source[0]))
            state, alone = state.reorder(torch.tensor(keep)), [alone[index] for index in keep]


@dataclass(frozen=True)
class Asked:
    """A sentence, and what is searched for."""

    source: list[int]
    options: DecodingConfig
    max_length: int
    prefix: list[int]
    never: tuple[int, ...]

    def alone(self, engine: NativeEngine) -> list[Output]:
        [found] = engine.native.search(
            [self.source], self.options, [self.max_length], [self.prefix], begin=BOS, end=EOS, never=self.never,
            threads=1,
        )  # fmt: skip
        return found

    def admit(self, running: NativeSearch) -> int:
        [number] = running.admit(
            [self.source], self.options, [self.max_length], [self.prefix], begin=BOS, end=EOS, never=self.never
        )
        return number


def asked(draw: random.Random) -> Asked:
    beam_size = draw.choice([1, 1, 2, 3, 4, 5])
    min_length = draw.choice([0, 0, 2])
    options = DecodingConfig(
        beam_size=beam_size,
        n_best=draw.randint(1, beam_size),
        length_penalty=draw.choice([0.0, 0.6, 1.0]),
        length_penalty_formula=draw.choice(["gnmt", "power", "reward"]),
        min_length=min_length,
        no_repeat_ngram=draw.choice([0, 0, 2, 3]),
        end_at_limit=draw.choice(["charged", "free", "none"]),
        beam_early_stopping=draw.choice([False, True]),
    )
    prefix = [draw.randrange(4, VOCAB) for _ in range(draw.choice([0, 0, 1, 3]))]
    longest = max(len(prefix), min_length, draw.randint(1, 12))
    never = (PAD, BOS, *draw.sample(range(4, VOCAB), draw.choice([0, 2])))
    return Asked(sources_of(draw, 1)[0], options, longest, prefix, never)


def run_schedule(engine: NativeEngine, draw: random.Random) -> tuple[dict[int, Asked], dict[int, list[Output]]]:
    """Sentences that come and go by chance: what each asked for, and what those that were not cancelled got."""
    running, waiting = NativeSearch(engine.native, draw.choice([1, 1, 2])), [asked(draw) for _ in range(8)]
    came: dict[int, Asked] = {}
    found: dict[int, list[Output]] = {}
    while waiting or running.live:
        for _ in range(draw.randint(0 if running.live else 1, 3)):
            if waiting:
                one = waiting.pop()
                came[one.admit(running)] = one
        live = running.step(draw.randint(1, 4), until_finished=draw.random() < 0.5)
        assert live == running.live
        for done in running.take():
            assert done.error is None
            found[done.number] = done.outputs
        if draw.random() < 0.1 and set(came) - set(found):
            number = draw.choice(sorted(set(came) - set(found)))
            assert running.cancel(number)
            assert not running.cancel(number)
            del came[number]
    return came, found


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_sentence_that_joins_gets_what_it_gets_alone(kind: dict[str, Any]) -> None:
    engine = small_engine(7, **kind)
    joined = 0
    for seed in range(SCHEDULES // len(KINDS)):
        came, found = run_schedule(engine, random.Random(seed))
        assert found.keys() == came.keys()
        for number, one in came.items():
            assert found[number] == one.alone(engine), (seed, number)
        joined += len(found)
    assert joined > 6 * SCHEDULES / len(KINDS)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_of_one_search_may_ask_for_different_things(threads: int) -> None:
    engine, draw = small_engine(4), random.Random(4)
    some = [asked(draw) for _ in range(30)]
    found = engine.native.search(
        [one.source for one in some], [one.options for one in some], [one.max_length for one in some],
        [one.prefix for one in some], begin=BOS, end=EOS, never=(PAD, BOS), threads=threads,
    )  # fmt: skip
    expected = [Asked(one.source, one.options, one.max_length, one.prefix, (PAD, BOS)).alone(engine) for one in some]
    assert found == expected


def test_a_sentence_whose_numbers_are_none_leaves_the_others_alone() -> None:
    engine = small_engine(3, tie_embeddings="none")
    with torch.no_grad():
        engine.model.source_embedding.tokens.weight[9] = float("nan")
    good = Asked([5, 6, EOS], DecodingConfig(beam_size=3), 8, [], (PAD, BOS))
    bad = Asked([5, 9, EOS], DecodingConfig(beam_size=3), 8, [], (PAD, BOS))
    expected = good.alone(engine)
    running = NativeSearch(engine.native, 1)
    numbers = [one.admit(running) for one in (good, bad, good)]
    while running.step():
        pass
    one, two, three = running.take()
    assert [done.number for done in (one, two, three)] == numbers
    assert one.outputs == three.outputs == expected
    assert isinstance(two.error, FloatingPointError)
    assert two.outputs == []
    with pytest.raises(FloatingPointError):
        bad.alone(engine)


def test_until_finished_stops_to_be_taken_from() -> None:
    engine = small_engine(1)
    running = NativeSearch(engine.native, 1)
    for length in (2, 5, 9):
        options = DecodingConfig(beam_size=1, min_length=length)
        running.admit([[5, EOS]], options, [length], begin=BOS, end=EOS, never=(PAD, BOS))
    lives, sizes = [], []
    while running.live:
        lives.append(running.step(100, until_finished=True))
        sizes += [len(done.outputs[0][0]) - 1 for done in running.take()]
    assert (lives, sizes) == ([2, 1, 0], [2, 5, 9])
    assert running.step(100) == 0
    assert running.take() == []
