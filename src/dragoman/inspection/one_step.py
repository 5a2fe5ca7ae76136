"""The tensors of a single decoding step: one query, and keys and values that wait in the cache."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from dragoman.errors import ConfigError
from dragoman.inspection.agreement import Model, everywhere
from dragoman.nn import MaskedLM, Transformer
from dragoman.stages.capture import captured
from dragoman.stages.finding import find_stages
from dragoman.stages.stage import Sides, Stage
from dragoman.stages.words import say

_OF_DECODER = ("target_embedding.", "embedding.", "decoder.", "generator", "probabilities")


@torch.no_grad()
def step_stages(
    model: Model, source: Shaped[Tensor, "1 given ..."], inputs: Int[Tensor, "1 tgt"], sides: Sides, number: int
) -> list[Stage]:
    """Return the stages of one step with a cache.

    Args:
        model: in evaluation mode.
        source: framed ids, or frames of a sound; no column if there is no encoder.
        inputs: what the decoder is given, piece by piece.
        sides: what stands at the positions.
        number: of the step, from 1.

    Raises:
        ConfigError: there is no such step, or the model has none.
    """
    if isinstance(model, MaskedLM):
        raise ConfigError("a masked model fills gaps, and has no steps with a cache", hint="leave out the step")
    count = inputs.shape[1]
    if not 1 <= number <= count:
        raise ConfigError(f"there is no step {number}", expected=f"1 to {count}", found=number)
    encoded = isinstance(model, Transformer)
    state = model.start(source, everywhere(source)) if encoded else model.start()
    for place in range(number - 1):
        model.step(state, inputs[:, place])
    with captured(model) as calls:
        model.step(state, inputs[:, number - 1])
    found = find_stages(model, calls, Sides(sides.family, sides.source, entries=sides.entries))
    known = {stage.name: stage for stage in found}
    return [_of_step(stage, known, sides, number) for stage in found if stage.name.startswith(_OF_DECODER)]


def _of_step(stage: Stage, known: dict[str, Stage], sides: Sides, number: int) -> Stage:
    """A stage with the names of its one row and its keys."""
    if stage.name.endswith(".position_rows"):
        home = stage.name.removesuffix(".position_rows")
        total, tokens = known[f"{home}.positions"].values, known[f"{home}.tokens"].values
        assert total is not None
        assert tokens is not None
        rows = (say("position {place}").format(place=number - 1),)
        return replace(stage, dims=("1", "query", "d_model"), values=total - tokens, rows=rows)
    if stage.values is not None and len(stage.dims) == stage.values.dim() + 1:  # logits of the newest position alone
        stage = replace(stage, values=stage.values.unsqueeze(1), shape=(1, *stage.shape))
    newest, seen = sides.target[number - 1 : number], sides.target[:number]
    keys = stage.name.endswith((".key", ".value"))
    dims, places = list(stage.dims), [place for place, dim in enumerate(stage.dims) if dim == "tgt"]
    for place, name in zip(places, ("keys",) if keys else ("query", "keys"), strict=False):
        dims[place] = name
    rows = stage.rows if not places else seen if keys else newest
    asks = places and not keys and "embedding" not in stage.name
    columns = seen if len(places) == 2 else stage.columns
    writes = sides.writes[number - 1 : number] if asks else ()
    return replace(stage, dims=tuple(dims), rows=rows, columns=columns, writes=writes)
