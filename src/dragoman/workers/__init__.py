"""Where work on blocks of a corpus is done: in this process, in several, or by Ray on many machines.

The names are imported from their modules when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.workers.cluster import LOCAL as LOCAL
    from dragoman.workers.cluster import Cluster as Cluster
    from dragoman.workers.cluster import joined as joined
    from dragoman.workers.mapping import Workers as Workers
    from dragoman.workers.mapping import check_workers as check_workers
    from dragoman.workers.mapping import open_workers as open_workers

__all__, __getattr__, __dir__ = lazy_names(
    __name__, {"cluster": ("LOCAL", "Cluster", "joined"), "mapping": ("Workers", "check_workers", "open_workers")}
)
