"""Scores of texts: against the model computed anew at each token, in float64."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from dragoman.engines import ModuleEngine
from dragoman.errors import ModelError
from dragoman.language import TextScore, TextScorer, TextSummary, format_score, summarize
from dragoman.markov import RUNGS, FirstOrder, Skips
from dragoman.nn import CausalLM
from dragoman.search import PairScore
from dragoman.text.tokenizer import BOS, EOS, MASK
from end_to_end import small
from language.test_filling import masked_model, words

TEXTS = ["ba ce di", "", "unknown words  ba", "</s> <mask> fo", *small.sentences(20, 3)]


@pytest.fixture(scope="module")
def causal() -> TextScorer:
    pair = small.word_pair()
    made = small.model(small.shape(pair, "causal"))
    assert isinstance(made, CausalLM)
    return TextScorer(ModuleEngine(made), pair.target)


@pytest.fixture(scope="module")
def masked() -> TextScorer:
    return TextScorer(masked_model(words()), words())


def test_a_causal_model_gives_each_token_given_those_before_it(causal: TextScorer) -> None:
    assert isinstance(causal.model, ModuleEngine)
    for text, found in zip(TEXTS, causal.score(TEXTS), strict=True):
        ids = [*causal.tokenizer.encode(text), EOS]
        with torch.no_grad():
            logits = causal.model.model(torch.tensor([[BOS, *ids[:-1]]]))[0].log_softmax(-1)
        expected = logits[range(len(ids)), ids].tolist()
        assert found.token_scores == pytest.approx(expected, abs=1e-10)
        assert found.log_probability == pytest.approx(sum(expected), abs=1e-9)
        assert (found.text, len(found.tokens)) == (text, len(ids) - 1)
    assert not causal.pseudo


def test_a_masked_model_gives_each_token_masked_alone(masked: TextScorer) -> None:
    for text, found in zip(TEXTS, masked.score(TEXTS), strict=True):
        ids, expected = masked.tokenizer.encode(text), []
        for place, token in enumerate(ids):
            row = torch.tensor([[*ids[:place], MASK, *ids[place + 1 :], EOS]])
            with torch.no_grad():
                expected.append(float(masked.model(row)[0, place].log_softmax(-1)[token]))
        assert found.token_scores == pytest.approx(expected, abs=1e-10)
        assert len(found.tokens) == len(found.token_scores)
    assert masked.pseudo
    assert masked.summary(TEXTS).pseudo


@pytest.mark.parametrize("rung", RUNGS)
def test_a_markov_model_gives_what_it_counted(rung) -> None:
    vocabulary = small.word_pair().target
    sequences = [vocabulary.encode(text) for text in small.sentences(60, 4)]
    model = rung.fit(sequences, len(vocabulary), k=0.1, backoff=1.0)
    scorer = TextScorer(model, vocabulary)
    for text, found in zip(TEXTS, scorer.score(TEXTS), strict=True):
        assert found.log_probability == pytest.approx(model.log_probability(vocabulary.encode(text)), abs=1e-9)
    encoded = [vocabulary.encode(text) for text in TEXTS]
    assert scorer.summary(TEXTS).perplexity == pytest.approx(model.perplexity(encoded))


def test_batch_mates_and_chunks_change_nothing(causal: TextScorer, masked: TextScorer) -> None:
    for scorer in (causal, masked):
        together = scorer.score(TEXTS)
        for one, line in zip(together, scorer.score_lines(iter(TEXTS), chunk=3), strict=True):
            assert line.token_scores == pytest.approx(one.token_scores, abs=1e-10)
        assert scorer.score([]) == []


def test_sums_and_rates() -> None:
    scores = [
        TextScore("ba ce", -3.0, ("ba", "ce"), (-1.0, -1.5, -0.5)),
        TextScore("猫", -2.0, ("<unk>",), (-1.0, -1.0)),
        TextScore("", -0.5, (), (-0.5,)),
    ]
    found = summarize(scores)
    assert found == TextSummary(-5.5, lines=3, tokens=6, words=6, bytes=5 + 3 + 3, unknown=1)
    assert found.perplexity == pytest.approx(math.exp(5.5 / 6))
    assert found.bits_per_byte == pytest.approx(5.5 / math.log(2) / 11)
    assert str(found).startswith(
        "3 lines, log-probability -5.5000; perplexity 2.501 per token, </s> counted, 2.501 per"
    )
    assert str(found).endswith("; 1 unknown tokens")
    pair = PairScore("source", "ba ce", -3.0, ("ba", "ce"), (-1.0, -1.5, -0.5))
    assert summarize([pair]) == summarize(scores[:1])
    pseudo = summarize([TextScore("ba ce", -2.5, ("ba", "ce"), (-1.0, -1.5))])
    assert pseudo == TextSummary(-2.5, lines=1, tokens=2, words=2, bytes=5, pseudo=True)
    assert "pseudo-perplexity" in str(pseudo)
    assert json.loads(json.dumps(summarize([]).to_dict(), allow_nan=False))["lines"] == 0


def test_the_impossible_is_infinitely_unlikely_and_still_json() -> None:
    vocabulary = small.word_pair().target
    model = FirstOrder.fit([vocabulary.encode("ba ce")], len(vocabulary), k=0.0)
    (found,) = TextScorer(model, vocabulary).score(["ce ba"])
    assert found.log_probability == -math.inf
    tree = json.loads(format_score(found, as_json=True), parse_constant=pytest.fail)
    assert tree["log_probability"] is None
    total = summarize([found])
    assert total.perplexity == math.inf
    assert total.to_dict()["perplexity"] is None
    assert format_score(found, tokens=True).startswith("-inf\tce:-inf ")


def test_nothing_has_no_perplexity(masked: TextScorer) -> None:
    for total in (summarize([]), masked.summary(["", ""])):
        assert math.isnan(total.perplexity)
        assert {total.to_dict()[rate] for rate in ("perplexity", "word_perplexity", "bits_per_byte")} == {None}
        assert str(total) == f"{total.lines} lines, in which there is nothing to predict"


def test_directories_of_each_family_score(causal: TextScorer, masked: TextScorer, tmp_path: Path) -> None:
    pair = small.word_pair()
    folder = small.saved(tmp_path / "causal", pair, "causal")
    assert TextScorer.from_pretrained(folder).score(TEXTS) == causal.score(TEXTS)
    counted = Skips.fit([pair.target.encode(text) for text in TEXTS[4:]], len(pair.target), k=0.1)
    counted.save(tmp_path / "skips")
    pair.save(tmp_path / "skips")
    assert TextScorer.from_pretrained(tmp_path / "skips").score(TEXTS) == TextScorer(counted, pair.target).score(TEXTS)
    with pytest.raises(ModelError, match="scores no text by itself") as caught:
        TextScorer.from_pretrained(small.saved(tmp_path / "pairs", pair))
    assert "--source and --target" in str(caught.value)
    small.word_pair(*small.WORDS, "more").save(tmp_path / "skips")
    with pytest.raises(ModelError, match="the vocabulary does not fit the model"):
        TextScorer.from_pretrained(tmp_path / "skips")


def test_a_text_too_long_has_no_score_and_the_others_do(causal: TextScorer) -> None:
    alone, long, other = causal.score(["ba", "ba " * 5000, "ce"])
    assert math.isnan(long.log_probability)
    assert long.to_dict()["log_probability"] is None
    assert alone.log_probability == pytest.approx(causal.score(["ba"])[0].log_probability, abs=1e-9)
    summary = summarize([alone, long, other])
    assert (summary.lines, summary.unscored) == (2, 1)
    assert summary.perplexity == summarize([alone, other]).perplexity
    assert str(summary).endswith("1 more could not be scored")
