"""Where somebody speaks, by the energy of short frames; long recordings cut at silences."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from dragoman.audio.waveform import Waveform

# A frame is speech if it is this far above the background, and not this far below the loudest, in decibels; nothing
# below the floor is (a digital silence with dither has about -90 dB of full scale).
OVER, UNDER, FLOOR = 6.0, 38.0, -65.0
# The background is what a tenth of the frames lie below; what is loudest in a fiftieth may be a click.
BACKGROUND, LOUDEST = 0.1, 0.98
# Seconds: what is shorter is a click, a shorter pause belongs to the words around it, and what is kept around speech.
SHORTEST, PAUSE, MARGIN = 0.06, 0.3, 0.15
# Changes of loudness that a steady noise has between its frames stay below this, in decibels.
STEADY = 4.0


@dataclass(frozen=True)
class Segment:
    """A part of a recording.

    Attributes:
        start: in seconds from its beginning.
        end: likewise.
    """

    start: float
    end: float

    def of(self, sound: Waveform) -> Waveform:
        """Return this part of a sound."""
        rate = sound.sample_rate
        return Waveform(sound.samples[round(self.start * rate) : round(self.end * rate)], rate)


def frame_levels(sound: Waveform) -> Float[Tensor, " frames"]:
    """Return the power of each frame without its mean, in decibels of full scale; frames begin `frame_step` apart."""
    unit = _unit(sound.sample_rate)
    samples = sound.samples
    if len(samples) < 5 * unit:
        samples = F.pad(samples, (0, 5 * unit - len(samples)))
    # A frame is five units, and the next begins two later: sums of units, so that overlaps need no memory.
    units = samples[: len(samples) // unit * unit].view(-1, unit)
    sums = torch.stack([units.mean(1), units.square().mean(1)]).double()
    mean, square = F.avg_pool1d(sums[None], 5, 2)[0]
    return 10 * (square - mean.square()).clamp(min=1e-12).log10()


def frame_step(sample_rate: int) -> float:
    """Return how far apart frames begin, in seconds: about 10 ms."""
    return 2 * _unit(sample_rate) / sample_rate


def _unit(sample_rate: int) -> int:
    return max(1, round(0.005 * sample_rate))


def speech_segments(sound: Waveform) -> list[Segment]:
    """Return where somebody seems to speak, in order; nowhere in silence or in steady noise.

    It goes by loudness alone: music and barking dogs are "speech", and speech that is not louder than its background
    is not found.
    """
    if not len(sound):
        return []
    levels = frame_levels(sound)
    ranked = levels.sort().values
    background, loudest = (float(ranked[int(share * (len(levels) - 1))]) for share in (BACKGROUND, LOUDEST))
    if loudest < FLOOR or (loudest - background < STEADY and len(levels) > 10):
        return []
    spoken = levels > max(background + min(OVER, (loudest - background) / 2), loudest - UNDER, FLOOR)
    return _joined(spoken, sound)


def _joined(spoken: Bool[Tensor, " frames"], sound: Waveform) -> list[Segment]:
    """Runs of frames as segments: clicks dropped, short pauses closed, a margin around them."""
    step, seconds = frame_step(sound.sample_rate), sound.seconds
    edges = torch.diff(F.pad(spoken.to(torch.int8), (1, 1)))
    starts, ends = ((edges == sign).nonzero()[:, 0].tolist() for sign in (1, -1))
    runs: list[list[float]] = []
    for first, last in zip(starts, ends, strict=True):
        start, end = first * step, (last + 1.5) * step
        if end - start < SHORTEST:
            continue
        if runs and start - runs[-1][1] < PAUSE:
            runs[-1][1] = end
        else:
            runs.append([start, end])
    return [Segment(max(0.0, start - MARGIN), min(seconds, end + MARGIN)) for start, end in runs]


def cut_at_silences(sound: Waveform, longest: float = 20.0) -> list[Segment]:
    """Return the parts of a recording to be transcribed one by one, in order and without overlap.

    Neighbouring segments are joined as long as they are no longer than `longest` together; one that is longer is cut
    where it is quietest, in the second half of what is allowed.

    Args:
        sound: of any length.
        longest: of a part, in seconds; at least 1.
    """
    longest = max(1.0, longest)
    parts: list[Segment] = []
    levels = None
    for segment in speech_segments(sound):
        if parts and segment.end - parts[-1].start <= longest:
            parts[-1] = Segment(parts[-1].start, segment.end)
            continue
        start = max(segment.start, parts[-1].end) if parts else segment.start
        while segment.end - start > longest:
            levels = frame_levels(sound) if levels is None else levels
            step = frame_step(sound.sample_rate)
            first, last = int((start + longest / 2) / step), int((start + longest) / step)
            at = (first + 1 + int(_smooth(levels[first:last]).argmin())) * step
            parts.append(Segment(start, at))
            start = at
        parts.append(Segment(start, segment.end))
    return parts


def _smooth(levels: Float[Tensor, " frames"]) -> Float[Tensor, " frames"]:
    """Levels averaged over 0.1 s, so that a cut is in a pause and not in a stop consonant."""
    if len(levels) < 11:
        return levels
    padded = F.pad(levels[None, None], (5, 5), mode="replicate")
    return F.avg_pool1d(padded, 11, 1)[0, 0]
