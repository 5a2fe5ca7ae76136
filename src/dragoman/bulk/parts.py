"""The parts of a long file: how it is cut, and what is kept of each part that is done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.files import json_text, make_directory, read_json, remove, write_bytes, write_json, written_as
from dragoman.text.opening import create_bytes, open_bytes

PLAN, PROBLEMS = "bulk.json", ".problems.jsonl"
# What numbers would not tell.
_CHANGED = {"bytes": "the input has changed since", "models": "their model had other weights"}
_CHANGED["modified"] = _CHANGED["bytes"]


@dataclass(frozen=True)
class Problem:
    """A line that has no translation, so that its place is empty.

    Attributes:
        line: its number in the whole file, from 1.
        reason: why, in words.
    """

    line: int
    reason: str


@dataclass(frozen=True)
class Part:
    """Some lines of a file.

    Attributes:
        number: from 0.
        first: number of its first line, from 1.
        lines: as they stand in the file, without their ends.
    """

    number: int
    first: int
    lines: list[bytes]


@dataclass(frozen=True)
class BulkResult:
    """What has become of a long file.

    Attributes:
        path: the folder of parts, or the file that they were put together in.
        lines: lines of output, as many as of input.
        kept: of these, lines of parts that were there from an earlier start.
        problems: lines without a translation.
        left_out: numbers of parts that could not be done; the same call tries them again.
    """

    path: Path
    lines: int
    kept: int
    problems: tuple[Problem, ...]
    left_out: tuple[int, ...] = ()


def cut(path: Path, size: int) -> Iterator[Part]:
    """Yield the parts of a file, decompressed as its name says, each of so many lines; the last may have fewer.

    Raises:
        DataError: it cannot be read, or is damaged.
    """
    with open_bytes(path) as stream:
        first = 1
        for number in count():
            lines = [_without_end(line) for line in islice(stream, size)]
            if not lines:
                return
            yield Part(number, first, lines)
            first += len(lines)


def _without_end(line: bytes) -> bytes:
    """A line ends at LF, with one CR before it."""
    line = line.removesuffix(b"\n")
    return line.removesuffix(b"\r")


class Parts:
    """The folder in which parts lie, each complete or absent.

    Args:
        folder: where; it is made if it is not there.
        plan: what the parts are made of and how. A folder of other parts is refused.
        suffix: of the parts. Beside tables, what is not one begins with "_", as programs that read folders want it.

    Raises:
        ConfigError: there are parts of something else.
    """

    def __init__(self, folder: Path, plan: Mapping[str, Any], suffix: str = ".txt") -> None:
        self.folder, self.suffix = folder, suffix
        self._beside = "" if suffix == ".txt" else "_"
        file = folder / f"{self._beside}{PLAN}"
        if file.exists():
            _check_same(plan, read_json(file), file)
        elif folder.is_dir() and any(folder.iterdir()):
            raise ConfigError("the folder has other things in it", file=folder, hint="give another --output")
        make_directory(folder)
        write_json(file, plan)

    def file(self, number: int) -> Path:
        """Return where a part lies when it is done."""
        return self.folder / f"{number:06d}{self.suffix}"

    def is_done(self, number: int) -> bool:
        """Return whether a part is there."""
        return self.file(number).exists()

    def write(self, number: int, data: bytes, problems: list[Problem]) -> None:
        """Write a part, whole or not at all, after its problems."""
        said = self._said(number)
        if problems:
            write_bytes(said, "".join(json_text(asdict(one)) + "\n" for one in problems).encode())
        elif said.exists():
            remove(said)
        write_bytes(self.file(number), data)

    def problems(self, number: int) -> list[Problem]:
        """Return the lines of a part that have no translation."""
        said = self._said(number)
        if not said.exists():
            return []
        return [Problem(**json.loads(line)) for line in said.read_text(encoding="utf-8").splitlines()]

    def _said(self, number: int) -> Path:
        return self.folder / f"{self._beside}{number:06d}{PROBLEMS}"

    def join(self, count: int, path: Path) -> None:
        """Put the parts together in a file, compressed as its name says, whole or not at all, and remove them."""
        temporary = self.folder / "whole.tmp"
        with written_as(temporary, path):
            with create_bytes(temporary, path.suffix) as whole:
                for number in range(count):
                    with self.file(number).open("rb") as part:
                        shutil.copyfileobj(part, whole)
            temporary.replace(path)
        self.remove()

    def remove(self) -> None:
        """Delete the folder with all that is in it."""
        remove(self.folder)


def _check_same(plan: Mapping[str, Any], found: Mapping[str, Any], file: Path) -> None:
    """Refuse parts of another plan, naming what differs; of the options of the search, the first that does."""
    for key in {**plan, **found}:
        asked, made = plan.get(key), found.get(key)
        if asked == made:
            continue
        if isinstance(asked, Mapping) and isinstance(made, Mapping):
            _check_same(asked, made, file)
        raise ConfigError(
            f"these parts belong to other work: {_CHANGED.get(key, f'{key} differs')}",
            file=file, expected=None if key in _CHANGED else json_text(asked),
            found=None if key in _CHANGED else json_text(made),
            hint="give another --output, or remove this folder",
        )  # fmt: skip
