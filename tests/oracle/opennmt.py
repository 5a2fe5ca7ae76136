"""OpenNMT-py's Transformer as plain formulas over its own names, one text at a time; and random checkpoints of it."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

PAD, UNK, BOS, EOS = "<blank>", "<unk>", "<s>", "</s>"


def options(**changes: Any) -> dict[str, Any]:
    """The options of a checkpoint, some of training among them."""
    return {
        "model_task": "seq2seq", "model_type": "text", "encoder_type": "transformer", "decoder_type": "transformer",
        "enc_layers": 2, "dec_layers": 1, "layers": -1, "hidden_size": 16, "word_vec_size": 16, "heads": 2,
        "transformer_ff": 24, "position_encoding": True, "position_encoding_type": "SinusoidalInterleaved",
        "max_relative_positions": 0, "pos_ffn_activation_fn": "relu", "layer_norm": "standard", "norm_eps": 1e-6,
        "self_attn_type": "scaled-dot", "dropout": [0.3, 0.1], "attention_dropout": [0.1], "copy_attn": False,
        "decoder_start_token": BOS, "learning_rate": 2.0, "train_steps": 9, "src_vocab": "somewhere/src.vocab",
        "transforms": [], **changes,
    }  # fmt: skip


def table(opt: dict[str, Any], length: int) -> Tensor:
    """The sinusoids that are added to embeddings."""
    width = opt["hidden_size"]
    place = torch.arange(length, dtype=torch.float32)[:, None]
    if opt["position_encoding_type"] == "SinusoidalInterleaved":
        angle = place * torch.exp(torch.arange(0, width, 2).float() * -(math.log(10000.0) / width))
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    angle = place * torch.exp(torch.arange(width // 2).float() * -(math.log(10000.0) / (width // 2 - 1)))
    return torch.cat([angle.sin(), angle.cos()], 1)


def random_state(opt: dict[str, Any], sizes: tuple[int, int], seed: int, *, biases: bool = False) -> dict[str, Tensor]:
    """Tensors by their names; `<blank>` and `<s>` are unlikely, as in any trained model."""
    width, inner = opt["hidden_size"], opt["transformer_ff"]
    shapes: dict[str, tuple[int, ...]] = {"generator.weight": (sizes[1], width), "generator.bias": (sizes[1],)}
    decoder = "decoder.transformer_layers", ["self_attn", "context_attn"], ["layer_norm_1", "layer_norm_2"], "dec"
    for place, kinds, norms, side in (("encoder.transformer", ["self_attn"], ["layer_norm"], "enc"), decoder):
        stack = place.partition(".")[0]
        shapes[f"{stack}.embeddings.make_embedding.emb_luts.0.weight"] = (sizes[stack == "decoder"], width)
        for layer in range(opt[f"{side}_layers"]):
            start = f"{place}.{layer}"
            maps = {f"{kind}.{one}": (width, width) for kind in kinds
                    for one in ("linear_query", "linear_keys", "linear_values", "final_linear")}  # fmt: skip
            maps |= {"feed_forward.w_1": (inner, width), "feed_forward.w_2": (width, inner)}
            for name, shape in maps.items():
                shapes[f"{start}.{name}.weight"] = shape
                shapes |= {f"{start}.{name}.bias": shape[:1]} if biases else {}
            for norm in (*norms, "feed_forward.layer_norm"):
                shapes |= {f"{start}.{norm}.{one}": (width,) for one in ("weight", "bias")}
        shapes |= {f"{stack}.layer_norm.{one}": (width,) for one in ("weight", "bias")}
    draw = torch.Generator().manual_seed(seed)
    state = {name: torch.randn(*shape, generator=draw) * 0.4 + (len(shape) == 1 and name.endswith("norm.weight"))
             for name, shape in shapes.items()}  # fmt: skip
    state["generator.bias"][1:3] = -60.0
    if opt["position_encoding"]:
        state |= {f"{stack}.embeddings.make_embedding.pe.pe": table(opt, 100)[:, None].clone()
                  for stack in ("encoder", "decoder")}  # fmt: skip
    return state


def save(folder: Path, opt: dict[str, Any], vocab: dict[str, Any], state: dict[str, Tensor]) -> None:
    """Write the two files that the documentation makes of a checkpoint."""
    folder.mkdir()
    save_file(state, folder / "model.safetensors")
    (folder / "opennmt.json").write_text(json.dumps({"opt": opt, "vocab": vocab}))


def save_pickled(file: Path, opt: dict[str, Any], vocab: dict[str, Any], state: dict[str, Tensor]) -> None:
    """Write a checkpoint as OpenNMT-py does."""
    apart = {True: {}, False: {}}
    for name, tensor in state.items():
        apart[name.startswith("generator.")][name.removeprefix("generator.")] = tensor
    whole = {"model": apart[False], "generator": apart[True], "vocab": vocab, "opt": argparse.Namespace(**opt),
             "optim": {"training_step": 9}}  # fmt: skip
    torch.save(whole, file)  # noqa: TID251


class Model:
    """The model of a state, in float64."""

    def __init__(self, state: dict[str, Tensor], opt: dict[str, Any]) -> None:
        self.state, self.opt = {name: tensor.double() for name, tensor in state.items()}, opt

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        """Return logits `[tgt, vocab]` after each token of a target, `<s>` first, for a source."""
        memory = self._embedded("encoder", source)
        for layer in range(self.opt["enc_layers"]):
            place = f"encoder.transformer.{layer}"
            x = self._norm(f"{place}.layer_norm", memory)
            memory = self._feed(place, memory + self._attend(f"{place}.self_attn", x, x))
        memory = self._norm("encoder.layer_norm", memory)
        y = self._embedded("decoder", target)
        for layer in range(self.opt["dec_layers"]):
            place = f"decoder.transformer_layers.{layer}"
            x = self._norm(f"{place}.layer_norm_1", y)
            y = y + self._attend(f"{place}.self_attn", x, x, causal=True)
            y = y + self._attend(f"{place}.context_attn", self._norm(f"{place}.layer_norm_2", y), memory)
            y = self._feed(place, y)
        return self._map("generator", self._norm("decoder.layer_norm", y))

    def greedy(self, source: list[int], limit: int, start: int, end: int) -> list[int]:
        """Return the tokens of a greedy output."""
        found = [start]
        while len(found) <= limit:
            found.append(int(self.logits(source, found)[-1].argmax()))
            if found[-1] == end:
                return found[1:-1]
        return found[1:]

    def _embedded(self, stack: str, ids: list[int]) -> Tensor:
        x = self.state[f"{stack}.embeddings.make_embedding.emb_luts.0.weight"][ids]
        if not self.opt["position_encoding"]:
            return x
        return x * math.sqrt(x.shape[1]) + table(self.opt, len(ids)).double()

    def _map(self, name: str, x: Tensor) -> Tensor:
        return x @ self.state[f"{name}.weight"].T + self.state.get(f"{name}.bias", torch.zeros(()))

    def _norm(self, name: str, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.pow(2).mean(-1, keepdim=True) + self.opt["norm_eps"]).sqrt()
        return x * self.state[f"{name}.weight"] + self.state[f"{name}.bias"]

    def _feed(self, place: str, x: Tensor) -> Tensor:
        inner = self._map(f"{place}.feed_forward.w_1", self._norm(f"{place}.feed_forward.layer_norm", x))
        act = torch.relu if self.opt["pos_ffn_activation_fn"] == "relu" else torch.nn.functional.gelu
        return x + self._map(f"{place}.feed_forward.w_2", act(inner))

    def _attend(self, name: str, x: Tensor, seen: Tensor, *, causal: bool = False) -> Tensor:
        heads = self.opt["heads"]
        query, key, value = (self._map(f"{name}.linear_{one}", of).unflatten(1, (heads, -1)).transpose(0, 1)
                             for one, of in (("query", x), ("keys", seen), ("values", seen)))  # fmt: skip
        if self.opt["max_relative_positions"] == -1 and name.endswith("self_attn"):
            query, key = self._rotated(query), self._rotated(key)
        scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[2])
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -math.inf)
        return self._map(f"{name}.final_linear", (scores.softmax(-1) @ value).transpose(0, 1).flatten(1))

    def _rotated(self, x: Tensor) -> Tensor:
        """Each pair of columns turned by its place: neighbours, or one of each half."""
        half = x.shape[2] // 2
        angle = torch.arange(x.shape[1])[:, None] / 10000.0 ** (torch.arange(half) / half)
        turn = torch.complex(angle.cos(), angle.sin()).to(torch.complex128)
        if self.opt["rotary_interleave"]:
            pairs = x.unflatten(2, (half, 2))
            return torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn).flatten(2)
        turned = torch.complex(x[..., :half], x[..., half:]) * turn
        return torch.cat([turned.real, turned.imag], 2)
