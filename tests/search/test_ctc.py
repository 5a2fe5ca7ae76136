"""CTC beside the sum over every path, on cases that are small enough for it."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product

import pytest
import torch
from torch import Tensor

from dragoman.search.ctc import Prefixes, forced_alignment, merged, padded, prefix_search

BLANK, EOS = 0, 1


def frames(seed: int, count: int, vocab: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, vocab, generator=generator, dtype=torch.float64) * 2
    scores[:, EOS] = float("-inf")
    return scores.log_softmax(1)


def outputs(log_probs: Tensor) -> dict[tuple[int, ...], float]:
    """The probability of every output, by the sum over every path."""
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for path in product(range(log_probs.shape[1]), repeat=len(log_probs)):
        value = float(sum((log_probs[at, token] for at, token in enumerate(path)), torch.tensor(0.0)).exp())
        found[tuple(merged(list(path), BLANK))] += value
    return {output: value for output, value in found.items() if value}


@pytest.mark.parametrize("seed", range(4))
def test_prefix_search_finds_the_likeliest_outputs(seed: int) -> None:
    log_probs = frames(seed, 5)
    truth = outputs(log_probs)
    found = prefix_search(log_probs, blank=BLANK, beam_size=1000)
    assert {output for output, value in found if value > -1e9} == set(truth)
    for output, value in found:
        if output in truth:
            assert value == pytest.approx(math.log(truth[output]), abs=1e-9)
    assert [value for _, value in found] == sorted((value for _, value in found), reverse=True)
    assert prefix_search(log_probs, blank=BLANK, beam_size=8)[0][0] == max(truth, key=truth.__getitem__)


@pytest.mark.parametrize("seed", range(3))
def test_next_tokens_are_those_of_all_outputs(seed: int) -> None:
    log_probs = frames(seed, 5)
    truth = outputs(log_probs)
    for prefix in [(), (2,), (3, 2), (2, 2), (3, 3, 2)]:
        # A recording more: rows do not know each other.
        state = Prefixes.start(torch.stack([frames(9, 5), log_probs]), BLANK)
        for token in prefix:
            state = state.extend(torch.tensor([2, token]), BLANK)
        begins = sum(value for output, value in truth.items() if output[: len(prefix)] == prefix)
        assert float(state.total[1].exp()) == pytest.approx(begins)
        given = state.next_tokens(blank=BLANK, eos=EOS)[1].exp()
        assert float(given[EOS]) == pytest.approx(truth.get(prefix, 0) / begins)
        for token in (2, 3):
            longer = (*prefix, token)
            wanted = sum(value for output, value in truth.items() if output[: len(longer)] == longer)
            assert float(given[token]) == pytest.approx(wanted / begins)
        assert float(given.sum()) == pytest.approx(1.0)


def test_padding_changes_nothing_and_the_total_is_the_loss() -> None:
    log_probs = frames(3, 6)
    tokens = torch.tensor([2, 3, 3])
    longer = torch.cat([log_probs, frames(4, 3)])
    batch = padded(longer[None], torch.arange(9)[None] < 6, BLANK)
    values = []
    for given in (log_probs[None], batch):
        state = Prefixes.start(given, BLANK)
        value = 0.0
        for token in tokens:
            value += float(state.next_tokens(blank=BLANK, eos=EOS)[0, token])
            state = state.extend(token[None], BLANK)
        values.append(value + float(state.next_tokens(blank=BLANK, eos=EOS)[0, EOS]))
    loss = torch.nn.functional.ctc_loss(
        log_probs[:, None], tokens[None], torch.tensor([6]), torch.tensor([3]), blank=BLANK, reduction="sum"
    )
    assert values == pytest.approx([-float(loss)] * 2)


@pytest.mark.parametrize("seed", range(3))
def test_forced_alignment_is_on_the_likeliest_path(seed: int) -> None:
    log_probs = frames(seed, 6)
    for tokens in ((2,), (2, 3), (3, 3), (2, 3, 2)):
        paths = [path for path in product((0, 2, 3), repeat=6) if tuple(merged(list(path), BLANK)) == tokens]
        best = max(paths, key=lambda path: float(sum(log_probs[at, token] for at, token in enumerate(path))))
        said = [at for at, token in enumerate(best) if token]
        spans = forced_alignment(log_probs, torch.tensor(tokens), blank=BLANK)
        assert [at for first, last in spans for at in range(first, last)] == said
        assert [best[first] for first, _ in spans] == list(tokens)
    assert forced_alignment(log_probs[:1], torch.tensor([2, 3]), blank=BLANK) == []
    assert forced_alignment(log_probs, torch.tensor([], dtype=torch.long), blank=BLANK) == []
