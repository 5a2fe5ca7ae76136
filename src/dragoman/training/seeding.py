"""Counter-based randomness: what is drawn in an update depends on where it is, not on what came before.

Each micro-batch is seeded from (seed, epoch, update, micro-batch, rank). So the state of training needs no generator's
state, and a resumed run draws what the uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib

import torch


def seed_of(*counters: int) -> int:
    """Return a 63-bit seed from a tuple of counters; different tuples give unrelated seeds."""
    digest = hashlib.sha256(",".join(map(str, counters)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_all(*counters: int) -> None:
    """Seed PyTorch's generators, on every device, from a tuple of counters."""
    torch.manual_seed(seed_of(*counters))
