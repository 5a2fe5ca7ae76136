"""What a source is: one thing to be read by an encoder, with all that is known of it. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


class Specials(NamedTuple):
    """The ids of a vocabulary that stand for no text.

    Attributes:
        pad: fills rows up.
        unk: stands for what the vocabulary lacks.
        bos: begins a target, and each fuzzy match beside a source.
        eos: ends a target, and a source if `ends_source`.
        mask: hides a token from a masked language model; None where the vocabulary has no such symbol.
        ends_source: whether `eos` ends sources; some imported models read them without an end.
    """

    pad: int
    unk: int
    bos: int
    eos: int
    mask: int | None = None
    ends_source: bool = True

    @property
    def ids(self) -> tuple[int, ...]:
        """All of them."""
        return (*self[:4], *(() if self.mask is None else (self.mask,)))

    @property
    def source_end(self) -> tuple[int, ...]:
        """What ends a source: `eos`, or nothing."""
        return (self.eos,) if self.ends_source else ()


# Of every vocabulary that is made here; imported ones may have others.
SPECIALS = Specials(pad=0, unk=1, bos=2, eos=3)
# The same, of a masked language model.
MASK_ID = 4
MASKED_SPECIALS = Specials(pad=0, unk=1, bos=2, eos=3, mask=MASK_ID)


@dataclass(frozen=True)
class Source:
    """One source, as a tokenizer or another reader made it.

    Attributes:
        ids: its own content, unframed.
        matches: what is read beside it: target ids of its fuzzy matches, in the ids of the source's vocabulary.
        specials: of the source's vocabulary.
        end: what ends it where that is not what the vocabulary says: nothing, if `ids` were framed by somebody else.
    """

    ids: tuple[int, ...]
    matches: tuple[tuple[int, ...], ...] = ()
    specials: Specials = SPECIALS
    end: tuple[int, ...] | None = None

    def __len__(self) -> int:
        """Return the number of its own tokens: without matches and frame."""
        return len(self.ids)

    @property
    def joined(self) -> list[int]:
        """The ids, then each match after a `<s>`, unframed: how stores keep a source."""
        return [*self.ids, *chain.from_iterable((self.specials.bos, *match) for match in self.matches)]

    @property
    def framed(self) -> list[int]:
        """What the encoder reads: the ids, then each match after a `<s>`, then `</s>` where sources have an end."""
        return [*self.joined, *(self.specials.source_end if self.end is None else self.end)]

    @property
    def content(self) -> list[int] | Float[Tensor, "frames mels"]:
        """What the encoder reads, whatever it is: framed ids, or frames `[frames, mels]`."""
        return self.framed

    @property
    def width(self) -> int:
        """How many unframed ids the encoder reads, matches and what separates them counted."""
        return len(self.ids) + sum(map(len, self.matches)) + len(self.matches)

    @classmethod
    def from_joined(cls, ids: Iterable[int], specials: Specials = SPECIALS) -> Source:
        """Return the source that `joined` gives; no text has a `<s>`, so that nothing is mistaken for one."""
        own, *matches = _split(list(ids), specials.bos)
        return cls(tuple(own), tuple(map(tuple, matches)), specials)

    def cut(self, most: int) -> Source:
        """Return the source with at most so many ids read, the last ones left out; itself if they are not more."""
        if self.width <= most:
            return self
        if not self.matches:
            return replace(self, ids=self.ids[:most])
        return self.from_joined(self.joined[:most], self.specials)


# Frames that become one vector of an encoder (`nn.subsampling`: two convolutions of stride 2).
FRAMES_EACH = 4


def positions_of(frames: int) -> int:
    """Return how many vectors enter an encoder for so many frames."""
    return -(-frames // FRAMES_EACH)


@dataclass(frozen=True, eq=False)
class SoundSource(Source):
    """A sound as an encoder reads it; its length is counted in the vectors that enter the encoder. It equals itself.

    Attributes:
        frames: log-mel frames, normalised.
    """

    frames: Float[Tensor, "frames mels"] = field(kw_only=True, repr=False)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @classmethod
    def of(cls, frames: Float[Tensor, "frames mels"]) -> SoundSource:
        """Return frames as a source."""
        return cls((), frames=frames)

    def __len__(self) -> int:
        return positions_of(len(self.frames))

    @property
    def content(self) -> Float[Tensor, "frames mels"]:
        """See `Source.content`."""
        return self.frames

    @property
    def width(self) -> int:
        """See `Source.width`."""
        return len(self)

    def cut(self, most: int) -> SoundSource:
        """See `Source.cut`; here in vectors that enter the encoder."""
        return self if len(self) <= most else replace(self, frames=self.frames[: most * FRAMES_EACH])


# For models that read none.
NOTHING = Source(())


def _split(ids: list[int], separator: int) -> list[list[int]]:
    places = [place for place, token in enumerate(ids) if token == separator]
    starts, ends = [0, *(place + 1 for place in places)], [*places, len(ids)]
    return [ids[start:end] for start, end in zip(starts, ends, strict=True)]


def sources_of(rows: Iterable[Sequence[int]], specials: Specials = SPECIALS) -> list[Source]:
    """Return plain lists of unframed ids as sources without matches."""
    return [Source(tuple(row), (), specials) for row in rows]
