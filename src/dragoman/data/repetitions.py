"""Which of very many texts came before, in little memory: hashes are put into files, and looked at a file at a time."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np

# Files that hashes are divided among, by their last bits; and hashes of each that wait to be written.
_FILES, _WAITING = 64, 4096


class Repetitions:
    """Finds texts that came before among those added, exactly but for equal 64-bit hashes.

    A text takes 16 bytes on the disk, and one bit of memory. Whatever the number, little more is held.

    Args:
        folder: for the files; must not exist, and is left empty.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._paths = [folder / f"{number:02d}.hashes" for number in range(_FILES)]
        self._waiting = [array("Q") for _ in range(_FILES)]
        self._count = 0

    def add(self, key: int) -> None:
        """Take the hash of the next text, 64 bits."""
        part = self._waiting[key % _FILES]
        part.append(key)
        part.append(self._count)
        self._count += 1
        if len(part) >= 2 * _WAITING:
            self._flush(key % _FILES)

    def add_all(self, keys: np.ndarray, counted: np.ndarray) -> None:
        """Take the hashes of some texts, uint64 [texts]; one that is not counted (bool) repeats none, and none it."""
        places = np.flatnonzero(counted)
        parts = (keys[places] % np.uint64(_FILES)).astype(np.int64)
        both = np.stack([keys[places], (places + self._count).astype(np.uint64)], axis=1)
        self._count += len(keys)
        order = np.argsort(parts, kind="stable")
        ends = np.cumsum(np.bincount(parts, minlength=_FILES))
        for number, some in enumerate(np.split(both[order], ends[:-1])):
            self._waiting[number].frombytes(some.tobytes())
            if len(self._waiting[number]) >= 2 * _WAITING:
                self._flush(number)

    def _flush(self, number: int) -> None:
        with self._paths[number].open("ab") as file:
            self._waiting[number].tofile(file)
        del self._waiting[number][:]

    def found(self) -> np.ndarray:
        """Return which texts came before, True or False in the order of `add`, packed into bits, uint8 [texts / 8]."""
        bits = np.zeros(-(-self._count // 8), dtype=np.uint8)
        for number, path in enumerate(self._paths):
            self._flush(number)
            keys, places = np.fromfile(path, dtype=np.uint64).reshape(-1, 2).T
            path.unlink()
            order = np.argsort(keys, kind="stable")
            again = places[order][1:][np.diff(keys[order]) == 0].astype(np.int64)
            np.bitwise_or.at(bits, again >> 3, (128 >> (again & 7)).astype(np.uint8))
        return bits


def is_marked(bits: np.ndarray, place: int) -> bool:
    """Return what packed bits say at a place."""
    return bool(bits[place >> 3] & (128 >> (place & 7)))
