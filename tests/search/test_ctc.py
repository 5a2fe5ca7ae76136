"""CTC beside the sum over every path, on cases that are small enough for it."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product

import pytest
import torch
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.search.ctc import JointModel, Prefixes, forced_alignment, merged, padded, prefix_search
from dragoman.search.dispatch import search
from dragoman.search.request import SearchRequest
from dragoman.sequences import Frame, Source, SourceBatch

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


class Bigrams:
    """A decoder that knows the newest token alone."""

    device = torch.device("cpu")

    def __init__(self, seed: int, vocab: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.table = torch.randn(vocab, vocab, generator=draw, dtype=torch.float64).log_softmax(1)

    def start(self, sources: SourceBatch) -> Rows:
        return Rows(len(sources))

    def step(self, state: Rows, tokens: Tensor) -> tuple[Tensor, Rows]:
        return self.table[tokens], state


class Rows:
    def __init__(self, count: int) -> None:
        self.count = count

    def reorder(self, indices: Tensor) -> Rows:
        return Rows(len(indices))

    def join(self, other: Rows) -> Rows:
        return Rows(self.count + other.count)


BOS = 4


def joint_model(weight: float, log_probs: Tensor) -> JointModel:
    """Sources are numbers of recordings."""
    return JointModel(Bigrams(5, 5), lambda sources: log_probs[sources.ids[:, 0]], weight=weight, blank=BLANK, bos=BOS,
                      eos=EOS)  # fmt: skip


def five(seed: int, count: int) -> Tensor:
    """Frames over a vocabulary that has a beginning, which is never said."""
    never = torch.full((count, 1), float("-inf"), dtype=torch.float64)
    return torch.cat([frames(seed, count), never], 1)


def request_of(number: int, **options: object) -> SearchRequest:
    return SearchRequest(
        Source((number,), end=()), DecodingConfig(**options), frame=Frame(BOS, EOS), never=(BOS, BLANK)
    )


@pytest.mark.parametrize("weight", [0.3, 0.8, 1.0])
def test_a_joint_search_finds_the_best_of_all_outputs(weight: float) -> None:
    recordings = torch.stack([five(seed, 4) for seed in range(4)])
    model = joint_model(weight, recordings)
    options = {"beam_size": 40, "n_best": 3, "length_penalty": 0.0, "max_length": 5}
    found = search(model, [request_of(number, **options) for number in range(4)])
    table = Bigrams(5, 5).table
    for number, hypotheses in enumerate(found):
        ranked = []
        for output, value in outputs(recordings[number]).items():
            pairs = zip((BOS, *output), (*output, EOS), strict=True)
            decoder = sum(float(table[one, other]) for one, other in pairs)
            ranked.append(((1 - weight) * decoder + weight * math.log(value), output))
        best = sorted(ranked, reverse=True)[:3]
        assert [tuple(one.tokens) for one in hypotheses] == [output for _, output in best]
        assert [one.log_probability for one in hypotheses] == pytest.approx([value for value, _ in best], abs=1e-5)


def test_rows_of_a_joint_model_do_not_know_each_other() -> None:
    recordings = torch.stack([five(seed, 6) for seed in range(4)])
    model = joint_model(0.5, recordings)
    options = {"beam_size": 3, "n_best": 2, "max_length": 6}
    requests = [request_of(number, **options) for number in range(4)]
    together = search(model, requests)
    alone = [search(model, [one])[0] for one in requests]
    assert [[one.tokens for one in each] for each in together] == [[one.tokens for one in each] for each in alone]
    # One that joins later, of a shorter recording.
    shorter = joint_model(0.5, torch.stack([five(8, 3)]))
    source = SourceBatch(torch.tensor([[0]]), torch.ones(1, 1).bool())
    first = model.start(source)
    _, first = model.step(first, torch.tensor([BOS]))
    _, first = model.step(first, torch.tensor([2]))
    second = shorter.start(source)
    both = first.join(second)
    values, _ = model.step(both, torch.tensor([3, BOS]))
    one, _ = model.step(first, torch.tensor([3]))
    other, _ = shorter.step(second, torch.tensor([BOS]))
    assert torch.allclose(values, torch.cat([one, other]))
