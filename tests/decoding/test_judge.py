"""Judging: what is translated is what is scored, line by line or item by item."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.decoding import Translator, evaluate
from dragoman.decoding.judge import read_test_set
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import score
from end_to_end import small


@pytest.fixture(scope="module")
def translator() -> Translator:
    return small.translator(small.word_pair())


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_outputs_are_scored_against_their_own_lines(translator: Translator, tmp_path: Path) -> None:
    texts = small.sentences(12)
    outputs = [one.text for one in translator.translate(texts)]
    references = [*outputs[:9], *small.sentences(3, seed=5)]
    source, reference = write(tmp_path / "s", texts), write(tmp_path / "r", references)
    result = evaluate(translator, source, reference, metrics=["exact", "chrf"], bootstrap=50)
    assert (result.sources, result.hypotheses) == (texts, outputs)
    assert result.scores[0].value == 75.0
    expected = score(outputs, [(line,) for line in references], metrics=["exact", "chrf"], bootstrap=50)
    assert result.scores == expected
    assert result.decoding == translator.decoding


def test_options_and_directories_are_used(translator: Translator, tmp_path: Path) -> None:
    texts = small.sentences(6, seed=1)
    source = write(tmp_path / "s", texts)
    folder = small.saved(tmp_path / "m", small.word_pair())
    options = translator.options({"beam_size": 1, "max_length": 3})
    result = evaluate(folder, source, source, metrics=["exact"], decoding=options, bootstrap=10)
    loaded = Translator.from_pretrained(folder)
    assert result.hypotheses == [one.text for one in loaded.translate_with(texts, options)]
    assert result.decoding == options
    tree = json.loads(json.dumps(result.to_dict()))
    assert (tree["lines"], tree["decoding"]["max_length"], tree["scores"][0]["name"]) == (6, 3, "exact")


def test_any_of_several_references_is_right(translator: Translator, tmp_path: Path) -> None:
    texts = small.sentences(4, seed=2)
    outputs = [one.text for one in translator.translate(texts)]
    source = write(tmp_path / "s", texts)
    first = write(tmp_path / "a", [outputs[0], "no", outputs[2], "no"])
    second = write(tmp_path / "b", ["no", outputs[1], outputs[2], "no"])
    both = evaluate(translator, source, [first, second], metrics=["exact"], bootstrap=10)
    assert both.scores[0].value == 75.0
    assert evaluate(translator, source, first, metrics=["exact"], bootstrap=10).scores[0].value == 50.0


def test_grouped_lines_are_one_item_with_several_answers(translator: Translator, tmp_path: Path) -> None:
    (right,) = translator.translate(["ba ce"])
    source = write(tmp_path / "s", ["ba ce", "di", "ba ce", "ba ce"])
    reference = write(tmp_path / "r", ["no", "never this", right.text, "no"])
    result = evaluate(translator, source, reference, metrics=["exact"], group=True, bootstrap=10)
    assert result.sources == ["ba ce", "di"]
    assert set(result.references[0]) == {"no", right.text}
    assert len(result.hypotheses) == 2
    assert result.scores[0].value == 50.0
    alone = evaluate(translator, source, reference, metrics=["exact"], bootstrap=10)
    assert len(alone.hypotheses) == 4
    assert alone.scores[0].value == 25.0


def test_case_counts_unless_told_otherwise(translator: Translator, tmp_path: Path) -> None:
    texts = small.sentences(3, seed=4)
    source = write(tmp_path / "s", texts)
    reference = write(tmp_path / "r", [one.text.upper() for one in translator.translate(texts, min_length=1)])
    options = translator.options({"min_length": 1})
    values = [
        evaluate(translator, source, reference, metrics=["exact"], decoding=options, lowercase=low, bootstrap=10)
        for low in (False, True)
    ]
    assert [one.scores[0].value for one in values] == [0.0, 100.0]


def test_files_of_other_lengths_are_named_before_anything_is_translated(tmp_path: Path) -> None:
    source = write(tmp_path / "s", ["ba"] * 1200)
    good, bad = write(tmp_path / "good", ["x"] * 1200), write(tmp_path / "bad", ["x"] * 1199)
    with pytest.raises(DataError) as caught:
        evaluate("no model is looked for", source, [good, bad])
    assert caught.value.file == str(bad)
    assert (caught.value.expected, caught.value.found) == (f"1,200 lines, as in {source}", "1,199")
    with pytest.raises(DataError, match="cannot read") as caught:
        evaluate("no model is looked for", source, tmp_path / "none")
    assert caught.value.file == str(tmp_path / "none")


def test_an_unknown_metric_is_answered_with_a_known_one(translator: Translator, tmp_path: Path) -> None:
    source = write(tmp_path / "s", ["ba"])
    with pytest.raises(ConfigError, match="blue") as caught:
        evaluate(translator, source, source, metrics=["blue"])
    assert caught.value.hint == "did you mean 'bleu'?"


def test_a_test_set_is_read_as_lines_that_end_at_lf_only(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes("a\x85b\r\n\nc".encode())
    (tmp_path / "r").write_bytes("x\u2028y\n\n\n".encode())
    assert read_test_set(tmp_path / "s", tmp_path / "r") == (["a\x85b", "", "c"], [("x\u2028y",), ("",), ("",)])
