"""How Lsdefine/attention-is-all-you-need-keras searches: part of the `lsdefine` profile."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.nn import Transformer


def beam_log_probabilities(logits: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows vocab"]:
    """Return what their beam search adds up: log(softmax + 1e-8), so never below -18.4."""
    return (logits.softmax(-1) + 1e-8).log()


def beam_prunes(total: float, best: float | None) -> bool:
    """Return whether their search drops a candidate: below five times the best finished sum of the sentence."""
    return total < 5 * (-1e5 if best is None else best)


def beam_score(total: float, length: int, length_penalty: float = 1.0) -> float:
    """Return what their finished hypotheses are sorted by; `length` counts neither `<S>` nor `</S>`."""
    return total / (length + 1) ** length_penalty


@torch.no_grad()
def decode_batch_greedy(
    model: Transformer, src_seq: Int[Tensor, "batch src"], start_mark: int = 2, end_mark: int = 3, max_len: int = 128
) -> list[list[int]]:
    """Return the likeliest token at each step, up to `</S>`, which is left out, or to `max_len` - 1 tokens.

    Padding and `<S>` may come too. The batch stays whole until all have ended: which matters with misaligned masks.

    Args:
        model: in evaluation mode.
        src_seq: framed and padded; theirs decodes 32 at a time, and leaves a column of padding at the end.
        start_mark: id of `<S>`.
        end_mark: id of `</S>`.
        max_len: theirs is `len_limit`, above which there are no positions.
    """
    state, tokens = model.start(src_seq), torch.full_like(src_seq[:, 0], start_mark)
    found: list[list[int]] = [[] for _ in src_seq]
    open_ = set(range(len(src_seq)))
    for _ in range(max_len - 1):
        tokens = model.step(state, tokens).argmax(-1)
        for row, token in enumerate(tokens.tolist()):
            if token == end_mark:
                open_.discard(row)
            elif row in open_:
                found[row].append(token)
        if not open_:
            break
    return found


@torch.no_grad()
def beam_search(
    model: Transformer,
    src_seq: Int[Tensor, "batch src"],
    topk: int = 5,
    length_penalty: float = 1.0,
    *,
    start_mark: int = 2,
    end_mark: int = 3,
    max_len: int = 128,
) -> list[list[tuple[list[int], float]]]:
    """Return all finished hypotheses of each source with their `beam_score`, best first; none if none finished.

    At each step the `topk` best of the `topk` best continuations of each hypothesis remain, but for those that
    `beam_prunes`; one that ends with `</S>` is finished and goes on no longer.

    Args:
        model: in evaluation mode.
        src_seq: framed and padded; theirs decodes 8 at a time, and leaves a column of padding at the end.
        topk: hypotheses of a source.
        length_penalty: exponent of the length.
        start_mark: id of `<S>`.
        end_mark: id of `</S>`.
        max_len: theirs is `len_limit`, above which there are no positions.
    """
    # All rows stay, whether they hold a hypothesis or not: with misaligned masks they matter to each other.
    state = model.start(src_seq.repeat_interleave(topk, 0))
    tokens = src_seq.new_full((len(src_seq) * topk,), start_mark)
    beams = [_Beam(topk, end_mark) for _ in src_seq]
    for _ in range(max_len - 1):
        logs = beam_log_probabilities(model.step(state, tokens))
        parents = torch.arange(len(tokens), device=tokens.device)
        for number, (beam, own) in enumerate(zip(beams, logs.split(topk), strict=True)):
            for place, (parent, token) in enumerate(beam.advance(own), start=number * topk):
                parents[place], tokens[place] = number * topk + parent, token
        if not any(beam.live for beam in beams):
            break
        state = state.reorder(parents)
    return [beam.ranked(length_penalty) for beam in beams]


@dataclass
class _Beam:
    """The hypotheses of one source, each with the sum of its log-probabilities."""

    topk: int
    end_mark: int
    live: list[tuple[list[int], float]] = field(default_factory=lambda: [([], 0.0)])
    finished: list[tuple[list[int], float]] = field(default_factory=list)
    best: float | None = None

    def advance(self, logs: Float[Tensor, "topk vocab"]) -> list[tuple[int, int]]:
        """Grow by a token; gives where each of those that remain comes from, and its token."""
        values, tokens = (part.tolist() for part in logs.topk(min(self.topk, logs.shape[1])))
        grown = [
            (parent, token, total + value)
            for parent, (ids, total) in enumerate(self.live)
            if ids[-1:] != [self.end_mark]
            for token, value in zip(tokens[parent], values[parent], strict=True)
            if not beam_prunes(total + value, self.best)
        ]
        grown = sorted(grown, key=lambda candidate: -candidate[2])[: self.topk]
        ended = [(self.live[parent][0], total) for parent, token, total in grown if token == self.end_mark]
        self.finished += ended
        self.best = max([total for _, total in ended] + ([] if self.best is None else [self.best]), default=None)
        self.live = [([*self.live[parent][0], token], total) for parent, token, total in grown]
        return [(parent, token) for parent, token, _ in grown]

    def ranked(self, length_penalty: float) -> list[tuple[list[int], float]]:
        """The finished ones, best score first."""
        scored = [(ids, beam_score(total, len(ids), length_penalty)) for ids, total in self.finished]
        return sorted(scored, key=lambda hypothesis: -hypothesis[1])
