"""Parallel corpora: aligned line files, tab-separated files and JSON lines, read as one stream of pairs."""

from __future__ import annotations

import json
import math
import re
import statistics
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.config import DataConfig
from dragoman.config.data import LANGUAGE_OF_COUNTRY
from dragoman.errors import ConfigError, DataError
from dragoman.text.lines import BadText, Line, ReadCounts, file_hash, scan_lines
from dragoman.text.opening import COMPRESSED

# Two sides whose lengths differ this much more than usual are worth a look.
SUSPICIOUS_RATIO = 3.0
SUSPICIOUS_LENGTH = 10


class Pair(NamedTuple):
    """A source text and its target text; `file` and `line` (from 1) say where the source stands."""

    source: str
    target: str
    file: str
    line: int

    @property
    def sides(self) -> tuple[str, ...]:
        """Its texts; by the first of them it is known."""
        return self.source, self.target

    @property
    def is_complete(self) -> bool:
        """Whether no side is empty."""
        return all(side.strip() for side in self.sides)


class Corpus(ABC):
    """Files that are read as one stream of pairs, again and again."""

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """Every file, in reading order."""

    @abstractmethod
    def read(self, counts: ReadCounts | None = None) -> Iterator[Pair]:
        """Yield the pairs; `counts` is filled in with those read, replaced and skipped."""

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file, as `sha256sum` prints it."""
        return {path: file_hash(path) for path in self.files}

    def __iter__(self) -> Iterator[Pair]:
        return self.read()


@dataclass(frozen=True)
class ParallelCorpus(Corpus):
    """Pairs from files, in the order of the files; may be iterated again and again, and is never held in memory.

    Empty lines are kept. With `on_bad_text = "skip"` a line that is not text takes its partner with it.

    Args:
        aligned: (source file, target file) pairs: line i of one belongs to line i of the other.
        pairs: `.tsv` files (exactly two columns, no quoting) or `.jsonl` files (objects with the strings `source` and
            `target`, other keys ignored). Each file of either sort may be gzipped (`.gz`).
        on_bad_text: what a line that is not UTF-8 does: stop, replace or skip.

    Raises:
        DataError: while iterating, with file, line, and what was expected and found.
    """

    aligned: tuple[tuple[str, str], ...] = ()
    pairs: tuple[str, ...] = ()
    on_bad_text: BadText = "stop"

    @classmethod
    def from_files(
        cls, source: Sequence[str | Path], target: Sequence[str | Path], *, on_bad_text: BadText = "stop"
    ) -> ParallelCorpus:
        """Return a corpus of line-aligned files, first source file with first target file and so on.

        Raises:
            ConfigError: the numbers of files differ.
        """
        if len(source) != len(target):
            found = f"{len(source)} source files, {len(target)} target files"
            raise ConfigError("source and target files go in pairs", expected="as many of each", found=found)
        aligned = tuple((str(s), str(t)) for s, t in zip(source, target, strict=True))
        return cls(aligned=aligned, on_bad_text=on_bad_text)

    @classmethod
    def from_pairs(cls, files: Sequence[str | Path], *, on_bad_text: BadText = "stop") -> ParallelCorpus:
        """Return a corpus of .tsv and .jsonl files.

        Raises:
            ConfigError: a file has another suffix.
        """
        for path in files:
            _layout(str(path))
        return cls(pairs=tuple(str(path) for path in files), on_bad_text=on_bad_text)

    @classmethod
    def from_config(cls, data: DataConfig, part: Literal["train", "dev", "test"] = "train") -> ParallelCorpus:
        """Return the training, held-out or test pairs of a config: its aligned files, then its pair files.

        Only the training corpus must have some; without any, `corpus.files` is empty.

        Raises:
            ConfigError: no training files, unequal numbers of files, or an unknown suffix.
        """
        prefix = "" if part == "train" else f"{part}_"
        source, target, pairs = (getattr(data, prefix + name) for name in ("source", "target", "pairs"))
        lines = cls.from_files(source, target)
        columns = cls.from_pairs(pairs)
        if part == "train" and not (source or pairs):
            raise ConfigError("no training pairs were given", hint="give --source and --target, or --pairs")
        return cls(lines.aligned, columns.pairs, data.on_bad_text)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file of the corpus, in reading order."""
        return (*(path for both in self.aligned for path in both), *self.pairs)

    def read(self, counts: ReadCounts | None = None) -> Iterator[Pair]:
        """Yield the pairs; `counts` is filled in with pairs read, and those with replaced or skipped text."""
        counts = ReadCounts() if counts is None else counts
        for source, target in self.aligned:
            yield from self._read_aligned(source, target, counts)
        for path in self.pairs:
            yield from self._read_pairs(path, counts)

    def _read_aligned(self, source: str, target: str, counts: ReadCounts) -> Iterator[Pair]:
        sides = ReadCounts(), ReadCounts()
        sources = scan_lines(source, on_bad_text=self.on_bad_text, counts=sides[0])
        targets = scan_lines(target, on_bad_text=self.on_bad_text, counts=sides[1])
        replaced = 0
        for left, right in zip_longest(sources, targets):
            if left is None or right is None:
                raise _unequal(source, target, left, right, sources, targets)
            counts.read += 1
            if sides[0].replaced + sides[1].replaced > replaced:
                replaced = sides[0].replaced + sides[1].replaced
                counts.replaced += 1
            if left.problem or right.problem:
                counts.skipped += 1
            else:
                yield Pair(left.text, right.text, source, left.number)

    def _read_pairs(self, path: str, counts: ReadCounts) -> Iterator[Pair]:
        split = _split_json if _layout(path) == "jsonl" else _split_tabs
        for line in scan_lines(path, on_bad_text=self.on_bad_text, counts=counts):
            if line.problem is None:
                pair = split(line, path)
                if bad := _not_text(pair):
                    if self.on_bad_text == "stop":
                        raise bad
                    if self.on_bad_text == "skip":
                        counts.skipped += 1
                        continue
                    counts.replaced += 1
                    pair = pair._replace(source=_replaced(pair.source), target=_replaced(pair.target))
                yield pair


