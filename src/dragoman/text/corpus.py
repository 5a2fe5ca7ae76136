"""Parallel corpora: aligned line files and files of pairs, read as one stream of pairs."""

from __future__ import annotations

import math
import os
import statistics
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from dragoman.audio.listing import Recording
from dragoman.config import DataConfig
from dragoman.config.data import LANGUAGE_OF_COUNTRY
from dragoman.errors import ConfigError, DataError
from dragoman.text.lines import BadText, Line, ReadCounts, file_hash, scan_lines
from dragoman.text.pair import Pair
from dragoman.text.pair_format import ANY_PAIRS, PairFormat
from dragoman.text.pair_readers import bare, layout_of, read_pairs

# Two sides whose lengths differ this much more than usual are worth a look.
SUSPICIOUS_RATIO = 3.0
SUSPICIOUS_LENGTH = 10


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
        pairs: `.tsv` files (no quoting), `.csv` files, `.jsonl` files (objects with the strings `source` and `target`,
            other keys ignored, or with a `translation` by language) or `.tmx` files. Each file of either sort may be
            compressed (`.gz`).
        on_bad_text: what a line that is not UTF-8 does: stop, replace or skip.
        form: which columns, keys or languages of the files of pairs are meant. Without it, tables have two columns.
        listens: source files are lists of recordings (`audio.listing`): a source is its line, the path made whole.

    Raises:
        DataError: while iterating, with file, line, and what was expected and found.
    """

    aligned: tuple[tuple[str, str], ...] = ()
    pairs: tuple[str, ...] = ()
    on_bad_text: BadText = "stop"
    form: PairFormat = ANY_PAIRS
    listens: bool = False

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
    def from_pairs(
        cls, files: Sequence[str | Path], *, on_bad_text: BadText = "stop", form: PairFormat | None = None
    ) -> ParallelCorpus:
        """Return a corpus of .tsv, .csv, .jsonl and .tmx files.

        Raises:
            ConfigError: a file has another suffix.
        """
        for path in files:
            layout_of(str(path))
        return cls(pairs=tuple(str(path) for path in files), on_bad_text=on_bad_text, form=form or ANY_PAIRS)

    @classmethod
    def from_config(cls, data: DataConfig, part: Literal["train", "dev", "test"] = "train") -> ParallelCorpus:
        """Return the training, held-out or test pairs of a config: its aligned files, then its pair files.

        Only the training corpus must have some; without any, `corpus.files` is empty.

        Raises:
            ConfigError: no training files, unequal numbers of files, or an unknown suffix.
        """
        prefix = "" if part == "train" else f"{part}_"
        source, target, pairs = (getattr(data, prefix + name) for name in ("source", "target", "pairs"))
        audio = getattr(data, prefix + "source_audio", ())
        if audio and (source or pairs):
            found = f"{prefix}source_audio and " + " and ".join(
                prefix + name for name, files in (("source", source), ("pairs", pairs)) if files
            )
            raise ConfigError("a model reads texts or hears recordings, not both", found=found, hint="give one of them")
        if part == "dev" and (source or pairs) and data.source_audio:
            hint = "give --dev-source-audio, or leave it out: some are then taken out of training"
            raise ConfigError("a speech model is not judged on texts", found=f"{prefix}source", hint=hint)
        lines = cls.from_files(source or audio, target)
        columns = cls.from_pairs(pairs)
        if part == "train" and not (source or pairs or audio):
            raise ConfigError("no training pairs were given", hint="give --source and --target, or --pairs")
        return cls(lines.aligned, columns.pairs, data.on_bad_text, PairFormat.from_config(data), bool(audio))

    @property
    def files(self) -> tuple[str, ...]:
        """Every file of the corpus, in reading order."""
        return (*(path for both in self.aligned for path in both), *self.pairs)

    def read(self, counts: ReadCounts | None = None) -> Iterator[Pair]:
        """Yield the pairs; `counts` is filled in with pairs read, those with replaced or skipped text, and so on."""
        counts = ReadCounts() if counts is None else counts
        for source, target in self.aligned:
            yield from self._read_aligned(source, target, counts)
        for path in self.pairs:
            yield from read_pairs(path, self.form, on_bad_text=self.on_bad_text, counts=counts)

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
                text = self._resolved(left, source) if self.listens else left.text
                yield Pair(text, right.text, source, left.number)

    def _resolved(self, line: Line, file: str) -> str:
        """The line of a recording that is relative to nothing; an empty one stays empty."""
        if not line.text.strip():
            return ""
        folder = os.path.dirname(os.path.abspath(file))
        return str(Recording.of_line(line.text, folder=folder, file=file, line=line.number))


def guess_language(files: Sequence[str]) -> str | None:
    """Return the two-letter suffix that all files share ("de" of `train.de` and `more.de.gz`, "zh" of `.cn`)."""
    suffixes = {Path(bare(path)).suffix[1:].lower() for path in files}
    suffix = suffixes.pop() if len(suffixes) == 1 else ""
    known = len(suffix) == 2 and suffix.isascii() and suffix.isalpha()
    return LANGUAGE_OF_COUNTRY.get(suffix, suffix) if known else None


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
