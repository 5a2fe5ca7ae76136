"""Sockeye's Transformer as plain formulas over its own names, one text at a time; and random directories of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
_STACK = """\
config_{stack}: !TransformerConfig
  act_type: {act}
  attention_heads: {heads}
  block_prepended_cross_attention: false
  decoder_type: transformer
  depth_key_value: {width}
  dropout_act: 0.1
  dropout_attention: 0.1
  dropout_prepost: 0.1
  feed_forward_num_hidden: {inner}
  max_seq_len_source: 96
  max_seq_len_target: 96
  model_size: {width}
  num_layers: {layers}
  positional_embedding_type: fixed
  postprocess_sequence: {after}
  preprocess_sequence: '{before}'
  use_glu: false
  use_lhuc: false
"""
_EMBEDDING = """\
config_embed_{side}: !EmbeddingConfig
  allow_sparse_grad: false
  dropout: 0.0
  factor_configs: null
  num_embed: {width}
  num_factors: 1
  vocab_size: {rows}
"""
_DATA = """\
!ModelConfig
config_data: !DataConfig
  data_statistics: !DataStatistics
    buckets:
    - !!python/tuple
      - 16
      - 16
    length_ratio_mean: 1.0
    length_ratio_std: 0.0
    num_sents: 10
  eop_id: -1
  max_seq_len_source: 96
  max_seq_len_target: 96
  num_source_factors: 1
  num_target_factors: 1
