"""Cleaning parallel corpora: pairs that would do harm, found by rules, and a report on each rule.

The names are imported from their modules when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.cleaning.cleaning import clean as clean
    from dragoman.cleaning.report import CleanReport as CleanReport
    from dragoman.cleaning.rules import RULES as RULES

__all__, __getattr__, __dir__ = lazy_names(
    __name__, {"cleaning": ("clean",), "report": ("CleanReport",), "rules": ("RULES",)}
)
