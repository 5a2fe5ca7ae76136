"""Connectionist temporal classification (Graves et al. 2006): outputs read off frames, without a decoder.

Each frame has a probability for every token and for the blank; a path of one symbol a frame says the output that is
left when repeats are merged and blanks dropped. What is wanted of an output is the sum over all of its paths. All of it
is computed from log-probabilities; a frame that is padding must have the blank for certain (`padded`), which changes
nothing.

How likely it is that an output *begins* with some tokens (Hori, Watanabe & Hershey 2017) makes of it a distribution
over the next token, which `JointModel` mixes with that of a decoder: every search runs on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.search.protocol import NextTokenModel
from dragoman.sequences import SourceBatch

NEVER = float("-inf")


def padded(
    log_probs: Float[Tensor, "batch frames vocab"], mask: Bool[Tensor, "batch frames"], blank: int
) -> Float[Tensor, "batch frames vocab"]:
    """Return log-probabilities of frames, the blank certain where the mask is False."""
    certain = torch.full_like(log_probs[0, 0], NEVER)
    certain[blank] = 0
    return torch.where(mask[..., None], log_probs, certain)


def merged(path: list[int], blank: int) -> list[int]:
    """Return what a path says: repeats merged, blanks dropped."""
    return [one for one, before in zip(path, [blank, *path], strict=False) if one not in (blank, before)]


def prefix_search(
    log_probs: Float[Tensor, "frames vocab"], *, blank: int, beam_size: int = 8, candidates: int = 40
) -> list[tuple[tuple[int, ...], float]]:
    """Return the likeliest outputs of one recording with their log-probabilities, likeliest first.

    Args:
        log_probs: of each frame.
        blank: id of the blank.
        beam_size: how many beginnings are kept from frame to frame.
        candidates: how many tokens of a frame, the likeliest, may follow.
    """
    # Of each beginning: the log-probability of its paths so far that end in a blank, and of those that do not.
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, NEVER)}
    values, tokens = log_probs.double().topk(min(candidates + 1, log_probs.shape[1]), dim=1)
    blanks = log_probs[:, blank].double().tolist()
    for here, (row, likely) in enumerate(zip(values.tolist(), tokens.tolist(), strict=True)):
        grown: dict[tuple[int, ...], tuple[float, float]] = {}
        pairs = [(token, value) for token, value in zip(likely, row, strict=True) if token != blank]
        by_token = dict(pairs)

        def add(prefix: tuple[int, ...], in_blank: float, in_token: float, grown: dict = grown) -> None:
            old = grown.get(prefix, (NEVER, NEVER))
            grown[prefix] = (_add(old[0], in_blank), _add(old[1], in_token))

        for prefix, (in_blank, in_token) in beam.items():
            both = _add(in_blank, in_token)
            last = prefix[-1] if prefix else blank
            repeated = by_token.get(last, float(log_probs[here, last])) if prefix else NEVER
            add(prefix, both + blanks[here], in_token + repeated)
            for token, value in pairs:
                add((*prefix, token), NEVER, value + (in_blank if token == last else both))
        best = sorted(grown.items(), key=lambda item: (-_add(*item[1]), item[0]))
        beam = dict(best[:beam_size])
    return [(prefix, _add(*parts)) for prefix, parts in beam.items()]


def _add(left: float, right: float) -> float:
    """The logarithm of a sum, from the logarithms."""
    return float(torch.logaddexp(torch.tensor(left, dtype=torch.float64), torch.tensor(right, dtype=torch.float64)))


def forced_alignment(
    log_probs: Float[Tensor, "frames vocab"], tokens: Int[Tensor, " tokens"], *, blank: int
) -> list[tuple[int, int]]:
    """Return each token's first frame and the one after its last, on the likeliest path that says an output.

    Args:
        log_probs: of each frame.
        tokens: the output.
        blank: id of the blank.

    Returns:
        One pair for each token; none at all if there are too few frames to say them.
    """
    frames, count = len(log_probs), len(tokens)
    if not count or not frames:
        return []
    # Blank, token, blank, ..., token, blank: a path walks through these states.
    states = torch.full((2 * count + 1,), blank, dtype=torch.long)
    states[1::2] = tokens
    scores = log_probs.double()[:, states]
    skips = torch.zeros(len(states), dtype=torch.bool)
    skips[3::2] = states[3::2] != states[1:-2:2]
    best = torch.full((len(states),), NEVER, dtype=torch.float64)
    best[:2] = scores[0, :2]
    steps = torch.zeros(frames, len(states), dtype=torch.long)
    for here in range(1, frames):
        one = torch.nn.functional.pad(best[:-1], (1, 0), value=NEVER)
        two = torch.nn.functional.pad(best[:-2], (2, 0), value=NEVER).where(skips, torch.tensor(NEVER).double())
        best, steps[here] = torch.stack([best, one, two]).max(0)
        best = best + scores[here]
    if best[-2:].max() == NEVER:
        return []
    at = len(states) - 2 + int(best[-2:].argmax())
    spans = [[frames, 0] for _ in range(count)]
    for here in range(frames - 1, -1, -1):
        if at % 2:
            span = spans[at // 2]
            span[0], span[1] = min(span[0], here), max(span[1], here + 1)
        at -= int(steps[here, at])
    return [(first, last) for first, last in spans]


@dataclass(frozen=True)
class Prefixes:
    """Beginnings of outputs, a row each, and how likely they are at each frame.

    Attributes:
        log_probs: of the frames of each row's recording.
        in_blank: of the row's tokens after so many frames, the last one a blank; column 0 is before the first.
        in_token: likewise, the last one no blank.
        last: the newest token of each row; the blank where there is none.
        total: that an output begins with these tokens.
    """

    log_probs: Float[Tensor, "rows frames vocab"]
    in_blank: Float[Tensor, "rows frames1"]
    in_token: Float[Tensor, "rows frames1"]
    last: Int[Tensor, " rows"]
    total: Float[Tensor, " rows"]

    @classmethod
    def start(cls, log_probs: Float[Tensor, "rows frames vocab"], blank: int) -> Prefixes:
        """Return the empty beginnings of recordings."""
        log_probs = log_probs.double()
        in_blank = torch.nn.functional.pad(log_probs[..., blank].cumsum(1), (1, 0))
        rows = len(log_probs)
        last = torch.full((rows,), blank, dtype=torch.long, device=log_probs.device)
        return cls(log_probs, in_blank, torch.full_like(in_blank, NEVER), last, in_blank.new_zeros(rows))

    def next_tokens(self, *, blank: int, eos: int) -> Float[Tensor, "rows vocab"]:
        """Return the log-probability of each next token, the end among them; that of the blank is -inf."""
        both = torch.logaddexp(self.in_blank, self.in_token)
        totals = _products(both[:, :-1], self.log_probs)
        # A token that repeats the last one needs a blank between them.
        again = self.log_probs.gather(2, self.last[:, None, None].expand(-1, self.log_probs.shape[1], 1))[..., 0]
        totals.scatter_(1, self.last[:, None], (self.in_blank[:, :-1] + again).logsumexp(1, keepdim=True))
        totals[:, blank] = NEVER
        totals[:, eos] = both[:, -1]
        # Of a beginning that is impossible, nothing is known.
        return torch.where(self.total[:, None] > NEVER, totals - self.total[:, None], NEVER)

    def extend(self, tokens: Int[Tensor, " rows"], blank: int) -> Prefixes:
        """Return the beginnings with one more token each."""
        frames = self.log_probs.shape[1]
        own = self.log_probs.gather(2, tokens[:, None, None].expand(-1, frames, 1))[..., 0]
        both = torch.logaddexp(self.in_blank, self.in_token)
        before = torch.where((tokens == self.last)[:, None], self.in_blank, both)[:, :-1]
        in_token = _recurrence(before, own)
        in_blank = _recurrence(in_token[:, :-1], self.log_probs[..., blank])
        return Prefixes(self.log_probs, in_blank, in_token, tokens, (before + own).logsumexp(1))

    def reorder(self, rows: Int[Tensor, " kept"]) -> Prefixes:
        """Return the beginnings at some rows."""
        parts = (self.log_probs, self.in_blank, self.in_token, self.last, self.total)
        return Prefixes(*(part[rows] for part in parts))

    def join(self, other: Prefixes, blank: int) -> Prefixes:
        """Return both, one below the other; the shorter recordings get frames of blanks."""
        frames = max(self.log_probs.shape[1], other.log_probs.shape[1])
        one, two = self._lengthened(frames, blank), other._lengthened(frames, blank)
        names = ("log_probs", "in_blank", "in_token", "last", "total")
        return Prefixes(*(torch.cat([getattr(one, name), getattr(two, name)]) for name in names))

    def _lengthened(self, frames: int, blank: int) -> Prefixes:
        more = frames - self.log_probs.shape[1]
        if not more:
            return self
        pad = torch.nn.functional.pad
        log_probs = pad(self.log_probs, (0, 0, 0, more), value=NEVER)
        log_probs[:, frames - more :, blank] = 0
        ended = torch.logaddexp(self.in_blank[:, -1:], self.in_token[:, -1:]).expand(-1, more)
        in_token = pad(self.in_token, (0, more), value=NEVER)
        return Prefixes(log_probs, torch.cat([self.in_blank, ended], 1), in_token, self.last, self.total)


def _products(
    before: Float[Tensor, "rows frames"], log_probs: Float[Tensor, "rows frames vocab"]
) -> Float[Tensor, "rows vocab"]:
    """The logarithm of the sum over frames of the products: one matrix product, scaled by the largest of each row."""
    scale = before.amax(1, keepdim=True).clamp(min=-1e300)
    return torch.einsum("rf,rfv->rv", (before - scale).exp(), log_probs.exp()).log() + scale


def _recurrence(
    entering: Float[Tensor, "rows frames"], own: Float[Tensor, "rows frames"]
) -> Float[Tensor, "rows frames1"]:
    """x[t] = (x[t-1] + entering[t]) own[t] of probabilities, from x[0] = 0, in logarithms."""
    rows = [torch.full_like(own[:, 0], NEVER)] if own.shape[1] else []
    for here in range(own.shape[1]):
        rows.append(torch.logaddexp(rows[-1], entering[:, here]) + own[:, here])
    return torch.stack(rows, 1) if rows else own.new_full((len(own), 1), NEVER)


@dataclass(frozen=True)
class JointState:
    """What a joint model carries: the decoder's state, the beginnings, and how to go on."""

    inner: Any
    prefixes: Prefixes
    blank: int

    def reorder(self, indices: Int[Tensor, " rows"]) -> JointState:
        """See `State.reorder`."""
        rows = indices.to(self.prefixes.last.device)
        return JointState(self.inner.reorder(indices), self.prefixes.reorder(rows), self.blank)

    def join(self, other: Any) -> JointState:
        """See `State.join`."""
        prefixes = self.prefixes.join(other.prefixes, self.blank)
        return JointState(self.inner.join(other.inner), prefixes, self.blank)


