"""What `explain` tells of the outputs that a beam finished: what they are ranked by, and whose error a target is."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from rich.cells import cell_len

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.inspection import RankedHypothesis, Trace, explain
from dragoman.inspection.facts import Text
from dragoman.inspection.tables import folded
from dragoman.inspection.walk import WIDTH
from dragoman.language import Completer
from dragoman.memory import make_datastore
from dragoman.models import for_direction
from dragoman.nn import Transformer
from dragoman.search import hypothesis_score
from dragoman.sequences import Direction
from dragoman.text.tokenizer import BOS, EOS
from dragoman.translation import Translator
from end_to_end import small

SOURCE = "ba ce di fo gu"
PENALTIES = [(0.0, "gnmt"), (1.0, "gnmt"), (0.6, "gnmt"), (1.0, "power"), (0.4, "reward")]


def both_directions(seed: int, decoder: str = "shared", **decoding: object) -> Translator:
    """A translator over a random model that says it learned both directions."""
    plain = small.translator(small.word_pair(), seed, right_to_left=True, right_to_left_decoder=decoder)
    options = DecodingConfig.from_dict({"max_length": 8, **decoding})
    return Translator(plain.transformers, plain.tokenizers, options, right_to_left=True)


def log_probability(model: Transformer, source: str, framed: list[int]) -> float:
    """Of all that comes after the first of the framed ids, by one pass over them."""
    ids = torch.tensor([[*small.word_pair().source.encode(source), EOS]])
    with torch.no_grad():
        logits = model(ids, torch.tensor([framed[:-1]]))[0]
    return float(logits.log_softmax(-1)[range(len(framed) - 1), framed[1:]].sum())


def told(trace: Trace) -> list[str]:
    """The lines of the ranking, without the head."""
    lines = trace.select("ranking").lines()
    return lines[next(row for row, line in enumerate(lines) if line.endswith("how it was ranked")) :]


@pytest.mark.parametrize("decoder", ["shared", "own"])
@pytest.mark.parametrize(("alpha", "formula"), PENALTIES)
def test_both_directions_and_the_score_are_what_the_model_and_the_formula_say(
    decoder: str, alpha: float, formula: str
) -> None:
    options = {"length_penalty": alpha, "length_penalty_formula": formula, "right_to_left_weight": 0.3}
    translator = both_directions(3, decoder, **options)
    [model] = translator.transformers
    trace = explain(translator, SOURCE, beam_size=4)
    assert len(trace.ranking) == 4
    for one in trace.ranking:
        ids = translator.tokenizers.target.encode(one.text)
        assert one.length == len(ids) + 1
        assert one.log_probability == pytest.approx(log_probability(model, SOURCE, [BOS, *ids, EOS]))
        backwards = log_probability(for_direction(model, Direction.RIGHT_TO_LEFT), SOURCE, [EOS, *ids[::-1], BOS])
        assert one.right_to_left == pytest.approx(backwards)
        assert one.alone == pytest.approx(hypothesis_score(one.log_probability, one.length, alpha, formula))
        # As the line above the table has it.
        names = {"P": one.log_probability, "Q": backwards, "length": one.length}
        by = trace.ranked_by.replace("log P→", "P").replace("log P←", "Q").replace("·", "*").replace("^", "**")
        assert one.score == pytest.approx(eval(by, {}, names))
    [expected] = translator.translate([SOURCE], beam_size=4, n_best=4)
    assert [one.text for one in trace.ranking] == [one.text for one in expected.alternatives]
    assert trace.output.text == trace.ranking[0].text == expected.text


def test_one_direction_is_ranked_by_itself() -> None:
    translator = small.translator(small.word_pair(), 2)
    trace = explain(translator, SOURCE, beam_size=3)
    found = translator.translate([SOURCE], beam_size=3, n_best=3)[0]
    assert [one.score for one in trace.ranking] == pytest.approx(sorted(one.score for one in trace.ranking)[::-1])
    assert trace.ranking[0].score == pytest.approx(found.score)
    assert {one.right_to_left for one in trace.ranking} == {None}
    assert all(one.alone == one.score for one in trace.ranking)
    lines = told(trace)
    assert not any("→" in line or "←" in line for line in lines)
    assert lines[-1].endswith(trace.ranking[-1].text)
    assert explain(translator, SOURCE).ranking == ()


def test_the_steps_of_a_beam_are_told() -> None:
    translator = both_directions(3, right_to_left_weight=0.0)
    trace = explain(translator, SOURCE, beam_size=3)
    lines = trace.select("steps").lines()
    begin = next(row for row, line in enumerate(lines) if line.startswith("   The beam: "))
    rows = [line.split() for line in lines[begin:] if line.split()[:1] and line.split()[0][0].isdigit()]
    told = {event.id: event for event in trace.beam}
    alive = [event for event in trace.beam if event.fate != "pruned"]
    assert {row[0] for row in rows} >= {event.id for event in alive}
    assert len(rows) <= len(alive) + max(event.step for event in trace.beam)
    for row in rows:
        event = told[row[0]]
        assert row[1] == {"kept": "▸", "left": "▸", "finished": "■", "pruned": "·"}[event.fate]
        assert event.piece in row
        assert (event.parent or row[2]) == row[2]
        if "=" in row:  # the score as arithmetic: = sum / penalty
            at = row.index("=")
            assert float(row[at - 1]) == pytest.approx(event.score, abs=1e-3)
            assert float(row[at + 1]) == pytest.approx(event.sum, abs=1e-3)
            assert float(row[at + 1]) / float(row[at + 3]) == pytest.approx(event.score, abs=1e-2)
        assert any(line.startswith(f"   {row[-1]}  ") for line in lines), "each letter has its reason"
    assert all(cell_len(line) <= WIDTH for line in lines[begin:])
    tree = json.loads("".join(trace.json()))
    assert [one["id"] for one in tree["beam"]] == [event.id for event in trace.beam]
    assert explain(translator, SOURCE).beam == ()


def test_it_is_told_when_the_other_direction_changed_what_is_written() -> None:
    seen = set()
    for seed in range(20):
        translator = both_directions(seed)
        trace = explain(translator, SOURCE, beam_size=4)
        alone = translator.translate_with([SOURCE], translator.options({"beam_size": 4, "right_to_left_weight": 0.0}))
        changed = alone[0].text != trace.output.text
        place = 1 + [one.text for one in trace.ranking].index(alone[0].text)
        assert changed == (f"   From left to right alone, {place} would be written." in told(trace))
        seen.add(changed)
        if len(seen) == 2:
            break
    assert seen == {True, False}


def test_a_target_tells_errors_of_the_search_from_errors_of_the_model() -> None:
    kinds = {
        ("is what", True),
        ("search error", False),
        ("model error", True),
        ("model error", False),
        ("a beam", False),
    }
    seen: set[tuple[str, bool]] = set()
    for seed in (5, 1, 4, 0):
        translator = both_directions(seed)
        [wide] = translator.translate([SOURCE], beam_size=12, n_best=12)
        targets = [text for text in (*(one.text for one in wide.alternatives[:4]), "ba ba ba") if text]
        for target, beam_size in product(targets, (1, 2)):
            trace = explain(translator, SOURCE, target, beam_size=beam_size)
            [wanted] = [one for one in trace.ranking if one.wanted]
            assert wanted.text == target
            written = next(one for one in trace.ranking if one.found)
            assert written.text == trace.output.text
            assert list(trace.ranking) == sorted(trace.ranking, key=lambda one: -one.score)
            kind = "is what" if wanted is written else "search error" if wanted.score > written.score else "model error"
            if kind == "model error" and beam_size == 1:
                kind = "a beam"  # greedy search compares nothing: the model is not blamed
            sentence = " ".join(" ".join(told(trace)[-2:]).split())
            assert kind in sentence
            assert (kind == "model error") == ("model error" in sentence)
            seen.add((kind, wanted.found))
        if seen == kinds:
            return
    pytest.fail(f"only {seen}")


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_target_that_was_not_found_is_scored_as_if_it_had_been(beam_size: int) -> None:
    translator = both_directions(5, length_penalty=1.0, no_repeat_ngram=1)
    target = "ba ba ba ce"
    [wanted] = [one for one in explain(translator, SOURCE, target, beam_size=beam_size).ranking if one.wanted]
    ids = translator.tokenizers.target.encode(target)
    [model] = translator.transformers
    assert wanted.log_probability == pytest.approx(log_probability(model, SOURCE, [BOS, *ids, EOS]))
    total = wanted.log_probability
    if beam_size > 1:
        backwards = log_probability(model, SOURCE, [EOS, *ids[::-1], BOS])
        assert wanted.right_to_left == pytest.approx(backwards)
        total = (total + backwards) / 2
    else:
        assert wanted.right_to_left is None
    assert wanted.score == pytest.approx(hypothesis_score(total, 5, 1.0))


def test_a_target_is_scored_with_the_datastore(tmp_path: Path) -> None:
    tokenizers = small.word_pair()
    model = small.model(small.shape(tokenizers))
    assert isinstance(model, Transformer)
    small.save(tmp_path / "model", model.float(), small.shape(tokenizers), tokenizers, DecodingConfig(max_length=12))
    rows = [tokenizers.source.encode(text) for text in small.sentences(12, longest=6)]
    make_datastore(model, [(row, row[::-1]) for row in rows], tmp_path / "model").save(tmp_path / "model")
    translator = Translator.from_pretrained(tmp_path / "model", engine="module")
    translator.decoding = translator.options({"knn_weight": 0.4})
    trace = explain(translator, SOURCE, "gu fo di", beam_size=2)
    [wanted] = [one for one in trace.ranking if one.wanted]
    assert wanted.log_probability == pytest.approx(
        translator.score([SOURCE], ["gu fo di"])[0].log_probability, abs=1e-4
    )
    translator.decoding = translator.options({"knn_weight": 0.0})
    [plain] = translator.score([SOURCE], ["gu fo di"])
    assert abs(plain.log_probability - wanted.log_probability) > 0.01


def test_completions_are_ranked_too(tmp_path: Path) -> None:
    folder = small.saved(tmp_path, small.word_pair(), "causal", seed=3)
    completer = Completer.from_pretrained(folder)
    [expected] = completer.complete(["ba ce"], completer.options({"beam_size": 3, "n_best": 3}))
    trace = explain(folder, "ba ce", beam_size=3)
    assert [one.text for one in trace.ranking] == [one.text for one in expected]
    assert [one.score for one in trace.ranking] == pytest.approx([one.score for one in expected])
    assert explain(folder, "ba unheard-of", beam_size=3).ranking[0].text.startswith("ba unheard-of")


def test_programs_read_it_and_who_asks_for_none_is_told_why() -> None:
    trace = explain(both_directions(1), SOURCE, beam_size=2)
    tree = json.loads("".join(trace.select("ranking").json()))
    assert tree["ranking"]["by"] == trace.ranked_by
    assert [one["score"] for one in tree["ranking"]["outputs"]] == pytest.approx([one.score for one in trace.ranking])
    assert "steps" not in tree
    assert "ranking" not in json.loads("".join(explain(both_directions(1), SOURCE).json()))
    with pytest.raises(ConfigError, match="beam-size 4"):
        explain(both_directions(1), SOURCE).select("ranking")


def test_long_outputs_stand_below_each_other_and_in_reach() -> None:
    trace = explain(both_directions(1), SOURCE, "ba ce", beam_size=2)
    long = [" ".join(["a dog that runs"] * 9), "猫吃鱼" * 40, ""]
    some = [RankedHypothesis(text, 9, -1.25, -12.5, -0.5, -0.25, wanted=not text) for text in long]
    lines = told(replace(trace, ranking=tuple(some), output=Text(long[0], (), ())))
    assert all(cell_len(line) <= WIDTH for line in lines)
    [begin] = [row for row, line in enumerate(lines) if line.split()[:2] == ["▸", "1"]]
    column = lines[begin].index("a dog")
    assert lines[begin + 1][:column].isspace()
    [second] = [row for row, line in enumerate(lines) if line.split()[:1] == ["2"]]
    assert " ".join(line[column:] for line in lines[begin:second]).split() == long[0].split()
    assert sum(line.count("猫") for line in lines) == 40


def test_folding_counts_columns() -> None:
    assert folded("one two three", 7) == ["one two", "three"]
    assert folded("猫吃鱼吗", 5) == ["猫吃", "鱼吗"]
    assert folded("猫 吃 鱼", 4) == ["猫", "吃", "鱼"] or folded("猫 吃 鱼", 4)[0] == "猫 "
    assert folded("", 5) == []
    assert folded("a\x1bb", 9) == ["a\\x1bb"]


def test_an_output_in_circles_is_the_one_that_translating_writes() -> None:
    pair, seen = small.word_pair(), set()
    for seed in range(12):
        translator = Translator([small.model(small.shape(pair), seed)], pair, DecodingConfig(beam_size=1))
        for text in small.sentences(4, seed=seed):
            [expected], trace = translator.translate([text]), explain(translator, text)
            assert trace.output.text == expected.text
            seen.add(any("went in circles" in note for note in trace.notes))
        if len(seen) == 2:
            break
    assert seen == {True, False}
