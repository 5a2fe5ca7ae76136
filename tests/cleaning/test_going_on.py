"""A cleaning that is stopped anywhere goes on, and gives the bytes of one that was not."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.cleaning import clean, cleaning, facts
from dragoman.cleaning.noise import add_noise
from dragoman.cleaning.work import Blocks, begun
from dragoman.config.cleaning import CleaningConfig
from dragoman.data.large import unfinished
from dragoman.errors import DataError
from dragoman.pace import silent
from dragoman.text import Pair, ParallelCorpus

SETTINGS = CleaningConfig(near_similarity=0.7, drop_share=0.3)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ParallelCorpus:
    """Two pairs of files, with noise in them and a line that is no text."""
    random, words = np.random.default_rng(1), [one + other for one in "bdfgklmn" for other in "aeiou"]
    texts = [[" ".join(random.choice(words, random.integers(3, 12))) for _ in range(2)] for _ in range(700)]
    folder, rows = tmp_path_factory.mktemp("noisy"), add_noise([(one, other) for one, other in texts], 0.3)
    for name, some in (("a", rows[:500]), ("b", rows[500:])):
        for side in ("source", "target"):
            lines = [getattr(row, side).encode() + b"\n" for row in some]
            (folder / f"{name}.{side}").write_bytes(b"".join([*lines[:50], b"\xff\n", *lines[50:]]))
    return ParallelCorpus.from_files(*([folder / f"{name}.{side}" for name in "ab"] for side in ("source", "target")))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small blocks, and scores without models."""

    class Scorer:
        def scores(self, some: Sequence[Pair]) -> np.ndarray:
            return np.array([float(len(pair.source) % 7) for pair in some])

    monkeypatch.setattr(facts, "WINDOW", 250)
    monkeypatch.setattr(cleaning, "BLOCK", 300)
    monkeypatch.setattr(cleaning.PairScorer, "open", lambda runs, device: Scorer())


def cleaned(corpus: ParallelCorpus, out: Path, tmp_path: Path, report: Callable[[str], None] = silent) -> Path:
    runs = [tmp_path / name for name in ("there", "back")]
    for run in runs:
        run.mkdir(exist_ok=True)
        (run / "config.json").write_text("{}")
    clean(corpus, out, settings=SETTINGS, scores=(runs[0], runs[1]), keep_dropped=True, report=report)
    return out


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Stop(Exception):
    """Comes from nowhere, as the end of a process does."""


