from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

import pytest

from dragoman.text import Pair, ParallelCorpus, corpus_report
from dragoman.text.keys import skeleton, text_hash

EN = [
    "the",
    "a",
    "cat",
    "dog",
    "house",
    "eats",
    "sees",
    "fish",
    "big",
    "small",
    "two",
    "three",
    "runs",
    "home",
    "never",
    "always",
]
DE = [
    "der",
    "ein",
    "Katze",
    "Hund",
    "Haus",
    "isst",
    "sieht",
    "Fisch",
    "groß",
    "klein",
    "zwei",
    "drei",
    "läuft",
    "heim",
    "niemals",
    "immer",
]
ZH = "猫狗房子吃看鱼大小二三跑家从不总是"


def pairs(count: int = 200, chinese: bool = False) -> list[Pair]:
    draw = random.Random(5)
    made = []
    for i in range(count):
        chosen = draw.choices(range(16), k=draw.randint(4, 12))
        target = "".join(ZH[j] for j in chosen) if chinese else " ".join(DE[j] for j in chosen)
        made.append(Pair(" ".join(EN[j] for j in chosen), target, "train.en", i + 1))
    return made


def exchanged(pair: Pair) -> Pair:
    return pair._replace(source=pair.target, target=pair.source)


def test_counts_agree_with_a_slow_count() -> None:
    train = pairs(101)
    train += [train[0], train[0]._replace(target="etwas anderes"), Pair("", "x", "f", 1), Pair(" ", "", "f", 2)]
    train += [Pair("same", "same", "f", 3)]
    report = corpus_report(train)
    lengths = sorted(len(pair.source) for pair in train)
    assert report.pairs == 106
    assert (report.source.empty, report.target.empty) == (2, 1)
    assert report.source.characters.mean == round(statistics.fmean(lengths), 2)
    assert report.source.characters.median == statistics.median_low(lengths)
    assert report.source.characters.p95 == lengths[100]
    assert report.source.characters.max == lengths[-1]
    assert report.target.tokens.max == max(len(pair.target.split()) for pair in train)
    assert report.duplicate_pairs == len(train) - len({(p.source, p.target) for p in train})
    assert report.ambiguous_sources == 1
    assert report.copies == 1
    assert report.dev is None


def test_oddities_are_counted_per_line() -> None:
    texts = ["fine", " a", "a  b", "a\tb", "a\x07b", "a\u200bb", "a\ufffdb", "e\u0301", "a\u2028b"]
    report = corpus_report([Pair(text, "ok", "f", i) for i, text in enumerate(texts)])
    assert report.source.oddities == {
        "blanks at an end": 1, "several blanks in a row": 1, "tabs": 1, "control characters": 2,
        "invisible characters": 1, "replacement characters": 1, "characters that are not composed (NFC)": 1,
    }  # fmt: skip
    assert report.target.oddities == {}
    assert any("control characters" in warning for warning in report.warnings)


@pytest.mark.parametrize("chinese", [False, True])
def test_exchanged_sides_are_found_and_a_clean_corpus_stays_quiet(chinese: bool) -> None:
    clean = pairs(chinese=chinese)
    quiet = corpus_report(clean)
    assert quiet.swapped.count == quiet.length_outliers.count == 0  # Chinese is four times shorter throughout
    wrong = [exchanged(pair) if pair.line in (20, 90, 150) else pair for pair in clean]
    report = corpus_report(wrong)
    assert report.swapped.examples == tuple(f"train.en, line {i}" for i in (20, 90, 150))
    assert any("exchanged" in warning for warning in report.warnings)


def test_a_text_does_not_vouch_for_its_own_side() -> None:
    # Words of no other line: only by leaving the pair itself out of the count do they stop speaking for where they are.
    rare = Pair("".join(chr(ord(c) + i) for i in (1, 2, 3) for c in ZH), "odd unique quagga", "train.en", 0)
    assert corpus_report([*pairs(40, chinese=True), rare]).swapped.count == 1


