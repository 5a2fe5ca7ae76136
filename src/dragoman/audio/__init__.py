"""Sounds to frames: what stands before the encoder of a model that listens.

The names are imported from their modules when they are first used: PyTorch takes long to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.audio.waveform import Waveform as Waveform

__all__, __getattr__, __dir__ = lazy_names(__name__, {"waveform": ("Waveform",)})
