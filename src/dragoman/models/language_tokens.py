"""The tokens by which a model for many languages is told one: known by a run directory, and exchanged for a call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dragoman.errors import ConfigError
from dragoman.languages import base_language, tags_of
from dragoman.models.description import Languages, load_tokenizers
from dragoman.text.tokenizer_pair import tokenizer_files

if TYPE_CHECKING:
    from dragoman.config import ModelConfig
    from dragoman.text.tokenizer import Tokenizer
    from dragoman.text.tokenizer_pair import TokenizerPair

_SHOWN = 12
_SIDES = ("source", "target")


class Spoken(NamedTuple):
    """The languages of one side of a model.

    Attributes:
        tags: of each, with what the model calls it; None where it is not told its language.
        usual: which one it has unless it is told another; None where nobody knows.
    """

    tags: dict[str, str | None]
    usual: str | None


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


def spoken(pair: TokenizerPair | None, languages: Languages) -> tuple[Spoken, Spoken]:
    """Return the languages of both sides of a model.

    Args:
        pair: its tokenizers; None where it is known that they have no tokens of languages.
        languages: what its description says.
    """
    found = []
    for side in _SIDES:
        place, known = (side, {}) if pair is None else _told_by(pair, side)
        said, begun = getattr(languages, side), getattr(getattr(pair, place, None), "begin", ())
        tags = _tags(tuple(known))
        usual = next((tag for tag, name in tags.items() if known[name] in begun), None)
        found.append(Spoken({**tags}, usual) if known else Spoken({} if said is None else {said: None}, said))
    return found[0], found[1]


def spoken_by(directory: Path, config: ModelConfig, languages: Languages) -> tuple[Spoken, Spoken]:
    """Return the languages of both sides of a model that is not opened; arguments as `read_config` returns them.

    Raises:
        DataError: its tokenizers are missing or damaged.
        ModelError: they are not those of the model.
    """
    has_tokens = any(name.startswith("pieces") for name in tokenizer_files(directory))
    return spoken(load_tokenizers(directory, config) if has_tokens else None, languages)


def told_languages(pair: TokenizerPair, languages: Languages) -> Languages:
    """Return the languages of a model, those that its description leaves open by the tokens that it is told."""
    usual = {side: one.usual for side, one in zip(_SIDES, spoken(pair, languages), strict=True)}
    return languages.replace({side: base_language(tag) for side, tag in usual.items() if tag is not None})


def few_of(codes: Collection[str], like: str) -> str:
    """Return a line that names some languages, those that begin like another first, and how many there are."""
    alike = [one for one in codes if one[:2].lower() == like[:2].lower()]
    shown = [*alike, *(one for one in codes if one not in alike)][:_SHOWN]
    return ", ".join(shown) + (f" … ({len(codes)} in all)" if len(codes) > len(shown) else "")


def _told_by(pair: TokenizerPair, side: str) -> tuple[str, dict[str, str]]:
    """The side whose texts begin with the token of a side's language, and the tokens by the names of languages."""
    own = _plain(_marks(getattr(pair, side)))
    if own or side == "source":
        return side, own
    return "source", _tagged(_marks(pair.source))


# What follows is the same for all pairs of languages of a model, and a service asks for another one with each request.


@lru_cache(16)
def _plain(marks: tuple[str, ...]) -> dict[str, str]:
    return {one.strip("_"): one for one in marks if one[0] not in "<>"}


@lru_cache(16)
def _tagged(marks: tuple[str, ...]) -> dict[str, str]:
    return {one[2:-2]: one for one in marks if one.startswith(">>")}


@lru_cache(16)
def _tags(codes: tuple[str, ...]) -> dict[str, str]:
    return tags_of(codes)


def _marks(tokenizer: Tokenizer) -> tuple[str, ...]:
    return getattr(tokenizer, "marks", ())
