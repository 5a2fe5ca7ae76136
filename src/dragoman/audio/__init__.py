"""Sounds to frames: what stands before the encoder of a model that listens.

The names are imported from their modules when they are first used: PyTorch takes long to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.audio.features import FilterBank as FilterBank
    from dragoman.audio.front_end import FrontEnd as FrontEnd
    from dragoman.audio.listing import Recording as Recording
    from dragoman.audio.reading import read_audio as read_audio
    from dragoman.audio.resampling import resample as resample
    from dragoman.audio.segments import Segment as Segment
    from dragoman.audio.segments import cut_at_silences as cut_at_silences
    from dragoman.audio.segments import speech_segments as speech_segments
    from dragoman.audio.speaking import Speaker as Speaker
    from dragoman.audio.speaking import Voice as Voice
    from dragoman.audio.speaking import say as say
    from dragoman.audio.speaking import say_all as say_all
    from dragoman.audio.streaming import read_stream as read_stream
    from dragoman.audio.waveform import Waveform as Waveform

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "features": ("FilterBank",),
        "front_end": ("FrontEnd",),
        "listing": ("Recording",),
        "reading": ("read_audio",),
        "resampling": ("resample",),
        "segments": ("Segment", "cut_at_silences", "speech_segments"),
        "speaking": ("Speaker", "Voice", "say", "say_all"),
        "streaming": ("read_stream",),
        "waveform": ("Waveform",),
    },
)
