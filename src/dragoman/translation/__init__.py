"""Strings in, strings out: translators, alignments, and the plan of a search.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.translation.alignment import align as align
    from dragoman.translation.alignment import cross_attention as cross_attention
    from dragoman.translation.alignment import word_alignment as word_alignment
    from dragoman.translation.output import format_translation as format_translation
    from dragoman.translation.results import Translation as Translation
    from dragoman.translation.scheduler import Limits as Limits
    from dragoman.translation.scheduler import OverloadError as OverloadError
    from dragoman.translation.scheduler import Scheduler as Scheduler
    from dragoman.translation.translator import Translator as Translator

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "alignment": (
            "align",
            "cross_attention",
            "word_alignment",
        ),
        "output": ("format_translation",),
        "results": ("Translation",),
        "scheduler": ("Limits", "OverloadError", "Scheduler"),
        "translator": ("Translator",),
    },
)
