"""The work that several benchmarks share: a small model, and sentence pairs about as long as image captions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from dragoman.config import ModelConfig
from dragoman.data import Batch, TokenStore, collate, plan_epoch

VOCAB = 4000
TINY = ModelConfig(
    source_vocab=VOCAB, target_vocab=VOCAB, d_model=256, num_heads=4, d_ff=1024, num_encoder_layers=3,
    num_decoder_layers=3, dropout=0.1, tie_embeddings="all",
)  # fmt: skip


def lengths(pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of the two sides of random pairs: 13 on average, seldom more than 30, the sides within a few tokens."""
    random = np.random.default_rng(1)
    target = np.clip(np.rint(random.lognormal(np.log(12.3), 0.35, pairs)), 4, 45)
    source = np.clip(np.rint(target + random.normal(0, 1.5, pairs)), 4, 45)
    return source.astype(np.int64), target.astype(np.int64)


def write_store(directory: Path, pairs: int) -> TokenStore:
    """A token store of random ids with those lengths."""
    random = np.random.default_rng(2)
    ids = zip(
        *([random.integers(5, VOCAB, length).tolist() for length in side] for side in lengths(pairs)), strict=True
    )
    return TokenStore.write(directory, ids, vocabulary_size=VOCAB)


def training_batches(count: int, batch_tokens: int) -> list[Batch]:
    """The first batches of an epoch over 20,000 such pairs, made by the toolkit's own data path."""
    with tempfile.TemporaryDirectory() as folder:
        store = write_store(Path(folder) / "store", 20_000)
        plan = plan_epoch(store.source_lengths, store.target_lengths, batch_tokens=batch_tokens, seed=1, epoch=0)
        return [collate(store, update[0]) for update in plan[:count]]
