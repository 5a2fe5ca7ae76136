"""Threads that share a translator: each gets what it would get alone, whatever the others ask."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman import Completer, Translator
from end_to_end import small
from translation.test_processes import remembering, save

TEXTS = small.sentences(24)
Ask = Callable[[Translator], object]


def asked(**options: object) -> Ask:
    def ask(translator: Translator) -> object:
        aligned = bool(options.get("alignments"))
        changes = {name: value for name, value in options.items() if name != "alignments"}
        return translator.translate_with(TEXTS, translator.options(changes), alignments=aligned)

    return ask


ASKED: list[Ask] = [
    asked(),
    asked(beam_size=4, n_best=3, length_penalty=0.3),
    asked(beam_size=2, no_repeat_ngram=2, max_length=5),
    asked(alignments=True, beam_size=3),
    asked(alignments=True),
    asked(sampling=True, sampling_seed=5, n_best=2),
    lambda translator: translator.translate(TEXTS[:6], prefixes=["ba"] * 6),
    lambda translator: translator.score(TEXTS, TEXTS[::-1]),
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("threads") / "model")


def shared(where: Path, kind: str) -> Translator:
    if kind == "datastore":
        return Translator.from_pretrained(remembering(where / "store"), engine="module")
    if kind == "ensemble":
        return Translator.from_pretrained([save(where / "a"), save(where / "b", seed=2)])
    return Translator.from_pretrained(save(where / "one", right_to_left=True), engine=kind)


@pytest.mark.parametrize("kind", ["auto", "packed", "module", "ensemble", "datastore"])
def test_threads_that_share_a_translator_do_not_disturb_each_other(tmp_path: Path, kind: str) -> None:
    expected = [ask(shared(tmp_path / str(number), kind)) for number, ask in enumerate(ASKED)]
    translator = shared(tmp_path / "shared", kind)  # what is loaded later is loaded by one of the threads
    order = [*range(len(ASKED))] * 3
    random.Random(1).shuffle(order)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: ASKED[number](translator), order))
    for number, one in zip(order, found, strict=True):
        assert one == expected[number], f"request {number}"


def test_coroutines_share_translators_through_threads(plain: Path, tmp_path: Path) -> None:
    first, second = Translator.from_pretrained(plain), Translator.from_pretrained(save(tmp_path / "other", seed=2))

    async def ask() -> list[object]:
        calls = [asyncio.to_thread(one.translate, [text]) for text in TEXTS for one in (first, second)]
        return list(await asyncio.gather(*calls))

    alone = [one.translate([text]) for text in TEXTS for one in (first, second)]
    assert asyncio.run(ask()) == alone


def test_threads_share_a_completer(tmp_path: Path) -> None:
    completer = Completer.from_pretrained(small.saved(tmp_path, small.word_pair(), "causal"))
    options = [completer.options({"beam_size": size, "n_best": size}) for size in (1, 2, 3, 4)] * 4
    expected = [completer.complete(TEXTS[:5], one) for one in options]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda one: completer.complete(TEXTS[:5], one), options)) == expected
