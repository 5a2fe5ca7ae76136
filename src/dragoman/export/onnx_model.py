"""The encoder and the decoder of a model as graphs of ONNX, of every kind that a blueprint can describe."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from dragoman.engines.module import added_positions
from dragoman.export.given import Given, array, norm_of, projections
from dragoman.export.graph import Graph
from dragoman.models.blueprint import Attention, Embedding, Layer, Matrix, Norm, Stack
from dragoman.nn.embedding import sinusoids
from dragoman.nn.positions import alibi_slopes

_HIDDEN = -1e9  # what a score becomes that is not to be seen


class _Builder:
    """What both graphs are made of."""

    def __init__(self, given: Given, name: str) -> None:
        self.given, self.shape, self.graph = given, given.blueprint.shape, Graph(name)
        self.heads, self.d_k, self.d_v = self.shape.heads, self.shape.d_k, self.shape.d_v

    def embed(self, side: str, embedding: Embedding[Tensor], ids: str, places: str) -> str:
        """The vectors of tokens `[batch, len, d_model]`; `places` `[len]` says where each stands."""
        graph, rows = self.graph, self.given.rows[side == "target"]
        x = graph.op("Gather", graph.weight(f"{side}_embedding", rows), ids)
        x = graph.op("Mul", x, graph.scalar(float(embedding.scale))) if embedding.scale != 1.0 else x
        if embedding.positions is None:
            return x
        table = array(added_positions(self.given.model, side, 0, self.given.longest))
        return graph.op("Add", x, graph.op("Gather", graph.weight(f"{side}_positions", table), places))

    def linear(self, name: str, x: str, matrix: Matrix[Tensor]) -> str:
        """A linear map of the last dimension."""
        graph = self.graph
        x = graph.op("MatMul", x, graph.weight(f"{name}.weight", array(matrix.weight).T))
        return x if matrix.bias is None else graph.op("Add", x, graph.weight(f"{name}.bias", array(matrix.bias)))

    def norm(self, name: str, x: str, norm: Norm[Tensor]) -> str:
        """A layer norm."""
        weight, bias = norm_of(norm, self.shape.d_model)
        graph = self.graph
        return graph.op("LayerNormalization", x, graph.weight(f"{name}.weight", weight),
                        graph.weight(f"{name}.bias", bias), given={"axis": -1, "epsilon": norm.eps})  # fmt: skip

    def split(self, x: str, width: int) -> str:
        """`[batch, len, heads * width]` as `[batch, heads, len, width]`."""
        graph = self.graph
        return graph.op(
            "Transpose", graph.op("Reshape", x, graph.ints(0, 0, self.heads, width)), given={"perm": [0, 2, 1, 3]}
        )

    def rotated(self, x: str, places: str) -> str:
        """Queries or keys `[batch, heads, len, d_k]`, each pair of columns rotated by its place."""
        graph, half = self.graph, self.d_k // 2
        table = sinusoids(self.given.longest, self.d_k).float().numpy()
        sine, cosine = (
            graph.op("Reshape", graph.op("Gather", graph.weight(name, table[:, part::2]), places),
                     graph.ints(1, 1, -1, half))
            for part, name in enumerate(("rotary_sine", "rotary_cosine"))
        )  # fmt: skip
        pairs = graph.op("Reshape", x, graph.ints(0, 0, 0, half, 2))
        even, odd = (graph.op("Squeeze", one, graph.ints(4)) for one in graph.ops("Split", 2, pairs, given={"axis": 4}))
        first = graph.op("Sub", graph.op("Mul", even, cosine), graph.op("Mul", odd, sine))
        second = graph.op("Add", graph.op("Mul", even, sine), graph.op("Mul", odd, cosine))
        joined = [graph.op("Unsqueeze", one, graph.ints(4)) for one in (first, second)]
        return graph.op("Reshape", graph.op("Concat", *joined, given={"axis": 4}), graph.ints(0, 0, 0, self.d_k))

    def distances(self, places: str, keys: str) -> str:
        """How far each key stands after each query: int64 `[q_len, k_len]`."""
        graph = self.graph
        rows = graph.op("Unsqueeze", keys, graph.ints(0))
        return graph.op("Sub", rows, graph.op("Unsqueeze", places, graph.ints(1)))

    def attend(
        self, query: str, key: str, value: str, hidden: str, attention: Attention[Tensor], name: str,
        distances: str | None = None,
    ) -> str:  # fmt: skip
        """Attention of queries, keys and values by head; `hidden` is added to the scores."""
        graph = self.graph
        query = graph.op("Mul", query, graph.scalar(1.0 / math.sqrt(self.d_k)))
        scores = graph.op("MatMul", query, graph.op("Transpose", key, given={"perm": [0, 1, 3, 2]}))
        if attention.distances is not None and distances is not None:
            scores = graph.op("Add", scores, self._relative(query, attention.distances, distances, name))
        elif self.shape.self_positions == "alibi" and distances is not None:
            slopes = np.array(alibi_slopes(self.heads), dtype=np.float32).reshape(1, -1, 1, 1)
            far = graph.op("Cast", graph.op("Abs", distances), given={"to": 1})
            scores = graph.op("Sub", scores, graph.op("Mul", graph.weight("alibi_slopes", slopes), far))
        weights = graph.op("Softmax", graph.op("Add", scores, hidden), given={"axis": -1})
        mixed = graph.op("Transpose", graph.op("MatMul", weights, value), given={"perm": [0, 2, 1, 3]})
        mixed = graph.op("Reshape", mixed, graph.ints(0, 0, self.heads * self.d_v))
        return self.linear(f"{name}.output", mixed, attention.output)

    def _relative(self, query: str, rows: Tensor, distances: str, name: str) -> str:
        """The product of each query with the vector of each distance."""
        graph, most = self.graph, len(rows) // 2
        products = graph.op("MatMul", query, graph.weight(f"{name}.distances", array(rows).T))
        limited = graph.op("Clip", distances, graph.scalar(-most), graph.scalar(most))
        index = graph.op("Add", limited, graph.scalar(most))
        shape = graph.op("Concat", graph.op("Slice", graph.op("Shape", query), graph.ints(0), graph.ints(2)),
                         graph.op("Shape", index), given={"axis": 0})  # fmt: skip
        return graph.op("GatherElements", products, graph.op("Expand", index, shape), given={"axis": 3})

    def residual(self, name: str, x: str, norm: Norm[Tensor], inner: str | None = None) -> str:
        """What a sublayer is given (without `inner`), or what comes after it."""
        if inner is None:
            return self.norm(name, x, norm) if self.shape.pre_norm else x
        x = self.graph.op("Add", x, inner)
        return x if self.shape.pre_norm else self.norm(name, x, norm)

    def feed_forward(self, name: str, x: str, layer: Layer[Tensor]) -> str:
        """The feed-forward sublayer with what is around it."""
        graph, given = self.graph, self.residual(f"{name}.feed_forward_norm", x, layer.feed_forward_norm)
        inner = self.linear(f"{name}.inner", given, layer.inner)
        if self.shape.activation == "relu":
            inner = graph.op("Relu", inner)
        elif self.shape.activation == "silu":
            inner = graph.op("Mul", inner, graph.op("Sigmoid", inner))
        else:
            half = graph.op("Erf", graph.op("Mul", inner, graph.scalar(math.sqrt(0.5))))
            half = graph.op("Mul", graph.op("Add", half, graph.scalar(1.0)), graph.scalar(0.5))
            inner = graph.op("Mul", inner, half)
        outer = self.linear(f"{name}.outer", inner, layer.outer)
        return self.residual(f"{name}.feed_forward_norm", x, layer.feed_forward_norm, outer)

    def heads_of(self, name: str, x: str, attention: Attention[Tensor], parts: str) -> list[str]:
        """Queries, keys and values by head, those of `parts` (`qkv`)."""
        matrices: dict[str, Matrix[Tensor]] = dict(
            zip(("q", "k", "v"), projections(attention, self.heads * self.d_k), strict=True)
        )
        return [
            self.split(self.linear(f"{name}.{part}", x, matrices[part]), self.d_v if part == "v" else self.d_k)
            for part in parts
        ]

    def hidden_of(self, mask: str) -> str:
        """What is added to scores so that keys with a mask of 0 are not seen `[batch, 1, 1, k_len]`."""
        graph = self.graph
        away = graph.op("Sub", graph.scalar(1.0), graph.op("Cast", mask, given={"to": 1}))
        return graph.op("Mul", graph.op("Unsqueeze", away, graph.ints(1, 2)), graph.scalar(_HIDDEN))

    def range(self, start: str, end: str) -> str:
        """Whole numbers from one row of one number to another."""
        first, last = (self.graph.op("Squeeze", one, self.graph.ints(0)) for one in (start, end))
        return self.graph.op("Range", first, last, self.graph.scalar(1))


def encoder_model(given: Given) -> bytes:
    """Return `encoder_model.onnx`: `input_ids` and `attention_mask` to `last_hidden_state`."""
    build, stack, source = _Builder(given, "encoder"), given.blueprint.encoder, given.blueprint.source
    assert stack is not None
    assert source is not None
    graph = build.graph
    ids = graph.input("input_ids", "int64", ("batch", "src"))
    mask = graph.input("attention_mask", "int64", ("batch", "src"))
    places = build.range(graph.ints(0), graph.size(ids, 1))
    hidden, distances = build.hidden_of(mask), build.distances(places, places)
    x = build.embed("source", source, ids, places)
    for number, layer in enumerate(stack.layers):
        name = f"encoder.{number}"
        inner = build.residual(f"{name}.self_norm", x, layer.self_attention_norm)
        query, key, value = build.heads_of(f"{name}.self", inner, layer.self_attention, "qkv")
        if given.blueprint.shape.self_positions == "rotary":
            query, key = build.rotated(query, places), build.rotated(key, places)
        mixed = build.attend(query, key, value, hidden, layer.self_attention, f"{name}.self", distances)
        x = build.residual(f"{name}.self_norm", x, layer.self_attention_norm, mixed)
        x = build.feed_forward(name, x, layer)
    x = x if stack.end is None else build.norm("encoder.end", x, stack.end)
    graph.output("last_hidden_state", x, ("batch", "src", given.blueprint.shape.d_model))
    return graph.serialized()


def decoder_model(given: Given) -> bytes:
    """Return `decoder_model_merged.onnx`: with or without the keys and values of what came before.

    Where `use_cache_branch` is false, what is given as `past_key_values` does not count.
    """
    return _Decoder(given).serialized()


class _Decoder(_Builder):
    def __init__(self, given: Given) -> None:
        super().__init__(given, "decoder")
        graph = self.graph
        self.mask = graph.input("encoder_attention_mask", "int64", ("batch", "src"))
        self.ids = graph.input("input_ids", "int64", ("batch", "tgt"))
        self.memory = graph.input("encoder_hidden_states", "float32", ("batch", "src", self.shape.d_model))
        self.cached = graph.input("use_cache_branch", "bool", (1,))

    def serialized(self) -> bytes:
        """Return the file of the graph, once every operation is in it."""
        graph, given, stack = self.graph, self.given, self.given.blueprint.decoder
        assert stack is not None
        pasts = [
            [graph.input(f"past_key_values.{number}.{side}.{part}", "float32",
                         ("batch", self.heads, length, self.d_k if part == "key" else self.d_v))
             for side, length in (("decoder", "past"), ("encoder", "past_src")) for part in ("key", "value")]
            for number in range(len(stack.layers))
        ]  # fmt: skip
        self.before = graph.op("Mul", graph.size(pasts[0][0], 2), graph.op("Cast", self.cached, given={"to": 7}))
        end = graph.op("Add", self.before, graph.size(self.ids, 1))
        self.places, keys = self.range(self.before, end), self.range(graph.ints(0), end)
        self.distances_ = self.distances(self.places, keys)
        later = graph.op("Cast", graph.op("Greater", self.distances_, graph.scalar(0)), given={"to": 1})
        self.later = graph.op("Mul", later, graph.scalar(_HIDDEN))
        self.padding = self.hidden_of(self.mask)
        if self.shape.cross_positions == "rotary":
            self.source_places = self.range(graph.ints(0), graph.size(self.memory, 1))
        x = self.embed("target", given.blueprint.target, self.ids, self.places)
        for number, (layer, past) in enumerate(zip(stack.layers, pasts, strict=True)):
            x = self._layer(number, x, layer, past)
        x = self._logits(x, stack)
        graph.output("logits", x, ("batch", "tgt", len(given.target.names)))
        return graph.serialized()

    def _layer(self, number: int, x: str, layer: Layer[Tensor], past: list[str]) -> str:
        graph, name = self.graph, f"decoder.{number}"
        inner = self.residual(f"{name}.self_norm", x, layer.self_attention_norm)
        query, key, value = self.heads_of(f"{name}.self", inner, layer.self_attention, "qkv")
        if self.shape.self_positions == "rotary":
            query, key = self.rotated(query, self.places), self.rotated(key, self.places)
        key, value = (
            graph.op(
                "Concat", graph.op("Slice", old, graph.ints(0), self.before, graph.ints(2)), new, given={"axis": 2}
            )
            for old, new in zip(past[:2], (key, value), strict=True)
        )
        mixed = self.attend(query, key, value, self.later, layer.self_attention, f"{name}.self", self.distances_)
        x = self.residual(f"{name}.self_norm", x, layer.self_attention_norm, mixed)
        assert layer.cross_attention is not None
        assert layer.cross_attention_norm is not None
        inner = self.residual(f"{name}.cross_norm", x, layer.cross_attention_norm)
        (query,) = self.heads_of(f"{name}.cross", inner, layer.cross_attention, "q")
        if self.shape.cross_positions == "rotary":
            query = self.rotated(query, self.places)
        far = [self._memory(f"{name}.cross", part, layer.cross_attention, old)
               for part, old in zip("kv", past[2:], strict=True)]  # fmt: skip
        mixed = self.attend(query, far[0], far[1], self.padding, layer.cross_attention, f"{name}.cross")
        x = self.residual(f"{name}.cross_norm", x, layer.cross_attention_norm, mixed)
        presents = zip(
            ("decoder.key", "decoder.value", "encoder.key", "encoder.value"), (key, value, *far), strict=True
        )
        for part, one in presents:
            length = "past + tgt" if part.startswith("decoder") else "src"
            width = self.d_k if part.endswith("key") else self.d_v
            graph.output(f"present.{number}.{part}", one, ("batch", self.heads, length, width))
        return self.feed_forward(name, x, layer)

    def _memory(self, name: str, part: str, attention: Attention[Tensor], past: str) -> str:
        """Keys or values of the memory: projected at the first step, kept after it."""
        outer = self.graph
        dims = ("batch", self.heads, "src", self.d_k if part == "k" else self.d_v)
        then = outer.branch(f"{name}.{part}.kept")
        then.give(then.op("Identity", past), dims)
        self.graph = outer.branch(f"{name}.{part}.made")
        (made,) = self.heads_of(name, self.memory, attention, part)
        if part == "k" and self.shape.cross_positions == "rotary":
            made = self.rotated(made, self.source_places)
        otherwise = self.graph.give(made, dims)
        self.graph = outer
        return outer.either(self.cached, then, otherwise)

    def _logits(self, x: str, stack: Stack[Tensor]) -> str:
        graph, generator = self.graph, self.given.blueprint.generator
        x = x if stack.end is None else self.norm("decoder.end", x, stack.end)
        if "generator.weight" in self.given.blueprint.tied and "target_embedding" in graph.weights:
            x = graph.op("MatMul", x, graph.op("Transpose", "target_embedding", given={"perm": [1, 0]}))
            return x if generator.bias is None else graph.op("Add", x, graph.weight("bias", array(generator.bias)))
        return self.linear("generator", x, generator)
