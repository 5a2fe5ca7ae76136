"""Texts of lines that may not be text: as many as there are lines, and checked before the work."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.text import count_lines, lines, read_lines, read_texts
from dragoman.text.lines import check_text, chunks, stream_texts

PARTS = [b"a", b"\xc3\xa4", b"\n", b"\r\n", b"\xff", b"\xc3", b"\0", "猫".encode(), b"\xef\xbb\xbf"]


def outcome(function: Callable[[Path], int], path: Path) -> int | str:
    try:
        return function(path)
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("block", [1, 3, 12])
def test_a_check_finds_what_reading_would(
    seed: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    parts = PARTS if seed % 2 else [part for part in PARTS if part not in (b"\xff", b"\xc3", b"\0")]
    path = tmp_path / "text"
    path.write_bytes(b"".join(draw.choices(parts, k=draw.randrange(20))))
    monkeypatch.setattr(lines, "_BLOCK", block)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 12)
    assert outcome(check_text, path) == outcome(lambda some: len(list(read_lines(some))), path)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_as_many_texts_as_lines(
    seed: int, policy: lines.BadText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 9)
    path = tmp_path / "text"
    path.write_bytes(b"".join(draw.choices(PARTS, k=40)))
    told: list[str] = []
    found = list(read_texts(path, on_bad_text=policy, tell=told.append))
    assert len(found) == count_lines(path)
    raw = path.read_bytes().split(b"\n")
    bad = 0
    for number, text in enumerate(found):
        content = raw[number].removeprefix(b"\xef\xbb\xbf") if number == 0 else raw[number]
        content = content.removesuffix(b"\r") if number + 1 < len(raw) else content
        if len(content) > 9:
            expected, bad = "", bad + 1
        else:
            try:
                expected = content.decode()
                wrong = "\0" in expected
            except UnicodeDecodeError:
                wrong = True
            bad += wrong
            if wrong:
                expected = "" if policy == "skip" else content.decode(errors="replace").replace("\0", "\ufffd")
        assert text == expected
    assert len(told) == (bad > 0)
    assert not told or f": {bad} of {len(found)} lines" in told[0]


def test_what_came_before_an_error_comes_first() -> None:
    stream = stream_texts(io.BytesIO(b"a\nb\n\xff\nc\n"), "in")
    some = chunks(stream, 9)
    assert next(some) == ["a", "b"]
    with pytest.raises(DataError, match="in, line 3"):
        next(some)


def test_chunks_are_the_items() -> None:
    for count in range(8):
        items: Iterator[int] = iter(range(count))
        found = list(chunks(items, 3))
        assert [one for chunk in found for one in chunk] == list(range(count))
        assert [len(chunk) for chunk in found] == [3] * (count // 3) + [count % 3] * (count % 3 > 0)
