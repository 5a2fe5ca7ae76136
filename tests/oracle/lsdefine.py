"""Lsdefine's Keras Transformer in plain NumPy, in a toy Keras that numbers layers and remembers the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(eq=False)
class Layer:
    name: str = ""
    weights: dict[str, Array] = field(default_factory=dict)

    def __call__(self, function: Callable[..., Array], *inputs: Node) -> Node:
        return Node(self, inputs, function(*(node.value for node in inputs)))


@dataclass(eq=False)
class Node:
    layer: Layer
    inputs: tuple[Node, ...]
    value: Array


def once(function: Callable[..., Array], *inputs: Node) -> Node:
    """A Lambda, Add, Activation …: a layer without weights that is called once."""
    return Layer()(function, *inputs)


def layers_of(output: Node) -> list[Layer]:
    """The order of `Model.layers`: by depth; the layers of a depth in the order they are met from the output."""
    met: list[Layer] = []
    finished: list[Node] = []

    def visit(node: Node) -> None:
        if node in finished:
            return
        if node.layer not in met:
            met.append(node.layer)
        for source in node.inputs:
            visit(source)
        finished.append(node)

    visit(output)
    node_depth: dict[Node, int] = {}
    layer_depth: dict[Layer, int] = {}
    for node in reversed(finished):
        depth = max(node_depth.get(node, 0), layer_depth.get(node.layer, 0))
        node_depth[node] = layer_depth[node.layer] = depth
        for source in node.inputs:
            node_depth[source] = max(node_depth.get(source, 0), depth + 1)
    return sorted(met, key=lambda layer: -layer_depth[layer])  # stable: ties stay as met


def position_table(length: int, width: int) -> Array:
    table = np.zeros((length, width))
    for position in range(1, length):
        for column in range(width):
            angle = position / 10000 ** (2 * (column // 2) / width)
            table[position, column] = np.cos(angle) if column % 2 else np.sin(angle)
    return table


def softmax(x: Array) -> Array:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


class Model:
    """Random weights under Keras's names (numbered from `first`, the number 0 unwritten), and the forward pass."""

    def __init__(
        self, rng: Any, i_tokens: int, o_tokens: int, len_limit: int, d_model: int, d_inner: int, heads: int,
        layers: int, *, mode: int = 0, share: bool = False, first: int = 1,
    ) -> None:  # fmt: skip
        self.rng, self.d_model, self.d_inner, self.heads, self.mode, self.first = (
            rng, d_model, d_inner, heads, mode, first
        )  # fmt: skip
        self.counts: dict[str, int] = {}
        self.state: dict[str, Array] = {}
        table = position_table(len_limit, d_model)
        self.positions = self.layer("embedding", embeddings=table)
        self.i_words = self.layer("embedding", embeddings=(i_tokens, d_model))
        self.o_words = self.i_words if share else self.layer("embedding", embeddings=(o_tokens, d_model))
        self.encoder = [self.block(1) for _ in range(layers)]
        self.decoder = [self.block(2) for _ in range(layers)]
        self.target = self.timed(d_model, o_tokens, bias=False)

    def layer(self, kind: str, **entries: Any) -> Layer:
        number = self.counts.get(kind, self.first)
        self.counts[kind] = number + 1
        name = f"{kind}_{number}" if number else kind
        arrays = {
            entry: self.fresh(entry, shape) if isinstance(shape, tuple) else shape for entry, shape in entries.items()
        }
        self.state |= {f"{name}/{entry}:0": array for entry, array in arrays.items()}
        return Layer(name, arrays)

    def fresh(self, entry: str, shape: tuple[int, ...]) -> Array:
        """Random numbers that keep the size of what goes through: offsets about 0, gains about 1."""
        spread = shape[-2] ** -0.5 if entry == "kernel" else 0.4
        return self.rng.normal(size=shape) * spread + (entry == "gamma")

    def timed(self, inner: int, outer: int, bias: bool) -> Layer:
        self.counts["dense"] = self.counts.get("dense", self.first) + 1  # the Dense inside takes a number too
        return self.layer("time_distributed", kernel=(inner, outer), **({"bias": (outer,)} if bias else {}))

    def attention(self) -> dict[str, Any]:
        d_model, d_k = self.d_model, self.d_model // self.heads
        if self.mode == 0:
            made = {part: [self.layer("dense", kernel=(d_model, d_model))] for part in "qkv"}
        else:
            made = {part: [] for part in "qkv"}
            for _ in range(self.heads):
                for part in "qkv":
                    made[part].append(self.timed(d_model, d_k, bias=False))
        return {**made, "dropout": Layer(), "o": self.timed(d_model, d_model, bias=True)}

    def norm(self) -> Layer:
        return self.layer("layer_normalization", gamma=(self.d_model,), beta=(self.d_model,))

    def block(self, attentions: int) -> dict[str, Any]:
        return {
            "attentions": [self.attention() for _ in range(attentions)],
            "w_1": self.layer("conv1d", kernel=(1, self.d_model, self.d_inner), bias=(self.d_inner,)),
            "w_2": self.layer("conv1d", kernel=(1, self.d_inner, self.d_model), bias=(self.d_model,)),
            "ffn_norm": self.norm(),
            "norms": [self.norm() for _ in range(attentions)],
        }

    def run(self, source: Array, target: Array, *, misaligned: bool = False) -> dict[str, Array]:
        """Everything computed for a batch, by the names `dragoman` gives it; `target` is the decoder's input."""
        self.misaligned, self.seen = misaligned, {}
        src, tgt_in = Layer()(lambda: source), Layer()(lambda: target)
        tgt = once(lambda ids: ids, tgt_in)  # their slice [:, :-1]
        add = Layer()
        source_words, target_words = lookup(self.i_words, src), lookup(self.o_words, tgt)
        x = add(np.add, source_words, lookup(self.positions, once(places, src)))
        y = add(np.add, target_words, lookup(self.positions, once(places, tgt)))
        x = once(lambda v: v, x)  # dropout
        mask = once(lambda ids: (ids > 0).astype(float)[:, None, :], src)
        for i, block in enumerate(self.encoder):
            x = self.feed(block, self.attend(block, 0, x, x, mask, f"encoder.layers.{i}.self_attention"))
            self.seen[f"encoder.layers.{i}"] = x.value
        pads = once(lambda ids: np.ones((*ids.shape, 1)) * (ids != 0)[:, None, :], tgt)
        below = once(lambda ids: np.broadcast_to(np.tri(ids.shape[1]), (len(ids), ids.shape[1], ids.shape[1])), tgt)
        self_mask = once(np.minimum, pads, below)
        cross_mask = once(lambda q, k: np.ones((*q.shape, 1)) * (k != 0)[:, None, :], tgt, src)
        for i, block in enumerate(self.decoder):
            y = self.attend(block, 0, y, y, self_mask, f"decoder.layers.{i}.self_attention")
            y = self.attend(block, 1, y, x, cross_mask, f"decoder.layers.{i}.cross_attention")
            y = self.feed(block, y)
            self.seen[f"decoder.layers.{i}"] = y.value
        self.output = self.target(lambda v: v @ self.target.weights["kernel"], y)
        return {**self.seen, "memory": x.value, "logits": self.output.value}

    def following(self, source: Array, prefixes: Array, *, misaligned: bool = False) -> Array:
        """Logits after prefixes of one length, everything again: all tokens at their places, only the future hidden."""
        self.misaligned, self.seen = misaligned, {}
        src, length = Layer()(lambda: source), prefixes.shape[1]
        x = once(np.add, lookup(self.i_words, src), lookup(self.positions, once(places, src)))
        mask = once(lambda ids: (ids > 0).astype(float)[:, None, :], src)
        for i, block in enumerate(self.encoder):
            x = self.feed(block, self.attend(block, 0, x, x, mask, f"encoder.layers.{i}.self_attention"))
        table = self.positions.weights["embeddings"][1 : length + 1]
        y = once(lambda words: words + table, lookup(self.o_words, Layer()(lambda: prefixes)))
        below = Layer()(lambda: np.broadcast_to(np.tri(length), (len(source), length, length)))
        for block in self.decoder:
            y = self.attend(block, 0, y, y, below, "")
            y = self.feed(block, self.attend(block, 1, y, x, mask, ""))
        return y.value[:, -1] @ self.target.weights["kernel"]

    def get_weights(self) -> list[Array]:
        """In the order of the graph that a run leaves."""
        self.run(np.array([[2]]), np.array([[2]]))
        return [array for layer in layers_of(self.output) for array in layer.weights.values()]

    def attend(self, block: dict[str, Any], which: int, query: Node, memory: Node, mask: Node, name: str) -> Node:
        made = block["attentions"][which]
        mixed, self.seen[name] = (self.big if self.mode == 0 else self.small)(made, query, memory, mask)
        output = made["o"](lambda v: v @ made["o"].weights["kernel"] + made["o"].weights["bias"], mixed)
        added = once(np.add, query, once(lambda v: v, output))  # dropout, Add
        return normalise(block["norms"][which], added)

    def big(self, made: dict[str, Any], query: Node, memory: Node, mask: Node) -> tuple[Node, Array]:
        heads, batch = self.heads, len(query.value)

        def split(x: Array) -> Array:
            return x.reshape(*x.shape[:2], heads, -1).transpose(2, 0, 1, 3).reshape(heads * batch, x.shape[1], -1)

        def repeat(x: Array) -> Array:
            return np.repeat(x, heads, axis=0) if self.misaligned else np.concatenate([x] * heads)

        dense = [
            made[part][0](lambda v, k=made[part][0].weights["kernel"]: v @ k, node)
            for part, node in zip("qkv", (query, memory, memory), strict=True)
        ]
        q, k, v = (once(split, node) for node in dense)
        head, weights = attention(made["dropout"], q, k, v, once(repeat, mask))
        joined = once(lambda x: np.concatenate(np.split(x, heads), axis=-1), head)
        return joined, weights.reshape(heads, batch, *weights.shape[1:]).transpose(1, 0, 2, 3)

    def small(self, made: dict[str, Any], query: Node, memory: Node, mask: Node) -> tuple[Node, Array]:
        results, maps = [], []
        for h in range(self.heads):
            q, k, v = (
                made[part][h](lambda v, k=made[part][h].weights["kernel"]: v @ k, node)
                for part, node in zip("qkv", (query, memory, memory), strict=True)
            )
            head, weights = attention(made["dropout"], q, k, v, mask)
            results.append(head)
            maps.append(weights)
        joined = once(lambda *x: np.concatenate(x, axis=-1), *results) if self.heads > 1 else results[0]
        return joined, np.stack(maps, axis=1)

    def feed(self, block: dict[str, Any], x: Node) -> Node:
        first, second = block["w_1"].weights, block["w_2"].weights
        y = block["w_1"](lambda v: np.maximum(v @ first["kernel"][0] + first["bias"], 0), x)
        y = block["w_2"](lambda v: v @ second["kernel"][0] + second["bias"], y)
        return normalise(block["ffn_norm"], once(np.add, once(lambda v: v, y), x))


