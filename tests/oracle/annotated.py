"""The Annotated Transformer in NumPy, sentence by sentence and head by head, from the formulas of its classes."""

from __future__ import annotations

import math

import numpy as np

State = dict[str, np.ndarray]


class Annotated:
    """Reads a state dict in that system's names; `article` is the listing with `torch.nn.LayerNorm` in the layers."""

    def __init__(self, state: State, h: int, pad: int, *, article: bool) -> None:
        self.state, self.h, self.pad, self.article = state, h, pad, article
        self.seen: dict[str, list[np.ndarray]] = {}

    def run(self, source: np.ndarray, target: np.ndarray) -> dict[str, np.ndarray]:
        """Everything computed for a batch, by the names `dragoman` gives it."""
        for row in range(len(source)):
            self.sentence(source[row], target[row])
        return {name: np.stack(rows) for name, rows in self.seen.items()}

    def sentence(self, source: np.ndarray, target: np.ndarray) -> None:
        sides = ("source_embedding", "target_embedding") if self.article else ("src_embed", "tgt_embed")
        source_mask = np.array([[token != self.pad for token in source]])
        memory = self.embed(source, sides[0])
        for i in range(self.layers("encoder")):
            memory = self.encoder_layer(memory, source_mask.repeat(len(source), 0), i)
        memory = self.std_norm(memory, "encoder.norm")
        self.note("memory", memory)

        size = len(target)
        target_mask = np.array([[target[k] != self.pad and k <= q for k in range(size)] for q in range(size)])
        x = self.embed(target, sides[1])
        for i in range(self.layers("decoder")):
            x = self.decoder_layer(x, target_mask, memory, source_mask.repeat(size, 0), i)
        x = self.std_norm(x, "decoder.norm")
        self.note("logits", self.linear(x, "generator.project" if self.article else "generator.proj"))

    def encoder_layer(self, x: np.ndarray, mask: np.ndarray, i: int) -> np.ndarray:
        layer, norm = f"encoder.layers.{i}", "layers" if self.article else "sublayer"
        y = self.norm(x, f"{layer}.{norm}.0.norm")
        x = x + self.attention(y, y, mask, f"{layer}.self_attn", f"{layer}.self_attention")
        x = x + self.feed_forward(self.norm(x, f"{layer}.{norm}.1.norm"), layer)
        self.note(layer, x)
        return x

    def decoder_layer(
        self, x: np.ndarray, mask: np.ndarray, memory: np.ndarray, memory_mask: np.ndarray, i: int
    ) -> np.ndarray:
        layer = f"decoder.layers.{i}"
        y = self.norm(x, f"{layer}.sublayer.0.norm")
        x = x + self.attention(y, y, mask, f"{layer}.self_attn", f"{layer}.self_attention")
        y = self.norm(x, f"{layer}.sublayer.1.norm")
        x = x + self.attention(y, memory, memory_mask, f"{layer}.src_attn", f"{layer}.cross_attention")
        x = x + self.feed_forward(self.norm(x, f"{layer}.sublayer.2.norm"), layer)
        self.note(layer, x)
        return x

    def attention(self, x: np.ndarray, memory: np.ndarray, mask: np.ndarray, name: str, note: str) -> np.ndarray:
        query, key, value = (self.linear(y, f"{name}.linears.{i}") for i, y in enumerate((x, memory, memory)))
        width = x.shape[1] // self.h
        weights, mixed = [], []
        for head in range(self.h):
            part = slice(head * width, (head + 1) * width)
            scores = query[:, part] @ key[:, part].T / math.sqrt(width)
            raised = np.exp((filled := np.where(mask, scores, -1e9)) - filled.max(1, keepdims=True))
            weights.append(raised / raised.sum(1, keepdims=True))
            mixed.append(weights[-1] @ value[:, part])
        self.note(note, np.stack(weights))
        return self.linear(np.concatenate(mixed, axis=1), f"{name}.linears.3")

    def feed_forward(self, x: np.ndarray, layer: str) -> np.ndarray:
        inner = np.maximum(self.linear(x, f"{layer}.feed_forward.w_1"), 0)
        return self.linear(inner, f"{layer}.feed_forward.w_2")

    def embed(self, ids: np.ndarray, name: str) -> np.ndarray:
        table, positions = self.state[f"{name}.0.lut.weight"], self.state[f"{name}.1.pe"]
        return np.array([table[token] * math.sqrt(table.shape[1]) + positions[0, i] for i, token in enumerate(ids)])

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        if not self.article:
            return self.std_norm(x, name)
        deviation = np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return (x - x.mean(1, keepdims=True)) / deviation * self.state[f"{name}.weight"] + self.state[f"{name}.bias"]

    def std_norm(self, x: np.ndarray, name: str) -> np.ndarray:
        deviation = x.std(1, ddof=1, keepdims=True) + 1e-6
        return self.state[f"{name}.a_2"] * (x - x.mean(1, keepdims=True)) / deviation + self.state[f"{name}.b_2"]

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def layers(self, stack: str) -> int:
        return len({name.split(".")[2] for name in self.state if name.startswith(f"{stack}.layers.")})

    def note(self, name: str, value: np.ndarray) -> None:
        self.seen.setdefault(name, []).append(value)
