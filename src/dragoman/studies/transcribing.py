"""Long recordings and streams: cut where nobody speaks, transcribed part by part, with times.

Where nobody speaks nothing is written: silence and steady noise do not reach the model, which would write something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.audio.listing import Given, as_sounds
from dragoman.audio.segments import Segment, cut_at_silences, speech_segments
from dragoman.audio.waveform import Waveform
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.config import DecodingConfig
    from dragoman.translation import Translator

# Seconds: a part at most; of silence after which an utterance is over; of new sound before it is transcribed anew.
LONGEST, PAUSE, EVERY = 20.0, 0.6, 0.5
# Seconds: a token is read off its frames for a moment only, and its word begins before and ends after that.
REACH = 0.2


@dataclass(frozen=True)
class Word:
    """A word of an utterance.

    Attributes:
        start: in seconds from the beginning of the recording.
        end: likewise.
        text: the word.
    """

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Utterance:
    """What was said in a part of a recording.

    Attributes:
        start: of the part, in seconds from the beginning of the recording.
        end: likewise.
        text: what was said.
        words: its words with their times, if they were asked for.
    """

    start: float
    end: float
    text: str
    words: tuple[Word, ...] = ()


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


def transcribe(
    translator: Translator,
    sound: Waveform,
    *,
    longest: float = LONGEST,
    words: bool = False,
    options: DecodingConfig | None = None,
) -> list[Utterance]:
    """Return what is said in a recording of any length, part by part; nothing where nobody speaks.

    Args:
        translator: of a model that listens.
        sound: the recording.
        longest: of a part, in seconds.
        words: whether utterances tell the times of their words, which a model with a head for CTC knows.
        options: of the search; the model's own if None.

    Raises:
        ConfigError: the times of words are asked for, and the model has no head.
    """
    if words:
        check_head(translator)
    parts = cut_at_silences(sound, longest)
    given = [part.of(sound) for part in parts]
    found = translator.translate(given) if options is None else translator.translate_with(given, options)
    return utterances(translator, sound, parts, [one.text for one in found], words=words)


def utterances(
    translator: Translator, sound: Waveform, parts: Sequence[Segment], texts: Sequence[str], *, words: bool = False
) -> list[Utterance]:
    """Return what was found in the parts of a recording as what was said in them, without parts in which nothing was.

    Args:
        translator: found it.
        sound: the recording.
        parts: of it, as `cut_at_silences` gives them.
        texts: of each part.
        words: whether they tell the times of their words; the model has a head for CTC.
    """
    return [
        Utterance(part.start, part.end, text, _words(translator, sound, part, text) if words else ())
        for part, text in zip(parts, texts, strict=True)
        if text.strip()
    ]


def check_head(translator: Translator) -> None:
    """Refuse a model that cannot tell when its words are said.

    Raises:
        ConfigError: it has no head for CTC.
    """
    if not translator.backend.has_heads:
        hint = "train with training.ctc_loss_weight above 0, or ask for the times of parts alone"
        raise ConfigError("the model does not know when its words are said", expected="a head for CTC", hint=hint)


def _words(translator: Translator, sound: Waveform, part: Segment, text: str) -> tuple[Word, ...]:
    """The words of a part with their times: none where they do not fit into its frames."""
    from dragoman.translation.off_frames import token_spans

    pair, (model, *_) = translator.tokenizers, translator.transformers
    assert pair.sound is not None
    tokens = pair.target.encode(text)
    spans = token_spans(model, pair.encode_source(part.of(sound)), tokens)
    # The word of a token is the last one of the text that it ends.
    places: dict[int, tuple[int, int]] = {}
    for number, (first, last) in enumerate(spans):
        word = max(0, len(pair.target.decode(tokens[: number + 1]).split()) - 1)
        places[word] = (places.get(word, (first, last))[0], last)
    named, each = text.split(), pair.sound.seconds_each
    if sorted(places) != list(range(len(named))):
        return ()
    ends = [(part.start + first * each, part.start + last * each) for _, (first, last) in sorted(places.items())]
    return tuple(Word(start, end, word) for (start, end), word in zip(_reaching(ends, part), named, strict=True))


def _reaching(said: list[tuple[float, float]], part: Segment) -> Iterator[tuple[float, float]]:
    """Times made longer on both sides, up to half the way to the next one."""
    for number, (start, end) in enumerate(said):
        least = part.start if number == 0 else (said[number - 1][1] + start) / 2
        most = part.end if number + 1 == len(said) else (end + said[number + 1][0]) / 2
        yield max(min(start, part.end) - REACH, least), min(end + REACH, most)


def guarded(sounds: Iterable[Given], sample_rate: int) -> Iterator[Waveform]:
    """Yield sounds as they are, and nothing at all of one in which nobody speaks: it is transcribed as nothing.

    Args:
        sounds: recordings are read, one after the other, and called by their names.
        sample_rate: in which.

    Raises:
        DataError: one cannot be read.
    """
    for one in as_sounds(sounds):
        sound = one if isinstance(one, Waveform) else one.read(sample_rate)
        heard = sound.samples if speech_segments(sound) else sound.samples[:0]
        yield Waveform(heard, sound.sample_rate, str(one))  # still called by its own name


def transcribe_stream(
    translator: Translator,
    blocks: Iterable[Waveform],
    *,
    longest: float = LONGEST,
    options: DecodingConfig | None = None,
) -> Iterator[Partial]:
    """Yield what is known of each utterance of a stream, each time that there is more of it.

    An utterance is transcribed anew from its beginning as it grows, and begins with the words that are stable: those
    that two transcripts in a row agree on (Liu, Spanakis & Niehues 2020). It ends with a pause, or when it is too long.

    Args:
        translator: of a model that listens.
        blocks: of sound, one after the other, at one rate.
        longest: of an utterance, in seconds.
        options: of the search; the model's own if None.
    """
    stream = SpeechStream(translator, longest, options)
    for block in blocks:
        yield from stream.hear(block)
    yield from stream.finish()


class SpeechStream:
    """The sound since the last utterance, and what is known of the one that goes on.

    Args:
        translator: of a model that listens.
        longest: of an utterance, in seconds.
        options: of the search; the model's own if None.
    """

    def __init__(self, translator: Translator, longest: float = LONGEST, options: DecodingConfig | None = None) -> None:
        self.translator, self.longest, self.options = translator, longest, options
        self.sound: Waveform | None = None
        self.offset, self.heard = 0.0, 0.0
        self.stable: list[str] = []
        self.before: list[str] = []

    def hear(self, block: Waveform) -> Iterator[Partial]:
        """Yield what is known after more of the sound, where enough of it is new."""
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
        """Yield what was said to the end: there is no more sound."""
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
        given, prefixes = [segment.of(sound)], [" ".join(self.stable)]
        if self.options is None:
            (found,) = self.translator.translate(given, prefixes=prefixes)
        else:
            (found,) = self.translator.translate_with(given, self.options, prefixes=prefixes)
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
