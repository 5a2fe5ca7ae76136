"""A sentence on which beam and greedy search part, chosen by what the demo's own model does: likelier is not better."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragoman.evaluation import edit_distance
from dragoman.translation import Translator

BEAM = 4
# Nobody says these, so a model is unsure of them: asked where no held-out sentence parts the searches.
ODD = (
    ("花想学中文。", "Flowers want to study Chinese."), ("书想回家。", "Books want to go home."),
    ("树会唱歌。", "Trees can sing."), ("鱼喜欢看书。", "Fish like reading books."), ("苹果吃猫。", "Apples eat cats."),
    ("花在学校里看书。", "Flowers are reading books at school."), ("车想喝水。", "Cars want to drink water."),
)  # fmt: skip


@dataclass(frozen=True)
class Parting:
    """A source on which the searches write differently.

    Attributes:
        source, reference: what was read, and a translation of it.
        greedy, beam: what either search writes.
        sums: the log-probability of either.
    """

    source: str
    reference: str
    greedy: str
    beam: str
    sums: tuple[float, float]

    @property
    def nearer(self) -> int:
        """Which is nearer to the reference by edits of signs: -1 greedy's, 1 the beam's, 0 neither."""
        apart = [edit_distance(one, self.reference) for one in (self.greedy, self.beam)]
        return (apart[0] > apart[1]) - (apart[0] < apart[1])


def partings(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[Parting]:
    """Return the pairs on which greedy and beam search write differently and the beam's output is the likelier one.

    Args:
        translator: of one model.
        pairs: sources with their references.
    """
    sources = [source for source, _ in pairs]
    both = (translator.translate(sources, beam_size=size, n_best=1) for size in (1, BEAM))
    return [
        Parting(source, reference, one.text, other.text, (one.log_probability, other.log_probability))
        for (source, reference), one, other in zip(pairs, *both, strict=True)
        if one.text != other.text and other.log_probability > one.log_probability
    ]


def search_story(translator: Translator, held_out: Iterable[tuple[str, str]], *, from_chinese: bool) -> list[str]:
    """Return the lines of the story: where the searches part, by how much, and which of both is better.

    Args:
        translator: of the demo's model.
        held_out: sources with references that training never saw.
        from_chinese: the direction.
    """
    found, odd = partings(translator, list(held_out)), False
    if not any(one.nearer < 0 for one in found):
        strange = partings(translator, [pair if from_chinese else pair[::-1] for pair in ODD])
        odd = not found or any(one.nearer < 0 for one in strange)
        found = strange if odd else found
    lines = ["", f"Is the likelier translation the better one? Greedy search and a beam of {BEAM}:", ""]
    if not found:
        lines += [
            "  On all held-out sentences, and on a few odd ones, this model's beam finds nothing likelier than greedy",
            "  search does: it is so sure of each piece that no other path catches up.",
        ]
        return lines
    shown = min(found, key=lambda one: one.nearer)  # the first where the likelier one is not the better one, if any
    if odd:
        lines += ["  No held-out sentence tells them apart so. One that nobody says does:", ""]
    lines += [
        f"  {shown.source}   (means: {shown.reference})",
        f"  greedy → {shown.greedy}   log P {shown.sums[0]:.2f}",
        f"  beam   → {shown.beam}   log P {shown.sums[1]:.2f}",
        "",
        f"  Greedy search takes the likeliest piece at each step. The beam's whole is {_times(shown)} as likely to",
        "  the model: its first pieces were less likely, what followed them more.",
    ]
    return [*lines, *_verdict(shown)]


def _times(shown: Parting) -> str:
    ratio = math.exp(min(shown.sums[1] - shown.sums[0], 50.0))
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times"


def _verdict(shown: Parting) -> list[str]:
    if shown.nearer < 0:
        return [
            "  It is not better: greedy's is nearer to the meaning. Likelier means more like what training said, not",
            "  truer to this source. A search finds what the model prefers; it cannot make the model right.",
        ]
    if shown.nearer > 0:
        return ["  Here it is the better one, too; that is not always so, for a search finds what the model prefers."]
    return [
        "  Neither is nearer to the meaning: likelier means more like what training said, not truer to this source.",
    ]
