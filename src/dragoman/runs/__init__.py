"""What a run left behind: its history and curves, and what of it is needed to translate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.runs.bundle import Bundle as Bundle
    from dragoman.runs.bundle import bundle_model as bundle_model
    from dragoman.runs.curves import draw_curves as draw_curves
    from dragoman.runs.history import History as History
    from dragoman.runs.history import read_history as read_history

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "bundle": ("Bundle", "bundle_model"),
        "curves": ("draw_curves",),
        "history": ("History", "read_history"),
    },
)
