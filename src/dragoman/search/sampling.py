"""Sampling: the next token drawn from the model's distribution, sharpened, flattened or cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.search.greedy import Line
from dragoman.search.hypothesis import Hypothesis, check_numbers
from dragoman.search.protocol import NextTokenModel
from dragoman.search.request import SearchRequest
from dragoman.search.running import RunningSearch

# So many tokens mostly hold the one that is drawn; to sort a whole vocabulary takes longer than the model's step.
HEAD = 64


class Draw(Line):
    """One output that is drawn, from a counter-based generator of its own: batch mates and load change nothing.

    Args:
        request: what was asked.
        number: of the draw, which with the request's seed and the options' determines what is drawn.
    """

    def __init__(self, request: SearchRequest, number: int = 0) -> None:
        super().__init__(request)
        key = _key(request.options.sampling_seed, request.seed, number)
        self.stream = np.random.Generator(np.random.Philox(key=key))

    @property
    def group(self) -> tuple[object, ...]:
        """Draws from equally changed distributions are made together."""
        options = self.request.options
        return ("sampling", options.temperature, options.top_k, options.top_p)

    @property
    def count(self) -> int | None:
        """All log-probabilities are looked at."""
        return None


def advance_draws(
    lines: Sequence[Draw], log_probs: Float[Tensor, "rows vocab"], _: Int[Tensor, "rows count"] | None
) -> None:
    """Append a token that is drawn to each output.

    Raises:
        ModelError: the model gives NaN.
    """
    options = lines[0].request.options
    uniform = torch.tensor([line.stream.random() for line in lines], dtype=torch.float64)
    tokens = draw_tokens(log_probs, uniform, options.temperature, options.top_k, options.top_p)
    chosen = log_probs.gather(1, tokens[:, None])[:, 0].tolist()
    check_numbers(chosen)
    for line, token, value in zip(lines, tokens.tolist(), chosen, strict=True):
        line.append(token, value)


def sample(model: NextTokenModel, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
    """Return `n_best` independent draws for each request, likeliest first.

    `log_probability` is the model's own, before temperature and cuts.

    Raises:
        ModelError: the model gives NaN.
    """
    draws: list[list[Hypothesis]] = [[] for _ in requests]
    for number in range(max((request.options.n_best for request in requests), default=0)):
        rows = [row for row, request in enumerate(requests) if number < request.options.n_best]
        lines = [Draw(requests[row], number) for row in rows]
        running = RunningSearch(model, {"sampling": advance_draws})
        running.admit(lines)
        running.run()
        for row, line in zip(rows, lines, strict=True):
            draws[row] += line.found or []
    return [sorted(row, key=lambda hypothesis: -hypothesis.score) for row in draws]


def _key(seed: int, row: int, draw: int) -> np.ndarray:
    return np.random.SeedSequence([seed, row, draw]).generate_state(2, np.uint64)


def draw_tokens(
    log_probs: Float[Tensor, "rows vocab"],
    uniform: Float[Tensor, " rows"],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Int[Tensor, " rows"]:
    """Return the token of each row at which the cumulative probability, likeliest first, passes its uniform number.

    Args:
        log_probs: need not be normalised.
        uniform: numbers in [0, 1), one per row.
        temperature: log-probabilities are divided by it.
        top_k: only the k likeliest tokens; 0 is all (Fan et al. 2018).
        top_p: only the likeliest tokens that together reach this probability (Holtzman et al. 2020).
    """
    wide = log_probs.to(torch.float32 if log_probs.device.type == "mps" else torch.float64)  # MPS has no float64
    scaled, uniform = wide / temperature, uniform.to(wide.dtype).to(wide.device)  # first the type, for MPS
    vocab = scaled.shape[-1]
    head = min(top_k or HEAD, vocab)
    drawn, sure = _draw(scaled, uniform, head, top_k, top_p)
    if not (head == vocab or sure.all()):
        rest = (~sure).nonzero()[:, 0]
        drawn[rest] = _draw(scaled[rest], uniform[rest], vocab, top_k, top_p)[0]
    return drawn


def _draw(
    scaled: Float[Tensor, "rows vocab"], uniform: Float[Tensor, " rows"], head: int, top_k: int, top_p: float
) -> tuple[Int[Tensor, " rows"], Bool[Tensor, " rows"]]:
    """A token for each row out of its `head` likeliest, and where it is surely what all of its tokens would give."""
    ranked, tokens = _likeliest(scaled, head)
    # What just missed the head may be as likely as what is in it; then the order of the two is left to a full sort.
    ends, last = (scaled == ranked[:, -1:]).sum(-1), (ranked == ranked[:, -1:]).sum(-1)
    sure = (ends == last) | (ranked[:, -1] == float("-inf"))
    if top_k:
        ranked = ranked[:, :top_k]
    total = (ranked if top_k else scaled).logsumexp(-1, keepdim=True)
    shares = (ranked - total).exp()
    reached = shares.cumsum(-1)
    possible = ranked > float("-inf")
    if top_p < 1.0:
        before = reached.roll(1, dims=-1)
        before[:, 0] = 0.0
        possible &= before < top_p
        uniform = uniform * (shares * possible).sum(-1)
        sure &= (reached[:, -1] >= top_p) | bool(top_k)
    elif not top_k:
        sure &= reached[:, -1] > uniform
    # Rounding may leave the last sum below the number drawn: the last token that is possible at all is the limit.
    place = (reached <= uniform[:, None]).sum(-1).minimum(possible.sum(-1) - 1).clamp_min(0)
    return tokens.gather(1, place[:, None])[:, 0], sure


def _likeliest(
    scaled: Float[Tensor, "rows vocab"], count: int
) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """The `count` likeliest of each row, likeliest first, of equals the lower id first."""
    if count == scaled.shape[-1]:
        return scaled.sort(dim=-1, descending=True, stable=True)
    ids = scaled.topk(count, dim=-1).indices.sort(dim=-1).values
    ranked, order = scaled.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return ranked, ids.gather(1, order)
