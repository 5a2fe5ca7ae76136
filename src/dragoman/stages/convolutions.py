"""The stages between the frames of a sound and the encoder: two convolutions, each through a gated linear unit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.stages.capture import Call
from dragoman.stages.stage import Sides, Stage, make_stage
from dragoman.stages.words import say

HOME = "source_embedding"
CONVOLUTIONS = f"{HOME}.subsampling.convolutions"
GATES = f"{HOME}.subsampling.gates"
# The names of what each convolution reads, and of what it gives: lengths and widths.
_GIVEN = (("frames", "mels"), ("frames/2", "channels/2"))
_GIVES = (("frames/2", "channels"), ("src", "2·d_model"))


def convolution_stages(call: Call, sides: Sides) -> Iterator[Stage]:
    """Yield what a convolution reads, and what it gives.

    Args:
        call: of one of the two.
        sides: what stands at the positions.
    """
    number, conv = int(call.path.rpartition(".")[2]), call.module
    assert isinstance(conv, nn.Conv1d)
    assert call.given is not None
    length, width = _GIVEN[number]
    given = call.given.transpose(1, 2)
    if number:
        yield make_stage(f"{GATES}.{number - 1}", ("batch", length, width), given, _gate(), sides.pieces(length))
    else:
        what = say(
            "normalised: from each log-mel the mean of its bin over this sound is taken away, and it is divided by the "
            "bin's deviation"
        )
        yield make_stage(f"{HOME}.frames", ("batch", length, width), given, what, sides.pieces(length))
    length, width = _GIVES[number]
    count, found = call.given.shape[2], call.gave.shape[2]
    what = say(
        "convolution over time, kernel {kernel}, stride {stride}: outputs = ({count} + 2·{padding} − {kernel}) // "
        "{stride} + 1 = {found}, each the sum of {kernel} · {width} products and a bias"
    ).format(
        kernel=conv.kernel_size[0], stride=conv.stride[0], padding=conv.padding[0], count=count, found=found,
        width=conv.in_channels,
    )  # fmt: skip
    yield make_stage(call.path, ("batch", length, width), call.gave.transpose(1, 2), what, sides.pieces(length))


def subsampled_stages(call: Call, sides: Sides) -> Iterator[Stage]:
    """Yield what both convolutions together give; arguments as of `convolution_stages`."""
    yield make_stage(f"{GATES}.1", ("batch", "src", "d_model"), call.gave, _gate(), sides.pieces("src"))


def scaled_stage(values: Float[Tensor, "batch src d_model"], sides: Sides) -> Stage:
    """Return the vectors times √d_model, before positions are added.

    Args:
        values: the vectors.
        sides: what stands at the positions.
    """
    width = values.shape[-1]
    what = f"× √d_model = √{width} = {math.sqrt(width):.4g}"
    return make_stage(f"{HOME}.scaled", ("batch", "src", "d_model"), values, what, sides.pieces("src"))


def _gate() -> str:
    return say("gated linear unit: a · σ(b), where a is the first half of the channels and b the second")
