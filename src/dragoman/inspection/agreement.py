"""Proofs that what is shown is what the model computes: two ways to the same numbers, and how far apart they are."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from dragoman.inspection.facts import Check
from dragoman.models import count_parameters
from dragoman.nn import CausalLM, FeedForward, MaskedLM, MultiHeadAttention, Subsampling, Transformer
from dragoman.sequences import length_mask
from dragoman.stages.stage import Stage
from dragoman.stages.words import say

PADDING = 2
# Of a sound: frames that are two positions more.
PADDING_FRAMES = 8
# Larger models are not copied into float64, which takes 8 bytes a parameter.
MAX_COPIED = 50_000_000
_OBSERVED = "logits of the pass that is shown = logits of a pass that nobody observes"
_SERIAL = "logits in row t of one pass over all positions = logits of step t with a cache"
_PADDED = "logits of the text alone = logits with {padding} <pad> after it, as beside a longer text"
_PADDED_SOUND = "logits of the sound alone = logits with {padding} frames of padding after it, as beside a longer sound"
_SUM = "{home}: scaled row + position = what enters the first layer"

Model = Transformer | CausalLM | MaskedLM


def everywhere(source: Shaped[Tensor, "batch given ..."]) -> Bool[Tensor, "batch given"]:
    """Return a mask that is True at every id, or frame, of what is read."""
    return torch.ones(source.shape[:2], dtype=torch.bool, device=source.device)


def parallel_logits(
    model: Model, source: Shaped[Tensor, "1 given ..."], inputs: Int[Tensor, "1 tgt"]
) -> Float[Tensor, "1 length vocab"]:
    """Return logits at all positions in one pass; a masked model has a source only, a decoder-only one no source.

    Args:
        model: in evaluation mode.
        source, inputs: of one text, so that nothing in them is padding.
    """
    return _parallel(model, *((ids, everywhere(ids)) for ids in (source, inputs)))


@torch.no_grad()
def _parallel(model: Model, source: tuple[Tensor, Tensor], inputs: tuple[Tensor, Tensor]) -> Tensor:
    """Of ids and where they are tokens."""
    if isinstance(model, Transformer):
        return model(source[0], inputs[0], source[1], inputs[1])
    return model(*(source if isinstance(model, MaskedLM) else inputs))


@torch.no_grad()
def serial_logits(
    model: Transformer | CausalLM,
    source: Shaped[Tensor, "1 given ..."],
    inputs: Int[Tensor, "1 tgt"],
    mask: Bool[Tensor, "1 given"] | None = None,
) -> Float[Tensor, "1 tgt vocab"]:
    """Return the same one piece at a time, through the caches; `mask` is where the source has tokens, if not all."""
    real = everywhere(source) if mask is None else mask
    state = model.start(source, real) if isinstance(model, Transformer) else model.start()
    return torch.stack([model.step(state, inputs[:, place]) for place in range(inputs.shape[1])], dim=1)


def checks_of(
    model: Model,
    source: Shaped[Tensor, "1 given ..."],
    inputs: Int[Tensor, "1 tgt"],
    stages: Sequence[Stage],
) -> tuple[Check, ...]:
    """Return all proofs for one pass.

    Args:
        model: in evaluation mode.
        source: framed ids, or frames of a sound; no column for a decoder-only model.
        inputs: what the decoder is given; no column for a masked model.
        stages: of the pass that is shown.
    """
    plain = parallel_logits(model, source, inputs)
    shown = next(stage.values for stage in stages if stage.name == "generator")
    assert shown is not None
    padded = [_with_padding(ids, model.pad) for ids in (source, inputs)]
    sound = source.is_floating_point()
    told = say(_PADDED_SOUND).format(padding=PADDING_FRAMES) if sound else say(_PADDED).format(padding=PADDING)
    checks = [
        *_sums(stages),
        _check("observed", say(_OBSERVED), plain.cpu(), shown),
        _check("padded", told, plain, _parallel(model, *padded)[:, : plain.shape[1]]),
    ]
    if not isinstance(model, MaskedLM):
        checks.append(_check("parallel", say(_SERIAL), plain, serial_logits(model, source, inputs)))
        if plain.dtype != torch.float64 and count_parameters(model) <= MAX_COPIED:
            checks.append(_in_float64(model, source.cpu(), inputs.cpu()))
    return tuple(checks)


def _with_padding(ids: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """A text as it is beside a longer one, and where it has tokens."""
    length, padding = ids.shape[1], PADDING_FRAMES if ids.is_floating_point() else PADDING
    padding = padding if length else 0
    mask = length_mask([length], length + padding, ids.device)
    return torch.cat([ids, ids.new_full((1, padding, *ids.shape[2:]), pad)], dim=1), mask


def _in_float64(model: Transformer | CausalLM, source: Tensor, inputs: Tensor) -> Check:
    exact = copy.deepcopy(model).cpu().double()
    source = source.double() if source.is_floating_point() else source
    serial = serial_logits(exact, source, inputs)
    return _check("parallel", say(_SERIAL), parallel_logits(exact, source, inputs), serial)


def _check(name: str, what: str, one: Tensor, other: Tensor) -> Check:
    difference = float((one - other).abs().max())
    return Check(name, what, difference, "logits", str(one.dtype).removeprefix("torch."))


def _sums(stages: Sequence[Stage]) -> list[Check]:
    found = {stage.name: stage.values for stage in stages}
    checks = []
    for name, total in found.items():
        home = name.removesuffix(".positions")
        tokens = found.get(f"{home}.tokens", found.get(f"{home}.scaled"))
        rows = found.get(f"{home}.position_rows")
        if home != name and total is not None and tokens is not None and rows is not None:
            difference, dtype = float((tokens + rows - total).abs().max()), str(total.dtype).removeprefix("torch.")
            checks.append(Check("sum", say(_SUM).format(home=home), difference, "numbers", dtype))
    return checks


def sizes_of(model: nn.Module) -> dict[str, int]:
    """Return the sizes of a model by their names, read off its parts."""
    sizes: dict[str, int] = {}
    for side in ("source", "target"):
        tokens = getattr(getattr(model, f"{side}_embedding", None), "tokens", None)
        if tokens is not None:
            sizes[f"{side}_vocab"] = len(tokens.weight)
    for part in model.modules():
        if isinstance(part, Subsampling):
            first = part.convolutions[0]
            assert isinstance(first, nn.Conv1d)
            sizes |= {"mels": first.in_channels, "conv_channels": first.out_channels}
    if "target_vocab" not in sizes:
        sizes["vocab"] = model.get_parameter("generator.weight").shape[0]
    sizes["d_model"] = model.get_parameter("generator.weight").shape[1]
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            sizes |= {"num_heads": part.num_heads, "d_k": part.d_k, "d_v": part.d_v}
        if isinstance(part, FeedForward):
            sizes["d_ff"] = part.inner.out_features
    for stack in ("encoder", "decoder"):
        if hasattr(model, stack):
            sizes[f"num_{stack}_layers"] = len(getattr(model, stack).layers)
    return sizes
