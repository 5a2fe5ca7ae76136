"""The types that travel through every room: what a source is, what a target is, and batches of them.

The names are imported from their modules when they are first used: batches need PyTorch, which takes long to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.sequences.batch import SourceBatch as SourceBatch
    from dragoman.sequences.batch import TargetBatch as TargetBatch
    from dragoman.sequences.batch import length_mask as length_mask
    from dragoman.sequences.batch import pad_rows as pad_rows
    from dragoman.sequences.source import MASKED_SPECIALS as MASKED_SPECIALS
    from dragoman.sequences.source import NOTHING as NOTHING
    from dragoman.sequences.source import SPECIALS as SPECIALS
    from dragoman.sequences.source import SoundSource as SoundSource
    from dragoman.sequences.source import Source as Source
    from dragoman.sequences.source import Specials as Specials
    from dragoman.sequences.source import sources_of as sources_of
    from dragoman.sequences.target import FRAME as FRAME
    from dragoman.sequences.target import Direction as Direction
    from dragoman.sequences.target import Frame as Frame
    from dragoman.sequences.target import frame_target as frame_target

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "batch": ("SourceBatch", "TargetBatch", "length_mask", "pad_rows"),
        "source": ("MASKED_SPECIALS", "NOTHING", "SPECIALS", "SoundSource", "Source", "Specials", "sources_of"),
        "target": ("FRAME", "Direction", "Frame", "frame_target"),
    },
)
