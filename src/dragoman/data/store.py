"""Tokenised pairs on disk, memory-mapped: a corpus of any size is open at once and costs no memory.

A store is a directory with `source.tokens`, `source.offsets`, `target.tokens`, `target.offsets` (little-endian arrays)
and `store.json`, which is written last and names the size and SHA-256 of each. Ids are kept unframed, a source as
`sequences.Source.joined` has it; `<s>` and `</s>` are put on when a batch is made.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedIOBase
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.errors import DataError, ModelError
from dragoman.files import (
    MAX_SETTINGS_BYTES,
    flush_directory,
    opened,
    read_json,
    sealed,
    sum_of,
    unsealed,
    write_new_file,
)

FORMAT = 1
DESCRIPTION = "store.json"
SIDES = ("source", "target")
# What a side of a pair is: ids, or the samples of a sound.
Row = Sequence[int] | np.ndarray
# Pairs that are written together.
_AT_ONCE = 1024
_DTYPES = {"H": "<u2", "I": "<u4", "h": "<i2"}


class TokenStore:
    """The pairs of a store, by index; made by `write` and `open`.

    Attributes:
        directory: where it lies.
        source_lengths: tokens of each source, unframed, int64 [pairs].
        target_lengths: tokens of each target, unframed, int64 [pairs].
    """

    def __init__(self, directory: Path, tokens: dict[str, np.ndarray], offsets: dict[str, np.ndarray]) -> None:
        self.directory = directory
        self._tokens = tokens
        self._offsets = offsets
        self.source_lengths: np.ndarray = np.diff(offsets["source"])
        self.target_lengths: np.ndarray = np.diff(offsets["target"])

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> np.ndarray:
        """Return the source ids of one pair: a read-only view, uint16 or uint32 [length]."""
        return self._view("source", index)

    def target(self, index: int) -> np.ndarray:
        """Return the target ids of one pair: a read-only view, uint16 or uint32 [length]."""
        return self._view("target", index)

    def tokens(self, side: str) -> np.ndarray:
        """Return the unframed ids of all pairs on a side, one after the other: uint16 or uint32 [tokens]."""
        return self._tokens[side]

    def parts(self) -> Iterator[TokenStore]:
        """Yield the stores that this one consists of, in their order; itself where it is a single one."""
        yield self

    def each(self, side: str) -> Iterator[np.ndarray]:
        """Yield what `tokens` returns, in parts where the store has some."""
        for part in self.parts():
            yield part.tokens(side)

    def _view(self, side: str, index: int) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        offsets = self._offsets[side]
        return self._tokens[side][offsets[index] : offsets[index + 1]]

    def check_ids(self, source_vocab: int | None, target_vocab: int) -> None:
        """Refuse ids that are in no vocabulary of these sizes; the samples of sounds are in none (None).

        Raises:
            DataError: there is one.
        """
        for side, size in zip(SIDES, (source_vocab, target_vocab), strict=True):
            if size is not None and (found := int(self._tokens[side].max(initial=0))) >= size:
                raise DataError("an id is not in the vocabulary", file=self.directory / f"{side}.tokens",
                                expected=f"less than {size}", found=found)  # fmt: skip

    def with_rows(self, changed: Mapping[str, Sequence[Sequence[int]]]) -> TokenStore:
        """Return the same pairs, in memory, with other ids on some sides.

        Args:
            changed: for "source", "target" or both, the unframed ids of every pair.
        """
        tokens, offsets = dict(self._tokens), dict(self._offsets)
        for side, rows in changed.items():
            lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(self))
            offsets[side] = np.concatenate([[0], np.cumsum(lengths)])
            kind, count = tokens[side].dtype, int(offsets[side][-1])
            tokens[side] = np.fromiter(chain.from_iterable(rows), dtype=kind, count=count)
        return self._like(tokens, offsets)

    def _like(self, tokens: dict[str, np.ndarray], offsets: dict[str, np.ndarray]) -> TokenStore:
        return TokenStore(self.directory, tokens, offsets)

    @classmethod
    def write(
        cls,
        directory: str | Path,
        pairs: Iterable[tuple[Row, Row]],
        *,
        vocabulary_size: int,
        sounds: bool = False,
    ) -> TokenStore:
        """Write pairs of id lists, streaming, and open the result.

        The directory appears whole or not at all: everything is written to a temporary sibling, synced, and renamed.

        Args:
            directory: must not exist yet.
            pairs: (source ids, target ids), unframed.
            vocabulary_size: the larger of the two vocabularies; up to 65,536 entries an id takes two bytes, else four.
            sounds: sources are samples of 16 bits, not ids.

        Raises:
            DataError: the directory exists.
        """
        directory = Path(directory)
        if directory.exists():
            raise DataError("the token store exists already", file=directory, hint="remove it, or choose another place")
        directory.parent.mkdir(parents=True, exist_ok=True)
        temporary = directory.with_name(f".tmp-{directory.name}-{os.getpid()}")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            ids = "H" if vocabulary_size <= 2**16 else "I"
            _write(temporary, pairs, {"source": "h" if sounds else ids, "target": ids})
            os.rename(temporary, directory)
            flush_directory(directory.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return cls.open(directory)

    @classmethod
    def open(cls, directory: str | Path, *, verify: bool = False) -> TokenStore:
        """Map a store into memory.

        Args:
            directory: made by `write`.
            verify: also compare the SHA-256 of each file, which reads all of it.

        Raises:
            DataError: a file is missing, was cut short or changed; names it.
        """
        directory = Path(directory)
        description = _read_description(directory / DESCRIPTION)
        dtype = np.dtype(description["dtype"])
        for name, facts in description["files"].items():
            _check_file(directory / name, facts, verify=verify)
        tokens, offsets = {}, {}
        for side in SIDES:
            kind = np.dtype(description.get(f"{side}_dtype", dtype))
            tokens[side] = _map(directory / f"{side}.tokens", kind)
            offsets[side] = path_offsets = _map(directory / f"{side}.offsets", np.dtype("<i8"))
            if (
                len(path_offsets) != description["pairs"] + 1
                or path_offsets[0] != 0
                or path_offsets[-1] != len(tokens[side])
                or (np.diff(path_offsets) < 0).any()
            ):
                raise DataError("the token store's offsets do not fit its tokens", file=directory / f"{side}.offsets")
        return cls(directory, tokens, offsets)


def _write(directory: Path, pairs: Iterable[tuple[Row, Row]], typecodes: Mapping[str, str]) -> None:
    count = 0
    with open(directory / "source.tokens", "wb") as source, open(directory / "target.tokens", "wb") as target:
        writers = _SideWriter(source, typecodes["source"]), _SideWriter(target, typecodes["target"])
        pairs = iter(pairs)
        while some := list(islice(pairs, _AT_ONCE)):
            count += len(some)
            for writer, rows in zip(writers, zip(*some, strict=True), strict=True):
                writer.add(rows)
        facts: dict[str, dict[str, object]] = {}
        for side, writer in zip(SIDES, writers, strict=True):
            facts[f"{side}.tokens"] = writer.finish()
            offsets = writer.offsets()
            write_new_file(directory / f"{side}.offsets", offsets)
            facts[f"{side}.offsets"] = {"bytes": len(offsets), "sha256": hashlib.sha256(offsets).hexdigest()}
    kinds = {side: _DTYPES[code] for side, code in typecodes.items()}
    description = {"format": FORMAT, "pairs": count, "dtype": kinds["target"], "files": facts}
    if kinds["source"] != kinds["target"]:
        description["source_dtype"] = kinds["source"]
    write_new_file(directory / DESCRIPTION, (json.dumps(sealed(description), indent=2) + "\n").encode())
    flush_directory(directory)


class _SideWriter:
    """Appends ids to an open file, and remembers where each pair starts."""

    def __init__(self, stream: BufferedIOBase, typecode: str) -> None:
        self._stream = stream
        self._typecode = typecode
        self._hash = hashlib.sha256()
        self._offsets = array("q", [0])

    def add(self, rows: Sequence[Row]) -> None:
        if any(isinstance(ids, np.ndarray) for ids in rows):
            kept = np.concatenate([np.asarray(ids) for ids in rows])
        else:  # which refuses ids that do not fit
            kept = np.asarray(array(self._typecode, chain.from_iterable(rows)))
        data = kept.astype(_DTYPES[self._typecode]).tobytes()
        self._stream.write(data)
        self._hash.update(data)
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        self._offsets.frombytes((self._offsets[-1] + np.cumsum(lengths)).tobytes())

    def offsets(self) -> bytes:
        return np.asarray(self._offsets).astype("<i8").tobytes()

    def finish(self) -> dict[str, object]:
        self._stream.flush()
        os.fsync(self._stream.fileno())
        return {"bytes": self._stream.tell(), "sha256": self._hash.hexdigest()}


def _read_description(path: Path) -> dict[str, Any]:
    try:
        description = unsealed(read_json(path, limit=MAX_SETTINGS_BYTES), path)
        files = {f"{side}.{kind}" for side in SIDES for kind in ("tokens", "offsets")}
        sound = (
            description["format"] == FORMAT
            and description["dtype"] in ("<u2", "<u4")
            and description.get("source_dtype", "<i2") == "<i2"
            and type(description["pairs"]) is int
            and set(description["files"]) == files
            and all(
                type(facts["bytes"]) is int and isinstance(facts["sha256"], str)
                for facts in description["files"].values()
            )
        )
    except ModelError as error:
        raise DataError(f"not a token store: {error.message}", file=path, found=error.found) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError("the token store's description is damaged", file=path, found=error) from error
    if not sound:
        raise DataError("the token store has an unknown format", file=path, expected=f"format {FORMAT}")
    return description


def _check_file(path: Path, facts: dict[str, Any], *, verify: bool) -> None:
    try:
        with opened(path) as stream:
            size = os.fstat(stream.fileno()).st_size
        if size != facts["bytes"]:
            expected, found = f"{facts['bytes']} bytes", f"{size} bytes"
            raise DataError(
                "a file of the token store was changed or cut short", file=path, expected=expected, found=found
            )
        if verify and sum_of(path) != facts["sha256"]:
            raise DataError("a file of the token store was changed", file=path, hint="prepare the data again")
    except ModelError as error:
        found = error.found or error.message
        raise DataError("a file of the token store is missing", file=path, found=found) from error


def _map(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    size = path.stat().st_size
    if size % dtype.itemsize:
        raise DataError("a file of the token store has an odd size", file=path, found=f"{size} bytes")
    if not size:
        return np.empty(0, dtype)
    # A plain array over the map: slices of np.memmap itself are several times slower.
    return np.asarray(np.memmap(path, dtype, mode="r"))
