"""Foreign vocabularies in our order: the four special ids first, then all others as they stood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from dragoman.errors import DataError, ModelError
from dragoman.models.blueprint import NO_LOGIT
from dragoman.sequences.source import SPECIALS as SPECIAL_IDS
from dragoman.text.tokenizer import MASK_TOKEN, SPECIALS, SURROGATE


@dataclass(frozen=True)
class Order:
    """Which of their ids stands for each of ours, and the tokens of ours.

    The first four are `<pad>`, `<unk>`, `<s>` and `</s>`. Theirs may begin outputs with any id, such as `</s>` or
    `<pad>`: its row stands for our `<s>`, as a copy where it stands for something else too.

    Attributes:
        ids: theirs, by ours.
        tokens: by ours.
        size: rows that they have.
        silent: whether `<pad>` has no logit either, because it was added here.
    """

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    size: int
    silent: bool = False

    @classmethod
    def of(
        cls, tokens: Mapping[int, str], size: int, *, pad: int, unk: int, start: int, end: int, file: Path,
        silent: bool = False,
    ) -> Order:  # fmt: skip
        """Return the order of a vocabulary.

        Args:
            tokens: by their ids; ids that have none are filled with names that no text has.
            size: ids there are.
            pad: the id that fills up.
            unk: of what the vocabulary lacks.
            start: that begins outputs.
            end: that ends both sides.
            file: for messages.
            silent: as the attribute.

        Raises:
            DataError: an id is beyond the vocabulary, or two specials are one.
        """
        special = (pad, unk, start, end)
        for name, number in zip(("pad", "unk", "start", "end"), special, strict=True):
            if not 0 <= number < size:
                expected = f"an id from 0 to {size - 1}"
                raise DataError(f"the {name} id is not in the vocabulary", file=file, expected=expected, found=number)
        if len({pad, unk, end}) < 3:
            raise DataError("two special tokens have one id", file=file, found=f"pad {pad}, unk {unk}, end {end}")
        own = set(special)
        others = [number for number in range(size) if number not in own]
        taken = {*SPECIALS, *(tokens[number] for number in others if number in tokens)}
        names = [_name(number, tokens, taken) for number in others]
        return cls((*special, *others), (*SPECIALS, *names), size, silent)

    def rows(self, table: Shaped[Tensor, "theirs *rest"]) -> Shaped[Tensor, "ours *rest"]:
        """Return the rows of a table of theirs in our order."""
        return table[torch.tensor(self.ids)]

    def offsets(self, bias: Shaped[Tensor, " theirs"], banned: Sequence[int] = ()) -> Shaped[Tensor, " ours"]:
        """Return the offsets of logits in our order; `<s>`, and what is banned, is out of every distribution."""
        found = bias.clone()
        for number in banned:
            if 0 <= number < len(found):
                found[number] = NO_LOGIT
        ours = self.rows(found)
        if self.ids[SPECIAL_IDS.bos] in (
            self.ids[SPECIAL_IDS.pad],
            self.ids[SPECIAL_IDS.unk],
            self.ids[SPECIAL_IDS.eos],
        ):
            ours[SPECIAL_IDS.bos] = NO_LOGIT  # a copy, whose share the other one has
        if self.silent:
            ours[SPECIAL_IDS.pad] = NO_LOGIT
        return ours


def _name(number: int, tokens: Mapping[int, str], taken: set[str]) -> str:
    name = tokens.get(number, f"<unused {number}>")
    while name in SPECIALS or (number not in tokens and name in taken):
        name += "*"
    return name


def words_of(order: Order) -> list[str]:
    """Return the tokens as words; what no text gives, such as the blanks that spaCy keeps, has a name of its own."""
    return [token if token.split() == [token] and token != MASK_TOKEN else f"<no-word-{place}>"
            for place, token in enumerate(order.tokens)]  # fmt: skip


def tokens_of(tree: Mapping[str, Any], file: Path, size: int | None = None) -> dict[int, str]:
    """Return tokens by id, of a table that has ids by token.

    Raises:
        DataError: an id is no whole number, beyond `size`, or stands there twice.
    """
    found: dict[int, str] = {}
    for token, number in tree.items():
        if type(number) is not int or number < 0 or (size is not None and number >= size):
            expected = "whole numbers" if size is None else f"ids from 0 to {size - 1}"
            raise DataError("an id is out of range", file=file, expected=expected, found=f"{token!r}: {number!r}"[:80])
        if number in found:
            raise DataError(
                "two tokens have the same id", file=file, found=f"{number}: {found[number]!r} and {token!r}"[:160]
            )
        if not token or SURROGATE.search(token):
            raise DataError("a token is no text", file=file, found=repr(token)[:80])
        found[number] = token
    return found


def need(tokens: Mapping[int, str], token: str, file: Path) -> int:
    """Return the id of a token that must be there.

    Raises:
        ModelError: it is not.
    """
    found = next((number for number, one in tokens.items() if one == token), None)
    if found is None:
        raise ModelError("the vocabulary lacks a token that is needed", file=file, expected=token)
    return found
