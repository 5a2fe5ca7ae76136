"""Word and character vocabularies, kept as one readable JSON file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from dragoman.errors import DataError
from dragoman.files import write_bytes
from dragoman.text.normalization import NORMALIZATIONS, Normalization, normalizer
from dragoman.text.tokenizer import (
    MASK,
    MASK_TOKEN,
    SPECIALS,
    SURROGATE,
    UNK,
    UNKNOWN_TEXT,
    SpecialIds,
    read_flag,
    read_saved,
    special_tokens,
)

FORMAT = 1
MAX_FILE_BYTES = 16 * 2**20
MAX_ENTRIES = 2**20
_BLANK = "\u2581"


class Vocabulary(SpecialIds):
    """A closed list of words or characters.

    A word vocabulary splits at runs of blanks and joins with single ones; a character vocabulary takes each character,
    blanks included, and gives back exactly what it knows. What the list lacks, and any word spelled like a special
    token, becomes `<unk>`.

    Args:
        kind: "word" or "character".
        tokens: the tokens in id order, special ones first.
        normalization: how texts are written alike before they are cut (`text.normalization`).
        begins: whether each text begins with `<s>`, as sources of the founding systems do.
        ends: whether sources end with `</s>`.
    """

    stem = "vocabulary"

    def __init__(
        self,
        kind: Literal["word", "character"],
        tokens: Sequence[str],
        normalization: Normalization = "none",
        *,
        begins: bool = False,
        ends: bool = True,
    ) -> None:
        has_mask = len(tokens) > MASK and tokens[MASK] == MASK_TOKEN
        super().__init__(mask=has_mask, normalization=normalization, ends=ends)
        self.kind: Literal["word", "character"] = kind
        self._tokens, self.begins = list(tokens), begins
        specials = special_tokens(mask=self.mask is not None)
        self._ids = {token: i for i, token in enumerate(tokens) if i >= len(specials)}

    @classmethod
    def train(
        cls,
        kind: Literal["word", "character"],
        texts: Iterable[str],
        *,
        min_count: int = 1,
        size: int | None = None,
        mask: bool = False,
        symbols: Sequence[str] = (),
        normalization: Normalization = "none",
    ) -> Vocabulary:
        """Make the vocabulary of some texts, most frequent tokens first.

        Args:
            kind: "word" or "character".
            texts: what to count.
            min_count: rarer tokens are left out.
            size: at most so many entries, specials included.
            mask: reserve an id for `<mask>`.
            symbols: words that are in it, however rare.
            normalization: as for the class.
        """
        specials = special_tokens(mask=mask)
        counts: Counter[str] = Counter()
        for text in map(normalizer(normalization), texts):
            counts.update(text.split() if kind == "word" else text)
        for known in (*special_tokens(mask=True), *symbols):
            del counts[known]
        frequent = [token for token, count in counts.items() if count >= min_count]
        frequent.sort(key=lambda token: (-counts[token], token))
        always = (*specials, *symbols)
        return cls(kind, [*always, *frequent][: None if size is None else max(size, len(always))], normalization)

    def extended(self, texts: Iterable[str], *, min_count: int = 1) -> Vocabulary:
        """Return the same vocabulary, every id as it was, with what it lacks of some texts appended by frequency.

        Args:
            texts: what to count.
            min_count: rarer tokens stay unknown.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(token for token in (text.split() if self.kind == "word" else text) if token not in self._ids)
        for known in special_tokens(mask=True):
            del counts[known]
        new = [token for token, count in counts.items() if count >= min_count]
        more = sorted(new, key=lambda token: (-counts[token], token))
        return Vocabulary(self.kind, [*self._tokens, *more], begins=self.begins, ends=self.specials.ends_source)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without framing; of one that is not empty the `<s>` that it begins with, if so."""
        ids = [self._ids.get(token, UNK) for token in self.cut(text)]
        return [self.bos, *ids] if self.begins and ids else ids

    def cut(self, text: str) -> list[str]:
        """Return the words or characters of a text, normalised: one for each id."""
        text = self._normalized(text)
        return text.split() if self.kind == "word" else list(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; specials are left out, an unknown reads as U+FFFD."""
        control = self.control
        texts = (UNKNOWN_TEXT if i == UNK else self._tokens[i] for i in ids if i not in control)
        return (" " if self.kind == "word" else "").join(texts)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the token of each id; a blank shows as U+2581."""
        return [_BLANK if self._tokens[i] == " " else self._tokens[i] for i in ids]

    def save(self, path: str | Path) -> None:
        """Write the JSON file.

        Raises:
            DataError: it would be too large to be loaded again.
        """
        tokens = {token: i for i, token in enumerate(self._tokens)}
        rule = {} if self.normalization == "none" else {"normalization": self.normalization}
        frame = ({"begins": True} if self.begins else {}) | ({} if self.specials.ends_source else {"ends": False})
        tree = {"format": FORMAT, "kind": self.kind, **rule, **frame, "tokens": tokens}
        text = json.dumps(tree, ensure_ascii=False, indent=0)
        data = (text + "\n").encode("utf-8")
        if len(data) > MAX_FILE_BYTES:
            raise DataError(
                f"the {self.kind} vocabulary of {len(self)} entries is too large",
                expected=f"<= {MAX_FILE_BYTES} bytes",
                found=f"{len(data)} bytes",
                hint="increase min_count, set vocab_size, or use kind = bpe",
            )
        write_bytes(Path(path), data)

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary file, checking everything about it.

        Raises:
            DataError: the file is missing, too large, not JSON, of another format, or its tokens are not exactly the
                special ones followed by distinct texts with the ids 0, 1, 2, ...
        """
        tree = read_tokens(path)
        if tree.get("format") != FORMAT or isinstance(tree.get("format"), bool):
            raise DataError("unknown vocabulary format", file=path, expected=FORMAT, found=repr(tree.get("format")))
        kind = tree.get("kind")
        if kind not in ("word", "character"):
            raise DataError("unknown kind of vocabulary", file=path, expected="word or character", found=repr(kind))
        tokens = _in_id_order(tree.get("tokens"), path)
        _check_texts(kind, tokens, path)
        rule = tree.get("normalization", "none")
        if rule not in NORMALIZATIONS:
            expected = ", ".join(NORMALIZATIONS)
            raise DataError("unknown normalization", file=path, expected=expected, found=repr(rule)[:80])
        begins, ends = read_flag(tree, "begins", False, path), read_flag(tree, "ends", True, path)
        return cls(kind, tokens, rule, begins=begins, ends=ends)


