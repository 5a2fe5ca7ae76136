"""Nobody waits for the device between the micro-batches of an update: what a GPU computes is asked for at its end."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from test_ranks import store
from torch.utils._python_dispatch import TorchDispatchMode

from dragoman.config import ModelConfig, TrainingConfig
from dragoman.data import TokenStore
from dragoman.distributed import ALONE
from dragoman.fast import module_hidden
from dragoman.losses import loss
from dragoman.models import build_model
from dragoman.sequences import Direction
from dragoman.sequences.batch import moved
from dragoman.training import gradients
from dragoman.training.gradients import Gradients
from dragoman.training.tasks import Translating

__all__ = ["store"]
# Whose results, or their shapes, the processor has to know: on a GPU it waits for them.
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "unique_dim"}


class Waits(TorchDispatchMode):
    """Counts operations that a GPU would be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        indices = args[1] if name in ("index", "index_put", "index_put_") else ()
        if name in WAITING or any(one is not None and one.dtype == torch.bool for one in indices):
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("settings", [{}, {"r_drop": 1.0}, {"smoothing": 0.0, "norm": "pre", "positions": "rotary"}])
def test_no_micro_batch_waits_for_the_device(store: TokenStore, settings: dict[str, Any], monkeypatch) -> None:
    r_drop, smoothing = settings.pop("r_drop", 0.0), settings.pop("smoothing", 0.1)
    model = build_model(ModelConfig(
        source_vocab=20, target_vocab=20, d_model=16, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=1,
        dropout=0.1, right_to_left=True, **settings,
    ))  # fmt: skip
    monkeypatch.setattr(gradients, "training_hidden", lambda model: partial(module_hidden, model))
    monkeypatch.setattr(loss, "AT_HAND", set())  # as on a GPU
    task = Translating((Direction.LEFT_TO_RIGHT, Direction.RIGHT_TO_LEFT))
    config = TrainingConfig(label_smoothing=smoothing)
    made = Gradients(model.train(), task, config, ALONE, autocast=nullcontext, report=print)
    found = []
    for count in (1, 6):
        with Waits() as waits:
            made.add(store, np.array_split(np.arange(24), count), epoch=0, update=0, r_drop=r_drop)
        found.append(waits.found)
    assert found == [Counter(), Counter()]


def test_batches_go_to_a_gpu_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, Any]] = []
    tensor = torch.zeros(2)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: calls.append(("pinned", None)) or self)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *given, **ways: calls.append((given[0], ways)) or self)
    moved(tensor, "cuda:0")
    moved(tensor, torch.device("cpu"))
    assert calls == [("pinned", None), ("cuda:0", {"non_blocking": True}), (torch.device("cpu"), {})]
