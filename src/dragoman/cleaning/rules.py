"""Rules that look at one pair: what is wrong with it, if anything is.

Each is a function of the two texts and of `Usual`, what is usual in the corpus. Their order is that of `RULES`; a pair
is counted under the first rule that drops it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from dragoman.config.cleaning import CleaningConfig
from dragoman.text.keys import skeleton

# In the order in which they are asked. What finds its pairs by place or number is in `cleaning.facts`.
RULES = {
    "unreadable": "a line is not UTF-8, or a record lacks a side",
    "empty": "a side is empty",
    "encoding": "a side was decoded wrongly (Ã¼ for ü), or has replacement or control characters",
    "shifted": "lines of the file slipped: its sources and targets do not belong together",
    "copy": "the target is a copy of the source",
    "long": "a side is too long",
    "ratio": "the lengths do not fit each other",
    "letters": "a side is hardly letters and digits",
    "script": "a side is in another script than is usual",
    "exchanged": "source and target have changed places",
    "language": "a side is in another language",
    "numbers": "the sides have different numbers",
    "boilerplate": "a side stands in very many pairs, or is an address",
    "duplicate": "the pair came before",
    "near duplicate": "the pair came before, but for case, punctuation, blanks, digits (near_similarity: a few words)",
    "score": "two models find the pair unlikely, or far less likely in one direction than in the other",
}
_FEWEST = 10  # characters of a side whose ratio is looked at
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]")
# UTF-8 that was read as Windows-1252 or Latin-1: the first byte of a letter, and a byte that goes on.
_GOES_ON = "[\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u2122\u20ac]"
_TWICE = re.compile(f"[\u00c2-\u00f4]{_GOES_ON}")
_LEADS = frozenset("\u00c2\u00c3\u00c5\u00d0\u00d1")
_TWO = re.compile(f"[\u00c2-\u00de]{_GOES_ON}")
_NUMBER = re.compile(r"\d+(?:[.,\u2009\u202f\u00a0' ]\d{3})*(?:[.,]\d+)?")
_ADDRESS = re.compile(r"\S*(?:https?://|www\.)\S+|\S+@\S+\.\w+")


@dataclass(frozen=True)
class Usual:
    """What is usual in a corpus.

    Attributes:
        log_ratio: the median of the logarithm of the ratio of lengths.
        scripts: of source and target: those that make up a quarter of its letters or more.
    """

    log_ratio: float = 0.0
    scripts: tuple[frozenset[str], frozenset[str]] = field(default=(frozenset(), frozenset()))


def is_empty(source: str, target: str, usual: Usual, settings: CleaningConfig) -> bool:
    """Return whether a side is empty."""
    del usual, settings
    return not (source.strip() and target.strip())


def is_wrongly_encoded(source: str, target: str, usual: Usual, settings: CleaningConfig) -> bool:
    """Return whether a side has what wrong decoding leaves behind."""
    del usual, settings
    return any(_ODD.search(text) is not None or is_mojibake(text) for text in (source, target))


def is_mojibake(text: str) -> bool:
    """Return whether a text is UTF-8 read as Windows-1252 or Latin-1: it has what looks like the bytes of a letter."""
    if text.isascii() or (first := _TWICE.search(text)) is None:
        return False
    data = b"".join(_bytes_of(character) for character in text[first.start() : first.start() + 4])
    if any(_is_text(data[:length]) for length in (4, 3) if len(data) >= length):
        return True
    # Two such characters may stand side by side (ß and a closing quotation mark), but hardly these, or several pairs.
    sure = first[0][0] in _LEADS or len(_TWO.findall(text)) > 1
    return sure and _is_text(data[:2])


def _is_text(data: bytes) -> bool:
    """Whether bytes are one character of UTF-8."""
    try:
        return len(data.decode("utf-8")) == 1
    except UnicodeDecodeError:
        return False


def _bytes_of(character: str) -> bytes:
    try:
        return character.encode("cp1252")
    except UnicodeEncodeError:
        return character.encode("latin-1", "replace")


def is_copy(source: str, target: str, usual: Usual, settings: CleaningConfig) -> bool:
    """Return whether the target is the source, case, punctuation and blanks aside."""
    del usual, settings
    return source == target or skeleton(source) == skeleton(target)


def is_long(source: str, target: str, usual: Usual, settings: CleaningConfig) -> bool:
    """Return whether a side is too long."""
    del usual
    return max(len(source), len(target)) > settings.max_characters


def is_of_odd_ratio(source: str, target: str, usual: Usual, settings: CleaningConfig) -> bool:
    """Return whether the lengths do not fit each other."""
    if max(len(source), len(target)) < _FEWEST:
        return False
    ratio = math.log((len(source) + 1) / (len(target) + 1))
    return abs(ratio - usual.log_ratio) > math.log(settings.max_ratio)


def has_few_letters(source: str, target: str, usual: Usual, settings: CleaningConfig) -> bool:
    """Return whether a side is hardly letters and digits."""
    del usual
    for text in (source, target):
        wanted = settings.min_letters * len("".join(text.split()))
        letters = sum(map(str.isalnum, text))
        # In some scripts vowels are marks.
        if letters < wanted and letters + sum(unicodedata.category(one)[0] == "M" for one in text) < wanted:
            return True
    return False


class _Scripts(dict[str, str]):
    """The script of each letter by its name in Unicode, filled as letters come; "" of what is no letter."""

    def __missing__(self, character: str) -> str:
        word = unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
        self[character] = _JAPANESE.get(word, word)
        return self[character]


_JAPANESE = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "HALFWIDTH": "CJK", "FULLWIDTH": "LATIN", "IDEOGRAPHIC": "CJK"}
_OF_A_WORD = 3
_SCRIPTS = _Scripts()


def scripts_of(text: str) -> Counter[str]:
    """Return how many letters a text has of each script (LATIN, CYRILLIC, CJK with kana, ...); one of CJK says as much
    as three of others, and counts so.
    """
    found = Counter(map(_SCRIPTS.__getitem__, text))
    del found[""]
    if "CJK" in found:
        found["CJK"] *= _OF_A_WORD
    return found


def is_in_other_script(source: str, target: str, usual: Usual, settings: CleaningConfig) -> bool:
    """Return whether a side is in another script than is usual for it."""
    for text, scripts in zip((source, target), usual.scripts, strict=True):
        if not scripts or (text.isascii() and "LATIN" in scripts):
            continue
        found = scripts_of(text)
        if sum(found[one] for one in scripts) < settings.min_script * found.total():
            return True
    return False


def has_other_numbers(source: str, target: str, usual: Usual, settings: CleaningConfig) -> bool:
    """Return whether both sides have numbers, and not the same ones; how they are grouped and their order are nothing.

    What one side has and the other side has not at all may be written in words there.
    """
    del usual, settings
    sides = [sorted(map(_digits, _NUMBER.findall(text))) for text in (source, target)]
    return bool(sides[0] and sides[1]) and sides[0] != sides[1] and "".join(sides[0]) != "".join(sides[1])


def _digits(number: str) -> str:
    return "".join(str(unicodedata.digit(one)) for one in number if one.isdigit())


def is_address(source: str, target: str, usual: Usual, settings: CleaningConfig) -> bool:
    """Return whether a side is hardly more than addresses of pages or mail."""
    del usual, settings
    return any("." in text and 2 * sum(map(len, _ADDRESS.findall(text))) > len(text) for text in (source, target))


Rule = Callable[[str, str, Usual, CleaningConfig], bool]
PAIR_RULES: dict[str, Rule] = {
    "empty": is_empty,
    "encoding": is_wrongly_encoded,
    "copy": is_copy,
    "long": is_long,
    "ratio": is_of_odd_ratio,
    "letters": has_few_letters,
    "script": is_in_other_script,
    "numbers": has_other_numbers,
    "boilerplate": is_address,
}
