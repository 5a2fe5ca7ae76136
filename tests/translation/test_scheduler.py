"""Calls that come and go get what they would get alone; what is told on the way stays true; nothing is lost."""

from __future__ import annotations

import asyncio
import copy
import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

from dragoman.config import DecodingConfig
from dragoman.engines.native import load_library
from dragoman.errors import ConfigError
from dragoman.search.continuous import common_prefix
from dragoman.translation import Translation, Translator
from dragoman.translation.call import Progress, _before_repeats
from dragoman.translation.scheduler import Limits, OverloadError, Scheduler
from end_to_end import small


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For thousands of steps whose shapes other tests check: four times as fast."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


native = pytest.mark.skipif(isinstance(load_library(), str), reason=str(load_library()))
CIRCLES = {"max_length": None, "max_length_factor": 3.0, "max_length_offset": 12, "loop_guard": 1}
OPTIONS: tuple[dict[str, Any], ...] = (
    {"beam_size": 1},
    {"beam_size": 3, "n_best": 2, "max_length": 4},
    {"beam_size": 4, "length_penalty": 0.4, "min_length": 3},
    {"beam_size": 2, **CIRCLES},
    {"beam_size": 2, "no_repeat_ngram": 2, "max_length": 5},
)
DRAWN = {"sampling": True, "n_best": 2, "sampling_seed": 5}


def both_ways(pair: str) -> Translator:
    """A random model of both directions, in float64 by its modules."""
    ends = {"right_to_left": True, "right_to_left_decoder": "own"}
    made = small.translator(small.word_pair() if pair == "word" else small.byte_pair(), **ends)
    return Translator(made.transformers, made.tokenizers, made.decoding, right_to_left=True)


def stored(folder: Path, pair: str) -> Translator:
    """A random model of both directions, opened without PyTorch by the native engine."""
    tokenizers = small.word_pair() if pair == "word" else small.byte_pair()
    config = small.shape(tokenizers, right_to_left=True, right_to_left_decoder="own")
    path = small.save(folder, small.model(config).float(), config, tokenizers, DecodingConfig(max_length=8))
    return Translator.from_pretrained(path, device="cpu", engine="native", precision="float32")


@pytest.fixture(scope="module", params=["modules", pytest.param("native", marks=native)])
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return both_ways("bytes") if request.param == "modules" else stored(tmp_path_factory.mktemp("model"), "bytes")


@pytest.fixture
def scheduler(translator: Translator) -> Iterator[Scheduler]:
    made = Scheduler(translator)
    yield made
    made.close(wait=False)


def same(found: Translation, expected: Translation) -> None:
    assert [one.tokens for one in found.alternatives] == [one.tokens for one in expected.alternatives]
    assert (found.text, found.finished, found.truncated) == (expected.text, expected.finished, expected.truncated)
    assert found.score == pytest.approx(expected.score, abs=1e-5)
    assert found.token_scores == pytest.approx(expected.token_scores, abs=1e-5)


def test_calls_with_any_options_that_come_at_any_time_get_what_they_get_alone(scheduler: Scheduler) -> None:
    draw, texts = random.Random(3), [*small.sentences(30, seed=4), "", "  "]
    asked = []
    for _ in range(40):
        some = draw.sample(texts, draw.choice([1, 1, 1, 2, 9]))
        options = scheduler.translator.options(draw.choice([*OPTIONS, DRAWN]))
        prefixes = None if draw.random() < 0.7 else [draw.choice(["", "ba"]) for _ in some]
        progress: list[Progress] = []
        told = progress.append if draw.random() < 0.5 else None
        asked.append((some, options, prefixes, progress,
                      scheduler.submit(some, options, prefixes=prefixes, on_progress=told)))  # fmt: skip
        time.sleep(draw.choice([0, 0, 0.003]))
    for some, options, prefixes, progress, call in asked:
        found = call.future.result(60)
        alone = scheduler.translator.translate_with(some, options, prefixes=prefixes)
        for one, other in zip(found, alone, strict=True):
            if not (progress and options.loop_guard == 1):  # what was promised may hold the second search to it
                same(one, other)
    assert scheduler.waiting == (0, 0)
    assert not any(batch.tasks or batch.held for batch in scheduler._batches)


