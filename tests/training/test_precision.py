"""In which precision training multiplies."""

from __future__ import annotations

import pytest
import torch

from dragoman.config import TrainingConfig
from dragoman.training import precision
from dragoman.training.step import autocast

CPU = torch.device("cpu")


def speeds(monkeypatch: pytest.MonkeyPatch, gain: float) -> None:
    """A processor on which bfloat16 is so many times as fast as float32."""
    rates = {torch.float32: 1e9, torch.bfloat16: gain * 1e9}
    monkeypatch.setattr(precision, "operations_per_second", lambda device, dtype: rates[dtype])


@pytest.mark.parametrize(("gain", "expected"), [(2.1, "bfloat16"), (1.2, "float32"), (0.12, "float32")])
def test_the_faster_one_is_chosen_where_it_is_much_faster(
    monkeypatch: pytest.MonkeyPatch, gain: float, expected: str
) -> None:
    speeds(monkeypatch, gain)
    chosen, reason = precision.choose_precision(256, CPU)
    assert chosen == expected
    assert f"{gain:.1f} times" in reason


def test_narrow_models_and_untried_devices_stay_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds(monkeypatch, 9.0)
    assert precision.choose_precision(32, CPU)[0] == "float32"
    assert precision.choose_precision(512, torch.device("mps"))[0] == "float32"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_speed_of_this_machine_is_a_plausible_number(dtype: torch.dtype) -> None:
    assert 1e7 < precision.operations_per_second(CPU, dtype) < 1e15


@pytest.mark.parametrize(("name", "dtype"), [("bfloat16", torch.bfloat16), ("float32", torch.float32)])
def test_products_are_in_the_precision_asked_for(name: str, dtype: torch.dtype) -> None:
    with autocast(TrainingConfig(precision=name), CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
