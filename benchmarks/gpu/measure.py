"""Everything worth knowing of one GPU, in one go of six minutes at most: rows of JSON, as all benchmarks print.

    python benchmarks/gpu/measure.py > rows.jsonl          a GPU
    python benchmarks/gpu/measure.py --device cpu --tiny   whether the script runs

Training in tokens a second and as a part of what the card can multiply (MFU), eager and compiled; decoding in sentences
a second, beside CTranslate2 where that is installed for the device; the peak of memory of each. What would take longer
than the time that is left is left out, and said.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[1]))

from gpu_decoding import decoding_rows
from gpu_training import training_rows
from rows import print_row

SECONDS = 330.0
Rows = Callable[[], Iterator[dict[str, Any]]]


def tasks(device: torch.device, peak: float | None, *, tiny: bool) -> Iterator[tuple[str, float, Rows]]:
    """Yield what is measured, what matters most first: its name, the seconds that it takes at most, and its rows."""
    models = ("tiny",) if tiny else ("base", "big")
    batches = (1, 4) if tiny else (1, 32, 256)
    for model in models:
        yield f"training {model}", 30.0, functools.partial(training_rows, model, device, peak, compiled=False)
    for model in models[:1]:
        for batch in batches:
            yield f"decoding {model} {batch}", 25.0, functools.partial(decoding_rows, model, device, batch, tiny=tiny)
    if device.type == "cuda":
        for model in models:
            yield (
                f"training {model} compiled",
                75.0,
                functools.partial(training_rows, model, device, peak, compiled=True),
            )


def main() -> None:
    """Measure until all is measured, or the time is up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--tiny", action="store_true", help="a small model, for a moment")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all of it")
    parser.add_argument("--peak", type=float, help="what the card can do in bfloat16, in TFLOP/s; known of some cards")
    given = parser.parse_args()
    device = torch.device(given.device)
    end = time.monotonic() + given.seconds
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "none"
    for name, longest, rows in tasks(device, given.peak, tiny=given.tiny):
        if time.monotonic() + longest > end:
            print_row("gpu left out", {"card": card, "what": name, "why": "the time is up"})
            continue
        try:
            for row in rows():
                print_row("gpu " + name.split()[0], {"card": card, **row})
        except torch.OutOfMemoryError:
            print_row("gpu left out", {"card": card, "what": name, "why": "it does not fit into memory"})
        if device.type == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
