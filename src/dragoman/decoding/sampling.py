"""Sampling: the next token drawn from the model's distribution, sharpened, flattened or cut."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.greedy import follow
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.protocol import NextTokenModel, SearchRequest


def sample(model: NextTokenModel, request: SearchRequest) -> list[list[Hypothesis]]:
    """`n_best` independent draws per row, likeliest first.

    Each row draws from a counter-based generator of its own, seeded by (seed, row seed, draw): batch mates and load
    change nothing. `log_probability` is the model's own, before temperature and cuts.
    """
    options = request.options
    seeds = request.seeds or [0] * len(request.source)
    draws: list[list[Hypothesis]] = [[] for _ in seeds]
    for draw in range(options.n_best):
        streams = [np.random.Generator(np.random.Philox(key=_key(options.sampling_seed, seed, draw))) for seed in seeds]

        def choose(log_probs: Tensor, rows: list[int], streams: list[np.random.Generator] = streams) -> Tensor:
            uniform = torch.tensor([streams[row].random() for row in rows], dtype=torch.float64)
            return draw_tokens(log_probs, uniform, options.temperature, options.top_k, options.top_p)

        for row, hypotheses in enumerate(follow(model, request, choose)):
            draws[row] += hypotheses
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
    """The token of each row at which the cumulative probability, likeliest first, passes its uniform number.

    Args:
        log_probs: need not be normalised.
        uniform: numbers in [0, 1), one per row.
        temperature: log-probabilities are divided by it.
        top_k: only the k likeliest tokens; 0 is all (Fan et al. 2018).
        top_p: only the likeliest tokens that together reach this probability (Holtzman et al. 2020).
    """
    wide = log_probs.to(torch.float32 if log_probs.device.type == "mps" else torch.float64)  # MPS has no float64
    ranked, tokens = (wide / temperature).sort(dim=-1, descending=True, stable=True)
    if top_k:
        ranked[:, top_k:] = float("-inf")
    before = ranked.softmax(-1).cumsum(-1).roll(1, dims=-1)
    before[:, 0] = 0.0
    if top_p < 1.0:
        ranked = ranked.masked_fill(before >= top_p, float("-inf"))
    reached = ranked.softmax(-1).cumsum(-1)
    # Rounding may leave the last sum below the number drawn: the last token that is possible at all is the limit.
    possible = (ranked > float("-inf")).sum(-1) - 1
    place = (reached <= uniform.to(reached.dtype).to(reached.device)[:, None]).sum(-1).minimum(possible)
    return tokens.gather(1, place[:, None])[:, 0]
