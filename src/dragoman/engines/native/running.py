"""A search of the native engine that sentences join and leave as it runs."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import byref, c_int32, c_int64

from dragoman.config import DecodingConfig
from dragoman.engines.native.library import MOST
from dragoman.engines.native.model import NativeModel, default_threads
from dragoman.engines.native.sentences import Finished, Output, Read, Wanted, take_found


class NativeSearch:
    """A running search: sentences are admitted between steps, each with its own options, and leave when they are done.

    What a sentence gets depends neither on the others nor on when it came, bit by bit. One thread at a time drives it;
    a call that finds another one at work raises ValueError.

    Args:
        model: packed weights.
        threads: at most so many work on a step; all there are if None.
    """

    def __init__(self, model: NativeModel, threads: int | None = None) -> None:
        self.model, self._library = model, model.library
        handle = ctypes.c_void_p()
        threads = min(threads or default_threads(), MOST)
        self._library.check(self._library.open(model.handle, threads, byref(handle)))
        self._handle = handle.value
        self.live = 0
        self._close = weakref.finalize(self, self._library.close, self._handle)

    def admit(
        self,
        rows: Sequence[Read],
        options: DecodingConfig | Sequence[DecodingConfig],
        max_lengths: Sequence[int],
        prefixes: Sequence[Sequence[int]] = (),
        *,
        begin: int,
        end: int,
        never: Sequence[int],
        shares: Sequence[float] = (),
    ) -> range:
        """Let sentences take part from the next step on; return their numbers.

        Args:
            rows: framed ids of each source, or of a model that listens its frames; only their number counts without an
                encoder.
            options: of each row, or one for all of them.
            max_lengths: of each row's outputs.
            prefixes: what each row's outputs must begin with, or nothing at all.
            begin: the token before the first one.
            end: the token after the last one.
            never: tokens that are never emitted.
            shares: of what the head reads off each row's frames, or nothing at all.

        Raises:
            IndexError: a token is not in the vocabulary; none of the sentences is admitted.
            MemoryError: there is not enough; likewise.
            ModelError: a source is longer than the model's table of positions; likewise.
            ValueError: there are not as many options, lengths, prefixes or shares as rows, or frames are too wide.
        """
        wanted = Wanted(rows, options, max_lengths, prefixes, begin, end, never, shares, self.model.mels)
        specs, kept = wanted.specs()
        first = c_int64()
        self._library.check(self._library.admit(self._handle, specs, len(specs), byref(first)))
        del kept
        self.live += len(specs)
        return range(first.value, first.value + len(specs))

    def step(self, steps: int = 1, *, until_finished: bool = False) -> int:
        """Let every sentence make up to so many steps; return how many sentences go on.

        Args:
            steps: at most so many tokens for each.
            until_finished: stop as soon as one is done, to take it.
        """
        live = c_int32()
        self._library.check(self._library.advance(self._handle, min(steps, MOST), until_finished, byref(live)))
        self.live = live.value
        return self.live

    def take(self) -> list[Finished]:
        """Return the sentences that are done and were not taken yet, in the order of their admission."""
        return take_found(self._library, self._library.take, self._handle)

    def peek(self, number: int) -> list[Output] | None:
        """Return what a sentence has so far: live hypotheses, best first, then finished ones; None if it is not there.

        Finished ones end with the token that ends outputs.
        """
        found = take_found(self._library, self._library.peek, self._handle, number)
        return found[0].outputs if found else None

    def cancel(self, number: int) -> bool:
        """Drop a sentence, done or not; return whether it was still there."""
        dropped = c_int32()
        self._library.check(self._library.cancel(self._handle, number, byref(dropped)))
        self.step(0)
        return bool(dropped.value)