def guess_language(files: Sequence[str]) -> str | None:
    """Return the two-letter suffix that all files share ("de" of `train.de` and `more.de.gz`, "zh" of `.cn`)."""
    suffixes = {Path(_bare(path)).suffix[1:].lower() for path in files}
    suffix = suffixes.pop() if len(suffixes) == 1 else ""
    known = len(suffix) == 2 and suffix.isascii() and suffix.isalpha()
    return LANGUAGE_OF_COUNTRY.get(suffix, suffix) if known else None


def _bare(path: str) -> str:
    """A name without the suffix of a compressed file."""
    return path.removesuffix(Path(path).suffix) if Path(path).suffix in COMPRESSED else path


def _layout(path: str) -> Literal["tsv", "jsonl"]:
    suffix = Path(_bare(path)).suffix
    if suffix == ".tsv":
        return "tsv"
    if suffix == ".jsonl":
        return "jsonl"
    expected = f".tsv or .jsonl, perhaps with {', '.join(COMPRESSED)}"
    raise ConfigError("the suffix does not tell the layout", file=path, expected=expected)


def _split_tabs(line: Line, path: str) -> Pair:
    columns = line.text.split("\t")
    if len(columns) != 2:
        raise DataError(
            "not a pair",
            file=path,
            line=line.number,
            expected="2 columns with a TAB between",
            found=f"{len(columns)} column{'s' * (len(columns) > 1)}",
            hint="keep the two that you want, for example with cut -f1,2" if len(columns) > 2 else None,
        )
    return Pair(columns[0], columns[1], path, line.number)


def _split_json(line: Line, path: str) -> Pair:
    expected = 'an object with the strings "source" and "target"'
    try:
        value = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise DataError("not JSON", file=path, line=line.number, expected=expected, found=error) from error
    if not isinstance(value, dict):
        raise DataError("not a pair", file=path, line=line.number, expected=expected, found=type(value).__name__)
    texts = []
    for key in ("source", "target"):
        text = value.get(key)
        if not isinstance(text, str):
            found = f'"{key}" is {type(text).__name__}' if key in value else f"the keys {', '.join(value) or '(none)'}"
            raise DataError("not a pair", file=path, line=line.number, expected=expected, found=found)
        if "\n" in text:
            hint = "split it, or put a blank for each \\n"
            raise DataError(f'"{key}" is more than one line', file=path, line=line.number, hint=hint)
        texts.append(text)
    return Pair(texts[0], texts[1], path, line.number)


def _not_text(pair: Pair) -> DataError | None:
    # JSON can spell what UTF-8 cannot: NUL and half of a surrogate pair.
    for key, text in (("source", pair.source), ("target", pair.target)):
        if text != _replaced(text):
            expected = "no NUL and no lone surrogate"
            return DataError(f"the {key} is not text", file=pair.file, line=pair.line, expected=expected)
    return None


def _replaced(text: str) -> str:
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text)


def _unequal(
    source: str, target: str, left: Line | None, right: Line | None, sources: Iterator[Line], targets: Iterator[Line]
) -> DataError:
    shorter = left.number - 1 if left else right.number - 1 if right else 0
    rest = sum(1 for _ in (sources if left else targets)) + 1
    counts = (shorter + rest, shorter) if left else (shorter, shorter + rest)
    where = _first_suspicious(source, target, shorter)
    return DataError(
        "source and target files have different numbers of lines",
        file=source,
        expected=f"as many lines as {target}, which has {counts[1]}",
        found=f"{counts[0]} lines",
        hint=f"line {where} is the first whose two lengths do not fit: look for a lost or extra line there"
        if where
        else "a line is missing or too many, perhaps at the end",
    )


def _first_suspicious(source: str, target: str, lines: int) -> int | None:
    """The first line whose length ratio is far from the corpus median, or None."""
    ratios, longest = array("f"), array("L")
    both = zip(scan_lines(source, on_bad_text="replace"), scan_lines(target, on_bad_text="replace"), strict=False)
    for left, right in both:
        ratios.append(math.log((len(left.text) + 1) / (len(right.text) + 1)))
        longest.append(max(len(left.text), len(right.text)))
    usual = statistics.median(ratios) if ratios else 0.0
    far = math.log(SUSPICIOUS_RATIO)
    for i in range(min(lines, len(ratios))):
        if longest[i] >= SUSPICIOUS_LENGTH and abs(ratios[i] - usual) > far:
            return i + 1
    return None
