"""What a model is given to be explained: a text with its pieces, or a sound with the times of its positions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from jaxtyping import Float
from torch import Tensor

from dragoman.audio import FilterBank, FrontEnd, Recording, Waveform, speech_segments
from dragoman.audio.features import WINDOW_SECONDS, normalised
from dragoman.audio.listing import Given
from dragoman.config.audio import FRAMES_A_SECOND
from dragoman.errors import ConfigError, DataError
from dragoman.inspection.facts import Reading, Sound, Text
from dragoman.inspection.subject import MAX_PIECES, check_length, checked_text
from dragoman.sequences import Source
from dragoman.sequences.source import FRAMES_EACH, SoundSource
from dragoman.stages.convolutions import HOME
from dragoman.stages.stage import Stage, make_stage
from dragoman.stages.words import say
from dragoman.text import TokenizerPair

_BOTH = (
    "The search heeds what the head for CTC reads off the frames too, with a share of {share}; stages and steps are "
    "those of the decoder alone."
)
_NOBODY = "Nobody seems to speak here: `dragoman transcribe` would write nothing."


@dataclass(frozen=True)
class Heard:
    """A sound on its way to the frames that an encoder reads.

    Attributes:
        sound: as it is heard, at the model's own rate.
        log_mels: its frames before they are normalised.
        front_end: what made them.
    """

    sound: Waveform
    log_mels: Float[Tensor, "frames mels"]
    front_end: FrontEnd

    @property
    def facts(self) -> Sound:
        """How long it is, in every unit that it passes through."""
        frames, mels = self.log_mels.shape
        each = self.front_end.seconds_each
        return Sound(
            self.sound.seconds, self.sound.sample_rate, len(self.sound), frames, mels, -(-frames // FRAMES_EACH),
            1 / FRAMES_A_SECOND, each,
        )  # fmt: skip

    @property
    def others(self) -> dict[str, tuple[str, ...]]:
        """What stands at the positions of frames, and of what the first convolution gives."""
        frames = len(self.log_mels)
        halves = -(-frames // 2)
        return {
            "frames": tuple(f"{place / FRAMES_A_SECOND:.2f} s" for place in range(frames)),
            "frames/2": tuple(f"{2 * place / FRAMES_A_SECOND:.2f} s" for place in range(halves)),
        }

    def stages(self) -> list[Stage]:
        """Return the samples and the frames before they are normalised."""
        filters, rate = self.front_end.filters, self.sound.sample_rate
        what = say("the pressure of the air, {rate} numbers a second from −1 to 1").format(rate=f"{rate:,}")
        wave = make_stage(f"{HOME}.waveform", ("batch", "time"), self.sound.samples[None], what)
        what = say(
            "log-mel frames of {window} ms, one every {shift} ms: 1 + ({samples} − {size}) // {step} = {frames}; of "
            "each the power at {bins} frequencies, summed under {mels} triangles from {low} to {high} Hz, and the "
            "logarithm"
        ).format(
            window=f"{1000 * WINDOW_SECONDS:g}", shift=1000 // FRAMES_A_SECOND, samples=f"{self._samples(filters):,}",
            size=filters.window, step=filters.shift, frames=len(self.log_mels), bins=filters.size // 2,
            mels=filters.mels, low=f"{filters.low:g}", high=f"{filters.high:g}",
        )  # fmt: skip
        names = self.others["frames"]
        return [wave, make_stage(f"{HOME}.log_mels", ("batch", "frames", "mels"), self.log_mels[None], what, names)]

    def _samples(self, filters: FilterBank) -> int:
        return max(len(self.sound), filters.window)


@dataclass(frozen=True)
class Read:
    """What a model reads of what it is given.

    Attributes:
        name: the text, or what the sound is called.
        source: as the model takes it.
        pieces: what stands at each position of the encoder: a piece, `</s>` included, or a time.
        heard: of a sound, how it became that.
    """

    name: str
    source: Source
    pieces: tuple[str, ...]
    heard: Heard | None = None

    @property
    def others(self) -> dict[str, tuple[str, ...]]:
        """What stands at the positions of frames; nothing of a text."""
        return {} if self.heard is None else self.heard.others

    @property
    def text(self) -> Text:
        """The same for a trace."""
        return Text(self.name, self.pieces, () if self.heard else tuple(self.source.framed))


def read_given(tokenizers: TokenizerPair, given: Given) -> Read:
    """Return what a model reads of a text, or hears of a recording.

    Args:
        tokenizers: of the model.
        given: a text; of a model that listens a path, the line of a list, a recording or a waveform.

    Raises:
        ConfigError: a model of texts is given a sound.
        DataError: there is nothing in it, or more than 256 positions; or a recording cannot be read.
    """
    if tokenizers.sound is not None:
        return _heard(tokenizers.sound, tokenizers, given)
    if not isinstance(given, str):
        hint = "a speech model is trained with --source-audio"
        raise ConfigError("the model reads texts, and does not listen to sounds", found=str(given), hint=hint)
    source = tokenizers.encode_source(checked_text(given))
    check_length(source.joined)
    pieces = (*tokenizers.source_pieces(source), *tokenizers.source.pieces(source.specials.source_end))
    return Read(given, source, pieces)


def _heard(front_end: FrontEnd, tokenizers: TokenizerPair, given: Given) -> Read:
    [one] = tokenizers.given([given])
    sound = one.read(front_end.sample_rate) if isinstance(one, Recording) else one
    name = _name(one)
    if not len(sound):
        raise DataError("there is nothing to explain", expected="a sound", found=name)
    longest = MAX_PIECES * front_end.seconds_each
    if sound.seconds > longest:
        raise DataError(
            "the sound is too long to be explained", expected=f"at most {longest:.2f} s",
            found=f"{sound.seconds:.2f} s", hint="give a part: the path, TAB, its start, TAB, its end in seconds",
        )  # fmt: skip
    sound = front_end.at_own_rate(sound)
    [frames] = front_end.log_mels([sound])
    source = SoundSource.of(normalised(frames))
    return Read(name, source, tuple(tokenizers.source_pieces(source)), Heard(sound, frames, front_end))


def _name(one: Recording | Waveform) -> str:
    """What a sound is called; no folder, which is nobody's business to whom a page is sent."""
    if isinstance(one, Waveform):
        return str(one)
    part = "" if one.end is None else f" {one.start:g}–{one.end:g} s"
    return os.path.basename(one.path) + part


