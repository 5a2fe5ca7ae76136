"""What whole searches are asked and what they find, as the compiled library reads and writes it."""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Iterator, Sequence
from ctypes import byref
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from dragoman.config import DecodingConfig
from dragoman.engines.native.library import MOST, FoundSpec, Library, SentenceSpec
from dragoman.engines.native.memory import address_of
from dragoman.models.blueprint import Array

FORMULAS = ("gnmt", "power", "reward")
ENDS = ("charged", "free", "none")
# The fields of `SentenceSpec`, which takes several times as long to be filled in one by one.
SENTENCE = struct.Struct("PPPPqqdd11i0q")

# What the encoder reads of a source: framed ids, or of a sound its frames, float32 `[frames, mels]`.
Read = Sequence[int] | Array
# The ids of an output and of what ends it, and the log-probability of each.
Output = tuple[list[int], list[float]]


class Finished(NamedTuple):
    """A sentence that left a search.

    Attributes:
        number: the sentence's.
        outputs: best first; none where every one is impossible, or there was an error.
        error: FloatingPointError where the model gives NaN, MemoryError where there was not enough, ModelError where
            an output grew longer than the model's table of positions; else None.
    """

    number: int
    outputs: list[Output]
    error: Exception | None


@dataclass(frozen=True)
class Wanted:
    """Sentences, and what is searched for.

    Attributes:
        rows: framed ids of each source, or of a model that listens its frames; only their number counts without an
            encoder.
        options: of each row, or one for all of them.
        max_lengths: of each row's outputs.
        prefixes: what each row's outputs must begin with, or nothing at all.
        begin: the token before the first one.
        end: the token after the last one.
        never: tokens that are never emitted.
        shares: of what the head reads off each row's frames, or nothing at all.
        mels: numbers of a frame; 0 where sources are ids.
    """

    rows: Sequence[Read]
    options: DecodingConfig | Sequence[DecodingConfig]
    max_lengths: Sequence[int]
    prefixes: Sequence[Sequence[int]]
    begin: int
    end: int
    never: Sequence[int]
    shares: Sequence[float] = ()
    mels: int = 0

    def specs(self) -> tuple[Any, Any]:
        """Return an array of `SentenceSpec`, and what must live as long as it is used.

        Raises:
            IndexError: an id has more than 64 bits.
            TypeError: frames are not float32.
            ValueError: there are not as many options, lengths, prefixes or shares as rows, frames are too wide, or ids
                are given for frames or frames for ids.
        """
        count = len(self.rows)
        each = [self.options] * count if isinstance(self.options, DecodingConfig) else self.options
        prefixes, shares = self.prefixes or [()] * count, self.shares or [0.0] * count
        texts, frames, lengths = self._read()
        ids = list(chain.from_iterable(texts))
        places = [*ids, *chain.from_iterable(prefixes), *self.never]
        try:
            kept = array("q", places)
        except OverflowError:
            raise IndexError("a token is not in the vocabulary of any model") from None
        source, _ = kept.buffer_info()
        prefix = source + 8 * len(ids)
        never = source + 8 * (len(places) - len(self.never))
        packed, before, numbers = [], None, (0.0, 0, 0, 0, 0, 0, 0, 0)
        for row, sound, length, options, longest, forced, share in zip(
            texts, frames, lengths, each, self.max_lengths, prefixes, shares, strict=True
        ):
            if options is not before:  # most often all rows have the same
                numbers, before = _numbers(options), options
            alpha, beam_size, n_best, min_length, no_repeat_ngram, *kinds = numbers
            packed.append(
                SENTENCE.pack(
                    source, 0 if sound is None else _frames_at(sound, self.mels), prefix, never, self.begin, self.end,
                    alpha, share, length, len(forced), len(self.never), beam_size, n_best, min_length,
                    min(longest, MOST), no_repeat_ngram, *kinds,
                )
            )  # fmt: skip
            source += 8 * len(row)
            prefix += 8 * len(forced)
        return (SentenceSpec * count).from_buffer_copy(b"".join(packed)), (kept, frames)

    def _read(self) -> tuple[Sequence[Sequence[int]], Sequence[Array | None], Sequence[int]]:
        """The ids of each row, its frames where the model reads those, and how many of either."""
        rows: Any = self.rows
        if any(hasattr(row, "data_ptr") != bool(self.mels) for row in rows):
            raise ValueError(f"the model reads {'frames' if self.mels else 'ids'}, and was given something else")
        if not self.mels:
            return rows, [None] * len(rows), list(map(len, rows))
        sounds = [row.contiguous() for row in rows]
        return [()] * len(sounds), sounds, [sound.shape[0] for sound in sounds]


def _frames_at(sound: Array, mels: int) -> int:
    return address_of(sound, "float32", (sound.shape[0], mels), "frames")


def _numbers(options: DecodingConfig) -> tuple[float, int, int, int, int, int, int, int]:
    formula, end = FORMULAS.index(options.length_penalty_formula), ENDS.index(options.end_at_limit)
    kinds = (formula, end, int(options.beam_early_stopping))
    lengths = min(options.min_length, MOST), min(options.no_repeat_ngram, MOST)
    return options.length_penalty, options.beam_size, options.n_best, *lengths, *kinds


def take_found(library: Library, function: Any, *arguments: Any) -> list[Finished]:
    """Return what a function of the library found, and free it there.

    Args:
        library: the library.
        function: `search` or `take`, whose last argument is where to put it.
        arguments: the others.

    Raises:
        IndexError: a token is not in the vocabulary.
        MemoryError: there is not enough.
        ValueError: it was given what it does not take.
    """
    found = ctypes.POINTER(FoundSpec)()
    library.check(function(*arguments, byref(found)))
    try:
        return list(_finished(library, found.contents))
    finally:
        library.free_found(found)


def _finished(library: Library, found: FoundSpec) -> Iterator[Finished]:
    count = found.sentences
    counts = found.counts[:count] if count else []
    lengths = found.lengths[: sum(counts)] if any(counts) else []
    total = sum(lengths)
    tokens, values = (found.tokens[:total], found.values[:total]) if total else ([], [])
    place, each = 0, iter(lengths)
    for index, outputs in enumerate(counts):
        some: list[Output] = []
        for _ in range(outputs):
            last = place + next(each)
            some.append((tokens[place:last], values[place:last]))
            place = last
        code = found.codes[index]
        yield Finished(found.numbers[index], some, library.error(code) if code else None)
