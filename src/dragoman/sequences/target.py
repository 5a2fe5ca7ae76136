"""What a target is: ids that are read, or written, in a direction that is named. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from dragoman.sequences.source import SPECIALS, Specials


class Frame(NamedTuple):
    """The ids that stand before the first token of a target and after its last one."""

    begin: int
    end: int


FRAME = Frame(SPECIALS.bos, SPECIALS.eos)


class Direction(Enum):
    """Which end a decoder reads and writes a target from."""

    LEFT_TO_RIGHT = "left-to-right"
    RIGHT_TO_LEFT = "right-to-left"

    def frame(self, specials: Specials = SPECIALS) -> Frame:
        """Return what a decoder begins and ends with: from right to left, `</s>` comes first and `<s>` last."""
        if self is Direction.LEFT_TO_RIGHT:
            return Frame(specials.bos, specials.eos)
        return Frame(specials.eos, specials.bos)

    def ordered(self, ids: Sequence[int]) -> list[int]:
        """Return unframed ids in the order in which a decoder of this direction writes them."""
        return list(ids) if self is Direction.LEFT_TO_RIGHT else list(ids[::-1])


def frame_target(
    ids: Sequence[int], specials: Specials = SPECIALS, direction: Direction = Direction.LEFT_TO_RIGHT
) -> list[int]:
    """Return a target with its frame: what a decoder is given is all but the last, its labels all but the first.

    Args:
        ids: the target from left to right, unframed.
        specials: of its vocabulary.
        direction: how it is read.
    """
    begin, end = direction.frame(specials)
    return [begin, *direction.ordered(ids), end]