config_length_task: null
dtype: float32
lhuc: false
neural_vocab_selection: null
neural_vocab_selection_block_loss: false
weight_tying_type: src_trg_softmax
"""


def options(**changes: Any) -> dict[str, Any]:
    """What a model is made of; `rows` are those of both vocabularies, `layers` those of both stacks."""
    return {"width": 16, "heads": 2, "inner": 24, "layers": (2, 1), "rows": (20, 24), "act": "relu", "before": "n",
            "after": "dr", **changes}  # fmt: skip


def config(made: dict[str, Any]) -> str:
    """The file `config`, as Sockeye writes it."""
    text = _DATA
    for stack, layers in zip(("encoder", "decoder"), made["layers"], strict=True):
        text += _STACK.format(stack=stack, **{**made, "layers": layers})
    for side, rows in zip(("source", "target"), made["rows"], strict=True):
        text += _EMBEDDING.format(side=side, width=made["width"], rows=rows) + f"vocab_{side}_size: {rows}\n"
    return text


def random_state(made: dict[str, Any], seed: int, *, end: float = 0.0) -> dict[str, Tensor]:
    """Tensors by their names; `<pad>` and `<s>` are unlikely, as in any trained model, and `</s>` as is said."""
    width, inner = made["width"], made["inner"]
    shapes: dict[str, tuple[int, ...]] = {
        f"embedding_{side}.embedding.weight": (rows, width)
        for side, rows in zip(("source", "target"), made["rows"], strict=True)
    }
    shapes |= {"output_layer.weight": (made["rows"][1], width), "output_layer.bias": made["rows"][1:]}
    place = "pre" if made["before"] else "post"
    for stack, layers in zip(("encoder", "decoder"), made["layers"], strict=True):
        own = "self_attention" if stack == "encoder" else "autoregr_layer"
        for layer in range(layers):
            start = f"{stack}.layers.{layer}"
            shapes |= {f"{start}.{own}.ff_in.weight": (3 * width, width),
                       f"{start}.{own}.ff_out.weight": (width, width),
                       f"{start}.ff.ff1.weight": (inner, width), f"{start}.ff.ff1.bias": (inner,),
                       f"{start}.ff.ff2.weight": (width, inner), f"{start}.ff.ff2.bias": (width,)}  # fmt: skip
            norms = [own, "ff"]
            if stack == "decoder":
                norms.append("enc_attention")
                shapes |= {f"{start}.enc_attention.ff_q.weight": (width, width),
                           f"{start}.enc_attention.ff_kv.weight": (2 * width, width),
                           f"{start}.enc_attention.ff_out.weight": (width, width)}  # fmt: skip
            shapes |= {f"{start}.{place}_{norm}.layer_norm.{one}": (width,) for norm in norms
                       for one in ("weight", "bias")}  # fmt: skip
        if made["before"]:
            shapes |= {f"{stack}.final_process.layer_norm.{one}": (width,) for one in ("weight", "bias")}
    draw = torch.Generator().manual_seed(seed)
    state = {name: torch.randn(*shape, generator=draw) * 0.4 + (len(shape) == 1 and name.endswith("norm.weight"))
             for name, shape in shapes.items()}  # fmt: skip
    state["output_layer.bias"][[0, 2]] = -60.0
    state["output_layer.bias"][3] += end
    return state | {f"{stack}.pos_embedding.weight": table(width, 96) for stack in ("encoder", "decoder")}


def table(width: int, length: int) -> Tensor:
    """The sinusoids that are added to embeddings: all sines, then all cosines."""
    angle = torch.arange(length)[:, None] / 10000.0 ** (2 * torch.arange(width // 2) / width)
    return torch.hstack([angle.sin(), angle.cos()])


def save(folder: Path, made: dict[str, Any], state: dict[str, Tensor]) -> list[list[str]]:
    """Write a directory, with the tensors as safetensors, and return the tokens of both sides."""
    folder.mkdir()
    save_file(state, folder / "model.safetensors")
    (folder / "config").write_text(config(made))
    sides = []
    for name, rows in zip(("src", "trg"), made["rows"], strict=True):
        sides.append([*SPECIALS, *(f"w{number}" for number in range(rows - 4))])
        tokens = {token: number for number, token in enumerate(sides[-1])}
        (folder / f"vocab.{name}.0.json").write_text(json.dumps(tokens, indent=4))
    return sides


class Model:
    """The model of a state, in float64."""

    def __init__(self, state: dict[str, Tensor], made: dict[str, Any]) -> None:
        self.state, self.made = {name: tensor.double() for name, tensor in state.items()}, made

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        """Return logits `[tgt, vocab]` after each token of a target, `<s>` first, for a source with its `</s>`."""
        memory = self._embedded("source", source)
        for layer in range(self.made["layers"][0]):
            place = f"encoder.layers.{layer}"
            memory = self._around(place, "self_attention", memory, lambda x, at=place: self._self(
                f"{at}.self_attention", x))  # fmt: skip
            memory = self._around(place, "ff", memory, lambda x, at=place: self._feed(at, x))
        memory = self._norm("encoder.final_process", memory)
        y = self._embedded("target", target)
        for layer in range(self.made["layers"][1]):
            place = f"decoder.layers.{layer}"
            y = self._around(place, "autoregr_layer", y, lambda x, at=place: self._self(
                f"{at}.autoregr_layer", x, causal=True))  # fmt: skip
            y = self._around(
                place, "enc_attention", y, lambda x, at=place: self._cross(f"{at}.enc_attention", x, memory)
            )
            y = self._around(place, "ff", y, lambda x, at=place: self._feed(at, x))
        y = self._norm("decoder.final_process", y)
        return y @ self.state["output_layer.weight"].T + self.state["output_layer.bias"]

    def beam(self, source: list[int], size: int, limit: int) -> tuple[list[int], float]:
        """Return the best output of a beam, none of whose outputs ends before the limit, and its mean score."""
        live = [(0.0, [2])]
        for _ in range(limit):
            found = []
            for total, tokens in live:
                scores = self.logits(source, tokens)[-1].log_softmax(-1)
                found += [(total + float(score), [*tokens, token]) for token, score in enumerate(scores)]
            live = sorted(found, key=lambda one: -one[0])[:size]
        assert not any(3 in tokens for _, tokens in live)
        ended = [(total + float(self.logits(source, tokens)[-1].log_softmax(-1)[3]), tokens) for total, tokens in live]
        total, tokens = max(ended, key=lambda one: one[0])
        return tokens[1:], total / (limit + 1)

    def _embedded(self, side: str, ids: list[int]) -> Tensor:
        x = self.state[f"embedding_{side}.embedding.weight"][ids]
        return x * math.sqrt(x.shape[1]) + table(self.made["width"], len(ids)).double()

    def _around(self, place: str, name: str, x: Tensor, what: Any) -> Tensor:
        """A sub-layer between what is done before it and after it."""
        return self._norm(f"{place}.post_{name}", x + what(self._norm(f"{place}.pre_{name}", x)))

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight = self.state.get(f"{name}.layer_norm.weight")
        if weight is None:
            return x
        x = x - x.mean(-1, keepdim=True)
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight + self.state[f"{name}.layer_norm.bias"]

    def _feed(self, place: str, x: Tensor) -> Tensor:
        act = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "swish1": torch.nn.functional.silu}
        inner = x @ self.state[f"{place}.ff.ff1.weight"].T + self.state[f"{place}.ff.ff1.bias"]
        return (
            act[self.made["act"]](inner) @ self.state[f"{place}.ff.ff2.weight"].T + self.state[f"{place}.ff.ff2.bias"]
        )

    def _self(self, name: str, x: Tensor, *, causal: bool = False) -> Tensor:
        width = self.made["width"]
        query, both = (x @ self.state[f"{name}.ff_in.weight"].T).split([width, 2 * width], 1)
        return self._attend(name, query, both, causal=causal)

    def _cross(self, name: str, x: Tensor, memory: Tensor) -> Tensor:
        query, both = x @ self.state[f"{name}.ff_q.weight"].T, memory @ self.state[f"{name}.ff_kv.weight"].T
        return self._attend(name, query, both, causal=False)

    def _attend(self, name: str, query: Tensor, both: Tensor, *, causal: bool) -> Tensor:
        """Attention, where the columns of keys and of values take turns from head to head."""
        heads = self.made["heads"]
        query = query.unflatten(1, (heads, -1)).transpose(0, 1)
        keys, values = both.unflatten(1, (heads, 2, -1)).permute(2, 1, 0, 3)
        scores = query @ keys.transpose(1, 2) / math.sqrt(query.shape[2])
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -math.inf)
        return (scores.softmax(-1) @ values).transpose(0, 1).flatten(1) @ self.state[f"{name}.ff_out.weight"].T
