"""The Transformer of *Dive into Deep Learning* from its formulas in plain NumPy, one sentence at a time."""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


class Book:
    """Reads a state dict in the names and layouts of the English PyTorch edition.

    Args:
        state: name -> array.
        heads: of each attention.
        pad: of the source.
        table: the positions, `[max_len, num_hiddens]`.
        training: whether the decoder's block is in training mode, in which alone it has a causal mask.
    """

    def __init__(self, state: dict[str, Array], heads: int, pad: int, table: Array, training: bool = True) -> None:
        self.state, self.heads, self.pad, self.table, self.training = state, heads, pad, table, training
        self.seen: dict[str, list[Array]] = {}

    def run(self, source: Array, target: Array) -> dict[str, Array]:
        """Everything computed for a batch, by the names `dragoman` gives it."""
        for row in range(len(source)):
            self.parallel(self.encode(source[row]), target[row])
        return {name: np.stack(rows) for name, rows in self.seen.items()}

    def encode(self, source: Array) -> tuple[Array, int]:
        valid = sum(token != self.pad for token in source)
        x = self.embed(source, "encoder")
        for i in range(self.blocks("encoder")):
            place = f"encoder.blks.block{i}"
            y = self.attention(x, x, [valid] * len(x), f"{place}.attention", f"encoder.layers.{i}.self_attention")
            x = self.norm(x + y, f"{place}.addnorm1")
            x = self.norm(x + self.feed_forward(x, place), f"{place}.addnorm2")
            self.note(f"encoder.layers.{i}", x)
        self.note("memory", x)
        return x, valid

    def parallel(self, memory: tuple[Array, int], target: Array) -> None:
        x = self.embed(target, "decoder")
        for i in range(self.blocks("decoder")):
            x = self.block(i, x, x, memory, [q + 1 if self.training else len(x) for q in range(len(x))])
        self.note("logits", self.linear(x, "decoder.dense"))

    def serial(self, source: Array, target: Array) -> Array:
        """Logits of one token at a time, each at position 0, the inputs of each block kept."""
        memory = self.encode(source)
        kept: list[Array] = [np.zeros((0, self.table.shape[1]))] * self.blocks("decoder")
        logits = []
        for token in target:
            x = self.embed(np.array([token]), "decoder")
            for i in range(len(kept)):
                kept[i] = np.concatenate([kept[i], x])
                x = self.block(i, x, kept[i], memory, [len(kept[i])])
            logits.append(self.linear(x, "decoder.dense")[0])
        return np.stack(logits)

    def block(self, i: int, x: Array, past: Array, memory: tuple[Array, int], lengths: list[int]) -> Array:
        place, name = f"decoder.blks.block{i}", f"decoder.layers.{i}"
        x = self.norm(
            x + self.attention(x, past, lengths, f"{place}.attention1", f"{name}.self_attention"), f"{place}.addnorm1"
        )
        valid = [memory[1]] * len(x)
        y = self.attention(x, memory[0], valid, f"{place}.attention2", f"{name}.cross_attention")
        x = self.norm(x + y, f"{place}.addnorm2")
        x = self.norm(x + self.feed_forward(x, place), f"{place}.addnorm3")
        self.note(name, x)
        return x

    def attention(self, x: Array, memory: Array, lengths: list[int], place: str, note: str) -> Array:
        query, key, value = (
            self.linear(y, f"{place}.{part}") for part, y in (("W_q", x), ("W_k", memory), ("W_v", memory))
        )
        width = x.shape[1] // self.heads
        weights, mixed = [], []
        for head in range(self.heads):
            part = slice(head * width, (head + 1) * width)
            scores = query[:, part] @ key[:, part].T / math.sqrt(width)
            for row, length in enumerate(lengths):
                scores[row, length:] = -1e6
            raised = np.exp(scores - scores.max(1, keepdims=True))
            weights.append(raised / raised.sum(1, keepdims=True))
            mixed.append(weights[-1] @ value[:, part])
        self.note(note, np.stack(weights))
        return self.linear(np.concatenate(mixed, axis=1), f"{place}.W_o")

    def feed_forward(self, x: Array, place: str) -> Array:
        return self.linear(np.maximum(self.linear(x, f"{place}.ffn.dense1"), 0), f"{place}.ffn.dense2")

    def embed(self, ids: Array, side: str) -> Array:
        rows = self.state[f"{side}.embedding.weight"]
        return np.array([rows[t] * math.sqrt(rows.shape[1]) + self.table[i] for i, t in enumerate(ids)])

    def norm(self, x: Array, name: str) -> Array:
        deviation = np.sqrt(x.var(1, keepdims=True) + 1e-5)
        scaled = (x - x.mean(1, keepdims=True)) / deviation
        return scaled * self.state[f"{name}.ln.weight"] + self.state[f"{name}.ln.bias"]

    def linear(self, x: Array, name: str) -> Array:
        return x @ self.state[f"{name}.weight"].T + self.state.get(f"{name}.bias", 0.0)

    def blocks(self, stack: str) -> int:
        return len({name.split(".")[2] for name in self.state if name.startswith(f"{stack}.blks.")})

    def note(self, name: str, value: Array) -> None:
        self.seen.setdefault(name, []).append(value)
