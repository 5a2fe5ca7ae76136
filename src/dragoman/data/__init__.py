"""Tokenised pairs and texts on disk, and batches of them.

Importing this brings PyTorch; `dragoman.text` alone does not.
"""

from dragoman.data.batching import (
    Batch,
    TextBatch,
    collate,
    collate_causal,
    collate_masked,
    eval_batches,
    plan_epoch,
)
from dragoman.data.filtering import Counts
from dragoman.data.prepare import Prepared, prepare
from dragoman.data.resampling import EpochStores, doubt_draws
from dragoman.data.shards import plan_of, update_of
from dragoman.data.store import TokenStore

__all__ = [
    "Batch",
    "Counts",
    "EpochStores",
    "Prepared",
    "TextBatch",
    "TokenStore",
    "collate",
    "collate_causal",
    "collate_masked",
    "doubt_draws",
    "eval_batches",
    "plan_epoch",
    "plan_of",
    "prepare",
    "update_of",
]