def stopping(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, *, after: bool) -> list[int]:
    """Have the nth call end in `Stop`, before or after what it does."""
    real, calls = getattr(owner, name), [0]

    def stops(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == call and not after:
            raise Stop
        made = real(*given, **named)
        if calls[0] == call:
            raise Stop
        return made

    monkeypatch.setattr(owner, name, stops)
    return calls


def test_stopped_at_any_block_it_goes_on_to_the_same_bytes(
    corpus: ParallelCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bytes_of(cleaned(corpus, tmp_path / "whole", tmp_path))
    with monkeypatch.context() as patched:
        calls = stopping(patched, Blocks, "write", -1, after=False)
        cleaned(corpus, tmp_path / "counted", tmp_path)
    total, out, work = calls[0], tmp_path / "out", unfinished(tmp_path / "out")
    assert total >= 9
    for call in range(1, total + 1, 2):  # every second, each start going on with what the last one left
        told = list[str]()
        with monkeypatch.context() as patched:
            stopping(patched, Blocks, "write", 2, after=call % 4 == 1)
            try:
                cleaned(corpus, out, tmp_path, told.append)
            except Stop:
                assert not out.exists()
        assert any("going on" in line for line in told) == (call > 1)
    if not out.exists():
        cleaned(corpus, out, tmp_path)
    assert bytes_of(out) == whole
    assert not work.exists()


@pytest.mark.parametrize(
    ("owner", "name", "after", "again"),  # verdicts and scores of two blocks each are found again at most
    [(cleaning, "merged", True, 4), (cleaning.Likeness, "add", True, 2), (cleaning, "worst", False, 0),
     (Path, "rename", False, 0)],
)  # fmt: skip
def test_stopped_between_blocks_it_goes_on_to_the_same_bytes(
    owner: Any, name: str, after: bool, again: int, corpus: ParallelCorpus, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    few = ParallelCorpus(corpus.aligned[1:])
    whole, out = bytes_of(cleaned(few, tmp_path / "whole", tmp_path)), tmp_path / "out"
    with monkeypatch.context() as patched:
        stopping(patched, owner, name, 1, after=after)
        with pytest.raises(Stop):
            cleaned(few, out, tmp_path)
    written = stopping(monkeypatch, Blocks, "write", -1, after=False)
    cleaned(few, out, tmp_path)
    assert written == [again]
    assert bytes_of(out) == whole


def test_other_files_or_settings_start_anew(
    corpus: ParallelCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, told = ParallelCorpus(corpus.aligned[1:]), list[str]()
    whole = bytes_of(cleaned(few, tmp_path / "whole", tmp_path))
    with monkeypatch.context() as patched:
        stopping(patched, Blocks, "write", 3, after=True)
        with pytest.raises(Stop):
            clean(few, tmp_path / "out")
    (unfinished(tmp_path / "out") / "rubbish").write_text("")
    (unfinished(tmp_path / "out") / "facts" / ".tmp-000007.npz-1").write_text("")
    assert bytes_of(cleaned(few, tmp_path / "out", tmp_path, told.append)) == whole
    assert any("other files or other settings" in line for line in told)
    with monkeypatch.context() as patched:
        stopping(patched, Blocks, "write", 3, after=True)
        with pytest.raises(Stop):
            cleaned(few, tmp_path / "next", tmp_path)
    os.utime(few.files[0], (1, 1))
    told.clear()
    assert bytes_of(cleaned(few, tmp_path / "next", tmp_path, told.append)) == whole
    assert any("other files or other settings" in line for line in told)


def test_several_processes_give_the_bytes_of_one(corpus: ParallelCorpus, tmp_path: Path) -> None:
    few = ParallelCorpus(corpus.aligned[1:])
    clean(few, tmp_path / "one", settings=SETTINGS, languages=("de", "en"), keep_dropped=True)
    clean(few, tmp_path / "two", settings=SETTINGS, languages=("de", "en"), keep_dropped=True, workers=2)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")


@pytest.mark.parametrize("more", [b"a\n" * 9, None])
@pytest.mark.parametrize("name", ["judge", "merged", "_verdicts"])
def test_a_corpus_that_changes_meanwhile_is_one_message(
    more: bytes | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / side for side in "ab"]
    for file in files:
        file.write_text("".join(f"one of {number} lines\n" for number in range(40)))
    real = getattr(cleaning, name)

    def changing(*given: Any) -> Any:
        for file in files:
            file.write_bytes(b"one\n" * 3 if more is None else file.read_bytes() + more)
        return real(*given)

    monkeypatch.setattr(cleaning, name, changing)
    with pytest.raises(DataError, match="has changed while it was read"):
        clean(ParallelCorpus.from_files(*([file] for file in files)), tmp_path / "out")


def test_a_damaged_block_is_one_message(
    corpus: ParallelCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ParallelCorpus(corpus.aligned[1:])
    with monkeypatch.context() as patched:
        stopping(patched, Blocks, "write", 2, after=True)
        with pytest.raises(Stop):
            clean(few, tmp_path / "out")
    (unfinished(tmp_path / "out") / "facts" / "000001.npz").write_bytes(b"PK")
    with pytest.raises(DataError, match="damaged"):
        clean(few, tmp_path / "out")


def test_where_nothing_was_done_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    with pytest.raises(DataError, match="different numbers"):
        clean(ParallelCorpus.from_files([tmp_path / "a"], [tmp_path / "b"]), tmp_path / "out")
    with pytest.raises(DataError, match="cannot read"):
        clean(ParallelCorpus.from_files([tmp_path / "none"], [tmp_path / "b"]), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_two_processes_do_not_clean_into_one_directory(corpus: ParallelCorpus, tmp_path: Path) -> None:
    with begun(unfinished(tmp_path / "out"), {}, print), pytest.raises(DataError, match="another process"):
        clean(corpus, tmp_path / "out")
