"""Long recordings and streams: cut where nobody speaks, transcribed part by part, with times.

Where nobody speaks nothing is written: silence and steady noise do not reach the model, which would write something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.audio.segments import Segment, cut_at_silences, speech_segments
from dragoman.audio.waveform import Waveform

if TYPE_CHECKING:
    from dragoman.translation import Translator

# Seconds: a part at most; of silence after which an utterance is over; of new sound before it is transcribed anew.
LONGEST, PAUSE, EVERY = 20.0, 0.6, 0.5


@dataclass(frozen=True)
class Utterance:
    """What was said in a part of a recording.

    Attributes:
        start: of the part, in seconds from the beginning of the recording.
        end: likewise.
        text: what was said.
    """

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Partial:
    """What is known of an utterance while it goes on.

    Attributes:
        start: of the utterance, in seconds from the beginning of the stream.
        end: how far it was heard.
        stable: its first words, which will not change any more.
        tentative: what seems to follow; changes as more is heard.
        final: the utterance is over, and `stable` is all of it.
    """

    start: float
    end: float
    stable: str
    tentative: str = ""
    final: bool = False


def transcribe(translator: Translator, sound: Waveform, *, longest: float = LONGEST) -> list[Utterance]:
    """Return what is said in a recording of any length, part by part; nothing where nobody speaks.

    Args:
        translator: of a model that listens.
        sound: the recording.
        longest: of a part, in seconds.
    """
    parts = cut_at_silences(sound, longest)
    found = translator.translate([part.of(sound) for part in parts])
    heard = zip(parts, found, strict=True)
    return [Utterance(part.start, part.end, one.text) for part, one in heard if one.text.strip()]


def transcribe_stream(
    translator: Translator, blocks: Iterable[Waveform], *, longest: float = LONGEST
) -> Iterator[Partial]:
    """Yield what is known of each utterance of a stream, each time that there is more of it.

    An utterance is transcribed anew from its beginning as it grows, and begins with the words that are stable: those
    that two transcripts in a row agree on (Liu, Spanakis & Niehues 2020). It ends with a pause, or when it is too long.

    Args:
        translator: of a model that listens.
        blocks: of sound, one after the other, at one rate.
        longest: of an utterance, in seconds.
    """
    stream = _Stream(translator, longest)
    for block in blocks:
        yield from stream.hear(block)
    yield from stream.finish()


class _Stream:
    """The sound since the last utterance, and what is known of the one that goes on."""

    def __init__(self, translator: Translator, longest: float) -> None:
        self.translator, self.longest = translator, longest
        self.sound: Waveform | None = None
        self.offset, self.heard = 0.0, 0.0
        self.stable: list[str] = []
        self.before: list[str] = []

    def hear(self, block: Waveform) -> Iterator[Partial]:
        """Take more of the sound, and look at it where enough of it is new."""
        import torch

        if self.sound is not None:
            block = Waveform(torch.cat([self.sound.samples, block.samples]), block.sample_rate)
        self.sound = block
        if block.seconds - self.heard < EVERY:
            return
        self.heard = block.seconds
        yield from self._look(block)

    def _look(self, sound: Waveform) -> Iterator[Partial]:
        segments = speech_segments(sound)
        if not segments:
            # Of what is no speech so far, the last second may be its beginning.
            self._drop(max(0.0, sound.seconds - 1.0))
            return
        first, *others = segments
        if others or sound.seconds - first.end > PAUSE or first.end - first.start > self.longest:
            first = Segment(first.start, min(first.end, first.start + self.longest))
            yield self._ended(sound, first)
            self._drop(first.end)
        else:
            words = self._words(sound, first)
            agreed = sum(1 for _ in _common(words, self.before))
            self.stable, self.before = words[: max(agreed, len(self.stable))], words
            stable, rest = " ".join(self.stable), " ".join(words[len(self.stable) :])
            yield Partial(self.offset + first.start, self.offset + first.end, stable, rest)

    def finish(self) -> Iterator[Partial]:
        """End what goes on: there is no more sound."""
        sound, self.sound = self.sound, None
        if sound is None:
            return
        for segment in speech_segments(sound):
            yield self._ended(sound, segment)
            self.stable, self.before = [], []

    def _ended(self, sound: Waveform, segment: Segment) -> Partial:
        text = " ".join(self._words(sound, segment))
        return Partial(self.offset + segment.start, self.offset + segment.end, text, final=True)

    def _words(self, sound: Waveform, segment: Segment) -> list[str]:
        (found,) = self.translator.translate([segment.of(sound)], prefixes=[" ".join(self.stable)])
        return found.text.split()

    def _drop(self, seconds: float) -> None:
        """Forget the sound before a time, and what was known of the utterance in it."""
        assert self.sound is not None
        rest = Segment(seconds, self.sound.seconds).of(self.sound)
        self.offset += self.sound.seconds - rest.seconds
        self.sound, self.heard = rest, rest.seconds
        self.stable, self.before = [], []


def _common(words: list[str], others: list[str]) -> Iterator[str]:
    for one, other in zip(words, others, strict=False):
        if one != other:
            return
        yield one
