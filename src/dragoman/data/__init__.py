"""Tokenised pairs and texts on disk, and batches of them.

The names are imported from their modules when they are first used: processes that only hash and encode need no PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.data.batching import Batch as Batch
    from dragoman.data.batching import TextBatch as TextBatch
    from dragoman.data.batching import collate as collate
    from dragoman.data.batching import collate_causal as collate_causal
    from dragoman.data.batching import collate_masked as collate_masked
    from dragoman.data.batching import eval_batches as eval_batches
    from dragoman.data.batching import plan_epoch as plan_epoch
    from dragoman.data.filtering import Counts as Counts
    from dragoman.data.preparing import Prepared as Prepared
    from dragoman.data.preparing import prepare as prepare
    from dragoman.data.resampling import EPOCHS as EPOCHS
    from dragoman.data.resampling import EpochStores as EpochStores
    from dragoman.data.resampling import doubt_draws as doubt_draws
    from dragoman.data.shards import plan_of as plan_of
    from dragoman.data.shards import update_of as update_of
    from dragoman.data.store import TokenStore as TokenStore

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "batching": (
            "Batch", "TextBatch", "collate", "collate_causal", "collate_masked", "eval_batches", "plan_epoch",
        ),
        "filtering": ("Counts",),
        "preparing": ("Prepared", "prepare"),
        "resampling": ("EPOCHS", "EpochStores", "doubt_draws"),
        "shards": ("plan_of", "update_of"),
        "store": ("TokenStore",),
    },
)  # fmt: skip
