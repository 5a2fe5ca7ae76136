"""SentencePiece whose pieces are looked up in a table: the tokenizers of imported models.

The SentencePiece model cuts; what id a piece has, and which pieces there are, the table says. So it is in MarianMT,
M2M100 and their kin, where both sides share one table but have models of their own. Text is normalised as the model
does it, so that decoding gives back what was normalised; what the table lacks is `<unk>`.
"""

from __future__ import annotations

import base64
import binascii
import copy
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from dragoman.errors import DataError
from dragoman.files import json_text, write_bytes
from dragoman.text.tokenizer import (
    MAX_ENTRIES,
    SPECIALS,
    SURROGATE,
    UNK,
    UNKNOWN_TEXT,
    SpecialIds,
    read_document,
    read_flag,
)

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

FORMAT = 1
_KEYS = {"format", "kind", "tokens", "marks", "begin", "sentencepiece"}
_ENDS = "ends"  # only where sources have no `</s>`
_BLANK = "\u2581"
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_TAG = re.compile(">>[^<>]*<<")
PieceKind = Literal["bpe", "unigram"]


class PieceTokenizer(SpecialIds):
    """A SentencePiece model and a table of pieces.

    A text that begins with a mark of the form `>>xxx<<` keeps it as one token. No other mark comes from a text, and
    none is written into one.

    Args:
        kind: of the SentencePiece model.
        tokens: in id order: the four special ones, then pieces.
        model: the serialised SentencePiece model.
        marks: tokens that stand for no text but tell a language.
        begin: marks that every text begins with, unless it begins with one of its own.
        ends: whether sources end with `</s>`.
        name: what errors call it.
    """

    stem = "pieces"

    def __init__(
        self,
        kind: PieceKind,
        tokens: Sequence[str],
        model: bytes,
        *,
        marks: Sequence[str] = (),
        begin: Sequence[str] = (),
        ends: bool = True,
        name: str | Path = "tokenizer",
    ) -> None:
        super().__init__(ends=ends)
        self.kind: PieceKind = kind
        self._tokens, self._model, self._name = list(tokens), model, name
        self._ids = {token: number for number, token in enumerate(tokens) if number >= len(SPECIALS)}
        self.marks, self.begin = tuple(marks), tuple(begin)
        self._mark_ids = {mark: self._ids[mark] for mark in self.marks}
        self._hidden = self.control | set(self._mark_ids.values())
        for mark in self.marks:
            if not _TAG.fullmatch(mark):
                self._ids.pop(mark)  # no text gives it
        self._begin = [self._mark_ids[mark] for mark in self.begin]

    def beginning(self, marks: Sequence[str]) -> PieceTokenizer:
        """Return the same tokenizer, whose texts begin with other marks."""
        _ = self._processor  # read once for both
        made = copy.copy(self)
        made.begin, made._begin = tuple(marks), [self._mark_ids[mark] for mark in marks]
        return made

    @cached_property
    def _processor(self) -> SentencePieceProcessor:
        from sentencepiece import SentencePieceProcessor

        try:
            if not self._model:  # of which the library would write to standard error
                raise RuntimeError("empty")
            return SentencePieceProcessor(model_proto=self._model)
        except RuntimeError as error:
            raise DataError("not a SentencePiece model", file=self._name) from error

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without framing.

        Raises:
            DataError: the text has a lone surrogate, which UTF-8 cannot spell; or the SentencePiece model is none.
        """
        tag = _TAG.match(text) if self.marks else None
        own = tag is not None and tag[0] in self._ids
        begin, rest = ([self._ids[tag[0]]], text[tag.end() :]) if tag is not None and own else (self._begin, text)
        try:
            pieces = self._processor.encode(rest.encode("utf-8"), out_type=str)
        except UnicodeEncodeError as error:
            found = f"U+{ord(rest[error.start]):04X}"
            raise DataError("the text has half of a surrogate pair", expected="text", found=found) from error
        ids = self._ids
        return [*begin, *(ids.get(piece, UNK) for piece in pieces)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; specials and marks are left out, an unknown reads as U+FFFD."""
        found: list[str] = []
        spelled = bytearray()
        for number in ids:
            if number in self._hidden:
                continue
            piece = UNKNOWN_TEXT if number == UNK else self._tokens[number]
            if byte := _BYTE.fullmatch(piece):
                spelled.append(int(byte[1], 16))
                continue
            if spelled:
                found.append(spelled.decode("utf-8", "replace"))
                spelled.clear()
            found.append(piece)
        found.append(spelled.decode("utf-8", "replace"))
        return "".join(found).replace(_BLANK, " ").strip(" ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id."""
        return [self._tokens[number] for number in ids]

    def resampled(self, rows: Sequence[Sequence[int]], *, amount: float, seed: int) -> list[list[int]]:
        """Return the texts of some rows cut anew, as `SentencePieceTokenizer.resampled` does."""
        import sentencepiece

        sentencepiece.set_random_generator_seed(seed)
        return [self._cut_anew(list(row), amount) for row in rows]

    def _cut_anew(self, row: list[int], amount: float) -> list[int]:
        marks = [number for number in row[:1] if number in self._hidden]
        text = self.decode(row)
        drawn = self._processor.encode(
            text, out_type=str, enable_sampling=True, alpha=amount, nbest_size=-1, num_threads=1
        )
        new = [self._ids.get(piece, UNK) for piece in drawn]
        return row if UNK in row or UNK in new else [*marks, *new]

    def save(self, path: str | Path) -> None:
        """Write the JSON file."""
        tree = {
            "format": FORMAT, "kind": self.kind, "tokens": self._tokens, "marks": list(self.marks),
            "begin": list(self.begin), "sentencepiece": base64.b64encode(self._model).decode("ascii"),
        }  # fmt: skip
        frame = {} if self.specials.ends_source else {_ENDS: False}
        write_bytes(Path(path), (json_text(tree | frame) + "\n").encode("utf-8"))

    @classmethod
    def load(cls, path: str | Path) -> PieceTokenizer:
        """Read what `save` wrote, checking everything about it but the SentencePiece model, read when it is needed.

        Raises:
            DataError: the file is missing, too large, or not of this format; its tokens are not the special ones
                followed by distinct texts; a mark is none of them.
        """
        tree = read_document(path, _KEYS, FORMAT, "tokenizer of pieces", optional={_ENDS})
        kind, tokens, model = tree["kind"], tree["tokens"], tree["sentencepiece"]
        marks, begin = tree["marks"], tree["begin"]
        if kind not in get_args(PieceKind):
            raise DataError("unknown kind of tokenizer", file=path, expected="bpe or unigram", found=repr(kind)[:80])
        ends = read_flag(tree, _ENDS, True, path)
        for name in ("tokens", "marks", "begin"):
            _check_tokens(tree[name], path, name)
        if tuple(tokens[: len(SPECIALS)]) != SPECIALS:
            expected, found = f"the first tokens are {' '.join(SPECIALS)}", repr(tokens[: len(SPECIALS)])[:80]
            raise DataError("a special token is missing", file=path, expected=expected, found=found)
        if not set(begin) <= set(marks) or not set(marks) <= set(tokens[len(SPECIALS) :]):
            raise DataError("a mark is not among the tokens", file=path)
        try:
            data = base64.b64decode(model, validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise DataError("the SentencePiece model is not base64", file=path) from error
        return cls(kind, tokens, data, marks=marks, begin=begin, ends=ends, name=path)


def _check_tokens(tokens: Any, path: str | Path, name: str) -> None:
    """Refuse what is not a list of distinct texts."""
    if not isinstance(tokens, list) or len(tokens) > MAX_ENTRIES:
        raise DataError(f"{name} is no list of tokens", file=path, expected=f"<= {MAX_ENTRIES} texts")
    for number, token in enumerate(tokens):
        if not isinstance(token, str) or not token or SURROGATE.search(token):
            raise DataError("a token is no text", file=path, found=f"{name}[{number}] is {token!r}"[:80])
    if len(set(tokens)) < len(tokens):
        raise DataError(f"{name} names a token twice", file=path)
