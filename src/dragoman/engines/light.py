"""Opening a model directory without PyTorch, whose import alone takes longer than a short translation.

Only where it is certain that `choose_device` and `choose_engine` would come to the same: the native engine on the CPU,
for a model of mainstream parts. Everything else is left to them.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.config import ModelConfig, Placement
from dragoman.engines.native.library import Library, load_library
from dragoman.engines.native.model import NativeModel
from dragoman.engines.native.searching import NativeSearcher
from dragoman.engines.recipe import NotPlain, Recipe, Shape, make_recipe
from dragoman.models.description import WEIGHTS
from dragoman.models.stored import read_arrays

PAD = 0
DECODER, OTHER_DECODER = "decoder.", "right_to_left_decoder."
# What the drivers of graphics cards put there, those of NVIDIA, of AMD, and of Windows below Linux.
DRIVERS = ("/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia", "/dev/kfd", "/dev/dxg")


def open_light(directory: Path, config: ModelConfig, placement: Placement) -> tuple[NativeSearcher, str] | None:
    """Return what answers searches with the model of a directory, and why it runs so, in words; None if others decide.

    Args:
        directory: a model directory.
        config: what it says of its model.
        placement: what is asked for.
    """
    certain = placement.device == "cpu" or (placement.device == "auto" and has_no_accelerator())
    library = load_library()
    plain = config.family == "transformer" and config.positions != "relative"
    if not (certain and plain and placement.engine in ("auto", "native")):
        return None
    if isinstance(library, str):
        return None
    arrays = read_arrays(directory / WEIGHTS)
    if arrays is None:
        return None
    own = config.has_two_decoders
    try:
        recipe, right_to_left = (stored_recipe(config, some) for some in _by_direction(arrays, own=own))
    except NotPlain:
        return None
    chosen, why = native_precision(library, placement.precision)
    asked = "asked for" if placement.engine != "auto" else "its library is compiled"
    make_other = partial(NativeModel, right_to_left, chosen) if own else None
    return NativeSearcher(NativeModel(recipe, chosen), make_other), f"{asked}; {why}"


def _by_direction(weights: Mapping[str, Any], *, own: bool) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The weights that read from left to right and those that read from right to left, under the same names."""
    if not own:
        return weights, weights
    plain = {name: one for name, one in weights.items() if not name.startswith(OTHER_DECODER)}
    others = {
        DECODER + name.removeprefix(OTHER_DECODER): one
        for name, one in weights.items()
        if name.startswith(OTHER_DECODER)
    }
    return plain, {name: one for name, one in plain.items() if not name.startswith(DECODER)} | others


def has_no_accelerator() -> bool:
    """Whether there is certainly no device but the CPU: no driver of one, on Linux."""
    return sys.platform == "linux" and not any(os.path.exists(path) for path in DRIVERS)


def native_precision(library: Library, precision: str) -> tuple[str, str]:
    """The precision of the native engine: the one asked for, or the fastest; and why."""
    if precision != "auto":
        return precision, f"{precision} asked for"
    fastest = library.kernels[-1].name
    if fastest == "plain":
        return "float32", "float32, because this processor does not multiply bytes in its vector units"
    return "int8", f"int8, the fastest with {fastest}"


def stored_recipe(config: ModelConfig, weights: Mapping[str, Any]) -> Recipe[Any]:
    """The recipe of an encoder-decoder from its weights by name.

    Raises:
        NotPlain: the weights are not exactly those of the configuration.
    """
    config = config.with_paper_defaults()
    d_model, heads = config.d_model or 0, config.num_heads or 1
    pre_norm = config.norm == "pre"
    shape = Shape(
        d_model=d_model,
        d_ff=config.d_ff or 0,
        heads=heads,
        d_k=config.d_k or d_model // heads,
        d_v=config.d_v or d_model // heads,
        pre_norm=pre_norm,
        activation=config.activation,
        pad=PAD,
        scales=(math.sqrt(d_model), math.sqrt(d_model)),
        layouts=(config.positions, config.positions),
        layers=(config.num_encoder_layers or 0, config.num_decoder_layers or 0),
        ends=(pre_norm, pre_norm),
    )
    recipe = make_recipe(shape, weights, lambda _: config.norm_eps)
    _check_names(recipe, config, weights)
    return recipe


def _check_names(recipe: Recipe[Any], config: ModelConfig, weights: Mapping[str, Any]) -> None:
    """The biases that must be there are, sizes are those of the configuration, and nothing is left over."""
    assert recipe.source is not None
    assert recipe.encoder is not None
    biases, norms = [(recipe.generator.bias, config.generator_bias)], [recipe.encoder.end, recipe.decoder.end]
    for layer in recipe.layers():
        for attention in (layer.attention, layer.cross):
            if attention is not None:
                biases += [(attention.query.bias, config.bias), (attention.output.bias, config.bias)]
                norms.append(attention.norm)
        biases += [(layer.inner.bias, True), (layer.outer.bias, True)]
        norms.append(layer.norm)
    biases += [(one, True) for norm in norms if norm is not None for one in (norm.weight, norm.bias)]
    rows = {"source": recipe.source.rows, "target": recipe.target.rows, "generator": recipe.generator.weight}
    sizes = [rows[name].shape[0] for name in rows]
    # Queries, keys and values are one matrix; embeddings and generator have three more, or what is tied is there twice.
    matrices = sum((4 if layer.cross else 2) + 2 for layer in recipe.layers()) + len(rows)
    attention_biases = sum(4 if layer.cross else 2 for layer in recipe.layers()) if config.bias else 0
    others = 2 * sum(1 for _ in recipe.layers()) + config.generator_bias + 2 * sum(norm is not None for norm in norms)
    tied = {"none": set(), "decoder": {"target", "generator"}, "all": set(rows)}[config.tie_embeddings or "none"]
    fits = (
        all((bias is not None) == wanted for bias, wanted in biases)
        and sizes == [config.source_vocab, config.target_vocab, config.target_vocab]
        and len({rows[name].data_ptr() for name in tied}) <= 1
        and len(weights) == matrices + attention_biases + others
        and len(recipe.decoder.layers) > 0
    )
    if not fits:
        raise NotPlain("the weights are not those of the configuration")
