"""The tokens by which a model for many languages is told one: known by a run directory, and exchanged for a call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.text.tokenizer import Tokenizer
    from dragoman.text.tokenizer_pair import TokenizerPair

_SHOWN = 12


def pair_for(pair: TokenizerPair, asked: Mapping[str, str | None], own: object) -> TokenizerPair:
    """Return tokenizers that ask for other languages of a model for many.

    Args:
        pair: of the model.
        asked: a language of `source` and `target` each, as the model names it: `en`, `eng_Latn`, or `fra` for the tag
            `>>fra<<`; None leaves a side as it is.
        own: has the languages of a model for one pair as `source` and `target`, where they are known.

    Raises:
        ConfigError: the model is not told the language of a side, or does not know this one.
    """
    for side, code in asked.items():
        if code is None:
            continue
        place, known = _told_by(pair, side)
        if not known:
            if code == (only := getattr(own, side)):
                continue
            message, hint = f"the model has one {side} language", f"leave the {side} language out"
            raise ConfigError(message, expected=only or "a model for many languages", found=code, hint=hint)
        token = next((one for name, one in known.items() if code in (name, one)), None)
        if token is None:
            raise ConfigError(f"the model has no such {side} language", expected=few_of(known, code), found=code)
        pair = replace(pair, **{place: getattr(pair, place).beginning([token])})
    return pair


def few_of(codes: Collection[str], like: str) -> str:
    """Return a line that names some languages, those that begin like another first, and how many there are."""
    alike = [one for one in codes if one[:2].lower() == like[:2].lower()]
    shown = [*alike, *(one for one in codes if one not in alike)][:_SHOWN]
    return ", ".join(shown) + (f" … ({len(codes)} in all)" if len(codes) > len(shown) else "")


def _told_by(pair: TokenizerPair, side: str) -> tuple[str, dict[str, str]]:
    """The side whose texts begin with the token of a side's language, and the tokens by the names of languages."""
    own = {one.strip("_"): one for one in _marks(getattr(pair, side)) if one[0] not in "<>"}
    if own or side == "source":
        return side, own
    return "source", {one[2:-2]: one for one in _marks(pair.source) if one.startswith(">>")}


def _marks(tokenizer: Tokenizer) -> tuple[str, ...]:
    return getattr(tokenizer, "marks", ())