@pytest.mark.parametrize("options", [*OPTIONS, DRAWN], ids=str)
def test_what_is_called_stable_stays(scheduler: Scheduler, options: dict[str, Any]) -> None:
    """The protocol: for each text `stable` only grows, by whole characters, and the translation begins with it."""
    texts = small.sentences(12, seed=9)
    chosen, seen = scheduler.translator.options({"min_length": 4, **options}), []
    call = scheduler.submit(texts, chosen, on_progress=seen.append)
    found = call.future.result(60)
    by_place: dict[int, list[Progress]] = {place: [] for place in range(len(texts))}
    for progress in seen:
        by_place[progress.place].append(progress)
    for place, its in by_place.items():
        stable = [progress.stable for progress in its]
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(stable))
        assert its[-1].is_over
        assert (its[-1].stable, its[-1].tentative) == (found[place].text, "")
        assert [progress.is_over for progress in its[:-1]] == [False] * (len(its) - 1)
    assert any(progress.tentative for progress in seen)


def test_alignments_come_along(scheduler: Scheduler) -> None:
    texts = small.sentences(5, seed=2)
    found = scheduler.submit(texts, alignments=True).future.result(60)
    assert [one.alignment for one in found] == [
        one.alignment for one in scheduler.translator.translate(texts, alignments=True)
    ]


def test_who_has_gone_takes_no_step_more(scheduler: Scheduler) -> None:
    endless = scheduler.translator.options({"beam_size": 2, "min_length": 100_000, "max_length": 200_000})
    calls = [scheduler.submit(small.sentences(2, seed=seed), endless) for seed in range(6)]
    kept = scheduler.submit(small.sentences(1))
    for call in calls:
        call.cancel()
    assert kept.future.result(60)[0].text == scheduler.translator.translate(small.sentences(1))[0].text
    until(lambda: not any(batch.is_busy for batch in scheduler._batches))
    assert scheduler.counts.cancelled == len(calls)
    assert scheduler.waiting == (0, 0)
    for call in calls:
        with pytest.raises(CancelledError):
            call.future.result(0)


