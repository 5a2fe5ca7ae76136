"""Translating by Ray: classes for `ray.data.Dataset.map_batches`, and whole files on a cluster (the extra `ray`).

The package of that name is another one, and is imported when something is to run on it.
"""

from __future__ import annotations

from dragoman.bulk.columns import Synthesize, Translate
from dragoman.bulk.on_ray import Cluster, translate_file
from dragoman.bulk.studies import evaluate, synthesize

__all__ = ["Cluster", "Synthesize", "Translate", "evaluate", "synthesize", "translate_file"]