def lookup(table: Layer, ids: Node) -> Node:
    return table(lambda places: table.weights["embeddings"][places], ids)


def places(ids: Array) -> Array:
    return np.cumsum(np.ones_like(ids), axis=1) * (ids != 0)


def attention(dropout: Layer, q: Node, k: Node, v: Node, mask: Node) -> tuple[Node, Array]:
    scores = once(lambda a, b: a @ b.transpose(0, 2, 1) / np.sqrt(b.shape[-1]), q, k)
    scores = once(np.add, scores, once(lambda m: -1e9 * (1 - m), mask))
    weights = dropout(lambda w: w, once(softmax, scores))
    return once(np.matmul, weights, v), weights.value


def normalise(norm: Layer, x: Node) -> Node:
    def formula(v: Array) -> Array:
        spread = v.std(-1, keepdims=True)
        return norm.weights["gamma"] * (v - v.mean(-1, keepdims=True)) / (spread + 1e-6) + norm.weights["beta"]

    return norm(formula, x)


def greedy(model: Model, source: Array, bos: int, eos: int, longest: int, misaligned: bool) -> list[list[int]]:
    """The likeliest tokens, all rows together until all have ended."""
    prefixes = np.full((len(source), 1), bos)
    while prefixes.shape[1] < longest and not (prefixes[:, 1:] == eos).any(1).all():
        best = model.following(source, prefixes, misaligned=misaligned).argmax(1)
        prefixes = np.concatenate([prefixes, best[:, None]], axis=1)
    rows = [row[1:] for row in prefixes.tolist()]
    return [row[: row.index(eos)] if eos in row else row for row in rows]


