"""What is read beside a source: the targets of the training pairs most like it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.errors import DataError, ModelError
from dragoman.files import MAX_SETTINGS_BYTES, check_filled, opened, parse_json, write_bytes
from dragoman.sequences.source import Source
from dragoman.text.matches import PairIndex, Rows
from dragoman.text.tokenizer import Tokenizer

FORMAT = 1
_NAMES = ("source.tokens", "source.offsets", "target.tokens", "target.offsets")


class Matching:
    """Puts the targets of fuzzy matches beside sources (Bulté and Tezcan 2019).

    With one vocabulary for both sides the ids of targets are what they are; with two, the source's ids are followed by
    those of the target, so that a letter and a sound that are spelled alike are told apart.

    Args:
        source: cuts the text itself.
        target: cuts the targets.
        index: the training pairs.
        count: matches at most.
        limit: ids at most; a match that would go beyond is left out, and those after it.
    """

    def __init__(
        self,
        source: Tokenizer,
        target: Tokenizer,
        index: PairIndex,
        *,
        count: int,
        limit: int,
    ) -> None:
        self.source, self.target, self.index = source, target, index
        self.count, self.limit = count, limit
        self._first = 0 if source is target else len(source)

    @classmethod
    def of(
        cls, source: Tokenizer, target: Tokenizer, pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
        *, count: int, limit: int,
    ) -> Matching:  # fmt: skip
        """Return one that knows these pairs of unframed ids."""
        known = list(pairs)
        index = PairIndex(Rows.of(one for one, _ in known), Rows.of(one for _, one in known))
        return cls(source, target, index, count=count, limit=limit)

    def __str__(self) -> str:
        return f"the targets of the {self.count} most like it of {len(self.index.sources):,} training pairs"

    @property
    def vocab(self) -> int:
        """Number of ids that encoders read: of the source, and where it has a vocabulary of its own of the target."""
        return self._first + len(self.target)

    def source_of(self, own: Sequence[int], *, but_equal: bool = False) -> Source:
        """Return a source with its matches.

        Args:
            own: its ids, unframed.
            but_equal: no match whose source is this very one, as for training pairs.
        """
        return self.beside(own, self.index.nearest(own, self.count, but_equal=but_equal) if len(own) else [])

    def beside(self, own: Sequence[int], pairs: Iterable[int]) -> Source:
        """Return a source with the targets of these pairs, by their numbers."""
        matches, width = [], len(own)
        for pair in pairs:
            target = self.index.targets.row(pair)
            width += 1 + len(target)
            if width > self.limit:
                break
            matches.append(tuple(token + self._first for token in target))
        return Source(tuple(own), tuple(matches), self.source.specials)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable piece for each id that encoders read."""
        first, source, target = self._first, self.source, self.target
        return [piece for i in ids for piece in (source.pieces([i]) if i < first else target.pieces([i - first]))]

    @property
    def sha256(self) -> str:
        """Of the pairs."""
        return digest(self._parts)

    def save(self, path: str | Path) -> None:
        """Write the pairs and the settings, as a safetensors file; the tokenizers have files of their own."""
        from safetensors.numpy import save

        settings = {"format": FORMAT, "count": self.count, "limit": self.limit, "sha256": self.sha256}
        # One entry only: the library writes several in random order.
        write_bytes(Path(path), save(self._parts, {"matches": json.dumps(settings)}))

    @property
    def _parts(self) -> dict[str, np.ndarray]:
        return dict(zip(_NAMES, (*self.index.sources, *self.index.targets), strict=True))

    @classmethod
    def load(cls, path: str | Path, source: Tokenizer, target: Tokenizer) -> Matching:
        """Read what `save` wrote.

        Raises:
            DataError: it is missing, damaged, or its ids are not those of the tokenizers.
        """
        parts, settings = _read(Path(path))
        sources, targets = Rows(*(parts[name] for name in _NAMES[:2])), Rows(*(parts[name] for name in _NAMES[2:]))
        sizes = (len(source), len(target))
        fit = all(rows.are_of(size) for rows, size in zip((sources, targets), sizes, strict=True))
        if not fit or len(sources) != len(targets):
            raise DataError("the pairs to be matched are not those of the tokenizers", file=path)
        return cls(source, target, PairIndex(sources, targets), count=settings["count"], limit=settings["limit"])


def digest(parts: dict[str, np.ndarray]) -> str:
    """Return the SHA-256 of the arrays of a file of pairs."""
    found = hashlib.sha256()
    for name in _NAMES:
        found.update(np.ascontiguousarray(parts[name]).data)
    return found.hexdigest()


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        check_filled(path)
        with opened(path) as file:
            length = int.from_bytes(file.read(8), "little")
            if length > MAX_SETTINGS_BYTES:
                raise ValueError(f"a header of {length} bytes")
            header = parse_json(file.read(length), path)
            file.seek(0)
            data = file.read()
        parts, settings = load(data), json.loads(header["__metadata__"]["matches"])
        sound = (
            set(parts) == set(_NAMES)
            and settings["format"] == FORMAT
            and all(type(settings[name]) is int and settings[name] > 0 for name in ("count", "limit"))
            and settings["sha256"] == digest(parts)
        )
    except (ModelError, SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError("cannot read the pairs to be matched", file=path, found=error) from error
    if not sound:
        raise DataError("the pairs to be matched are damaged, or of an unknown format", file=path)
    return parts, settings
