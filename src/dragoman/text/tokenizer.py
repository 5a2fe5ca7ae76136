"""What every tokenizer is: strings to ids and back, with the same special ids everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.files import read_whole
from dragoman.sequences.source import MASK_ID, Specials
from dragoman.sequences.source import SPECIALS as SPECIAL_IDS
from dragoman.text.normalization import Normalization, normalizer

PAD, UNK, BOS, EOS = SPECIAL_IDS.ids
MASK = MASK_ID
# Half of a pair, which no text has.
SURROGATE = re.compile("[\ud800-\udfff]")
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
MASK_TOKEN = "<mask>"
# Of a tokenizer that is kept as JSON.
MAX_FILE_BYTES, MAX_ENTRIES = 96 << 20, 1 << 20
# What an unknown token reads as in decoded text.
UNKNOWN_TEXT = "\ufffd"
# SentencePiece's names of bytes, its blank, and what we write its blank with.
_TAKEN = re.compile("<0x[0-9A-F]{2}>|.*[\u2581\u241b]")

Kind = Literal["bpe", "unigram", "word", "character"]


@runtime_checkable
class Tokenizer(Protocol):
    """Strings to ids and back.

    Ids 0 to 3 are `<pad> <unk> <s> </s>` in every vocabulary, and 4 is `<mask>` where there is one. `encode` adds no
    framing and never gives a control id, whatever the text says; a literal `</s>` is text like any other.
    """

    @property
    def stem(self) -> str:
        """What the name of its file begins with."""
        ...

    @property
    def kind(self) -> Kind:
        """How texts are cut."""
        ...

    @property
    def normalization(self) -> Normalization:
        """How texts are written alike before they are cut."""
        ...

    @property
    def specials(self) -> Specials:
        """The ids that stand for no text."""
        ...

    @property
    def pad(self) -> int:
        """Id that fills rows up."""
        ...

    @property
    def unk(self) -> int:
        """Id of what the vocabulary lacks."""
        ...

    @property
    def bos(self) -> int:
        """Id that starts a target."""
        ...

    @property
    def eos(self) -> int:
        """Id that ends a sequence."""
        ...

    @property
    def mask(self) -> int | None:
        """Id of the mask symbol of masked language models, if the vocabulary has one."""
        ...

    def __len__(self) -> int:
        """Number of ids, specials included."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without framing."""
        ...

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return what `encode` gives for each of some texts; SentencePiece takes so many threads for it."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; specials are left out, an unknown reads as U+FFFD."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable piece for each id; blanks show as U+2581."""
        ...

    def save(self, path: str | Path) -> None:
        """Write the one file that `load` reads; saving what was loaded gives identical bytes."""
        ...


class SpecialIds:
    """What every tokenizer has: the special ids as attributes, and how it normalises."""

    pad, unk, bos, eos = PAD, UNK, BOS, EOS
    _tokens: Sequence[str] = ()  # of those that keep a list of them

    def __init__(self, *, mask: bool = False, normalization: Normalization = "none", ends: bool = True) -> None:
        self.normalization: Normalization = normalization
        self._normalized = normalizer(normalization)
        self.mask: int | None = MASK if mask else None
        self.specials = Specials(PAD, UNK, BOS, EOS, self.mask, ends)

    def __len__(self) -> int:
        return len(self._tokens)

    def encode_all(self: Tokenizer, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return what `encode` gives for each of some texts, one after the other."""
        del threads
        return [self.encode(text) for text in texts]

    @property
    def control(self) -> frozenset[int]:
        """The ids that stand for no text."""
        return frozenset({PAD, BOS, EOS} if self.mask is None else {PAD, BOS, EOS, MASK})


def special_tokens(*, mask: bool) -> tuple[str, ...]:
    """Return the special tokens in id order."""
    return (*SPECIALS, MASK_TOKEN) if mask else SPECIALS


def read_saved(path: str | Path, limit: int, what: str) -> bytes:
    """Return what is in a file of a tokenizer, such as a `vocabulary`.

    Raises:
        DataError: it cannot be read, or has more than `limit` bytes.
    """
    try:
        return read_whole(Path(path), limit, f"a {what}")
    except ModelError as error:
        found = error.found or error.message
        raise DataError(f"cannot read the {what}", file=path, expected=error.expected, found=found) from error


def read_document(
    path: str | Path, keys: Set[str], version: int, what: str, optional: Set[str] = frozenset()
) -> dict[str, Any]:
    """Return a tokenizer that is kept as JSON, with the entries that it must have, and some that it may have.

    Raises:
        DataError: it cannot be read, is too large, is not JSON, or not `what`: other entries, or another version.
    """
    data = read_saved(path, MAX_FILE_BYTES, "tokenizer")
    if data.count(b"[") + data.count(b"{") > MAX_ENTRIES or data.count(b",") > 2 * MAX_ENTRIES:
        raise DataError("the tokenizer has too many entries", file=path, expected=f"<= {MAX_ENTRIES}")
    try:
        tree = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError("the tokenizer is not JSON", file=path) from error
    if not isinstance(tree, dict) or tree.keys() - optional != keys or tree["format"] is not version:
        found = sorted(tree)[:8] if isinstance(tree, dict) else type(tree).__name__
        raise DataError(f"not a {what}", file=path, expected=", ".join(sorted(keys)), found=found)
    return tree


def read_flag(tree: dict[str, Any], name: str, default: bool, path: str | Path) -> bool:
    """Return an entry of a tokenizer that is true or false.

    Raises:
        DataError: it is something else.
    """
    found = tree.get(name, default)
    if not isinstance(found, bool):
        raise DataError("not a tokenizer", file=path, expected=f"{name}: true or false", found=repr(found)[:80])
    return found


def check_symbols(symbols: Sequence[str]) -> None:
    """Refuse texts that cannot be vocabulary entries of their own.

    Raises:
        ConfigError: one is empty, has a blank in it, means something already, or stands there twice.
    """
    for place, symbol in enumerate(symbols):
        taken = symbol in special_tokens(mask=True) or _TAKEN.match(symbol) or symbol in symbols[:place]
        if taken or symbol.split() != [symbol]:
            expected = "texts such as <bt>: no spaces, no special tokens, none twice"
            raise ConfigError("not a symbol for a vocabulary", expected=expected, found=repr(symbol))