class JointModel:
    """A decoder and CTC as one next-token model: (1 - weight) of the decoder's log-probability, weight of CTC's.

    Args:
        model: the decoder.
        frames: gives the log-probabilities of CTC for a batch of sources, padded as `padded` does it.
        weight: 0 is the decoder alone, 1 is CTC alone.
        blank: id of the blank.
        bos: id that a target begins with.
        eos: id of the end.
    """

    def __init__(
        self,
        model: NextTokenModel,
        frames: Callable[[SourceBatch], Float[Tensor, "batch frames vocab"]],
        *,
        weight: float,
        blank: int,
        bos: int,
        eos: int,
    ) -> None:
        self.model, self.frames, self.weight = model, frames, weight
        self.blank, self.bos, self.eos = blank, bos, eos

    @property
    def device(self) -> torch.device:
        """See `NextTokenModel.device`."""
        return self.model.device

    def start(self, sources: SourceBatch) -> JointState:
        """See `NextTokenModel.start`."""
        prefixes = Prefixes.start(self.frames(sources), self.blank)
        return JointState(self.model.start(sources), prefixes, self.blank)

    def step(self, state: JointState, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], JointState]:
        """See `NextTokenModel.step`."""
        log_probs, inner = self.model.step(state.inner, tokens)
        old = state.prefixes
        new, first = old.extend(tokens, self.blank), tokens == self.bos
        # Rows may be at other steps: the first token of one is `<s>`, which CTC knows nothing of.
        parts = ((getattr(old, name), getattr(new, name)) for name in ("in_blank", "in_token", "last", "total"))
        chosen = [torch.where(first.view(-1, *[1] * (a.ndim - 1)), a, b) for a, b in parts]
        prefixes = Prefixes(old.log_probs, *chosen)
        heard = prefixes.next_tokens(blank=self.blank, eos=self.eos).to(log_probs)
        # Minus infinity times 0 would be no number.
        mixed = heard if self.weight == 1 else (1 - self.weight) * log_probs + self.weight * heard
        return (log_probs if self.weight == 0 else mixed), JointState(inner, prefixes, self.blank)
