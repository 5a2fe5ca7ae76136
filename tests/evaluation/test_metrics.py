from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.errors import ConfigError
from dragoman.evaluation import METRICS, Metric, score

HYPOTHESES = [
    "The cat ate the fish, quickly.",
    "A man sits under a tree",
    "",
    "Two children play in the Park!",
    "the the the",
]
REFERENCES = [
    "The cat eats the fish quickly.",
    "A man is sitting under a tree.",
    "Nobody came.",
    "Two children are playing in the park.",
    "",
]
SECOND = ["The fish was eaten by the cat.", None, "No one came.", "Two kids play in the park!", None]
VARIABLE = [[text, *([other] if other is not None else [])] for text, other in zip(REFERENCES, SECOND, strict=True)]
THEIRS = {"bleu": BLEU, "chrf": CHRF, "chrf++": lambda: CHRF(word_order=2), "ter": TER}


def value(metric: Metric | str, hypotheses: list[str], references: list[str] | list[list[str]]) -> float:
    return score(hypotheses, references, metrics=(metric,), bootstrap=0)[0].value


@pytest.mark.parametrize("name", THEIRS)
def test_equals_sacrebleu_with_one_reference(name: str) -> None:
    theirs = THEIRS[name]()
    expected = theirs.corpus_score(HYPOTHESES, [REFERENCES])
    [ours] = score(HYPOTHESES, REFERENCES, metrics=(name,), bootstrap=0)
    assert ours.value == expected.score
    assert ours.signature == f"{expected.name}|{theirs.get_signature()}"
    assert 0 < ours.value < 100


