"""A model of this toolkit as a CTranslate2 model, through CTranslate2's own description of a Transformer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ctranslate2  # pyrefly: ignore[missing-import]
import numpy as np
from peers_formats import refusal, sinusoids
from safetensors.numpy import load_file

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
LONGEST = 4096
Weights = dict[str, np.ndarray]


def convert(source: Path, target: Path, pieces: list[list[str]] | None = None, quantization: str | None = None) -> None:
    """Write `target` unless it is there. Of a model that reads both ways, the direction from left to right.

    Args:
        source: a directory with `config.json` and `model.safetensors`.
        target: the directory to make.
        pieces: entries of the source and the target vocabulary; `<pad> <unk> <s> </s> 4 5 …` if not given.
        quantization: of the weights on disk, e.g. `int8`.

    Raises:
        ValueError: the format cannot say what the model is.
    """
    if (target / "model.bin").exists():
        return
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))["model"]
    weights = load_file(source / "model.safetensors")
    if reason := refusal(config):
        raise ValueError(f"CTranslate2's format cannot say what this model is: {reason}")
    spec = _specification(config)
    for stack in ("encoder", "decoder"):
        _stack(getattr(spec, stack), weights, stack, config)
    spec.decoder.projection.weight = _of(weights, "generator.weight", "target_embedding.tokens.weight")
    if "generator.bias" in weights:
        spec.decoder.projection.bias = weights["generator.bias"]
    sizes = (config["source_vocab"], config["target_vocab"])
    source_pieces, target_pieces = pieces or [
        [*SPECIALS, *(str(index) for index in range(len(SPECIALS), size))] for size in sizes
    ]
    spec.register_source_vocabulary(source_pieces)
    spec.register_target_vocabulary(target_pieces)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
    spec.config.decoder_start_token = "<s>"
    spec.config.layer_norm_epsilon = config["norm_eps"]
    spec.validate()
    spec.optimize(quantization=quantization)
    target.mkdir(parents=True, exist_ok=True)
    spec.save(str(target))


def _specification(config: Mapping[str, Any]) -> Any:
    """The parts, empty."""
    specs = ctranslate2.specs.transformer_spec
    kinds = ctranslate2.specs.common_spec.Activation
    activations = {"relu": kinds.RELU, "gelu": kinds.GELU, "silu": kinds.SWISH}
    options: dict[str, Any] = {
        "pre_norm": config["norm"] == "pre",
        "activation": activations[config["activation"]],
    }
    rotary = config["positions"] == "rotary"
    if rotary:  # 0: all columns of a head, in pairs of neighbours
        options |= {"rotary_dim": 0, "rotary_interleave": True}
    encoder = specs.TransformerEncoderSpec(config["num_encoder_layers"], config["num_heads"], **options)
    decoder = specs.TransformerDecoderSpec(config["num_decoder_layers"], config["num_heads"], **options)
    if rotary:
        del encoder.position_encodings
    return specs.TransformerSpec(encoder, decoder)


def _of(weights: Weights, *names: str) -> np.ndarray:
    return next(weights[name] for name in names if name in weights)


def _stack(spec: Any, weights: Weights, stack: str, config: dict[str, Any]) -> None:
    side = "source" if stack == "encoder" else "target"
    names = [f"{side}_embedding.tokens.weight", "target_embedding.tokens.weight", "generator.weight"]
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embeddings.weight = _of(weights, *names)
    spec.scale_embeddings = True
    if config["positions"] != "rotary":
        spec.position_encodings.encodings = sinusoids(LONGEST, config["d_model"], config["positions"])
    if config["norm"] == "pre":
        _norm(spec.layer_norm, weights, f"{stack}.norm")
    for index, layer in enumerate(spec.layer):
        name = f"{stack}.layers.{index}"
        _attention(layer.self_attention, weights, f"{name}.self_attention")
        if stack == "decoder":
            _attention(layer.attention, weights, f"{name}.cross_attention")
        _linear(layer.ffn.linear_0, weights, f"{name}.feed_forward.inner")
        _linear(layer.ffn.linear_1, weights, f"{name}.feed_forward.outer")
        _norm(layer.ffn.layer_norm, weights, f"{name}.feed_forward_residual.norm")


def _attention(spec: Any, weights: Weights, name: str) -> None:
    matrix, offset = weights[f"{name}.projection.weight"], weights.get(f"{name}.projection.bias")
    # The same rows q, k, v here and there; attention to the memory has q apart.
    rows = len(matrix) // 3
    parts = [slice(None)] if name.endswith("self_attention") else [slice(rows), slice(rows, None)]
    for linear, part in zip(spec.linear, parts, strict=False):
        linear.weight = np.ascontiguousarray(matrix[part])
        if offset is not None:
            linear.bias = np.ascontiguousarray(offset[part])
    _linear(spec.linear[-1], weights, f"{name}.output")
    _norm(spec.layer_norm, weights, f"{name}_residual.norm")


def _linear(spec: Any, weights: Weights, name: str) -> None:
    spec.weight = weights[f"{name}.weight"]
    if f"{name}.bias" in weights:
        spec.bias = weights[f"{name}.bias"]


def _norm(spec: Any, weights: Weights, name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
