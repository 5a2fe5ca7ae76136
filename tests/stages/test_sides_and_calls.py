"""What stands at each position, and what is captured of a pass: modules that give several tensors count too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.stages import Sides, captured, find_stages, make_stage, say, speaking
from small_sounds import listener, waveform


class Pair(nn.Module):
    """Gives twice what it is given, and where that is."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return 2 * x, x > 0


def test_of_several_tensors_the_first_one_is_what_was_computed() -> None:
    model = nn.Sequential(Pair())
    with captured(model) as calls:
        model[0](torch.ones(2))
    [call] = calls
    assert (call.path, call.gave.tolist()) == ("0", [2, 2])
    model[0](torch.ones(2))
    assert len(calls) == 1  # nobody is watched after the block


def test_each_length_has_its_own_names() -> None:
    sides = Sides("transformer", ("a", "b"), ("c",), others={"frames": ("0.00 s",)})
    assert [sides.pieces(length) for length in ("src", "tgt", "frames")] == [("a", "b"), ("c",), ("0.00 s",)]
    assert sides.length("source_embedding.subsampling.convolutions.0") == "src"
    assert make_stage("x", ("batch", "src"), torch.ones(1, 2), "what").size == "[batch=1, src=2]"
    with speaking("zh"):
        assert say("memory") == "编码器输出"
    with pytest.raises(ConfigError, match="no such language"), speaking("fr"):
        pass


def test_stages_of_a_sound_come_in_the_order_of_computation() -> None:
    made = listener(positions="interleaved")
    (model,) = made.transformers
    frames = made.tokenizers.encode_source(waveform("mid")).frames[None]  # type: ignore[attr-defined]
    with captured(model) as calls, torch.no_grad():
        model(frames, torch.tensor([[2, 5]]))
    names = [stage.name for stage in find_stages(model, calls, Sides("transformer"))]
    home = "source_embedding"
    parts = ["frames", "subsampling.convolutions.0", "subsampling.gates.0", "subsampling.convolutions.1"]
    parts += ["subsampling.gates.1", "scaled", "position_rows", "positions"]
    assert names[:8] == [f"{home}.{part}" for part in parts]