def heard_notes(read: Read, share: float) -> tuple[str, ...]:
    """Return what the reader should know of a sound and how it was searched for; nothing of a text.

    Args:
        read: what was read.
        share: of the head for CTC in the search.
    """
    if read.heard is None:
        return ()
    found = () if speech_segments(read.heard.sound) else (say(_NOBODY),)
    return (*found, say(_BOTH).format(share=f"{share:g}")) if share else found


def readings_of(stages: Sequence[Stage], tokenizers: TokenizerPair, blank: int) -> tuple[Reading, ...]:
    """Return what a head for CTC finds likeliest, stretch by stretch; nothing where there is none.

    Args:
        stages: of a pass.
        tokenizers: of the model.
        blank: the id that stands for nothing.
    """
    logits = next((stage.values for stage in stages if stage.name == "ctc"), None)
    if logits is None or tokenizers.sound is None:
        return ()
    seconds_each, tokenizer = tokenizers.sound.seconds_each, tokenizers.target
    values, ids = logits[0].double().softmax(-1).max(-1)
    found, start = [], 0
    for token, run in groupby(ids.tolist()):
        size = len(list(run))
        mean = float(values[start : start + size].mean())
        [piece] = [""] if token == blank else tokenizer.pieces([token])
        found.append(Reading(start * seconds_each, (start + size) * seconds_each, piece, token, mean))
        start += size
    return tuple(found)