def test_unusual_ratios_are_found_with_their_lines() -> None:
    train = pairs()
    train[6] = train[6]._replace(target="der")
    train[9] = train[9]._replace(target="")
    report = corpus_report(train)
    assert report.length_outliers.examples == ("train.en, line 7",)


def test_held_out_pairs_seen_in_training_are_told() -> None:
    train = pairs()
    dev = [
        train[0]._replace(source=train[0].source.upper() + " !", target=train[0].target + "."),
        train[1]._replace(target="ganz neu"),
        train[2]._replace(source="quite new"),
        Pair("new", "neu", "dev", 4),
        Pair("", " ", "dev", 5),
    ]
    found = corpus_report(train, dev).dev
    assert found is not None
    assert (found.pairs, found.source_in_train, found.target_in_train, found.pair_in_train) == (5, 2, 2, 1)
    assert (found.empty_source, found.empty_target) == (1, 1)
    assert any("drop_overlap" in warning for warning in corpus_report(train, dev).warnings)
    swapped = corpus_report(train, [exchanged(pair) for pair in pairs(50)])
    assert any("held-out files look exchanged" in warning for warning in swapped.warnings)


def test_report_is_plain_values_and_readable_lines() -> None:
    report = corpus_report(pairs(), pairs(20))
    tree = json.loads(json.dumps(report.to_dict()))
    assert tree["pairs"] == 200
    assert tree["warnings"] == list(report.warnings)
    assert report.lines()[0] == "200 pairs"
    assert all("\n" not in line for line in report.lines())


def test_an_empty_corpus_has_a_report() -> None:
    assert corpus_report([]).pairs == 0
    assert corpus_report([], []).lines()[0] == "0 pairs"


def test_skeletons_and_hashes() -> None:
    assert skeleton("Hello,  World！") == skeleton("hello world") == "helloworld"
    assert skeleton("हिन्दी") != skeleton("हन्द")  # vowel signs are letters
    assert skeleton("?!") == "?!"
    assert text_hash("ab", "c") != text_hash("a", "bc")
    assert text_hash("猫") == text_hash("猫") < 2**64


def test_test_pairs_are_compared_with_training_too() -> None:
    train = [Pair("Two dogs run.", "Zwei Hunde laufen.", "train", 1), Pair("A cat.", "Eine Katze.", "train", 2)]
    test = [Pair("two dogs RUN", "Zwei Hunde laufen!", "test", 1), Pair("a bird", "ein Vogel", "test", 2)]
    report = corpus_report(train, test=test)
    assert report.dev is None
    assert report.test is not None
    assert (report.test.source_in_train, report.test.pair_in_train) == (1, 1)
    assert any("1 test sources (1 whole pairs)" in warning for warning in report.warnings)


def test_a_header_odd_blanks_and_what_settings_see_to(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("source\ttarget\n" + "a\xa0b\tx\u200b\n" * 20, encoding="utf-8")
    corpus = ParallelCorpus.from_pairs([path])
    found = " ".join(corpus_report(corpus, corpus).warnings)
    for told in ("looks like a header", "invisible", "blanks other", "drop_duplicates", "drop_overlap", "normalize"):
        assert told in found
    quiet = " ".join(corpus_report(corpus, corpus, drop_duplicates=True, drop_overlap=True, normalize="nfc").warnings)
    assert "header" in quiet
    assert not any(word in quiet for word in ("invisible", "blanks other", "consider", "normalize"))


def test_words_are_counted_where_there_are_blanks_between_them(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("猫吃鱼\tcats eat fish\n" * 9, encoding="utf-8")
    lines = corpus_report(ParallelCorpus.from_pairs([path])).lines()
    assert any(line.startswith("target words between blanks: mean 3.0") for line in lines)
    assert not any(line.startswith("source words") for line in lines)
