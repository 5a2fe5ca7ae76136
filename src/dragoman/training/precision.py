"""In which precision training multiplies: weights, moments and sums are float32 in any case."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

# Casting costs what still smaller products save; at 64 a step takes 0.69 of the time (`benchmarks/bench_precision.py`).
NARROWEST = 64
# bfloat16 must be so many times as fast as float32 to be chosen; where it pays, it is about twice as fast.
GAIN = 1.3
# Rounds in which both are timed, one after the other, and seconds after which there is no further round.
ROUNDS, SECONDS = 12, 0.15
SIZE = 512


def choose_precision(d_model: int, device: torch.device) -> tuple[str, str]:
    """Choose float32 or bfloat16; return it and the reason in words.

    On CUDA bfloat16 where the card computes in it. On a CPU that has instructions for it (AVX512-BF16, AMX, those of
    ARM) both are timed for a moment, by turns, and the best time of each counts: whatever else runs on the machine may
    slow some of the rounds down, but hardly all rounds of one of them. Without such instructions bfloat16 is several
    times slower, and nothing is timed.
    """
    if device.type == "cuda":
        there = torch.cuda.is_bf16_supported(including_emulation=False)
        return ("bfloat16", "the card computes in it") if there else ("float32", "the card has no bfloat16")
    if device.type != "cpu":
        return "float32", f"not tried on {device.type}"
    if d_model < NARROWEST:
        return "float32", "casts would cost what so small products save"
    if not has_bfloat16():
        return "float32", "this processor has no instructions for bfloat16"
    slow, fast = speeds(device, (torch.float32, torch.bfloat16))
    reason = f"products in bfloat16 are {fast / slow:.1f} times as fast as in float32 here"
    return ("bfloat16" if fast > GAIN * slow else "float32"), reason


def has_bfloat16() -> bool:
    """Return whether the processor says that it multiplies in bfloat16, and PyTorch is new enough to pass that on."""
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()
    return any(there is True and "bf16" in name for name, there in capabilities.items())


def operations_per_second(device: torch.device, dtype: torch.dtype = torch.float32) -> float:
    """Measure a large matrix product on a device: multiplications and additions a second."""
    return speeds(device, [dtype])[0]


def speeds(device: torch.device, dtypes: Sequence[torch.dtype]) -> list[float]:
    """Measure `operations_per_second` in each of several precisions, by turns, under the same conditions."""
    factors = [torch.rand(SIZE, SIZE, device=device).to(dtype) for dtype in dtypes]
    for a in factors:
        _seconds(a)  # the first product pays for what is made once
    best, began = [float("inf")] * len(factors), time.perf_counter()
    for _ in range(ROUNDS):
        best = [min(seconds, _seconds(a)) for seconds, a in zip(best, factors, strict=True)]
        if time.perf_counter() - began > SECONDS:
            break
    return [2 * SIZE**3 / seconds for seconds in best]


def _seconds(a: Tensor) -> float:
    start = time.perf_counter()
    float((a @ a)[0, 0])  # reading a number waits for the device
    return time.perf_counter() - start
