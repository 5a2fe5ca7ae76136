"""Where and how a model is run: names are checked once, wherever they come from."""

from __future__ import annotations

import pytest

from dragoman.config import Placement
from dragoman.errors import ConfigError


def test_everything_is_chosen_unless_it_is_said() -> None:
    assert Placement() == Placement("auto", "auto", "auto", None)
    assert Placement("cuda:1", "module", "float32", 4).device == "cuda:1"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"device": "abacus"}, "this device is not available\n.*auto, cpu, cuda or mps\n.*abacus"),
        ({"device": "cuda:x"}, "this device is not available"),
        ({"device": "auto:1"}, "this device is not available"),
        ({"engine": "steam"}, "there is no such engine\n.*auto or native or packed or module\n.*steam"),
        ({"precision": "int4"}, "there is no such precision\n.*auto or float32 or int8 or bfloat16\n.*int4"),
        ({"threads": 0}, "threads cannot be had\n.*from 1 to 1,024\n.*0"),
        ({"threads": 1025}, "threads cannot be had"),
    ],
)
def test_names_that_there_are_not_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Placement(**wrong)
