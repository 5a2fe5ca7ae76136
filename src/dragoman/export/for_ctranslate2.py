"""A model as a directory of CTranslate2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from dragoman.engines.module import added_positions
from dragoman.errors import ConfigError
from dragoman.export.given import Given, array, bias_of, epsilon, norm_of, refuse
from dragoman.files import write_bytes
from dragoman.models.blueprint import Attention, Layer, Matrix, Norm, Stack, halves

NAME = "CTranslate2"
QUANTIZATIONS = ("float32", "int8", "int8_float32", "int8_float16", "int16", "float16", "bfloat16")


def check(given: Given) -> None:
    """Refuse a model that CTranslate2 cannot hold.

    Raises:
        ConfigError: says what it cannot hold.
    """
    shape, reasons = given.blueprint.shape, []
    if shape.cross_positions is not None:
        reasons.append(f"positions in cross-attention ({shape.cross_positions})")
    if shape.self_positions not in (None, "relative", "rotary"):
        reasons.append(f"{shape.self_positions} positions in an encoder")
    if shape.d_k != shape.d_v:
        reasons.append("heads whose values have another width than their keys (d_v is not d_k)")
    if not shape.pre_norm and any(stack.end for stack in (given.blueprint.encoder, given.blueprint.decoder) if stack):
        reasons.append("norms after the sublayers and one more at the end")
    if epsilon(given) is None:
        reasons.append("norms with different epsilons")
    refuse(given, NAME, reasons, "train with model.positions rotary, relative or interleaved, and equal widths")


def write(given: Given, directory: Path, quantization: str = "float32") -> None:
    """Write `model.bin`, `config.json`, the vocabularies, `source.spm` and `target.spm`.

    Raises:
        ConfigError: CTranslate2 is not installed, or cannot hold the model.
    """
    check(given)
    specs = _specs()
    blueprint, shape = given.blueprint, given.blueprint.shape
    assert blueprint.encoder is not None
    assert blueprint.decoder is not None
    activation = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}[shape.activation]
    common: dict[str, Any] = {
        "pre_norm": shape.pre_norm, "activation": getattr(specs.common_spec.Activation, activation),
        "relative_position": shape.self_positions == "relative", "head_dim": shape.d_k,
        "rotary_dim": 0 if shape.self_positions == "rotary" else None, "rotary_interleave": True,
    }  # fmt: skip
    stacks = (specs.transformer_spec.TransformerEncoderSpec, specs.transformer_spec.TransformerDecoderSpec)
    encoder, decoder = (
        kind(len(stack.layers), shape.heads, no_final_norm=stack.end is None, **common)
        for kind, stack in zip(stacks, (blueprint.encoder, blueprint.decoder), strict=True)
    )
    spec = specs.transformer_spec.TransformerSpec(encoder, decoder)
    for side, part, embedding in (("source", encoder, encoder.embeddings[0]), ("target", decoder, decoder.embeddings)):
        embedding.weight = given.rows[side == "target"]
        own = blueprint.source if side == "source" else blueprint.target
        assert own is not None
        part.scale_embeddings = np.float32(own.scale)
        if own.positions is not None:
            part.position_encodings.encodings = array(added_positions(given.model, side, 0, given.longest)).copy()
    _fill_stack(encoder, blueprint.encoder, shape)
    _fill_stack(decoder, blueprint.decoder, shape)
    _fill_matrix(decoder.projection, blueprint.generator)
    _finish(given, spec, directory, quantization)


def _finish(given: Given, spec: Any, directory: Path, quantization: str) -> None:
    specials = given.tokenizers.target.specials
    config, names = spec.config, given.target.names
    config.bos_token, config.eos_token = names[specials.bos], names[specials.eos]
    config.unk_token, config.decoder_start_token = names[specials.unk], names[specials.bos]
    config.add_source_eos = given.tokenizers.source.specials.ends_source
    config.layer_norm_epsilon = epsilon(given)
    spec.register_source_vocabulary(list(given.source.names))
    spec.register_target_vocabulary(list(given.target.names))
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(directory))
    write_bytes(directory / "source.spm", given.source.model)
    write_bytes(directory / "target.spm", given.target.model)


def _specs() -> Any:
    try:
        from ctranslate2 import specs
    except ImportError as error:
        hint = "pip install 'dragoman[interop]', or pip install ctranslate2"
        raise ConfigError(
            "exporting to CTranslate2 needs the package ctranslate2, which is not installed", hint=hint
        ) from error
    return specs


def _fill_stack(spec: Any, stack: Stack[Tensor], shape: Any) -> None:
    for one, layer in zip(spec.layer, stack.layers, strict=True):
        _fill_layer(one, layer, shape)
    if stack.end is not None:
        _fill_norm(spec.layer_norm, stack.end, shape.d_model)


def _fill_layer(spec: Any, layer: Layer[Tensor], shape: Any) -> None:
    own = spec.self_attention
    _fill_matrix(own.linear[0], layer.self_attention.projection)
    _fill_matrix(own.linear[1], layer.self_attention.output)
    _fill_norm(own.layer_norm, layer.self_attention_norm, shape.d_model)
    if layer.self_attention.distances is not None:
        own.relative_position_keys = array(layer.self_attention.distances)
        own.relative_position_values = np.zeros_like(own.relative_position_keys)
    if layer.cross_attention is not None:
        assert layer.cross_attention_norm is not None
        _fill_cross(spec.attention, layer.cross_attention, layer.cross_attention_norm, shape)
    _fill_matrix(spec.ffn.linear_0, layer.inner)
    _fill_matrix(spec.ffn.linear_1, layer.outer)
    _fill_norm(spec.ffn.layer_norm, layer.feed_forward_norm, shape.d_model)


def _fill_cross(spec: Any, attention: Attention[Tensor], norm: Norm[Tensor], shape: Any) -> None:
    queries, memory = halves(attention.projection, shape.heads * shape.d_k)
    for linear, matrix in zip(spec.linear, (queries, memory, attention.output), strict=True):
        _fill_matrix(linear, matrix)
    _fill_norm(spec.layer_norm, norm, shape.d_model)


def _fill_matrix(linear: Any, matrix: Matrix[Tensor]) -> None:
    linear.weight = array(matrix.weight)
    if matrix.bias is not None:
        linear.bias = bias_of(matrix)


def _fill_norm(spec: Any, norm: Norm[Tensor], d_model: int) -> None:
    spec.gamma, spec.beta = norm_of(norm, d_model)
