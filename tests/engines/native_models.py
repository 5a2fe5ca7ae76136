"""Small models for the tests of the native engine."""

from __future__ import annotations

import torch

from dragoman.config import ModelConfig
from dragoman.engines import NativeEngine
from dragoman.models import build_model
from dragoman.nn import CausalLM, Transformer

VOCAB = 23


def small_model(seed: int = 0, **changes: object) -> Transformer | CausalLM:
    """Random weights, sharp enough that outputs differ."""
    torch.manual_seed(seed)
    sizes: dict[str, object] = {
        "source_vocab": VOCAB, "target_vocab": VOCAB, "d_model": 16, "num_heads": 2, "d_ff": 24,
        "num_encoder_layers": 1, "num_decoder_layers": 2,
    }  # fmt: skip
    if changes.get("family") == "causal":
        sizes["source_vocab"] = None
    model = build_model(ModelConfig.from_dict({**sizes, **changes}))
    assert isinstance(model, (Transformer, CausalLM))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


def small_engine(seed: int = 0, precision: str = "float32", **changes: object) -> NativeEngine:
    return NativeEngine(small_model(seed, **changes), precision)
