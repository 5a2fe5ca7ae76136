"""The limit of outputs: training targets fit it, it is no larger than they need, and what does not fit is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.config import DecodingConfig, make_config
from dragoman.data import TokenStore, prepare
from dragoman.data.limits import LEFT_OUT, ROOM, LengthsSeen, fit_limit, own_lengths
from dragoman.text.corpus import Pair

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def alike(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    sources = random.integers(1, 60, count)
    return sources, np.maximum(1, sources + random.integers(-5, 6, count))


def spelled(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    sources = random.integers(1, 60, count)
    return sources, random.integers(3, 7, count) * sources + random.integers(0, 9, count)


def from_little(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    return random.integers(1, 4, count), random.integers(60, 250, count)


@pytest.mark.parametrize("draw", [alike, spelled, from_little])
@pytest.mark.parametrize("count", [1, 7, 900, 5000])
@pytest.mark.parametrize("seed", range(3))
def test_targets_fit_with_room(draw: Draw, count: int, seed: int) -> None:
    sources, targets = draw(np.random.default_rng(seed), count)
    factor, offset = fit_limit(sources, targets)
    options = DecodingConfig(max_length_factor=factor, max_length_offset=offset)
    limits = np.array([options.output_limit(int(length)) for length in sources])
    assert (targets > limits).sum() <= count // LEFT_OUT
    assert ((targets + -(-targets // ROOM)) > limits).sum() <= count // LEFT_OUT
    assert factor >= 1
    assert offset >= 50


def test_the_papers_limit_stays_where_it_is_enough() -> None:
    sources, targets = alike(np.random.default_rng(0), 1000)
    assert fit_limit(sources, targets) == (1.0, 50)
    assert fit_limit(np.array([], dtype=np.int64), np.array([], dtype=np.int64)) == (1.0, 50)


def test_a_limit_of_proportion_grows_with_the_source() -> None:
    sources = np.arange(1, 61).repeat(20)
    factor, offset = fit_limit(sources, 5 * sources)
    alone = int((5 * sources + -(-5 * sources // ROOM) - sources).max())
    assert factor * sources.mean() + offset < sources.mean() + alone, "less than an offset alone would allow"


def test_a_misaligned_pair_in_a_thousand_does_not_count() -> None:
    sources, targets = alike(np.random.default_rng(1), 2000)
    sources[[5, 1000]], targets[[5, 1000]] = 1, 5000
    assert fit_limit(sources, targets) == (1.0, 50)


def test_matches_are_no_tokens_of_a_source(tmp_path: Path) -> None:
    pairs = [([7, 8, 9], [5]), ([7, 2, 6, 6, 2, 5], [5]), ([], [5])]
    store = TokenStore.write(tmp_path / "store", pairs, vocabulary_size=10)
    assert own_lengths(store).tolist() == [3, 1, 0]
    assert store.source_lengths.tolist() == [3, 6, 0]


def told(pairs: list[tuple[int, int]], **options: object) -> list[str]:
    lines: list[str] = []
    seen = LengthsSeen()
    encoded = [(Pair("", "", "a.txt", line), [4] * s, [4] * t) for line, (s, t) in enumerate(pairs, 1)]
    assert list(seen.watch(iter(encoded))) == encoded
    seen.report(DecodingConfig.from_dict(options), lines.append)
    return lines


def test_what_does_not_fit_is_told_with_its_lines() -> None:
    many = [(10, 10)] * 2000
    assert told(many) == []
    [line] = told([*many[:3], (1, 300), *many])
    assert "1 of 2,004 training targets" in line
    assert "a.txt, line 4" in line
    assert "source tokens + 50" in line
    assert "by up to 249 tokens" in line


def test_a_limit_that_was_given_stays_and_what_exceeds_it_is_told() -> None:
    [line] = told([(1, 10), (9, 21), (1, 22)], max_length_offset=12)
    assert "2 of" not in line
    assert "1 of 3" in line
    assert "line 3" in line
    [line] = told([(1, 10), (9, 21)], max_length=9)
    assert "2 of 2" in line
    assert "(9 tokens)" in line


def test_a_chosen_limit_is_told() -> None:
    [line] = told([(2, 90)] * 3)
    assert "+ 97" in line


def test_prepare_tells(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b\n" * 40)
    (tmp_path / "t").write_text("x " * 100 + "\n" + "x y\n" * 39)
    files = {"source": [str(tmp_path / "s")], "target": [str(tmp_path / "t")]}
    dev = {"dev_source": files["source"], "dev_target": files["target"]}
    tree = {"out": "r", "data": {**files, **dev}, "tokenizer": {"kind": "word"}, "decoding": {"max_length_offset": 50}}
    lines: list[str] = []
    prepare(make_config(tree), tmp_path / "data", report=lines.append)
    [line] = [line for line in lines if "longer than what a search may write" in line]
    assert f"{tmp_path / 's'}, line 1" in line
