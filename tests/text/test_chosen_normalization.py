"""How texts are written alike where nobody says it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig, settings
from dragoman.text import Pair, TokenizerPair
from dragoman.text.choices import RuleEffects
from dragoman.text.normalization import normalizer

ENGLISH = ["the cat eats a fish", "a dog sleeps here", "two birds sing", "the fish is small", "no cat sings at night"]
CHINESE = ["猫吃鱼。", "狗睡在这里。", "两只鸟唱歌。", "鱼很小！", "没有猫在夜里唱歌。"]
GERMAN = ["die Katze frißt einen Fisch", "ein Hund schläft hier", "zwei Vögel singen", "der Fisch ist klein", "nachts"]


class Pairs(list[Pair]):
    """Pairs that know how often they were read."""

    passes = 0

    def __iter__(self) -> Iterator[Pair]:
        self.passes += 1
        return super().__iter__()


def pairs(sources: list[str], targets: list[str], times: int = 40) -> Pairs:
    return Pairs(Pair(s, t, "f", n) for n, (s, t) in enumerate(zip(sources * times, targets * times, strict=True)))


def rules(known: Pairs, told: list[str] | None = None, **given: Any) -> tuple[str, str]:
    config = TokenizerConfig.from_dict({"kind": "bpe", "joint": False, **given})
    made = TokenizerPair.train(known, config, report=(told or []).append)
    return made.source.normalization, made.target.normalization


def test_sources_of_text_are_written_alike_and_targets_where_it_changes_none() -> None:
    told = [""]
    assert rules(pairs(CHINESE, ENGLISH), told) == rules(pairs(ENGLISH, CHINESE)) == ("nfkc", "nfc")
    assert told[-1].endswith("; texts are written alike by nfkc and nfc")
    assert rules(pairs(ENGLISH, CHINESE), kind="unigram", vocab_size=330) == ("nfkc", "nfc")


def test_one_vocabulary_has_the_rule_of_targets() -> None:
    assert rules(pairs(ENGLISH, GERMAN), joint=True) == ("nfc", "nfc")
    assert rules(pairs(ENGLISH, [f"  {text}" for text in GERMAN]), joint=True) == ("none", "none")


@pytest.mark.parametrize(
    ("change", "rule"),
    [(lambda text: f"\t{text}", "none"), (lambda text: text.replace(" ", "\xa0"), "none"),
     (lambda text: text.replace("i", "i\u0301"), "blanks"), (lambda text: f"{text}²", "nfc")],
)  # fmt: skip
def test_outputs_look_like_targets(change: Callable[[str], str], rule: str) -> None:
    assert rules(pairs(CHINESE, [change(text) for text in ENGLISH])) == ("nfkc", rule)
    few = pairs(CHINESE, ENGLISH, 100)
    few[7] = few[7]._replace(target=change(few[7].target))  # one in 500
    assert rules(few) == ("nfkc", "nfc")


def test_symbols_stay_as_they_are_and_what_is_said_counts() -> None:
    assert rules(pairs(["a b c", "b c a", "c a"], ["x y", "y x", "y"]), kind="word") == ("none", "none")
    assert rules(pairs(CHINESE, ENGLISH), kind="character") == ("none", "none")
    assert rules(pairs(CHINESE, ENGLISH), kind="character", target_kind="bpe") == ("none", "nfc")
    for rule, of_targets in (("none", "none"), ("blanks", "blanks"), ("nmt_nfkc", "nfc")):
        assert rules(pairs(CHINESE, ENGLISH), normalize=rule) == (rule, of_targets)


def test_a_text_of_its_own_has_the_rule_of_targets() -> None:
    for lines, rule in ((ENGLISH, "nfc"), ([f"    {line}" for line in ENGLISH], "none")):
        made = TokenizerPair.train_one(pairs([""] * 5, lines), TokenizerConfig(kind="bpe"))
        assert made.target.normalization == rule


def test_clean_text_is_not_read_again_for_it() -> None:
    asked, left, dirty = pairs(ENGLISH, CHINESE), pairs(ENGLISH, CHINESE), pairs(["\ufeffx", *ENGLISH[1:]], CHINESE)
    rules(asked, normalize="nfkc")
    rules(left)
    rules(dirty)
    assert left.passes == asked.passes
    assert dirty.passes == asked.passes + 1


def test_a_model_keeps_its_rule_and_dirty_sources_are_the_clean_ones(tmp_path: Path) -> None:
    TokenizerPair.train(pairs(ENGLISH, CHINESE), TokenizerConfig(kind="bpe")).save(tmp_path)
    source = TokenizerPair.load(tmp_path).source
    assert source.normalization == "nfkc"
    assert source.encode("\ufeffthe\xa0c\xadat ｅａｔｓ a\u3000\u200bfish ") == source.encode("the cat eats a fish")
    (setting,) = (one for one in settings("tokenizer.normalize") if one.name == "normalize")
    assert setting.before == "none"


@given(st.lists(st.text(max_size=8), max_size=8))
def test_effects_are_what_rules_do(texts: list[str]) -> None:
    effects = RuleEffects()
    for text in texts:
        effects.add(text)
    assert effects.lines == len(texts)
    for rule in ("blanks", "nfc", "nfkc"):
        assert effects.changed[rule] == sum(normalizer(rule)(text) != text for text in texts)
