"""Files whose lines do not belong together from some line on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dragoman.text import Pair, ParallelCorpus, corpus_report
from dragoman.text.shifted import Lengths, find_stretch


def lengths(pairs: int, *, seed: int = 0, noise: float = 0.2, order: str = "random") -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the lengths of sources, and of their translations."""
    random = np.random.default_rng(seed)
    source = 3.5 + 0.5 * random.standard_normal(pairs)
    if order == "sorted":
        source = np.sort(source)
    elif order == "documents":  # whose sentences are alike
        source = np.repeat(3.5 + 0.4 * random.standard_normal(pairs // 20 + 1), 20)[:pairs]
        source += 0.25 * random.standard_normal(pairs)
    return source, 0.8 * source + 0.3 + noise * random.standard_normal(pairs)


@pytest.mark.parametrize("order", ["random", "documents", "sorted"])
@pytest.mark.parametrize("noise", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("pairs", [0, 1, 199, 200, 1000, 20_000])
def test_corpora_that_belong_together_are_left_alone(pairs: int, noise: float, order: str) -> None:
    for seed in range(5):
        assert find_stretch(*lengths(pairs, seed=seed, noise=noise, order=order)) is None


def test_sections_of_other_kinds_are_left_alone() -> None:
    sentences, words, alike = lengths(3000), lengths(3000, seed=1, noise=0.3), np.full(2000, 2.0)
    for parts in ([sentences, words], [words, (alike, alike)], [(alike, alike), sentences], [(alike, alike)]):
        source, target = (np.concatenate(side) for side in zip(*parts, strict=True))
        assert find_stretch(source, target) is None
    source, target = lengths(3000, order="sorted")
    first, second = lengths(3000)
    assert find_stretch(np.append(first, source), np.append(second, target)) is None


@pytest.mark.parametrize("order", ["random", "documents"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("lost", [1, 3, 25])
def test_lost_lines_are_found_where_they_were_lost(lost: int, share: float, order: str) -> None:
    source, target = lengths(5000, order=order)
    at = int(share * 5000)
    for left, right in ((source[:-lost], np.delete(target, slice(at, at + lost))),
                        (np.delete(source, slice(at, at + lost)), target[:-lost])):  # fmt: skip
        found = find_stretch(left, right)
        assert found is not None
        assert abs(found[0] - at) <= 40
        assert found[1] >= 4900


def test_a_shift_that_is_made_good_later_has_an_end() -> None:
    source, target = lengths(5000)
    target = np.concatenate((target[:2000], target[2001:3000], target[2000:2001], target[3000:]))
    found = find_stretch(source, target)
    assert found is not None
    assert abs(found[0] - 2000) <= 20
    assert abs(found[1] - 3000) <= 20


def test_shuffled_targets_are_found_in_part_and_in_whole() -> None:
    source, target = lengths(5000)
    random = np.random.default_rng(1)
    found = find_stretch(source, np.append(target[:3000], random.permutation(target[3000:])))
    assert found is not None
    assert abs(found[0] - 3000) <= 40
    assert find_stretch(source, random.permutation(target)) == (0, 5000)


def test_lines_are_those_of_the_file_whatever_was_skipped() -> None:
    seen = Lengths()
    source, target = (np.rint(np.exp(side)).astype(int) for side in lengths(2000, noise=0.1))
    target = np.roll(target, -1)
    numbers = [n for n in range(1, 2102) if n % 21]
    seen.add([Pair("a" * 5, "b" * 5, "other", n) for n in range(1, 301)])
    pairs = [Pair("x" * source[i], "y" * target[i], "f", numbers[i]) for i in range(2000)]
    for begin in range(0, 2000, 300):
        seen.add(pairs[begin : begin + 300])
    (stretch,) = seen.stretches()
    assert stretch.file == "f"
    assert stretch.first < 20
    assert stretch.last > numbers[-20]


def test_the_report_warns_and_names_file_and_lines(tmp_path: Path) -> None:
    source, target = (["w" * round(float(np.exp(one))) for one in side] for side in lengths(2000))
    shifted = target[:1000] + target[1001:] + target[1000:1001]
    for name, lines in {"good.a": source, "good.b": target, "bad.b": shifted}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    good, bad = (ParallelCorpus.from_files([tmp_path / "good.a"], [tmp_path / name]) for name in ("good.b", "bad.b"))
    assert not any("belong together" in warning for warning in corpus_report(good, good).warnings)
    report = corpus_report(bad)
    (warning,) = (warning for warning in report.warnings if "belong together" in warning)
    assert str(tmp_path / "good.a") in warning
    assert report.misaligned
    assert any(w.startswith("held-out sources and targets do not") for w in corpus_report(good, bad).warnings)