def until(holds: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_call_may_have_an_end(scheduler: Scheduler) -> None:
    endless = scheduler.translator.options({"beam_size": 1, "min_length": 100_000, "max_length": 200_000})
    with pytest.raises(TimeoutError):
        scheduler.submit(small.sentences(1), endless, seconds=0.05).future.result(60)
    until(lambda: not any(batch.is_busy for batch in scheduler._batches))


def test_more_than_can_be_done_is_refused_at_once_and_starts_nothing(translator: Translator) -> None:
    endless = translator.options({"beam_size": 1, "min_length": 100_000, "max_length": 200_000})
    scheduler = Scheduler(translator, Limits(calls=2, tokens=200))
    try:
        calls = [scheduler.submit(small.sentences(1), endless) for _ in range(2)]
        before = scheduler.counts.calls
        with pytest.raises(OverloadError, match="too many calls") as caught:
            scheduler.submit(["ba"])
        assert caught.value.wait >= 1
        calls[0].cancel()
        until(lambda: scheduler.waiting[0] == 1)
        with pytest.raises(OverloadError, match="too much text"):
            scheduler.submit(small.sentences(50))
        assert scheduler.counts.calls == before
    finally:
        scheduler.close(wait=False)


def test_one_alone_is_never_too_much(translator: Translator) -> None:
    scheduler = Scheduler(translator, Limits(tokens=1, searched=1))
    texts = small.sentences(9)
    assert len(scheduler.submit(texts).future.result(60)) == len(texts)
    scheduler.close()


def test_what_was_taken_on_is_done_before_the_end(translator: Translator) -> None:
    scheduler = Scheduler(translator)
    calls = [scheduler.submit([text]) for text in small.sentences(40)]
    scheduler.close()
    assert all(call.future.done() and call.future.result()[0].text is not None for call in calls)
    with pytest.raises(RuntimeError, match="closed"):
        scheduler.submit(["ba"])


def test_a_search_that_breaks_ends_its_calls_and_is_made_anew(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(translator)
    try:
        real, broken = scheduler._batches[0].advance, threading.Event()

        def advance() -> None:
            if not broken.is_set():
                broken.set()
                scheduler._batches[0]._admit()
                raise SystemExit
            real()

        monkeypatch.setattr(scheduler._batches[0], "advance", advance)
        with pytest.raises(RuntimeError, match="stopped"):
            scheduler.submit(["ba ce"]).future.result(30)
        same(scheduler.submit(["ba ce"]).future.result(30)[0], translator.translate(["ba ce"])[0])
        assert scheduler.counts.healed == 1
    finally:
        scheduler.close(wait=False)


def test_whoever_cannot_bear_to_be_told_ends_that_call_alone(scheduler: Scheduler) -> None:
    def refuse(progress: Progress) -> None:
        raise ValueError(progress.place)

    other = scheduler.submit(["ba ce"])
    with pytest.raises(ValueError, match="0"):
        scheduler.submit(["ba ce di"], on_progress=refuse).future.result(30)
    same(other.future.result(30)[0], scheduler.translator.translate(["ba ce"])[0])
    assert scheduler.counts.healed == 0


def test_what_a_search_does_not_take_ends_that_call_alone(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(translator)
    try:
        real = translator.backend.continuous

        def without_pairs(options: DecodingConfig, *given: Any) -> Any:
            if options.beam_size == 2:
                raise MemoryError("too large")
            return real(options, *given)

        monkeypatch.setattr(translator.backend, "continuous", without_pairs)
        other = scheduler.submit(["ba ce"], translator.options({"beam_size": 1}))
        with pytest.raises(MemoryError, match="too large"):
            scheduler.submit(["ba"], translator.options({"beam_size": 2})).future.result(30)
        assert other.future.result(30)
        assert (scheduler.counts.healed, scheduler.waiting) == (0, (0, 0))
        assert not any(batch.held for batch in scheduler._batches)
    finally:
        scheduler.close(wait=False)


def test_a_small_call_passes_a_large_one(scheduler: Scheduler) -> None:
    slow = scheduler.translator.options({"beam_size": 4, "min_length": 60, "max_length": 60})
    document = scheduler.submit(small.sentences(200, seed=8), slow)
    for _ in range(5):
        scheduler.submit(["ba ce"]).future.result(60)
    assert not document.future.done()
    document.cancel()


def test_small_calls_that_came_before_are_not_held_against_the_next(scheduler: Scheduler) -> None:
    slow = scheduler.translator.options({"beam_size": 4, "min_length": 60, "max_length": 60})
    scheduler.submit(["ba ce"]).future.result(60)
    scheduler._batches[0].spent += 3600.0  # as if there had been an hour of them
    scheduler._clock = scheduler._virtual(scheduler._batches[0])
    document = scheduler.submit(small.sentences(200, seed=8), slow)
    scheduler.submit(["ba ce"]).future.result(60)
    assert not document.future.done()
    document.cancel()


def test_what_is_wrong_is_said_before_anything_waits(scheduler: Scheduler) -> None:
    with pytest.raises(ConfigError, match="one prefix per text"):
        scheduler.submit(["ba"], prefixes=["", ""])
    assert scheduler.counts.calls == 0


def test_many_wait_without_blocking_the_event_loop(scheduler: Scheduler) -> None:
    texts = small.sentences(20, seed=6)

    async def all_at_once() -> list[list[Translation]]:
        some = [asyncio.create_task(scheduler.translate([text])) for text in texts]
        gone = asyncio.create_task(
            scheduler.translate(texts, scheduler.translator.options({"min_length": 90_000, "max_length": 99_000}))
        )
        await asyncio.sleep(0.01)
        gone.cancel()
        found = await asyncio.gather(*some)
        with pytest.raises(asyncio.CancelledError):
            await gone
        return found

    found = asyncio.run(all_at_once())
    for [one], other in zip(found, scheduler.translator.translate(texts), strict=True):
        same(one, other)
    until(lambda: not any(batch.is_busy for batch in scheduler._batches))


def test_a_translator_translates_asynchronously_and_is_pickled_without_its_scheduler(translator: Translator) -> None:
    texts = small.sentences(6, seed=12)

    async def both() -> list[list[Translation]]:
        return await asyncio.gather(*(translator.translate_async([text]) for text in texts))

    for [one], other in zip(asyncio.run(both()), translator.translate(texts), strict=True):
        same(one, other)
    first = translator.scheduler()
    assert translator.scheduler() is first
    assert copy.deepcopy(first) is None
    first.close()
    assert translator.scheduler() is not first
    translator.scheduler().close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_told(scheduler: Scheduler) -> None:
    pid = os.getpid()
    scheduler._pid = pid + 1
    with pytest.raises(RuntimeError, match="fork"):
        scheduler.submit(["ba"])
    scheduler._pid = pid


@pytest.mark.parametrize(
    ("rows", "common"),
    [([], ()), ([(1, 2)], (1, 2)), ([(1, 2), (1, 2, 3)], (1, 2)), ([(2,), (1,)], ()), ([(5, 1), (5, 9), (5,)], (5,))],
)
def test_what_rows_have_in_common(rows: list[tuple[int, ...]], common: tuple[int, ...]) -> None:
    assert common_prefix(rows) == common


@pytest.mark.parametrize(
    ("tokens", "size", "kept"),
    [((1, 2, 1, 2, 1), 2, (1, 2, 1)), ((1, 1, 1), 1, (1,)), ((1, 2, 3), 2, (1, 2, 3)), ((1, 1), 0, (1, 1))],
)
def test_nothing_is_promised_that_a_second_search_would_not_say(
    tokens: tuple[int, ...], size: int, kept: tuple[int, ...]
) -> None:
    assert _before_repeats(tokens, size) == kept
