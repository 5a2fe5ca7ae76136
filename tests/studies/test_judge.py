"""Judging: what is translated is what is scored, line by line or item by item."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.data import TokenStore
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import Metric, score
from dragoman.studies import evaluate, evaluate_outputs, training_words
from dragoman.studies.given import read_test_set
from dragoman.studies.judge import error_kinds
from dragoman.text.unknown import count_unknown
from dragoman.translation import Translator
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
        evaluate(
            translator, source, reference, metrics=[Metric("exact", lowercase=low)], decoding=options, bootstrap=10
        )
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


@pytest.mark.parametrize("metrics", [["bleu", "blue"], []])
def test_metrics_are_refused_before_anything_is_translated(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metrics: list[str]
) -> None:
    file = write(tmp_path / "s", small.sentences(2))
    monkeypatch.setattr(Translator, "translate_with", lambda *_: pytest.fail("translated first"))
    with pytest.raises(ConfigError):
        evaluate(translator, file, file, metrics=metrics)


def test_a_test_set_is_read_as_lines_that_end_at_lf_only(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes("a\x85b\r\n\nc".encode())
    (tmp_path / "r").write_bytes("x\u2028y\n\n\n".encode())
    assert read_test_set(tmp_path / "s", tmp_path / "r") == (["a\x85b", "", "c"], [("x\u2028y",), ("",), ("",)])


# In parts


def test_a_breakdown_knows_what_the_model_knows(translator: Translator, tmp_path: Path) -> None:
    texts = [*small.sentences(10, seed=6), "ba unheard-of ce", "two unheard words"]
    source = write(tmp_path / "s", texts)
    reference = write(tmp_path / "r", small.sentences(12, seed=7))
    options = translator.options({"min_length": 2, "max_length": 2, "beam_size": 1})
    result = evaluate(translator, source, reference, decoding=options, bootstrap=10, breakdown=True, worst=3)
    assert result.breakdown is not None
    assert result.worst is not None
    assert [(one.label, one.lines) for one in result.breakdown.by_unknown] == [("none", 10), ("1", 1), ("2 or more", 1)]
    assert result.unfinished == result.breakdown.faults.cut == tuple(range(1, 13))
    assert len(result.worst.sentences) == 3
    assert result.breakdown.errors == error_kinds(
        translator, translator.translate_with(texts, options), result.references, options
    )
    drawn = evaluate(
        translator, source, reference, decoding=options.replace({"sampling": True}), bootstrap=10, breakdown=True
    )
    assert drawn.breakdown is not None
    assert drawn.breakdown.errors is None
    tree = json.loads(json.dumps(result.to_dict()))
    assert tree["unfinished"] == list(range(1, 13))
    assert {"breakdown", "worst"} <= tree.keys()
    plain = evaluate(translator, source, reference, decoding=options, bootstrap=10)
    assert (plain.breakdown, plain.worst, plain.scores) == (None, None, result.scores)


def test_bytes_of_rare_characters_are_unknown_pieces() -> None:
    tokenizer = small.byte_pair().source
    assert count_unknown(tokenizer, tokenizer.encode("ba ce")) == 0
    assert count_unknown(tokenizer, tokenizer.encode("ba 猫")) == 3
    words = small.word_pair().source
    assert count_unknown(words, words.encode("ba 猫 吃 ce")) == 2


def test_words_are_counted_in_the_targets_of_the_run(tmp_path: Path) -> None:
    tokenizer = small.word_pair().target
    lines = ["ba ce", "ba ba di"]
    rows = [([4], tokenizer.encode(line)) for line in lines]
    TokenStore.write(tmp_path / "run" / "data" / "train", rows, vocabulary_size=20)
    assert training_words(tmp_path / "run", tokenizer) == {"ba": 3, "ce": 1, "di": 1}
    assert training_words(tmp_path, tokenizer) is None


def test_a_run_tells_how_rare_words_are(translator: Translator, tmp_path: Path) -> None:
    folder = small.saved(tmp_path / "m", small.word_pair())
    source = write(tmp_path / "s", ["ba ce"])
    result = evaluate(folder, source, source, bootstrap=0, breakdown=True)
    assert result.breakdown is not None
    assert result.breakdown.frequencies_of == "references"
    TokenStore.write(folder / "data" / "train", [([4], translator.tokenizers.target.encode("ba"))], vocabulary_size=20)
    result = evaluate(folder, source, source, bootstrap=0, breakdown=True)
    assert result.breakdown is not None
    assert result.breakdown.frequencies_of == "training targets"
    assert [one.label for one in result.breakdown.words] == ["0", "1"]


# Outputs from elsewhere


def test_outputs_of_any_system_are_scored_as_a_model_would_be(translator: Translator, tmp_path: Path) -> None:
    texts = small.sentences(8, seed=8)
    source, reference = write(tmp_path / "s", texts), write(tmp_path / "r", small.sentences(8, seed=9))
    own = evaluate(translator, source, reference, bootstrap=20, metrics=[Metric("bleu", "xx"), Metric("chrf", "xx")])
    outputs = write(tmp_path / "o", own.hypotheses)
    found = evaluate_outputs(outputs, reference, source, bootstrap=20, breakdown=True, worst=1)
    assert found.scores == own.scores
    assert (found.sources, found.references, found.decoding) == (texts, own.references, None)
    assert found.breakdown is not None
    assert (found.breakdown.length_of, found.breakdown.faults.cut) == ("source", None)
    alone = evaluate_outputs(outputs, [reference, reference], bootstrap=0)
    assert (alone.sources, alone.references[0]) == ([], own.references[0] * 2)
    assert "decoding" not in alone.to_dict()


def test_the_references_suffix_tells_the_language(tmp_path: Path) -> None:
    reference = write(tmp_path / "r.zh", ["猫吃鱼"])
    assert "tok:zh" in evaluate_outputs(reference, reference, metrics=["bleu"]).scores[0].signature
    english = evaluate_outputs(reference, reference, metrics=[Metric("bleu", "en")])
    assert "tok:13a" in english.scores[0].signature


def test_grouped_outputs_are_one_for_each_source(tmp_path: Path) -> None:
    source, reference = write(tmp_path / "s", ["a", "b", "a"]), write(tmp_path / "r", ["x", "y", "z"])
    outputs = write(tmp_path / "o", ["z", "y"])
    assert evaluate_outputs(outputs, reference, source, metrics=["exact"], group=True).scores[0].value == 100.0
    with pytest.raises(DataError, match="as many outputs") as caught:
        evaluate_outputs(outputs, reference, source)
    assert (caught.value.expected, caught.value.found) == ("3 lines, one for each reference", "2")
    with pytest.raises(DataError, match="grouped by their sources"):
        evaluate_outputs(outputs, reference, group=True)


def test_what_the_scores_call_right_is_no_error(translator: Translator, tmp_path: Path) -> None:
    texts = small.sentences(4, seed=6)
    outputs = [one.text for one in translator.translate(texts)]
    source = write(tmp_path / "s", texts)
    spaced = write(tmp_path / "spaced", [f" {text} " for text in outputs])
    capitals = write(tmp_path / "capitals", [text.upper() for text in outputs])
    for reference, lowercase in ((spaced, False), (capitals, True)):
        result = evaluate(
            translator, source, reference, metrics=[Metric("exact", lowercase=lowercase)], breakdown=True, bootstrap=5
        )
        assert result.scores[0].value == 100.0
        assert result.breakdown is not None
        assert result.breakdown.errors is not None
        assert result.breakdown.errors.written == (1, 2, 3, 4)
    strict = evaluate(translator, source, capitals, metrics=["exact"], breakdown=True, bootstrap=5)
    assert strict.breakdown is not None
    assert strict.breakdown.errors is not None
    assert strict.breakdown.errors.written == ()
