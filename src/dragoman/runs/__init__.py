"""What a run left behind: its history and curves, and what of it is needed to translate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.runs.bundling import Bundle as Bundle
    from dragoman.runs.bundling import bundle as bundle
    from dragoman.runs.bundling import pack as pack
    from dragoman.runs.curves import plot as plot
    from dragoman.runs.history import History as History
    from dragoman.runs.history import read_history as read_history
    from dragoman.runs.pushing import push as push
    from dragoman.runs.quantizing import quantize as quantize

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "bundling": ("Bundle", "bundle", "pack"),
        "curves": ("plot",),
        "history": ("History", "read_history"),
        "pushing": ("push",),
        "quantizing": ("quantize",),
    },
)
