"""In which precision training multiplies."""

from __future__ import annotations

import pytest
import torch

from dragoman.config import TrainingConfig
from dragoman.training import precision
from dragoman.training.step import autocast

CPU = torch.device("cpu")


def speeds(monkeypatch: pytest.MonkeyPatch, gain: float) -> None:
    """A processor with bfloat16, in which it is so many times as fast as in float32; it is never busy."""
    monkeypatch.setattr(precision, "has_bfloat16", lambda: True)
    monkeypatch.setattr(precision, "_seconds", lambda a: 1e-4 / (gain if a.dtype == torch.bfloat16 else 1))


@pytest.mark.parametrize(("gain", "expected"), [(2.1, "bfloat16"), (1.2, "float32"), (0.12, "float32")])
def test_the_faster_one_is_chosen_where_it_is_much_faster(
    monkeypatch: pytest.MonkeyPatch, gain: float, expected: str
) -> None:
    speeds(monkeypatch, gain)
    chosen, reason = precision.choose_precision(256, CPU)
    assert chosen == expected
    assert f"{gain:.1f} times" in reason


@pytest.mark.parametrize("busy", [range(12), range(14, 30), range(0, 30, 2), range(1, 30, 2)])
@pytest.mark.parametrize("gain", [1.0, 2.0])
def test_what_else_the_machine_does_changes_no_choice(
    monkeypatch: pytest.MonkeyPatch, busy: range, gain: float
) -> None:
    speeds(monkeypatch, gain)
    unhurried, calls = precision._seconds, 0

    def hurried(a: torch.Tensor) -> float:
        nonlocal calls
        calls += 1
        # Every third time whoever disturbs is away for a moment.
        return unhurried(a) * (4 if calls - 1 in busy and calls % 3 else 1)

    monkeypatch.setattr(precision, "_seconds", hurried)
    assert precision.choose_precision(256, CPU)[0] == ("bfloat16" if gain > 1.3 else "float32")


def test_without_instructions_for_it_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_seconds", lambda a: pytest.fail("timed"))
    for found, expected in (({}, False), ({"avx512_bf16": False, "avx2": True}, False), ({"amx_bf16": True}, True)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=found: found)
        assert precision.has_bfloat16() == expected
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    chosen, reason = precision.choose_precision(256, CPU)
    assert chosen == "float32"
    assert "no instructions" in reason


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
