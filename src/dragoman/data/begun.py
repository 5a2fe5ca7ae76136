"""What the first reading of a large corpus found, and which pairs pass the filters on text by that."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.data.filtering import Counts, SeenKeys, drop_texts
from dragoman.data.prepared_files import write_json
from dragoman.data.repetitions import is_marked
from dragoman.data.splitting import is_held_out
from dragoman.files import read_json, write_new_file
from dragoman.pace import Pace
from dragoman.text import Pair

BEGUN, KEYS = "begun.json", "begun.npz"


@dataclass(frozen=True)
class Begun:
    """What the first reading found.

    Attributes:
        pairs: how many there are.
        held_out: hashes of the sources that are held out, if pairs are split off.
        repetitions: a bit for each pair: whether it came before; empty if nobody asked.
        seen: what is held out, if pairs that share a side with it are left out.
        counts: of the held-out pairs.
    """

    pairs: int
    held_out: frozenset[int] | None
    repetitions: np.ndarray
    seen: SeenKeys | None
    counts: Counts

    def save(self, folder: Path, key: str) -> None:
        """Write what was found, of data with this key."""
        seen = () if self.seen is None else [np.array(sorted(side), np.uint64) for side in self.seen.sides]
        arrays = {f"seen{number}": side for number, side in enumerate(seen)}
        held_out = {} if self.held_out is None else {"held_out": np.array(sorted(self.held_out), np.uint64)}
        data = io.BytesIO()
        np.savez(data, allow_pickle=False, repetitions=self.repetitions, **arrays, **held_out)
        write_new_file(folder / KEYS, data.getvalue())
        write_json(folder / BEGUN, {"key": key, "pairs": self.pairs, "counts": self.counts.to_dict()})

    @classmethod
    def load(cls, folder: Path) -> Begun:
        """Read what `save` wrote."""
        facts = read_json(folder / BEGUN)
        with np.load(folder / KEYS, allow_pickle=False) as arrays:
            sides = tuple(frozenset(arrays[f"seen{n}"].tolist()) for n in (0, 1) if f"seen{n}" in arrays)
            held_out = frozenset(arrays["held_out"].tolist()) if "held_out" in arrays else None
            counts = Counts.from_dict(facts["counts"])
            return cls(facts["pairs"], held_out, arrays["repetitions"], SeenKeys(sides) if sides else None, counts)


def kept_texts(pairs: Iterable[Pair], start: int, begun: Begun, counts: Counts, pace: Pace) -> Iterator[Pair]:
    """Yield the pairs that pass the filters on text.

    Args:
        pairs: some that follow each other.
        start: number of the first one.
        begun: what the first reading found.
        counts: filled in with what is read and dropped.
        pace: takes how far it is.
    """
    place, chosen = start - 1, begun.held_out

    def numbered() -> Iterator[Pair]:
        nonlocal place
        for pair in pairs:
            place += 1
            if place % 2**14 == 0:
                pace.at(place)
            if chosen is not None and is_held_out(pair, chosen):
                counts.read += 1
                counts.dropped["held out"] += 1
            else:
                yield pair

    again = (lambda: is_marked(begun.repetitions, place)) if len(begun.repetitions) else False
    return drop_texts(numbered(), counts, drop_duplicates=again, seen=begun.seen)
