"""Are rare words translated? Words of the references by how often training, or the references, hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dragoman.evaluation.words import count_words

# The least frequency of each class.
_IN_TRAINING = (0, 1, 2, 10, 100, 1000)
_IN_REFERENCES = (1, 2, 4, 10, 100)


@dataclass(frozen=True)
class WordClass:
    """Words of like frequency, and whether outputs have them where their references do.

    Attributes:
        label: the frequencies, such as "2-9".
        in_references: how many words of the references are of this class.
        in_outputs: how many words of the outputs.
        matched: how many of the outputs' words stand in the reference of their line, each of its words matched once.
    """

    label: str
    in_references: int
    in_outputs: int
    matched: int

    @property
    def recall(self) -> float:
        """Percent of the references' words that the outputs have; 0 where there are none."""
        return 100 * self.matched / max(self.in_references, 1)

    @property
    def precision(self) -> float:
        """Percent of the outputs' words that the references have; 0 where there are none."""
        return 100 * self.matched / max(self.in_outputs, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 200 * self.matched / max(self.in_references + self.in_outputs, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "recall": self.recall, "precision": self.precision, "f1": self.f1}


def word_classes(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    frequencies: Mapping[str, int] | None = None,
    lowercase: bool = False,
) -> list[WordClass]:
    """Return the classes that the references have words of, rarest first.

    Of several references, that with the most words in common with the output counts.

    Args:
        hypotheses: one line for each item.
        references: one or more for each.
        frequencies: how often each word stands in the training targets; without it, frequency in the references.
        lowercase: ignore case (`frequencies` are of lower-case words then).
    """
    pairs = [
        _matched(hypothesis, alternatives, lowercase)
        for hypothesis, alternatives in zip(hypotheses, references, strict=True)
    ]
    total: Counter[str] = Counter()
    for alternatives in references:
        total.update(_union(alternatives, lowercase))
    least = _IN_REFERENCES if frequencies is None else _IN_TRAINING
    known = total if frequencies is None else frequencies

    def place(word: str) -> int:
        # What the references never have is not rare there but wrong: it belongs to the rarest class.
        return max((i for i, low in enumerate(least) if known.get(word, 0) >= low), default=0)

    counts = [[0, 0, 0] for _ in least]
    for words in pairs:
        for column, bag in enumerate(words):
            for word, count in bag.items():
                counts[place(word)][column] += count
    present = {place(word) for word in total}
    labels = [_label(low, high) for low, high in zip(least, [*least[1:], None], strict=True)]
    return [
        WordClass(label, in_references, in_outputs, matched)
        for index, (label, (in_outputs, in_references, matched)) in enumerate(zip(labels, counts, strict=True))
        if index in present
    ]


def _union(references: Sequence[str], lowercase: bool) -> Counter[str]:
    """Each word as often as the reference has it that has it most."""
    union: Counter[str] = Counter()
    for reference in references:
        union |= count_words([reference], lowercase=lowercase)
    return union


def _matched(
    hypothesis: str, references: Sequence[str], lowercase: bool
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Words of the output, of its nearest reference, and of both."""
    output = count_words([hypothesis], lowercase=lowercase)
    bags = [count_words([reference], lowercase=lowercase) for reference in references]
    best = max(bags, key=lambda bag: (output & bag).total())
    return output, best, output & best


def _label(low: int, high: int | None) -> str:
    if high is None:
        return f"{low} or more"
    return str(low) if high == low + 1 else f"{low}-{high - 1}"
