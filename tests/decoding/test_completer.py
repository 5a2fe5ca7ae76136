"""Continuing prompts: against the model computed anew at each prefix, in float64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.decoding import Completer
from dragoman.errors import ConfigError, ModelError
from dragoman.nn import CausalLM
from dragoman.text.tokenizer import BOS, EOS, PAD
from end_to_end import small

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
            values[PAD] = values[BOS] = float("-inf")
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
    with pytest.raises(ModelError, match="only a decoder-only model completes") as caught:
        Completer.from_pretrained(folder)
    assert caught.value.hint == "`dragoman translate` runs an encoder-decoder"
