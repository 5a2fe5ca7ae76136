"""jadore801120's Transformer in NumPy, sentence by sentence and head by head, from the formulas of its modules."""

from __future__ import annotations

import math

import numpy as np

State = dict[str, np.ndarray]
WORDS = {"encoder": "src_word_emb", "decoder": "trg_word_emb"}


class Jadore:
    """Reads a state dict in that system's names.

    Of its variants, `article` hides no padding and has no norm on embeddings; `early_2020` has none there either, but
    at the end of the stacks, normalises the queries and not what they look at, and adds sub-layers without a norm.
    """

    def __init__(
        self,
        state: State,
        n_head: int,
        pads: tuple[int, int],
        *,
        variant: str,
        embedding_scale: float,
        logit_scale: float,
    ) -> None:
        self.state, self.n_head, self.pads, self.variant = state, n_head, pads, variant
        self.embedding_scale, self.logit_scale = embedding_scale, logit_scale
        self.seen: dict[str, list[np.ndarray]] = {}

    def run(self, source: np.ndarray, target: np.ndarray) -> dict[str, np.ndarray]:
        """Everything computed for a batch, by the names `dragoman` gives it."""
        for row in range(len(source)):
            memory = self.encode(source[row])
            self.note("memory", memory)
            self.note("logits", self.decode(source[row], memory, target[row], hide=True))
        return {name: np.stack(rows) for name, rows in self.seen.items()}

    def encode(self, source: np.ndarray) -> np.ndarray:
        x = self.embed(source, "encoder")
        mask = np.array([self.visible(source, 0)] * len(source))
        for i in range(self.layers("encoder")):
            x = self.attention(x, x, mask, f"encoder.layer_stack.{i}.slf_attn", f"encoder.layers.{i}.self_attention")
            x = self.feed_forward(x, f"encoder.layer_stack.{i}.pos_ffn")
            self.note(f"encoder.layers.{i}", x)
        return self.norm(x, "encoder.layer_norm") if self.variant == "early_2020" else x

    def decode(self, source: np.ndarray, memory: np.ndarray, target: np.ndarray, *, hide: bool) -> np.ndarray:
        """Logits; padding in the target is hidden in training only."""
        x, size = self.embed(target, "decoder"), len(target)
        visible = self.visible(target, 1) if hide else [True] * size
        mask = np.array([[visible[k] and k <= q for k in range(size)] for q in range(size)])
        memory_mask = np.array([self.visible(source, 0)] * size)
        for i in range(self.layers("decoder")):
            name, note = f"decoder.layer_stack.{i}", f"decoder.layers.{i}"
            x = self.attention(x, x, mask, f"{name}.slf_attn", f"{note}.self_attention")
            x = self.attention(x, memory, memory_mask, f"{name}.enc_attn", f"{note}.cross_attention")
            x = self.feed_forward(x, f"{name}.pos_ffn")
            self.note(note, x)
        x = self.norm(x, "decoder.layer_norm") if self.variant == "early_2020" else x
        return self.product(x, "trg_word_prj") * self.logit_scale

    def visible(self, ids: np.ndarray, side: int) -> list[bool]:
        return [self.variant == "article" or token != self.pads[side] for token in ids]

    def embed(self, ids: np.ndarray, stack: str) -> np.ndarray:
        table = self.state[f"{stack}.{WORDS[stack]}.weight"] * self.embedding_scale
        positions = self.state[f"{stack}.position_enc.pos_table"][0]
        x = np.array([table[token] + positions[place] for place, token in enumerate(ids)])
        return x if self.variant != "repository" else self.norm(x, f"{stack}.layer_norm")

    def attention(self, x: np.ndarray, memory: np.ndarray, mask: np.ndarray, name: str, note: str) -> np.ndarray:
        before = self.variant == "early_2020"
        looking = self.norm(x, f"{name}.layer_norm") if before else x
        parts = zip("qkv", (looking, memory, memory), strict=True)
        query, key, value = (self.product(y, f"{name}.w_{p}s") for p, y in parts)
        weights, mixed = [], []
        parts = (np.split(y, self.n_head, axis=1) for y in (query, key, value))
        for q, k, v in zip(*parts, strict=True):
            scores = np.where(mask, q / math.sqrt(q.shape[1]) @ k.T, -1e9)
            raised = np.exp(scores - scores.max(1, keepdims=True))
            weights.append(raised / raised.sum(1, keepdims=True))
            mixed.append(weights[-1] @ v)
        self.note(note, np.stack(weights))
        y = self.product(np.concatenate(mixed, axis=1), f"{name}.fc")
        return y + x if before else self.norm(y + x, f"{name}.layer_norm")

    def feed_forward(self, x: np.ndarray, name: str) -> np.ndarray:
        before = self.variant == "early_2020"
        seen = self.norm(x, f"{name}.layer_norm") if before else x
        inner = np.maximum(self.product(seen, f"{name}.w_1") + self.state[f"{name}.w_1.bias"], 0)
        y = self.product(inner, f"{name}.w_2") + self.state[f"{name}.w_2.bias"]
        return y + x if before else self.norm(y + x, f"{name}.layer_norm")

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-6)
        return x * self.state[f"{name}.weight"] + self.state[f"{name}.bias"]

    def product(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.state[f"{name}.weight"].T

    def layers(self, stack: str) -> int:
        return len({name.split(".")[2] for name in self.state if name.startswith(f"{stack}.layer_stack.")})

    def note(self, name: str, value: np.ndarray) -> None:
        self.seen.setdefault(name, []).append(value)

    def translate(
        self, source: np.ndarray, bos: int, eos: int, beam: int, longest: int, alpha: float
    ) -> tuple[list[int], bool]:
        """The search of `translate.py`, the whole prefix run again at every step; and whether all hypotheses ended."""
        memory = self.encode(source)

        def following(tokens: list[int]) -> list[tuple[float, int]]:
            logits = self.decode(source, memory, np.array(tokens), hide=False)[-1]
            probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            best = np.argsort(-probabilities, kind="stable")[:beam]
            with np.errstate(divide="ignore"):
                return [(float(np.log(probabilities[token])), int(token)) for token in best]

        live = [(score, [bos, token]) for score, token in following([bos])]
        for _ in range(2, longest):
            grown = [(total + more, [*tokens, t]) for total, tokens in live for more, t in following(tokens)]
            live = sorted(grown, key=lambda pair: -pair[0])[:beam]
            if all(eos in tokens for _, tokens in live):
                _, tokens = max(live, key=lambda pair: pair[0] / (pair[1].index(eos) + 1) ** alpha)
                return tokens[: tokens.index(eos) + 1], True
        tokens = live[0][1]
        return (tokens[: tokens.index(eos) + 1] if eos in tokens else tokens), False
