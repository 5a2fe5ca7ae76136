"""Continuing prompts: against the model computed anew at each prefix, in float64."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.language import Completer, Filler, TextScorer, format_outputs, load_completer
from dragoman.markov import RUNGS, FirstOrder
from dragoman.models import save_pretrained
from dragoman.nn import CausalLM
from dragoman.text import TokenizerPair
from dragoman.text.tokenizer import BOS, EOS, PAD, UNK
from end_to_end import small
from language.test_filling import masked_model, words

PROMPTS = ["", "ba", "ce di fo", "ne ne ne ne ne", "gu ha"]


@pytest.fixture(scope="module")
def completer() -> Completer:
    return small.completer(small.word_pair())


def log_probabilities(completer: Completer, prefix: list[int]) -> list[float]:
    model = completer.model.model
    with torch.no_grad():
        return model(torch.tensor([[BOS, *prefix]]))[0, -1].log_softmax(-1).tolist()


def test_greedy_continues_with_the_likeliest_token(completer: Completer) -> None:
    options = completer.options({"beam_size": 1})
    for prompt, (found,) in zip(PROMPTS, completer.complete(PROMPTS, options), strict=True):
        ids, total = completer.tokenizer.encode(prompt), 0.0
        for place, token in enumerate(ids):
            total += log_probabilities(completer, ids[:place])[token]
        while not ids or ids[-1] != EOS:
            values = log_probabilities(completer, ids)
            values[PAD] = values[BOS] = values[UNK] = float("-inf")
            ids.append(EOS if len(ids) == 12 else max(range(len(values)), key=values.__getitem__))
            total += values[ids[-1]]
        assert found.text == completer.tokenizer.decode(ids)
        assert found.text.startswith(prompt)
        assert found.tokens == tuple(completer.tokenizer.pieces(ids[:-1]))
        assert found.log_probability == pytest.approx(total, abs=1e-10)
        assert sum(found.token_scores) == pytest.approx(total, abs=1e-10)


def test_the_maximum_length_counts_the_prompt(completer: Completer) -> None:
    options = completer.options({"max_length": 4, "min_length": 4})
    lengths = [len(found.tokens) for (found,) in completer.complete(PROMPTS, options)]
    assert lengths == [4, 4, 4, 5, 4]
    open_ended = {"max_length": None, "max_length_factor": 1.0, "max_length_offset": 2, "min_length": 99}
    lengths = [len(found.tokens) for (found,) in completer.complete(PROMPTS, completer.options(open_ended))]
    assert lengths == [2, 3, 5, 7, 4]


def test_the_best_come_first_and_the_beam_grows_with_them(completer: Completer) -> None:
    assert completer.options({"n_best": 6}).beam_size == 6
    assert completer.options({"n_best": 2}).beam_size == completer.decoding.beam_size == 4
    with pytest.raises(ConfigError, match="n_best 6 is more than beam_size 5"):
        completer.options({"n_best": 6, "beam_size": 5})
    for outputs in completer.complete(PROMPTS, completer.options({"n_best": 3})):
        scores = [one.score for one in outputs]
        assert scores == sorted(scores, reverse=True)
        assert len({one.tokens for one in outputs}) == 3


def test_draws_are_those_of_the_seed_and_of_the_place(completer: Completer) -> None:
    def drawn(prompts: list[str], seed: int) -> list[list[str]]:
        options = completer.options({"sampling": True, "n_best": 2, "sampling_seed": seed})
        return [[one.text for one in outputs] for outputs in completer.complete(prompts, options)]

    assert drawn(PROMPTS, 1) == drawn(PROMPTS, 1)
    assert drawn(PROMPTS, 1) != drawn(PROMPTS, 2)
    assert drawn(PROMPTS, 1)[:2] == drawn(PROMPTS[:2], 1)
    assert len({text for texts in drawn(["ba"] * 6, 1) for text in texts}) > 2


def test_batch_mates_change_nothing(completer: Completer) -> None:
    together = completer.complete(PROMPTS, completer.options({"n_best": 2}))
    for prompt, outputs in zip(PROMPTS, together, strict=True):
        (alone,) = completer.complete([prompt], completer.options({"n_best": 2}))
        assert [one.tokens for one in alone] == [one.tokens for one in outputs]
        assert [one.score for one in alone] == pytest.approx([one.score for one in outputs], abs=1e-9)
    assert completer.complete([]) == []


def test_a_directory_completes_as_the_model_that_was_saved(completer: Completer, tmp_path: Path) -> None:
    pair = small.word_pair()
    made = completer.model.model
    assert isinstance(made, CausalLM)
    folder = small.save(tmp_path / "m", made, small.shape(pair, "causal"), pair, DecodingConfig(max_length=12))
    loaded = Completer.from_pretrained(folder)
    assert loaded.decoding.max_length == 12
    assert loaded.complete(PROMPTS) == completer.complete(PROMPTS)


def test_an_encoder_decoder_is_refused_with_the_right_verb(tmp_path: Path) -> None:
    folder = small.saved(tmp_path / "m", small.word_pair())
    with pytest.raises(ModelError, match="only a decoder-only model or a Markov model completes") as caught:
        Completer.from_pretrained(folder)
    assert caught.value.hint == "`dragoman translate` runs an encoder-decoder"


def test_an_unknown_word_of_the_prompt_stays_and_none_is_written(completer: Completer) -> None:
    prompts = ["猫  ba", "<mask> </s> ba ", "ba\t"]
    for prompt, outputs in zip(prompts, completer.complete(prompts, completer.options({"n_best": 4})), strict=True):
        for one in outputs:
            assert one.text.startswith(prompt)
            rest = one.text.removeprefix(prompt)
            assert "\ufffd" not in rest
            assert rest.split() == list(one.tokens[len(prompt.split()) :])
            assert rest == "" or rest.startswith(" ") != prompt[-1].isspace()


def test_a_series_in_chunks_is_the_series_at_once(completer: Completer) -> None:
    options = completer.options({"sampling": True})
    lines = completer.complete_lines(iter(PROMPTS), options, chunk=2)
    assert [row[0].tokens for row in lines] == [row[0].tokens for row in completer.complete(PROMPTS, options)]


@pytest.mark.parametrize("rung", RUNGS)
def test_a_markov_model_completes(rung, tmp_path: Path) -> None:
    pair = small.word_pair()
    sequences = [pair.target.encode(text) for text in ("ba ce di fo", "gu ce di ha")] * 30
    rung.fit(sequences, len(pair.target)).save(tmp_path)
    pair.save(tmp_path)
    completer = Completer.from_pretrained(tmp_path)
    (greedy,) = completer.complete(["ba ce di"], completer.options({"beam_size": 1, "max_length": 4}))[0]
    assert greedy.text.startswith("ba ce di")
    if rung.kind in ("skips", "masked-skips", "matrix-skips"):
        assert greedy.text == "ba ce di fo"
    for changes in ({"n_best": 3}, {"sampling": True, "n_best": 3}):
        (outputs,) = completer.complete(["ba"], completer.options(changes))
        assert len(outputs) == 3
        assert all(one.text.startswith("ba") for one in outputs)


@pytest.mark.parametrize("changes", [{"beam_size": 1}, {"beam_size": 3}, {"sampling": True}])
def test_what_the_counts_find_impossible_has_no_probability(changes: dict[str, object], tmp_path: Path) -> None:
    pair = small.word_pair()
    FirstOrder.fit([pair.target.encode("ba ce")], len(pair.target), k=0.0).save(tmp_path)
    pair.save(tmp_path)
    completer = Completer.from_pretrained(tmp_path)
    ((found, *_),) = completer.complete(["ba ba"], completer.options(changes))
    assert found.text == "ba ba ce"
    assert (found.score, found.log_probability, found.token_scores[1]) == (float("-inf"),) * 3
    assert found.token_scores[0] == found.token_scores[2] == 0.0
    (line,) = format_outputs([found], None, as_json=True)
    tree = json.loads(line, parse_constant=pytest.fail)
    assert (tree["score"], tree["log_probability"], tree["token_scores"]) == (None, None, [0.0, None, 0.0, 0.0])
    scored = TextScorer.from_pretrained(tmp_path).score([found.text])
    assert scored[0].token_scores == found.token_scores
    assert list(format_outputs([found], 1, n_best=True)) == ["1\t-inf\tba ba ce"]


def test_what_follows_the_impossible_is_ranked_as_ever(tmp_path: Path) -> None:
    pair = small.word_pair()
    texts = ["ba ce di fo"] * 3 + ["ba ki lo"] * 2 + ["ba mu"]
    FirstOrder.fit([pair.target.encode(text) for text in texts], len(pair.target), k=0.0).save(tmp_path)
    pair.save(tmp_path)
    completer = Completer.from_pretrained(tmp_path)
    (outputs,) = completer.complete(["di ba"], completer.options({"n_best": 3, "length_penalty": 0.0}))
    assert [one.text for one in outputs] == ["di ba ce di fo", "di ba ki lo", "di ba mu"]


def test_each_family_gets_what_completes_with_it(completer: Completer, tmp_path: Path) -> None:
    pair = TokenizerPair(words(), words())
    save_pretrained(tmp_path / "masked", masked_model(words()), small.shape(pair, "masked"))
    pair.save(tmp_path / "masked")
    assert isinstance(load_completer(tmp_path / "masked"), Filler)
    assert isinstance(load_completer(small.saved(tmp_path / "causal", small.word_pair(), "causal")), Completer)
    with pytest.raises(ModelError, match="only a decoder-only model") as caught:
        Completer.from_pretrained(tmp_path / "masked")
    assert "Filler" in str(caught.value)


def test_outputs_as_lines(completer: Completer) -> None:
    (outputs,) = completer.complete(["ba"], completer.options({"n_best": 2}))
    assert list(format_outputs(outputs, None)) == [one.text for one in outputs]
    assert list(format_outputs(outputs, 7)) == [outputs[0].text]
    assert list(format_outputs(outputs, 7, n_best=True)) == [f"7\t{one.score:.4f}\t{one.text}" for one in outputs]
    trees = [json.loads(line) for line in format_outputs(outputs, 7, n_best=True, as_json=True)]
    assert [(tree["line"], tree["text"]) for tree in trees] == [(7, one.text) for one in outputs]


def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    FirstOrder.fit([[4]], 30).save(tmp_path)
    small.word_pair().save(tmp_path)
    with pytest.raises(ModelError, match="does not fit"):
        Completer.from_pretrained(tmp_path)


def test_a_prompt_too_long_is_named_by_its_line() -> None:
    with pytest.raises(DataError, match="line 12: a prompt is too long"):
        small.completer(small.word_pair()).complete(["ba", "ba " * 5000], first=10)
