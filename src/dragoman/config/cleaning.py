"""The settings of `dragoman clean`: thresholds of its rules, which stand outside the tree of a training."""

from __future__ import annotations

from typing import Annotated

from dragoman.config.kinds import Positive
from dragoman.config.section import Section, setting
from dragoman.config.values import Bounds

Share = Annotated[float, Bounds(ge=0, le=1)]


class CleaningConfig(Section, section="cleaning"):
    """What the rules of `dragoman clean` go by."""

    max_characters: Positive = setting(
        default=1000, description="Pairs with a longer side are dropped.", unit="characters", since="0.2.0"
    )
    max_ratio: Annotated[float, Bounds(gt=1)] = setting(
        default=3.0,
        description="Pairs whose ratio of lengths is so many times the usual one, or less than its inverse, are "
        "dropped; sides of less than ten characters are not looked at.",
        since="0.2.0",
    )
    min_letters: Share = setting(
        default=0.5,
        description="Pairs with a side of which fewer characters, blanks aside, are letters or digits, are dropped.",
        since="0.2.0",
    )
    min_script: Share = setting(
        default=0.5,
        description="Pairs with a side of which fewer letters are in the scripts usual for that side are dropped.",
        since="0.2.0",
    )
    min_language: Share = setting(
        default=0.1,
        description="Pairs with a side that is with less probability in its language are dropped.",
        since="0.2.0",
    )
    language_letters: Positive = setting(
        default=25,
        description="Of shorter sides the language is not asked for: it would be guessed.",
        unit="letters",
        since="0.2.0",
    )
    max_repeats: Positive = setting(
        default=30,
        description="Pairs with a side that stands in more different pairs than this are boilerplate, and dropped.",
        unit="pairs",
        since="0.2.0",
    )
    near_similarity: Annotated[float, Bounds(gt=0, le=1)] = setting(
        default=1.0,
        description="Pairs that share so much of their words, and of neighbouring two, with an earlier pair are near "
        "duplicates (Jaccard similarity; found by MinHash, then compared exactly). With 1, only those that are "
        "equal but for case, punctuation, blanks and digits.",
        since="0.2.0",
    )
    drop_share: Share = setting(
        default=0.1,
        description="With scores of two models: the share of what the other rules keep that is dropped, the worst.",
        since="0.2.0",
    )
