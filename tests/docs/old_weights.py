"""Files as the keepers of old checkpoints have them, with small random weights, for the page that loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from torch import Tensor, nn

from dragoman.profiles import annotated, jadore
from oracle.lsdefine import Model

VOCAB, WIDTH = 23, 16


def write_all(folder: Path) -> None:
    """Every file that the page names."""
    save_file(annotated.initial_weights(VOCAB, VOCAB, N=1, d_model=WIDTH, d_ff=8), folder / "annotated.safetensors")
    state = jadore.initial_weights(VOCAB, VOCAB, d_model=WIDTH, d_inner=8, n_layers=1, n_head=8, d_k=2, d_v=2)
    save_file(state, folder / "jadore.safetensors")
    keras = Model(np.random.default_rng(0), VOCAB, VOCAB, 9, WIDTH, 8, 4, 1)
    save_arrays(dict(keras.state), folder / "lsdefine.safetensors")
    parts = {f"W_{part}.{kind}": shape for part in "qkvo" for kind, shape in (("weight", (16, 16)), ("bias", (16,)))}
    save_file(drawn(parts), folder / "attention.safetensors")
    save_file(d2l_state(), folder / "d2l.safetensors")
    save_file(torch_nn_state(), folder / "model.safetensors")
    (folder / "opus-mt").mkdir()
    save_file(marian_state(), folder / "opus-mt" / "model.safetensors")


def drawn(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def d2l_state() -> dict[str, Tensor]:
    """In the names of the English PyTorch edition."""
    shapes: dict[str, tuple[int, ...]] = {f"{side}.embedding.weight": (VOCAB, WIDTH) for side in ("encoder", "decoder")}
    shapes |= {"decoder.dense.weight": (VOCAB, WIDTH), "decoder.dense.bias": (VOCAB,)}
    for side, attentions in (("encoder", ["attention"]), ("decoder", ["attention1", "attention2"])):
        block = f"{side}.blks.block0"
        shapes |= {
            f"{block}.{attention}.W_{part}.weight": (WIDTH, WIDTH) for attention in attentions for part in "qkvo"
        }
        for number, (outer, inner) in enumerate(((8, WIDTH), (WIDTH, 8)), 1):
            shapes |= {f"{block}.ffn.dense{number}.weight": (outer, inner), f"{block}.ffn.dense{number}.bias": (outer,)}
        for number in range(1, len(attentions) + 2):
            shapes |= {f"{block}.addnorm{number}.ln.{kind}": (WIDTH,) for kind in ("weight", "bias")}
    return drawn(shapes)


def torch_nn_state() -> dict[str, Tensor]:
    """Of a model around `torch.nn.Transformer` with names of its own."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 8, 8), 1, nn.LayerNorm(WIDTH), False)
    parts: dict[str, Any] = {"core": nn.Transformer(WIDTH, 8, 1, 1, 8, custom_encoder=encoder)}
    parts |= {"words_in": nn.Embedding(VOCAB, WIDTH), "words_out": nn.Embedding(VOCAB, WIDTH)}
    return dict(nn.ModuleDict({**parts, "head": nn.Linear(WIDTH, VOCAB)}).state_dict())


def marian_state() -> dict[str, Tensor]:
    """As `MarianMTModel.save_pretrained` writes it: tied tables once, no tables of positions."""
    shapes: dict[str, tuple[int, ...]] = {"model.shared.weight": (VOCAB, WIDTH), "final_logits_bias": (1, VOCAB)}
    for side, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        layer = f"model.{side}.layers.0"
        linears = {f"{attention}.{part}_proj": (WIDTH, WIDTH) for attention in attentions for part in "kvq"}
        linears |= {f"{attention}.out_proj": (WIDTH, WIDTH) for attention in attentions}
        linears |= {"fc1": (8, WIDTH), "fc2": (WIDTH, 8)}
        for name, shape in linears.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        for name in (*(f"{attention}_layer_norm" for attention in attentions), "final_layer_norm"):
            shapes |= {f"{layer}.{name}.{part}": (WIDTH,) for part in ("weight", "bias")}
    return drawn(shapes)
