"""Which rule drops a pair: of some pairs at a time, by what the first reading of their corpus told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dragoman.cleaning.facts import Arrays, Facts, Repeats, side_key
from dragoman.cleaning.languages import LanguageRule
from dragoman.cleaning.near import sets_of
from dragoman.cleaning.rules import PAIR_RULES, RULES, Usual
from dragoman.config.cleaning import CleaningConfig
from dragoman.errors import ConfigError
from dragoman.text.lines import chunks
from dragoman.text.sides import SideProfiles

_AT_ONCE = 2000
# What is known of a pair by its place.
_PLACED = ("shifted", "duplicate", "near duplicate")
# A verdict is the place of a name here.
VERDICTS = ("kept", *RULES)
KEPT = 0
Texts = list[tuple[str, str]]


@dataclass(frozen=True)
class Block:
    """Pairs that follow each other.

    Attributes:
        texts: source and target of each.
        marks: by rules that go by places: whether each pair breaks it, bool [pairs].
    """

    texts: Texts
    marks: dict[str, np.ndarray]

    @classmethod
    def of(cls, texts: Texts, facts: Facts, first: int) -> Block:
        """Return pairs, the first of which has this place in the corpus."""
        bits = zip(_PLACED, (facts.shifted, facts.duplicate, facts.near), strict=True)
        return cls(texts, {rule: _part(marks, first, len(texts)) for rule, marks in bits})


def _part(bits: np.ndarray, first: int, count: int) -> np.ndarray:
    begin = first >> 3
    return np.unpackbits(bits[begin : (first + count + 7) >> 3])[first - 8 * begin :][:count].astype(bool)


@dataclass(frozen=True)
class Judging:
    """All that a verdict depends on, besides the pair and its place.

    Attributes:
        rules: names of those that are asked, in order.
        settings: thresholds.
        languages: two-letter codes of source and target, where known.
        usual: what is usual in the corpus.
        profiles: the characters of both sides.
        repeats: of source and target: in how many pairs a text stands.
    """

    rules: tuple[str, ...]
    settings: CleaningConfig
    languages: tuple[str | None, ...]
    usual: Usual
    profiles: SideProfiles
    repeats: tuple[Repeats, Repeats]

    @classmethod
    def of(
        cls, rules: tuple[str, ...], settings: CleaningConfig, languages: tuple[str | None, ...], facts: Facts
    ) -> Judging:
        """Return what verdicts on the pairs of a corpus go by."""
        return cls(rules, settings, languages, facts.usual, facts.profiles, facts.repeats)

    @property
    def compares(self) -> bool:
        """Whether pairs are compared that are not equal but for case, punctuation, blanks and digits."""
        return "near duplicate" in self.rules and self.settings.near_similarity < 1


def judge(judging: Judging, block: Block) -> Arrays:
    """Return `verdicts`, uint8 [pairs], and, where pairs are compared, the `Sets` of those that are kept.

    Args:
        judging: of the corpus.
        block: pairs of it.

    Raises:
        ConfigError: languages are asked for, and the package is missing on this machine.
    """
    verdicts = np.full(len(block.texts), KEPT, dtype=np.uint8)
    language = _language_rule(judging) if "language" in judging.rules else None
    begin, found = 0, []
    for texts in chunks(block.texts, _AT_ONCE):
        here = verdicts[begin : begin + len(texts)]
        marks = {rule: marks[begin : begin + len(texts)] for rule, marks in block.marks.items()}
        for rule in judging.rules:
            left = np.flatnonzero(here == KEPT).tolist()
            for place in _breaking(judging, rule, Block(texts, marks), left, language):
                here[place] = VERDICTS.index(rule)
        if judging.compares:
            kept = [texts[place] for place in np.flatnonzero(here == KEPT)]
            found.append(sets_of(kept, judging.settings.near_similarity))
        begin += len(texts)
    sets = {
        "members": np.concatenate([one.members for one in found]),
        "sizes": np.concatenate([one.sizes for one in found]),
        "bands": np.concatenate([one.bands for one in found], axis=1),
    } if found else {}  # fmt: skip
    return {"verdicts": verdicts, **sets}


def _language_rule(judging: Judging) -> LanguageRule:
    language, why = LanguageRule.open(judging.languages, judging.settings)
    if language is None:
        hint = "install it there, or give --without language"
        raise ConfigError(f"a worker cannot tell languages: {why}", hint=hint)
    return language


def _breaking(
    judging: Judging, rule: str, block: Block, left: list[int], language: LanguageRule | None
) -> Iterator[int]:
    """Which of the pairs that are left break a rule."""
    texts = block.texts
    if rule in block.marks:
        yield from (i for i in left if block.marks[rule][i])
    elif rule == "exchanged" and left:
        sources, targets = ([texts[i][side] for i in left] for side in (0, 1))
        yield from np.array(left)[judging.profiles.exchanged(sources, targets, counted=True)].tolist()
    elif rule == "language" and language is not None:
        yield from (i for i in left if language.is_other(*texts[i]))
    elif rule in PAIR_RULES:
        one, most = PAIR_RULES[rule], judging.settings.max_repeats
        for i in left:
            if one(*texts[i], judging.usual, judging.settings) or (
                rule == "boilerplate" and _most_repeated(judging, texts[i]) > most
            ):
                yield i


def _most_repeated(judging: Judging, pair: tuple[str, str]) -> int:
    return max(counts[side_key(text)] for counts, text in zip(judging.repeats, pair, strict=True))