@pytest.mark.parametrize("name", THEIRS)
def test_equals_sacrebleu_with_a_varying_number_of_references(name: str) -> None:
    theirs = THEIRS[name]()
    expected = theirs.corpus_score(HYPOTHESES, [REFERENCES, SECOND])
    [ours] = score(HYPOTHESES, VARIABLE, metrics=(name,), bootstrap=0)
    assert ours.value == pytest.approx(expected.score, abs=1e-10)
    assert ours.signature == f"{expected.name}|{theirs.get_signature()}"
    assert "|nrefs:var|" in ours.signature


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text("ab .,", max_size=12), st.text("ab .,", max_size=12)), min_size=1, max_size=5))
def test_equals_sacrebleu_on_any_text(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [left for left, _ in pairs], [right + "a" for _, right in pairs]
    for name, theirs in THEIRS.items():
        assert value(name, hypotheses, references) == theirs().corpus_score(hypotheses, [references]).score


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_lowercase_is_sacrebleus(name: str) -> None:
    theirs = {"bleu": BLEU, "chrf": CHRF}[name](lowercase=True)
    [ours] = score(HYPOTHESES, REFERENCES, metrics=(Metric(name, lowercase=True),), bootstrap=0)
    assert ours.value == theirs.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert "case:lc" in ours.signature


@pytest.mark.parametrize("code", ["zh", "zh-CN", "zh_Hans", "zho", "cmn_Hans", "ZH"])
def test_chinese_is_scored_on_its_characters(code: str) -> None:
    hypothesis, reference = ["我们今天去学校看书。"], ["我们今天去学校读书。"]
    theirs = BLEU(tokenize="zh")
    [ours] = score(hypothesis, reference, metrics=(Metric("bleu", code),))
    assert ours.value == theirs.corpus_score(hypothesis, [reference]).score > 60
    assert "tok:zh" in ours.signature
    assert ours.note is None


def test_chinese_without_its_language_scores_nothing_and_says_so() -> None:
    [ours] = score(["我们今天去学校看书。"], ["我们今天去学校读书。"], metrics=("bleu",))
    assert ours.value == 0
    assert "Chinese" in str(ours)


def test_ter_of_chinese_counts_characters() -> None:
    hypothesis, reference = ["我们去看书"], ["我们去读书"]
    assert value("ter", hypothesis, reference) == 100
    assert value(Metric("ter", "zh"), hypothesis, reference) == 20


def test_japanese_without_mecab_falls_back_to_characters_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    hypothesis, reference = ["猫は魚を食べます"], ["猫は魚を食べた"]
    [ours] = score(hypothesis, reference, metrics=(Metric("bleu", "ja"),))
    assert ours.value == BLEU(tokenize="char").corpus_score(hypothesis, [reference]).score
    assert "tok:char" in ours.signature
    assert ours.note is not None
    assert "sacrebleu[ja]" in ours.note
    with pytest.raises(ConfigError, match=r"sacrebleu\[ja\]"):
        score(hypothesis, reference, metrics=(Metric("bleu", tokenize="ja-mecab"),))


def test_a_tokenizer_that_is_downloaded_is_told_to_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def offline(*_: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.download_file", offline)
    with pytest.raises(ConfigError) as caught:
        score(["a"], ["a"], metrics=(Metric("bleu", tokenize="flores200"),))
    assert caught.value.found == "no network"
    assert "downloads" in str(caught.value.hint)


def test_languages_without_spaces_or_tokenizer_are_scored_on_characters() -> None:
    assert "tok:char" in score(["แมวกินปลา"], ["แมวกินปลา"], metrics=(Metric("bleu", "tha"),))[0].signature


def test_tokenised_text_is_scored_as_it_is_or_suspected() -> None:
    tokenised, reference = ["ab-c d &amp; e ."] * 3, ["ab-c d &amp; f ."] * 3
    [plain] = score(tokenised, reference, metrics=(Metric("bleu", tokenize="none"),))
    assert plain.value == BLEU(tokenize="none").corpus_score(tokenised, [reference]).score
    assert "tok:none" in plain.signature
    assert plain.note == "no 4-gram is right, so the value comes from smoothing"
    assert "tokenised" in str(score(tokenised, reference, metrics=("bleu",))[0].note)


def test_exact_ignores_outer_white_space_only() -> None:
    references = ["a b", "c d", "e f", "G"]
    assert value("exact", [" a b\t", "c  d", "e f", "g"], references) == 50
    assert value(Metric("exact", lowercase=True), [" a b\t", "c  d", "e f", "g"], references) == 75
    assert value("exact", ["x", "d"], [["a", "x"], ["d"]]) == 100


def test_the_two_meanings_of_word_error_rate() -> None:
    # Three words as phonemes: right by its second pronunciation; one edit in four; two edits in two.
    hypotheses = ["t ah", "k ae t s", "ow"]
    references = [["t uw", "t ah"], ["k aa t s"], ["ae n"]]
    assert value("word_error", hypotheses, references) == pytest.approx(100 * 2 / 3)
    assert value("per", hypotheses, references) == pytest.approx(100 * 3 / 8)
    assert value("wer", hypotheses, references) == value("per", hypotheses, references)


def test_the_nearest_reference_gives_the_length_too() -> None:
    assert value("wer", ["a b c d"], [["x y z", "a b c d e"]]) == 20
    assert value("wer", ["a b"], [["a b c c", "a d"]]) == 50, "one edit in two is nearer than two in four"
    assert value("wer", ["a b"], [["a b c", "a"]]) == pytest.approx(100 / 3), "among equals the longest"


def test_spacing_does_not_change_token_metrics() -> None:
    for name in ("word_error", "wer", "per", "cer"):
        assert value(name, ["  a   b\t"], ["a b"]) == 0


def test_character_error_rate_counts_characters_and_spaces() -> None:
    assert value("cer", ["ab cd"], ["abcd e"]) == pytest.approx(100 * 3 / 6)
    assert value("cer", ["猫吃鱼"], ["猫爱吃鱼"]) == 25


def test_error_rates_pass_a_hundred_and_survive_empty_lines() -> None:
    assert value("wer", ["a b c"], ["d"]) == 300
    assert value("wer", ["", "a"], ["b", ""]) == 200
    [resampled] = score(["x", "a"], ["", "a"], metrics=("wer",), bootstrap=50)
    assert (resampled.low, resampled.high) == (0, 100), "test sets drawn without any reference token stay finite"


@given(st.lists(st.text("ab ", max_size=6), min_size=1, max_size=6))
def test_a_copy_of_the_reference_is_perfect(lines: list[str]) -> None:
    references = [line + "c" for line in lines]
    for name in METRICS:
        if name != "bleu":  # which is 0 for lines without a single 4-gram
            assert value(name, references, references) == pytest.approx(
                0 if name in ("ter", "wer", "per", "cer", "word_error") else 100
            )


def test_our_signatures_say_what_could_change_the_number() -> None:
    [ours] = score(["a"], ["A"], metrics=(Metric("wer", lowercase=True),), bootstrap=10, seed=7)
    assert ours.signature.startswith("WER|nrefs:1|bs:10|seed:7|case:lc|unit:token|version:dragoman-")
    [varying] = score(["a", "b"], [["A"], ["b", "c"]], metrics=("exact",), bootstrap=0)
    assert varying.signature.startswith("exact|nrefs:var|case:mixed|unit:line|version:")


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'chrf'"):
        score(["a"], ["a"], metrics=("chrF2",))
    with pytest.raises(ConfigError, match="13a"):
        score(["a"], ["a"], metrics=(Metric("bleu", tokenize="moses"),))


def test_two_thousand_words_with_pronunciations_take_a_moment() -> None:
    draw = random.Random(1)
    lines = [" ".join(draw.choices("abcdefgh", k=7)) for _ in range(2000)]
    scores = score(lines, [[line, line[::-1]] for line in lines], metrics=("word_error", "per"))
    assert [each.value for each in scores] == [0, 0]


# What belongs to a metric


def test_a_metric_keeps_a_language_of_its_own() -> None:
    assert Metric("bleu").in_language("zh") == Metric("bleu", "zh")
    assert Metric("bleu", "de", lowercase=True).in_language("zh") == Metric("bleu", "de", lowercase=True)
    assert Metric("bleu").in_language(None) == Metric.of("bleu") == Metric.of(Metric("bleu"))


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (Metric("blue"), "did you mean 'bleu'"),
        (Metric("bleu", tokenize="moses"), "no tokenizer 'moses'"),
        (Metric("bleu", "cn"), "its language is zh"),
        (Metric("ter", "english"), "not a language code"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_there_are_lines(metric: Metric, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        metric.check()
    Metric("chrf", "english").check()


def test_one_metric_may_be_asked_for_twice_in_two_ways() -> None:
    strict, loose = score(
        ["a b c d e"], ["A b c d e"], metrics=[Metric("wer"), Metric("wer", lowercase=True)], bootstrap=0
    )
    assert (strict.value, loose.value) == (20.0, 0.0)
