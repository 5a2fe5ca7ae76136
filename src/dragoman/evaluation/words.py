"""Lines taken apart into words, for everything that counts words here; metrics have tokenizers of their own."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

# Kana, ideographs and their extensions, Thai and Lao, Myanmar, Khmer: written without spaces between words.
_UNSPACED = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_CHUNK = re.compile(f"[{_UNSPACED}]|[^\\s{_UNSPACED}]+")


def split_words(line: str) -> list[str]:
    """Return the words of a line: split at white space and punctuation; of scripts without spaces each character."""
    words: list[str] = []
    for chunk in _CHUNK.findall(line):
        first, last = 0, len(chunk)
        while first < last and _is_punctuation(chunk[first]):
            first += 1
        while last > first and _is_punctuation(chunk[last - 1]):
            last -= 1
        parts = (chunk[:first], chunk[first:last], chunk[last:])
        words += [part for part in parts if part]
    return words


def count_words(lines: Iterable[str], *, lowercase: bool = False) -> Counter[str]:
    """Return how often each word stands in the lines."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(split_words(line.lower() if lowercase else line))
    return counts


def _is_punctuation(character: str) -> bool:
    return not character.isalnum() and unicodedata.category(character)[0] == "P"