def read_tokens(path: str | Path) -> dict[str, Any]:
    """Return a JSON object of so many entries as a vocabulary may have.

    Raises:
        DataError: the file is missing, too large, not JSON, or names an entry twice.
    """
    data = read_saved(path, MAX_FILE_BYTES, "vocabulary")
    # Each takes far more memory than its sign in the file.
    if data.count(b"[") + data.count(b"{") > MAX_ENTRIES // 10 or data.count(b":") > MAX_ENTRIES:
        raise DataError("the vocabulary has too many entries", file=path, expected=f"<= {MAX_ENTRIES}")
    try:
        tree = json.loads(data.decode("utf-8"), object_pairs_hook=lambda items: _distinct(items, path))
    except (ValueError, RecursionError) as error:
        raise DataError("the vocabulary is not JSON", file=path, found=error) from error
    if not isinstance(tree, dict):
        raise DataError("the vocabulary is not a JSON object", file=path, found=type(tree).__name__)
    return tree


def _distinct(items: list[tuple[str, Any]], path: str | Path) -> dict[str, Any]:
    tree = dict(items)
    if len(tree) < len(items):
        (name, count), *_ = Counter(name for name, _ in items).most_common(1)
        raise DataError("the vocabulary names an entry twice", file=path, found=f"{name!r}, {count} times")
    return tree


def _in_id_order(ids: object, path: str | Path) -> list[str]:
    if not isinstance(ids, dict):
        raise DataError('the vocabulary has no "tokens"', file=path, expected='{"<pad>": 0, ...}', found=repr(ids)[:80])
    tokens: list[str | None] = [None] * len(ids)
    for token, i in ids.items():
        if type(i) is not int:
            raise DataError("an id is not an integer", file=path, found=f"{token!r}: {i!r}"[:80])
        if not 0 <= i < len(ids):
            expected = f"each of 0 to {len(ids) - 1} once, for {len(ids)} tokens"
            raise DataError("an id is out of range", file=path, expected=expected, found=f"{token!r}: {i}"[:80])
        if tokens[i] is not None:
            raise DataError("two tokens have the same id", file=path, found=f"{i}: {tokens[i]!r} and {token!r}")
        tokens[i] = token
    return [token for token in tokens if token is not None]


def _check_texts(kind: str, tokens: list[str], path: str | Path) -> None:
    for i, special in enumerate(SPECIALS):
        if tokens[i : i + 1] != [special]:
            found = repr(tokens[i]) if i < len(tokens) else "nothing"
            raise DataError("a special token is missing", file=path, expected=f"id {i} is {special}", found=found)
    mask = tokens[MASK : MASK + 1] == [MASK_TOKEN]
    for i, token in enumerate(tokens[len(special_tokens(mask=mask)) :], len(special_tokens(mask=mask))):
        good = len(token) == 1 if kind == "character" else token.split() == [token] and token != MASK_TOKEN
        if not good or SURROGATE.search(token):
            raise DataError(f"not a {kind}", file=path, found=f"id {i} is {token!r}"[:80])
