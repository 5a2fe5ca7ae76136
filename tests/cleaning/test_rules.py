"""The rules that look at one pair."""

from __future__ import annotations

import pytest

from dragoman.cleaning.rules import PAIR_RULES, RULES, Usual, is_mojibake, scripts_of
from dragoman.config.cleaning import CleaningConfig

LATIN = Usual(0.0, (frozenset({"LATIN"}), frozenset({"LATIN"})))
CHINESE = Usual(-1.1, (frozenset({"CJK"}), frozenset({"LATIN"})))

GOOD = [
    ("Two men walk.", "Zwei Männer gehen.", LATIN),
    ("It costs 1,000.50 euros", "Es kostet 1.000,50 Euro", LATIN),
    ("He has 2 cats", "Er hat zwei Katzen", LATIN),
    ("in 1999 and 2001", "2001 und 1999", LATIN),
    ("That is fun", "Das macht “Spaß”", LATIN),
    ("„Groß“ is big", "»Groß« – „groß“", LATIN),
    ("one – two", "ÄÖÜ – äöü – ß–", LATIN),
    ("No way!", "NÃO À MÃE É ÚNICO Â NÃO", LATIN),
    ("See www.example.org for the whole story of it", "Die ganze Geschichte steht auf www.example.org", LATIN),
    ("猫在河边吃鱼。", "The cat eats fish by the river.", CHINESE),
    ("我买了iPhone。", "I bought an iPhone.", CHINESE),
    ("日本語のテキスト", "Text in Japanese it is", CHINESE),
    ("Yes", "Ja", LATIN),
    ("हिन्दी में लिखा है", "written in Hindi", Usual(0.0, (frozenset({"DEVANAGARI"}), frozenset({"LATIN"})))),
]


@pytest.mark.parametrize(("source", "target", "usual"), GOOD)
def test_good_pairs_break_no_rule(source: str, target: str, usual: Usual) -> None:
    settings = CleaningConfig()
    assert [name for name, rule in PAIR_RULES.items() if rule(source, target, usual, settings)] == []


BAD = {
    "empty": [("", "etwas"), ("some", " \t")],
    "encoding": [
        ("A dog", "Ein sehr schÃ¶ner Hund"), ("It’s", "Itâ€™s so"), ("a\ufffdb", "ab"), ("a\x07b", "ab"),
        ("ä¸­å›½ is far", "China ist weit"), ("Ñ€ÑƒÑ\x81Ñ\x81ÐºÐ¸Ð¹", "russisch"), ("cafÃ© au lait", "Milchkaffee"),
        ("Â© 2001", "2001"),
    ],
    "copy": [("Same text", "same text!"), ("123", "123")],
    "long": [("a" * 1001, "b" * 1001)],
    "ratio": [("A short one", "Ein sehr langer Satz, der mit dem kurzen nichts mehr zu tun haben kann")],
    "letters": [("--- === ***", "Das ist Text"), ("Some text", "12 / 13 + 14 = ?? !!")],
    "script": [("Two men", "Два человека"), ("两个男人", "Zwei Männer")],
    "numbers": [("in 1999", "im Jahr 1998"), ("12 and 13", "12 und 14"), ("page 7", "Seite 17")],
    "boilerplate": [("see https://example.org/a/b/c", "https://example.org/a/b/c")],
}  # fmt: skip


@pytest.mark.parametrize(("name", "source", "target"), [(name, *pair) for name, pairs in BAD.items() for pair in pairs])
def test_bad_pairs_break_theirs(name: str, source: str, target: str) -> None:
    assert PAIR_RULES[name](source, target, LATIN, CleaningConfig())


def test_every_rule_has_words_and_every_rule_of_pairs_a_place() -> None:
    assert BAD.keys() == PAIR_RULES.keys()
    assert PAIR_RULES.keys() <= RULES.keys()
    order = [name for name in RULES if name in PAIR_RULES]
    assert order == list(PAIR_RULES)


@pytest.mark.parametrize("text", ["Grüße aus Köln", "Привет, мир", "日本語", "ça va, où êtes-vous ?", "it’s “fine”"])
def test_what_was_decoded_twice_is_found_and_what_was_decoded_once_is_not(text: str) -> None:
    assert not is_mojibake(text)
    assert is_mojibake(text.encode("utf-8").decode("latin-1"))


def test_scripts_are_counted_by_letters() -> None:
    assert scripts_of("ab 1, Ж かカ漢") == {"LATIN": 2, "CYRILLIC": 1, "CJK": 9}


def test_thresholds_are_settings() -> None:
    pair = ("A short one", "Ein Satz, der drei Mal so lang ist und mehr")
    rule = PAIR_RULES["ratio"]
    assert rule(*pair, LATIN, CleaningConfig())
    assert not rule(*pair, LATIN, CleaningConfig(max_ratio=5))
