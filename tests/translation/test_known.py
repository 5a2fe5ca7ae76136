"""Known targets scored as a search would have, and whose error it is that they were not written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.memory import make_datastore
from dragoman.models import for_direction
from dragoman.nn import Transformer
from dragoman.search import hypothesis_score
from dragoman.sequences import Direction, sources_of
from dragoman.studies.judge import error_kinds
from dragoman.text import TokenizerPair, Vocabulary
from dragoman.text.tokenizer import BOS, EOS, SPECIALS
from dragoman.translation import Translator
from dragoman.translation.known import known_hypotheses
from end_to_end import small

SOURCES, TARGETS = small.sentences(9, seed=5), small.sentences(9, seed=6)


def ids_of(texts: list[str]) -> list[list[int]]:
    return [small.word_pair().source.encode(text) for text in texts]


def one_pass(models: list[Transformer], source: list[int], framed: list[int]) -> float:
    """The mean probability's logarithm of each token after the first, added up."""
    with torch.no_grad():
        logits = [one(torch.tensor([[*source, EOS]]), torch.tensor([framed[:-1]]))[0] for one in models]
    mean = torch.stack([one.softmax(-1) for one in logits]).mean(0).log()
    return float(mean[range(len(framed) - 1), framed[1:]].sum())


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("decoder", [None, "shared", "own"])
@pytest.mark.parametrize("changes", [{"beam_size": 1}, {"beam_size": 3, "length_penalty": 1.4}])
def test_targets_are_scored_as_the_search_scores_what_it_finds(
    members: int, decoder: str | None, changes: dict[str, float]
) -> None:
    directions = {} if decoder is None else {"right_to_left": True, "right_to_left_decoder": decoder}
    made = small.translator(small.word_pair(), members=members, **directions)
    translator = Translator(made.transformers, made.tokenizers, made.decoding, right_to_left=decoder is not None)
    options = translator.options({**changes, "no_repeat_ngram": 1})  # which no known target is held to
    found = known_hypotheses(translator.plan(options), sources_of(ids_of(SOURCES)), ids_of([*TARGETS[:-1], ""]))
    for source, target, one in zip(ids_of(SOURCES), ids_of([*TARGETS[:-1], ""]), found, strict=True):
        assert one.tokens == tuple(target)
        value = one_pass(made.transformers, source, [BOS, *target, EOS])
        assert one.log_probability == pytest.approx(value)
        if decoder is not None and changes["beam_size"] > 1:
            right_to_left = [for_direction(each, Direction.RIGHT_TO_LEFT) for each in made.transformers]
            backwards = one_pass(right_to_left, source, [EOS, *target[::-1], BOS])
            assert one.right_to_left == pytest.approx(backwards)
            value = (value + backwards) / 2
        else:
            assert one.right_to_left is None
        assert one.score == pytest.approx(hypothesis_score(value, len(target) + 1, options.length_penalty))


@pytest.mark.parametrize("engine", ["module", "packed", "native"])
def test_what_was_found_is_scored_as_it_was_found(engine: str, tmp_path: Path) -> None:
    pair = small.word_pair()
    config = small.shape(
        pair, right_to_left=True, right_to_left_decoder="own", generator_bias=False, tie_embeddings="all"
    )
    model = small.model(config)
    assert isinstance(model, Transformer)
    small.save(tmp_path, model.float(), config, pair, DecodingConfig(max_length=8, length_penalty=1.0))
    translator = Translator.from_pretrained(tmp_path, engine=engine, precision="float32")
    options = translator.options({"n_best": 4})
    results = translator.translate_with(SOURCES, options)
    asked = [(result.source, one) for result in results for one in result.alternatives if one.text]
    again = known_hypotheses(
        translator.plan(options),
        sources_of(ids_of([source for source, _ in asked])),
        ids_of([one.text for _, one in asked]),
    )
    for (_, one), same in zip(asked, again, strict=True):
        assert same.score == pytest.approx(one.score, abs=2e-4)
        assert same.log_probability == pytest.approx(one.log_probability, abs=2e-4)
        assert same.right_to_left == pytest.approx(one.right_to_left, abs=2e-4)


def test_a_datastore_is_asked_too(tmp_path: Path) -> None:
    pair = small.word_pair()
    model = small.model(small.shape(pair))
    assert isinstance(model, Transformer)
    small.save(tmp_path, model.float(), small.shape(pair), pair, DecodingConfig(max_length=12))
    make_datastore(model, [(row, row[::-1]) for row in ids_of(SOURCES)], tmp_path).save(tmp_path)
    translator = Translator.from_pretrained(tmp_path, engine="module")
    for weight in (0.0, 0.4):
        translator.decoding = translator.options({"knn_weight": weight})
        expected = [one.log_probability for one in translator.score(SOURCES, TARGETS)]
        found = known_hypotheses(translator.plan(translator.decoding), sources_of(ids_of(SOURCES)), ids_of(TARGETS))
        assert [one.log_probability for one in found] == pytest.approx(expected, abs=1e-4)


def test_errors_are_those_of_an_exhaustive_comparison() -> None:
    seen = set()
    for seed in range(3):
        made = small.translator(small.word_pair(), seed, right_to_left=True)
        translator = Translator(made.transformers, made.tokenizers, made.decoding, right_to_left=True)
        options = translator.options({"beam_size": 2, "length_penalty": 1.0})
        results = translator.translate_with(SOURCES, options)
        wide = translator.translate_with(SOURCES, options.replace({"beam_size": 12}))
        # Some with an answer that a wider beam found; `�` stands for what no reference has.
        answers = [[target, *([far.text] if row % 2 and "�" not in far.text else [])]
                   for row, (far, target) in enumerate(zip(wide, TARGETS, strict=True))]  # fmt: skip
        answers[0] = [results[0].text]
        kinds = error_kinds(translator, results, answers, options)
        for number, (result, texts) in enumerate(zip(results, answers, strict=True), 1):
            ids = ids_of([result.source] * len(texts)), ids_of(texts)
            best = max(one.score for one in known_hypotheses(translator.plan(options), sources_of(ids[0]), ids[1]))
            name = "written" if result.text in texts else "search" if best > result.score else "model"
            assert number in getattr(kinds, name)
            seen.add(name)
        assert sorted(kinds.written + kinds.model + kinds.search) == list(range(1, 10))
    assert seen == {"written", "search", "model"}


def test_what_the_vocabulary_lacks_is_nobodys_error_and_blank_lines_have_none() -> None:
    made = small.translator(small.word_pair())
    options = made.options({"beam_size": 2})
    results = made.translate_with([SOURCES[0], " ", SOURCES[1], SOURCES[2]], options)
    answers = [["unheard of"], ["ba"], ["unheard", TARGETS[0]], [results[3].text]]
    kinds = error_kinds(made, results, answers, options)
    assert (kinds.unknown, kinds.written) == ((1,), (4,))
    assert kinds.search + kinds.model == (3,)


def test_the_same_tokens_in_another_spelling_were_written() -> None:
    vocabulary = Vocabulary("word", [*SPECIALS, *small.WORDS])
    made = small.translator(TokenizerPair(vocabulary, vocabulary))
    [result] = made.translate(SOURCES[:1])
    assert error_kinds(made, [result], [[result.text.replace(" ", "  ")]], made.decoding).written == (1,)
