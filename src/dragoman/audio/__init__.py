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
    from dragoman.audio.waveform import Waveform as Waveform

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "features": ("FilterBank",),
        "front_end": ("FrontEnd",),
        "listing": ("Recording",),
        "waveform": ("Waveform",),
    },
)
