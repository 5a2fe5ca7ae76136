"""Datastores of decoder states, asked at each token (kNN-MT).

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.memory.datastore import Datastore as Datastore
    from dragoman.memory.datastore import make_datastore as make_datastore
    from dragoman.memory.knn import KnnModel as KnnModel

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "datastore": (
            "Datastore",
            "make_datastore",
        ),
        "knn": ("KnnModel",),
    },
)
