from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from dragoman.demo.lexicon import Lexicon, read_lexicon
from dragoman.errors import DataError

MISTAKES = [
    ('what = "fish meat mouse"', 'what = "fishh"', r"eat: nothing is called 'fishh'\n.*'fish'"),
    ('what = "fish meat mouse"', 'whom = "fish"', r"eat: 'whom' is not a role\n.*who, what, place"),
    ('study = [{ who = "young"', 'studdy = [{ who = "young"', r"studdy: there are frames for it, but no such word"),
    ('apple = { zh = "苹果", ', "apple = { ", r"line \d+: word\.noun\.apple\.zh: must be given"),
    ('plural = "apples", ', "", r"line \d+: apple: the word has no form 'plural', which 'bare' asks for"),
    ('plural = "apples"', "plural = 2", r"apple: the form 'plural' is not a text"),
    ('rabbit = { zh = "兔子"', 'swim = { zh = "兔子"', r"swim: two words have this name"),
    ('agreement = "i", kind', 'agreement = "me", kind', r"i: there is no agreement called 'me'"),
    ('[phrase.kin]\nzh = "{owner}', '[phrase.kin]\nzh = "{ovner}', r"kin: no slot is called 'ovner'"),
    ("[phrase.kin]\n", '[phrase.kin]\nhead = "verb"\n', r"kin: its head 'verb' is not one of its slots"),
    ("[pattern.habit]\n", "[pattern.habit]\nhow = 1\n", r"pattern\.habit\.how: there is no such name here"),
    (
        '[pattern.habit]\nzh = "{who}{verb}',
        '[pattern.habit]\nzh = "{who}{verb@whom}',
        r"habit: .*nothing to agree",
    ),
    (
        'pick = { verb = "eat drink like", who = "generic asked" }',
        'pick = { verb = "eat" }',
        r"habit_what: .* may fill \{who\}",
    ),
    (
        'verb = "eat drink like", who = "generic',
        'verb = "eat", who = "generik',
        r"what: .*'generik'\n.*'generic'",
    ),
    ('zh = "{who}{verb}哪里？"\nen = "Where {who.be}', 'zh = "?"\nen = "{who.be}', r"at_where: it needs one slot"),
    ("find = ' +'", "find = '('", r"repair\.en\.0\.find: .*regular expression"),
    ("[agreement]", "[agreement", r"not TOML: .*line \d+"),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES)
def test_mistakes_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (resources.files("dragoman.demo") / "grammar.toml").read_text(encoding="utf-8")
    assert text.count(old) == 1
    (tmp_path / "mine.toml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(DataError, match=r"mine\.toml") as caught:
        read_lexicon(tmp_path / "mine.toml")
    assert re.search(message, str(caught.value)), str(caught.value)


def test_mistakes_come_with_their_line(tmp_path: Path) -> None:
    text = (resources.files("dragoman.demo") / "grammar.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(text.replace('kind = "adult kin" }', 'kind = "adult", agreement = "x" }', 1))
    with pytest.raises(DataError) as caught:
        read_lexicon(tmp_path / "mine.toml")
    assert text.split("\n")[(caught.value.line or 0) - 1].startswith("mother = ")


def test_kinds_imply_kinds() -> None:
    lexicon: Lexicon = read_lexicon()
    assert {"cat", "mouse"} <= {*lexicon.select("noun", "many")}
    assert "milk" in lexicon.select("noun", "mass", "drinkable")
    assert lexicon.select("noun", "kin", "count") == []
    assert lexicon.select("noun", "cat fish", "food") == ["fish"]


def test_adjectives_stand_with_their_nouns() -> None:
    lexicon = read_lexicon()
    assert "aged" in lexicon.companions("adjective", "trait", "dog")
    assert "worn" not in lexicon.companions("adjective", "trait", "dog")
    assert {*lexicon.companions("number", None, "dog")} == {*lexicon.tables.word["number"]}


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_lexicon(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes("é".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_lexicon(tmp_path / "latin.toml")