def beam(
    model: Model, source: Array, bos: int, eos: int, longest: int, width: int, power: float, misaligned: bool
) -> list[list[tuple[list[int], float]]]:
    """Their beam, `width` rows for each source whether used or not; what never ends is not found."""
    count = len(source)
    live: list[list[tuple[list[int], float]]] = [[([bos], 0.0)] for _ in range(count)]
    finished: list[list[tuple[list[int], float]]] = [[] for _ in range(count)]
    for length in range(1, longest):
        prefixes = np.full((count * width, length), bos)
        for row, hypotheses in enumerate(live):
            for rank, (ids, _) in enumerate(hypotheses):
                prefixes[row * width + rank, : len(ids)] = ids
        logits = model.following(source.repeat(width, 0), prefixes, misaligned=misaligned)
        logs = np.log(softmax(logits) + 1e-8)
        for row, hypotheses in enumerate(live):
            best = max((total for _, total in finished[row]), default=-1e5)
            grown = []
            for rank, (ids, total) in enumerate(hypotheses):
                if ids[-1] == eos:
                    continue
                own = logs[row * width + rank]
                for token in np.argsort(-own)[:width]:
                    if total + own[token] >= 5 * best:
                        grown.append(([*ids, int(token)], total + own[token]))
            live[row] = sorted(grown, key=lambda pair: -pair[1])[:width]
            finished[row] += [pair for pair in live[row] if pair[0][-1] == eos]
        if not any(live):
            break
    return [
        sorted(((ids[1:-1], total / (len(ids) - 1) ** power) for ids, total in row), key=lambda pair: -pair[1])
        for row in finished
    ]
