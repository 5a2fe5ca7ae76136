"""n-best lists: each text once, as many as were asked for, by falling scores, the best as in a search for one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import DecodingConfig
from dragoman.search import SearchRequest
from dragoman.search.hypothesis import Hypothesis
from dragoman.sequences import Source
from dragoman.text import TokenizerPair
from dragoman.translation import Translator
from dragoman.translation.distinct import MOST_TIMES, distinct_texts
from end_to_end import small

WIDE = 40


def hypothesis(token: int, score: float) -> Hypothesis:
    return Hypothesis((token,), score, score, (score, 0.0))


def run(request: SearchRequest, found: Sequence[Hypothesis], first: float = -1.0) -> tuple[list[Hypothesis], list[int]]:
    """What is left of a list, and the beams that were asked, of a search that finds token n at place n."""
    asked: list[int] = []

    def search(wide: SearchRequest) -> Generator[None, None, list[Hypothesis]]:
        asked.append(wide.options.beam_size)
        yield
        return ranked(wide, first)

    steps = distinct_texts(request, found, decode, search)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, asked


def ranked(request: SearchRequest, first: float = -1.0) -> list[Hypothesis]:
    return [hypothesis(token, first - token) for token in range(min(WIDE, request.options.n_best))]


def decode(tokens: Sequence[int]) -> str:
    return str(tokens[0] // 10)


def test_a_list_is_filled_up_from_wider_beams_and_keeps_its_first() -> None:
    request = SearchRequest(Source((4,)), DecodingConfig(beam_size=8, n_best=3))
    found, asked = run(request, ranked(request))
    assert [one.tokens for one in found] == [(0,), (10,), (20,)], "of each text the best"
    assert asked == [8, 16, 32], "no wider than needed"


def test_what_a_wider_beam_likes_better_does_not_come_first() -> None:
    request = SearchRequest(Source((4,)), DecodingConfig(beam_size=4, n_best=2))
    found, _ = run(request, [hypothesis(0, -1.0), hypothesis(1, -2.0)], first=5.0)
    assert found[0].score == -1.0
    assert all(one.score <= -1.0 for one in found)


def test_a_search_that_finds_no_more_ends() -> None:
    request = SearchRequest(Source((4,)), DecodingConfig(beam_size=20, n_best=20))
    found, asked = run(request, ranked(request))
    assert [decode(one.tokens) for one in found] == ["0", "1", "2", "3"]
    assert asked[-1] == 20 * MOST_TIMES


@pytest.mark.parametrize("options", [DecodingConfig(n_best=3, sampling=True), DecodingConfig(beam_size=4)])
def test_draws_may_repeat_and_one_output_needs_no_more(options: DecodingConfig) -> None:
    drawn = [hypothesis(1, -1.0), hypothesis(2, -1.5), hypothesis(1, -1.0)][: options.n_best]
    assert run(SearchRequest(Source((4,)), options), drawn) == (drawn, [])


def check_lists(translator: Translator, lines: list[str], n_best: int, beam_size: int) -> list[list[str]]:
    lists = []
    several = translator.translate(lines, n_best=n_best, beam_size=beam_size)
    single = translator.translate(lines, beam_size=beam_size)
    for many, one in zip(several, single, strict=True):
        texts, scores = ([getattr(found, name) for found in many.alternatives] for name in ("text", "score"))
        assert len(set(texts)) == len(texts) == n_best
        assert scores == sorted(scores, reverse=True)
        assert (texts[0], many.text) == (one.text, one.text)
        assert scores[0] == pytest.approx(one.score, abs=1e-5)
        lists.append(texts)
    return lists


@pytest.mark.parametrize(("n_best", "beam_size"), [(2, 2), (5, 5), (3, 8), (8, 8)])
@pytest.mark.parametrize("pair", ["word", "bytes"])
def test_lists_hold_different_texts_in_order(pair: str, n_best: int, beam_size: int) -> None:
    translator = small.translator(small.word_pair() if pair == "word" else ambiguous_pair())
    check_lists(translator, small.sentences(12), n_best, beam_size)


def test_a_text_of_several_pieces_fills_no_list_twice() -> None:
    """Without the filling up there are repetitions here."""
    translator = small.translator(ambiguous_pair())
    plan = replace(translator.plan(translator.options({"n_best": 8})), decode=None)
    requests = [plan.request(translator.tokenizers.encode_source(text)) for text in small.sentences(12)]
    found = [
        [translator.tokenizers.target.decode(one.tokens) for one in some] for some in plan.run(requests).hypotheses
    ]
    assert any(len(set(texts)) < len(texts) for texts in found)


def test_every_engine_gives_the_same_lists(tmp_path: Path) -> None:
    pair = ambiguous_pair()
    config = small.shape(pair)
    folder = small.save(tmp_path / "model", small.model(config).float(), config, pair, DecodingConfig(max_length=8))
    lists = [
        check_lists(Translator.from_pretrained(folder, engine=engine, precision="float32"), small.sentences(6), 6, 6)
        for engine in ("module", "packed", "native")
    ]
    assert lists[0] == lists[1] == lists[2]


def test_batch_mates_change_no_list() -> None:
    translator, lines = small.translator(ambiguous_pair()), small.sentences(8)
    together = check_lists(translator, lines, 6, 6)
    assert together == [check_lists(translator, [line], 6, 6)[0] for line in lines]


def ambiguous_pair() -> TokenizerPair:
    """Subwords with every byte: most texts have several sequences of pieces."""
    return small.byte_pair()
