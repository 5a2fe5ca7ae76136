"""Models of other systems as run directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.importing.importer import Imported as Imported
    from dragoman.importing.importer import import_model as import_model

__all__, __getattr__, __dir__ = lazy_names(__name__, {"importer": ("Imported", "import_model")})
