"""Which tokens each row of a search may emit next, by its own request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.search.hypothesis import IMPOSSIBLE
from dragoman.search.sentence import Sentence


def banned(sentence: Sentence) -> tuple[int, ...]:
    """Return what none of these rows may emit next: what is never emitted, and before the minimum length the end."""
    request = sentence.request
    return (*request.never, request.frame.end) if sentence.step < request.options.min_length else request.never


def differs(sentence: Sentence) -> bool:
    """Return whether these rows may be held to more than `banned`, each to its own."""
    size, request = sentence.request.options.no_repeat_ngram, sentence.request
    return 0 < size <= sentence.step or sentence.step >= request.max_length or sentence.step < len(request.prefix)


def constrain(log_probs: Float[Tensor, "rows vocab"], batch: Sequence[Sentence]) -> Float[Tensor, "rows vocab"]:
    """Return log-probabilities with what is forbidden at -inf, not renormalised.

    Never what the request forbids; nothing but the forced prefix while it lasts; no end before the minimum length;
    nothing but the end at the maximum length, at what the options charge for it; no repeated n-gram.

    Args:
        log_probs: from the model; not changed.
        batch: whose rows they are, one after the other.
    """
    raw, forbidden = log_probs, {banned(sentence) for sentence in batch}
    if len(forbidden) == 1:
        log_probs = raw.index_fill(1, torch.tensor(forbidden.pop(), dtype=torch.long, device=raw.device), float("-inf"))
    else:
        log_probs = raw.clone()
    first = 0
    for sentence in batch:
        rows = slice(first, first + sentence.width)
        first += sentence.width
        if forbidden:
            log_probs[rows, list(banned(sentence))] = float("-inf")
        if differs(sentence):
            _hold(log_probs[rows], raw[rows], sentence)
    return log_probs


def _hold(log_probs: Tensor, raw: Tensor, sentence: Sentence) -> None:
    """Apply what differs from row to row, in place."""
    request, step = sentence.request, sentence.step
    size, end = request.options.no_repeat_ngram, request.frame.end
    everywhere = range(sentence.width)
    if size and step >= size:
        for row, tokens in enumerate(sentence.histories()):
            log_probs[row, _closing_tokens(tokens, size)] = float("-inf")
        stuck = (log_probs.amax(1) == float("-inf")).nonzero()[:, 0].tolist()
        _only(log_probs, dict.fromkeys(stuck, end), raw)
    charged = request.options.end_at_limit == "charged"
    if step >= request.max_length:
        _only(log_probs, dict.fromkeys(everywhere, end), raw if charged else torch.zeros_like(raw))
    if step < len(request.prefix):
        _only(log_probs, dict.fromkeys(everywhere, request.prefix[step]), raw if charged else torch.zeros_like(raw))


def _only(log_probs: Tensor, forced: Mapping[int, int], raw: Tensor) -> None:
    """Rows that may emit nothing but one token each."""
    if not forced:
        return
    rows = torch.tensor(list(forced), dtype=torch.long, device=raw.device)
    tokens = torch.tensor(list(forced.values()), dtype=torch.long, device=raw.device)
    # At the model's own value, even where it was forbidden; what the model finds impossible stays finite, to be ranked.
    values = raw[rows, tokens].clamp(min=IMPOSSIBLE)
    log_probs[rows] = float("-inf")
    log_probs[rows, tokens] = values


def _closing_tokens(tokens: list[int], size: int) -> list[int]:
    """Tokens that would complete an n-gram already in `tokens`; the end is never among them."""
    tail = tokens[len(tokens) - size + 1 :]
    return [tokens[i + size - 1] for i in range(len(tokens) - size + 1) if tokens[i : i + size - 1] == tail]
