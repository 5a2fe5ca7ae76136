"""In which precision training multiplies: weights, moments and sums are float32 in any case."""

from __future__ import annotations

import time

import torch

# Casting costs what still smaller products save; at 64 a step takes 0.72 of the time (`benchmarks/bench_precision.py`).
NARROWEST = 64
# bfloat16 must be so many times as fast as float32 to be chosen; where it pays, it is about twice as fast.
GAIN = 1.3


def choose_precision(d_model: int, device: torch.device) -> tuple[str, str]:
    """float32 or bfloat16, and the reason in words.

    On CUDA bfloat16 where the card computes in it. On a CPU both are timed for a moment: processors with AVX512-BF16
    or AMX multiply about twice as fast in bfloat16, others several times slower.
    """
    if device.type == "cuda":
        there = torch.cuda.is_bf16_supported(including_emulation=False)
        return ("bfloat16", "the card computes in it") if there else ("float32", "the card has no bfloat16")
    if device.type != "cpu":
        return "float32", f"not tried on {device.type}"
    if d_model < NARROWEST:
        return "float32", "casts would cost what so small products save"
    slow, fast = (operations_per_second(device, dtype) for dtype in (torch.float32, torch.bfloat16))
    reason = f"products in bfloat16 are {fast / slow:.1f} times as fast as in float32 here"
    return ("bfloat16" if fast > GAIN * slow else "float32"), reason


def operations_per_second(device: torch.device, dtype: torch.dtype = torch.float32) -> float:
    """What a large matrix product reaches on a device, multiplications and additions counted."""
    a = torch.rand(512, 512, device=device).to(dtype)
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        float((a @ a)[0, 0])  # reading a number waits for the device
        best = min(best, time.perf_counter() - start)
    return 2 * 512**3 / best
