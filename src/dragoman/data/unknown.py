"""Tokens that a vocabulary lacks: their share of each side, told before a model learns nothing from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dragoman.config import TrainConfig
from dragoman.data.store import TokenStore
from dragoman.errors import DataError
from dragoman.text import Tokenizer, TokenizerPair
from dragoman.text.unknown import spelling_ids

# Shares of the tokens of a side from which on they are worth a warning.
MANY_UNKNOWN, MANY_BYTES = 0.03, 0.10
_CHUNK = 2**22


@dataclass(frozen=True)
class Unknown:
    """What of one side of a part is unknown to its vocabulary.

    Attributes:
        tokens: all of its tokens.
        unknown: those that read `<unk>`.
        spelled: those that are single bytes of a character that a SentencePiece vocabulary lacks.
    """

    tokens: int
    unknown: int
    spelled: int

    @classmethod
    def of(cls, parts: Iterable[np.ndarray], tokenizer: Tokenizer) -> Unknown:
        """Return the counts of unframed ids, of any number of texts, in parts, that are from a tokenizer."""
        tokens, unknown, spelled, spelling = 0, 0, 0, spelling_ids(tokenizer)
        for some in (ids[start : start + _CHUNK] for ids in parts for start in range(0, len(ids), _CHUNK)):
            tokens += len(some)
            unknown += int(np.count_nonzero(some == tokenizer.unk))
            if spelling:
                spelled += int(np.count_nonzero((some >= spelling.start) & (some < spelling.stop)))
        return cls(tokens, unknown, spelled)


def tell_unknown(
    stores: Mapping[str, TokenStore],
    tokenizers: TokenizerPair,
    config: TrainConfig,
    unit: str,
    report: Callable[[str], None],
) -> None:
    """Report what each part of the data has of unknown tokens; nothing where it has none.

    Args:
        stores: "train" and "dev".
        tokenizers: of both sides.
        config: names the model whose tokenizers they are, if there is one to start from. It can learn nothing from a
            side of which it knows no token.
        unit: "pairs", or "lines" of a text, which have no source.
        report: takes a line of plain text.

    Raises:
        DataError: every token of a side of the training data is unknown to the model to start from.
    """
    base = config.training.init_from
    of = "the vocabulary" if base is None else f"the vocabulary of {base}"
    for part, store in stores.items():
        for line in _told(part, store, tokenizers, of, unit, refused=base is not None and part == "train"):
            report(line)


def _told(
    part: str, store: TokenStore, tokenizers: TokenizerPair, of: str, unit: str, *, refused: bool
) -> Iterator[str]:
    sides = [("target", store.each("target"), tokenizers.target)]
    if unit == "pairs":
        sides.insert(0, ("source", store.each("source"), tokenizers.source))
    for side, ids, tokenizer in sides:
        found = Unknown.of(ids, tokenizer)
        share = found.unknown / max(1, found.tokens)
        if refused and found.tokens and found.unknown == found.tokens:
            raise DataError(
                f"every {side} token of {part} is unknown to {of}",
                expected="text in the language, script and units (words, characters) that the vocabulary is of",
                found=f"{found.tokens:,} tokens, all <unk>",
                hint="check whether the sides are exchanged, or train from nothing with a vocabulary of these texts",
            )
        if found.unknown:
            begins = "warning: " if share >= MANY_UNKNOWN else ""
            yield f"{begins}{part}: {_percent(share)} of the {side} tokens are unknown to {of}"
        if (spelled := found.spelled / max(1, found.tokens)) >= MANY_BYTES:
            yield f"{part}: {_percent(spelled)} of the {side} tokens are bytes of characters that {of} lacks"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 else "less than 0.1 %"
