"""Words as the scripts of Moses cut them, and merges of subword-nmt or fastBPE within a word: as fairseq's WMT models.

sacremoses, of the extra `import`, does what the scripts did. Pieces that end a word have `</w>` there, and show it as
U+2581. An output is joined again as its language wants it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError, DataError
from dragoman.files import json_text, write_bytes
from dragoman.text.tokenizer import SPECIALS, SURROGATE, UNK, UNKNOWN_TEXT, Kind, SpecialIds, read_document

FORMAT = 1
_KEYS = {"format", "language", "lower", "tokens", "merges"}
_END = "</w>"
_BLANK = "\u2581"


class MosesTokenizer(SpecialIds):
    """The tokenizer of Moses, then byte-pair merges of the characters of each word, looked up in a table.

    Args:
        language: of the texts, as `en`: Moses knows its abbreviations and quotation marks.
        tokens: in id order: the four special ones, then pieces; those that end a word end in `</w>`.
        merges: pairs of pieces that become one, the first ones first.
        lower: whether texts are lower-cased first.
    """

    stem = "moses"
    kind: Kind = "bpe"

    def __init__(
        self, language: str, tokens: Sequence[str], merges: Sequence[tuple[str, str]], *, lower: bool = False
    ) -> None:
        super().__init__()
        self.language, self.lower = language, lower
        self._tokens, self._merges = list(tokens), list(merges)
        self._ids = {token: number for number, token in enumerate(tokens) if number >= len(SPECIALS)}
        self._ranks = {pair: rank for rank, pair in reversed(list(enumerate(merges)))}
        self._pieces_of = lru_cache(1 << 14)(self._cut)

    @cached_property
    def _moses(self) -> Any:
        """The three scripts: of punctuation, of cutting, of joining."""
        try:
            import sacremoses
        except ImportError as error:
            hint = "pip install 'dragoman[import]'"
            raise ConfigError("the tokenizer of this model needs sacremoses", hint=hint) from error
        return (
            sacremoses.MosesPunctNormalizer(lang=self.language, pre_replace_unicode_punct=True),
            sacremoses.MosesTokenizer(lang=self.language),
            sacremoses.MosesDetokenizer(lang=self.language),
        )

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without framing.

        Raises:
            ConfigError: sacremoses is not installed.
            DataError: the text has a lone surrogate, which UTF-8 cannot spell.
        """
        if half := SURROGATE.search(text):
            raise DataError("the text has half of a surrogate pair", expected="text", found=f"U+{ord(half[0]):04X}")
        normalize, cut, _ = self._moses
        text = normalize.normalize(text.lower() if self.lower else text)
        text = "".join(one for one in text if not unicodedata.category(one).startswith("C"))
        words = cut.tokenize(text, aggressive_dash_splits=True, return_str=False, escape=True)
        return [self._ids.get(piece, UNK) for word in words if word for piece in self._pieces_of(word)]

    def _cut(self, word: str) -> tuple[str, ...]:
        """A word in pieces: of its characters, the pair that comes first in the list is joined, until none is left."""
        pieces, ranks = [*word[:-1], word[-1] + _END], self._ranks
        while len(pieces) > 1:
            first = min(pairwise(pieces), key=lambda pair: ranks.get(pair, len(ranks)))
            if first not in ranks:
                break
            joined: list[str] = []
            for piece in pieces:
                if joined and (joined[-1], piece) == first:
                    joined[-1] += piece
                else:
                    joined.append(piece)
            pieces = joined
        return tuple(pieces)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; specials are left out, an unknown reads as U+FFFD."""
        control = self.control
        pieces = (UNKNOWN_TEXT + " " if one == UNK else self._tokens[one] for one in ids if one not in control)
        words = "".join(piece.replace(_END, " ") for piece in pieces).split()
        found: str = self._moses[2].detokenize(words)
        return found

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable piece for each id; the end of a word shows as U+2581."""
        return [self._tokens[one].removesuffix(_END) + _BLANK * self._tokens[one].endswith(_END) for one in ids]

    def save(self, path: str | Path) -> None:
        """Write the JSON file."""
        tree = {"format": FORMAT, "language": self.language, "lower": self.lower, "tokens": self._tokens,
                "merges": [" ".join(pair) for pair in self._merges]}  # fmt: skip
        write_bytes(Path(path), (json_text(tree) + "\n").encode("utf-8"))

    @classmethod
    def load(cls, path: str | Path) -> MosesTokenizer:
        """Read what `save` wrote.

        Raises:
            DataError: the file is missing, too large, or not of this format; its tokens are not the special ones
                followed by distinct texts, or a merge is no pair.
        """
        tree = read_document(path, _KEYS, FORMAT, "tokenizer of Moses")
        tokens, merges = tree["tokens"], tree["merges"]
        for name, texts in (("tokens", tokens), ("merges", merges)):
            if not isinstance(texts, list) or not all(_is_text(one) for one in texts):
                raise DataError(f"{name} is no list of texts", file=path)
        if tuple(tokens[: len(SPECIALS)]) != SPECIALS or len(set(tokens)) < len(tokens):
            expected = f"{' '.join(SPECIALS)}, then distinct texts"
            raise DataError("not the tokens of a tokenizer", file=path, expected=expected)
        language, lower = tree["language"], tree["lower"]
        if not isinstance(language, str) or not re.fullmatch("[a-z]{2}", language) or not isinstance(lower, bool):
            raise DataError("not a tokenizer of Moses", file=path, expected="language: two letters; lower: true, false")
        return cls(language, tokens, [pair_of(one, path) for one in merges], lower=lower)


def _is_text(one: object) -> bool:
    return isinstance(one, str) and bool(one) and not SURROGATE.search(one)


def pair_of(line: str, path: str | Path) -> tuple[str, str]:
    """Return the pair of pieces that a line of merges begins with; a count may follow.

    Raises:
        DataError: there are not two.
    """
    parts = line.split()
    if len(parts) < 2:
        raise DataError("a merge is no pair of pieces", file=path, found=line[:80])
    return parts[0], parts[1]
