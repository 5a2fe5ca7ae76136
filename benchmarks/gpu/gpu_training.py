"""Updates of training as `dragoman train` makes them: from stored pairs to moved weights."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.config import ModelConfig, TrainingConfig
from dragoman.data import TokenStore, plan_epoch
from dragoman.distributed import ALONE
from dragoman.distributed.sharding import clip_gradients
from dragoman.models import build_model
from dragoman.optimizers import make_optimizer
from dragoman.sequences import Direction
from dragoman.training.gradients import Gradients
from dragoman.training.precision import choose_precision, operations_per_second
from dragoman.training.step import autocast
from dragoman.training.tasks import Translating

# Dense products in bfloat16 a second, as NVIDIA states them, by what the card's name has in it.
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40": 181e12, "L4": 121e12, "4090": 165e12, "A10": 125e12}
# (d_model, heads, d_ff, layers, vocabulary, dropout), tokens of a micro-batch.
SHAPES = {
    "tiny": ((64, 4, 128, 2, 400, 0.1), 256), "base": ((512, 8, 2048, 6, 32_000, 0.1), 24_576),
    "big": ((1024, 16, 4096, 6, 32_000, 0.3), 16_384),
}  # fmt: skip
WARM_UP, UPDATES, SECONDS = 5, 200, 12.0


def model_config(name: str) -> ModelConfig:
    """Return a model of the paper, all embeddings tied."""
    d_model, heads, d_ff, layers, vocab, dropout = SHAPES[name][0]
    return ModelConfig(
        source_vocab=vocab, target_vocab=vocab, d_model=d_model, num_heads=heads, d_ff=d_ff, num_encoder_layers=layers,
        num_decoder_layers=layers, dropout=dropout, tie_embeddings="all",
    )  # fmt: skip


def pairs(directory: Path, vocab: int, count: int) -> TokenStore:
    """Return random pairs about as long as sentences of news: 27 tokens on average."""
    draw = np.random.default_rng(1)
    target = np.clip(np.rint(draw.lognormal(np.log(23.5), 0.52, count)), 3, 120).astype(int)
    source = np.clip(np.rint(target * draw.normal(1.0, 0.12, count)), 3, 120).astype(int)
    sides = ([draw.integers(5, vocab, length).tolist() for length in side] for side in (source, target))
    rows = zip(*sides, strict=True)
    return TokenStore.write(directory, rows, vocabulary_size=vocab)


def operations(config: ModelConfig, source: np.ndarray, target: np.ndarray) -> float:
    """Return multiplications and additions of an update on pairs of these lengths, forward and backward, no padding."""
    shape = config.with_paper_defaults()
    d, ff, vocab = shape.d_model or 0, shape.d_ff or 0, shape.target_vocab or 0
    encoder, decoder = shape.num_encoder_layers or 0, shape.num_decoder_layers or 0
    read = source.sum() * (encoder * (4 * d * d + 2 * d * ff) + decoder * 2 * d * d)
    written = target.sum() * (decoder * (6 * d * d + 2 * d * ff) + vocab * d)
    looked_at = encoder * (source**2).sum() + decoder * ((target**2).sum() / 2 + (source * target).sum())
    return float(3 * 2 * (read + written + 2 * d * looked_at))


def training_rows(name: str, device: torch.device, peak: float | None, *, compiled: bool) -> Iterator[dict[str, Any]]:
    """Yield the speed of training a model.

    Args:
        name: of `SHAPES`.
        device: where.
        peak: TFLOP/s of the card; by its name if None.
        compiled: by torch.compile.
    """
    config, tokens = model_config(name), SHAPES[name][1]
    chosen, why = choose_precision(config.d_model or 0, device)
    precision: Any = chosen
    settings = TrainingConfig(precision=precision, compile=compiled, label_smoothing=0.1, batch_tokens=tokens)
    model = build_model(config).to(device).train()
    cast = functools.partial(autocast, settings, device)
    task = Translating((Direction.LEFT_TO_RIGHT,))
    gradients = Gradients(model, task, settings, ALONE, autocast=cast, report=print)
    optimizer = make_optimizer(model, settings)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    with tempfile.TemporaryDirectory() as folder:
        store = pairs(Path(folder) / "store", config.target_vocab or 0, 400 if name == "tiny" else 200_000)
        lengths = store.source_lengths, store.target_lengths
        plan = plan_epoch(*lengths, batch_tokens=tokens, seed=1, epoch=0)

        def update(number: int) -> tuple[int, float]:
            parts = plan[number % len(plan)]
            optimizer.zero_grad(set_to_none=True)
            sums = gradients.add(store, parts, epoch=0, update=number, r_drop=0.0)
            clip_gradients(model.parameters(), 1.0)
            optimizer.step()
            rows = np.concatenate(parts)
            return sums.labels, operations(config, lengths[0][rows] + 1, lengths[1][rows] + 1)

        warm = 1 if name == "tiny" else WARM_UP
        for number in range(warm):
            update(number)
        wait(device)
        began, labels, work, number = time.perf_counter(), 0, 0.0, warm
        while number < warm + UPDATES and time.perf_counter() - began < (0.5 if name == "tiny" else SECONDS):
            done = update(number)
            labels, work, number = labels + done[0], work + done[1], number + 1
        wait(device)
    seconds = time.perf_counter() - began
    top = 1e12 * peak if peak else peak_of(device, precision)
    yield {
        "model": name, "compiled": compiled, "precision": precision, "why": why, "batch_tokens": tokens,
        "updates": number - warm, "target_tokens_per_second": labels / seconds, "tflops": work / seconds / 1e12,
        "mfu": work / seconds / top, "peak_tflops": top / 1e12, "peak_mib": peak_memory(device),
    }  # fmt: skip


def peak_of(device: torch.device, precision: str) -> float:
    """Return operations a second that a device can do at most: as stated, or a large product's."""
    if device.type == "cuda" and precision == "bfloat16":
        name = torch.cuda.get_device_name(device)
        if known := [speed for part, speed in PEAKS.items() if part in name]:
            return known[0]
    return operations_per_second(device, torch.bfloat16 if precision == "bfloat16" else torch.float32)


def wait(device: torch.device) -> None:
    """Have all that was begun ended."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory(device: torch.device) -> float | None:
    """Return MiB that were held at most since it was last asked; None where that is not counted."""
    if device.type != "cuda":
        return None
    held = torch.cuda.max_memory_allocated(device) / 2**20
    torch.cuda.reset_peak_memory_stats(device)
    return held
