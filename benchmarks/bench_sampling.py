"""Drawing tokens: the likeliest few sorted first, against sorting the whole vocabulary."""

from __future__ import annotations

import torch
from rows import print_rows, settle
from torch import Tensor

from dragoman.search import draw_tokens

ROWS, VOCAB = 32, 8000
# The cuts: so many tokens (0 is all), and the probability that they reach together.
CUTS = ((0, 1.0), (10, 1.0), (0, 0.8))


def next_tokens(peaked: bool) -> Tensor:
    """Log-probabilities like a model's of a caption: a few likely tokens, and a tenth spread over all; or flat ones."""
    logits = torch.randn(ROWS, VOCAB)
    return (0.9 * (8 * logits).softmax(-1) + 0.1 / VOCAB).log() if peaked else logits.log_softmax(-1)


def sort_all(log_probs: Tensor, uniform: Tensor, top_k: int, top_p: float) -> Tensor:
    """What `draw_tokens` gives, the obvious way."""
    ranked, tokens = log_probs.double().sort(dim=-1, descending=True, stable=True)
    ranked[:, top_k or VOCAB :] = float("-inf")
    before = ranked.softmax(-1).cumsum(-1) - ranked.softmax(-1)
    reached = ranked.masked_fill(before >= top_p, float("-inf")).softmax(-1).cumsum(-1)
    place = (reached <= uniform[:, None]).sum(-1).clamp_max(VOCAB - 1)
    return tokens.gather(1, place[:, None])[:, 0]


def main() -> None:
    settle()
    uniform = torch.rand(ROWS, dtype=torch.float64)
    for peaked in (True, False):
        log_probs = next_tokens(peaked)
        for top_k, top_p in CUTS:
            given = (log_probs, uniform)
            runs = {
                "whole vocabulary sorted": lambda g=given, k=top_k, p=top_p: sort_all(*g, k, p),
                "likeliest first": lambda g=given, k=top_k, p=top_p: draw_tokens(*g, 1.0, k, p),
            }
            one, other = (run() for run in runs.values())
            cut = {"top_k": top_k, "top_p": top_p, "same": bool(torch.equal(one, other))}
            facts = {"rows": ROWS, "vocabulary": VOCAB, "peaked": peaked, **cut}
            print_rows("sampling", facts, runs, budget=3.0, work={"tokens": ROWS})


if __name__ == "__main__":
    main()
