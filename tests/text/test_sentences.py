"""Sentences are cut out of any text without a loss, and outputs go back to where they stood."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DragomanError
from dragoman.text.sentences import Segment, join_text, split_text
from dragoman.translation.checks import check_texts

pytest.importorskip("sentencex")

BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
ODD = "ab.!? 。！？，,;\t\xa0\u3000\0\ud800\udc00\u0301\u200d😀é\ufeff“”\"'()A1" + BREAKS
texts = st.one_of(st.text(), st.text(st.sampled_from(ODD)), st.text(st.characters(), max_size=40))
languages = st.sampled_from([None, "en", "zh", "zh-Hant", "pt_BR", "ja", "de", "th", "und", "auto", "xx", "", "-", "é"])
longest = st.one_of(st.none(), st.integers(1, 12))


@given(texts, languages, st.booleans(), longest)
def test_no_character_is_lost_and_segments_are_what_a_translator_takes(
    text: str, language: str | None, sentences: bool, longest: int | None
) -> None:
    segments = split_text(text, language, sentences, longest=longest)
    assert segments
    assert "".join(one.before + one.text + one.after for one in segments) == text
    check_texts([one.text for one in segments])
    for one in segments:
        assert one.text == one.text.strip()
        assert not one.before.strip() + one.after.strip()
        assert len(one.text.splitlines()) == bool(one.text)
        assert longest is None or len(one.text) <= longest
        assert one.text or segments == [Segment("", text, "")]
    assert not any(one.before for one in segments[1:])


@given(texts, languages, st.booleans(), longest)
def test_texts_joined_are_the_text_where_the_spacing_stays(
    text: str, language: str | None, sentences: bool, longest: int | None
) -> None:
    segments = split_text(text, language, sentences, longest=longest)
    same = [one.text for one in segments]
    assert join_text(segments, same, None) == text
    gaps = [one.after for one in segments[:-1]]
    if all(gaps) and not any("\u3000" in gap for gap in gaps):
        assert join_text(segments, same, "en") == text
    if not any(gaps):
        assert join_text(segments, same, "zh") == text


@given(
    st.lists(st.sampled_from(["", " ", "Cats eat fish.", "猫吃鱼。狗也吃。", "\t"])), st.sampled_from(["\n", "\r\n"])
)
def test_lines_stay_lines(lines: list[str], line_break: str) -> None:
    text = line_break.join(lines)
    segments = split_text(text, "zh")
    for target in ("en", "zh", "th", None):
        joined = join_text(segments, ["x"] * len(segments) if text.strip() else [""], target)
        assert [bool(line.strip()) for line in joined.split(line_break)] == [
            bool(x.strip()) for x in text.split(line_break)
        ]


def sentences_of(text: str, language: str | None, longest: int | None = None) -> list[str]:
    return [one.text for one in split_text(text, language, longest=longest)]


def test_lines_come_first_and_then_sentences() -> None:
    text = "  Dr. Smith came. Did he?\r\n\r\nYes!\u2028No."
    assert split_text(text, "en") == [
        Segment("Dr. Smith came.", "  ", " "),
        Segment("Did he?", "", "\r\n\r\n"),
        Segment("Yes!", "", "\u2028"),
        Segment("No.", "", ""),
    ]
    assert sentences_of("猫吃鱼。狗吃肉！“好。”他说。", "zh") == ["猫吃鱼。", "狗吃肉！", "“好。”", "他说。"]
    assert [one.text for one in split_text("One. Two.\nThree.", "en", False)] == ["One. Two.", "Three."]


@pytest.mark.parametrize("text", ["see http://a.b/c?d=e.f", "System.Out is 2.5", "Yes!No", "M.\xa0Smith", "a@b.Org"])
def test_what_only_looks_like_an_end_is_none(text: str) -> None:
    for language in ("en", "zh", None):
        assert sentences_of(text, language) == [text]


def test_blanks_between_sentences_are_those_of_the_target() -> None:
    chinese = split_text("猫吃鱼。狗吃肉。\n好。", "zh")
    assert join_text(chinese, ["Cats eat fish.", "Dogs eat meat.", "Good."], "en-GB") == (
        "Cats eat fish. Dogs eat meat.\nGood."
    )
    english = split_text("Cats eat fish.  Dogs eat meat.\n\n Good.\n", "en")
    assert join_text(english, ["猫吃鱼。", "狗吃肉。", "好。"], "zh-Hans") == "猫吃鱼。狗吃肉。\n\n 好。\n"
    assert join_text(english, ["a", "b", "c"], "ja") == "a b\n\n c\n"
    assert join_text(english, ["", "b", "c"], "en") == "b\n\n c\n"
    assert join_text(split_text("一。\u3000二。", "zh"), ["One.", "Two."], "en") == "One. Two."
    assert join_text(split_text("One.\tTwo.", "en"), ["一。", "二。"], "zh") == "一。\t二。"
    with pytest.raises(ValueError):
        join_text(english, ["a"], "en")


def test_nothing_joined_is_nothing() -> None:
    assert join_text([], [], "en") == ""


def test_long_sentences_are_cut_where_they_pause() -> None:
    text = "the cat sleeps, the dog runs; the bird sings and the fish swims"
    assert sentences_of(text, "en", 36) == ["the cat sleeps, the dog runs;", "the bird sings and the fish swims"]
    assert sentences_of(text, "en", 20) == [
        "the cat sleeps,", "the dog runs;", "the bird sings and", "the fish swims",
    ]  # fmt: skip
    assert sentences_of("猫睡觉，狗跑步，鸟唱歌", "zh", 8) == ["猫睡觉，狗跑步，", "鸟唱歌"]
    assert sentences_of("3,000,000 cats", "en", 10) == ["3,000,000", "cats"]
    assert sentences_of("x" * 25, "en", 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert sentences_of("e\u0301" * 3, "en", 3) == ["e\u0301", "e\u0301", "e\u0301"]
    with pytest.raises(ConfigError):
        split_text("a", "en", longest=0)


@pytest.mark.parametrize(
    "unit", ["word ", "字", "。", "“", "« ", "你好。", "“好。”", "A. ", ".", "(", "\n", " ", ",", "\u0301"]
)
def test_the_time_grows_with_the_length(unit: str) -> None:
    def seconds(size: int) -> float:
        text, started = unit * (size // len(unit)), time.process_time()
        segments = split_text(text, "zh", longest=400)
        assert join_text(segments, [one.text for one in segments], None) == text
        return time.process_time() - started

    seconds(100)
    assert seconds(100_000) < 40 * seconds(10_000) + 0.2


def test_where_the_library_is_missing_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(DragomanError, match=r"dragoman\[serve\]"):
        split_text("a", "en")
    assert split_text("a. b", "en", False) == [Segment("a. b", "", "")]
