"""What of a text a model does not know: pieces that its vocabulary lacks, and letters of another script. No PyTorch."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.text.tokenizer import Tokenizer

_RANGES = {
    "Latin": "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f",
    "Armenian": "\u0530-\u058f",
    "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "Devanagari": "\u0900-\u097f",
    "Bengali": "\u0980-\u09ff",
    "Tamil": "\u0b80-\u0bff",
    "Thai": "\u0e00-\u0e7f",
    "Georgian": "\u10a0-\u10ff",
    "Chinese": "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002fa1f",
    "Japanese": "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff",
    "Korean": "\u1100-\u11ff\uac00-\ud7af",
}
# Languages by the script that they are written in; one that is written in several has no entry.
_LANGUAGES = {
    "Latin": "af ca cs cy da de en es et eu fi fr ga gl hr hu id is it la lt lv ms mt nl no nb nn pl pt ro sk sl sq sv "
    "sw tl tr vi",
    "Greek": "el",
    "Cyrillic": "be bg mk ru uk",
    "Armenian": "hy",
    "Hebrew": "he yi",
    "Arabic": "ar fa ps ur",
    "Devanagari": "hi mr ne",
    "Bengali": "bn as",
    "Tamil": "ta",
    "Thai": "th",
    "Georgian": "ka",
    "Chinese": "zh",
    "Japanese": "ja",
    "Korean": "ko",
}
# Fewer letters tell nothing; names and numbers of another script are no other language.
_FEWEST_LETTERS, _SHARE = 4, 0.2
_LOOKED_AT = 1000


def spelling_ids(tokenizer: Tokenizer) -> range:
    """Return the ids of the bytes that spell characters which a SentencePiece vocabulary lacks; none of other kinds."""
    first = getattr(tokenizer, "first_byte", None)
    return range(0) if first is None else range(first, first + 256)


def count_unknown(tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    """Return how many ids of a text stand for what the vocabulary lacks: `<unk>`, and bytes that spell characters."""
    spelling = spelling_ids(tokenizer)
    return sum(one == tokenizer.unk or one in spelling for one in ids)


def script_of(language: str | None) -> str | None:
    """Return the name of the script that a language is written in, by its two-letter code; None if that is not sure."""
    return next((script for script, codes in _LANGUAGES.items() if language and language in codes.split()), None)


def is_written_in(text: str, script: str) -> bool:
    """Return whether a fifth of a text's letters or more, of its first 1,000 characters, are of a script.

    So it is, too, where the text has hardly any letters.
    """
    letters = sum(map(str.isalpha, text[:_LOOKED_AT]))
    own = len(re.findall(f"[{_RANGES[script]}]", text[:_LOOKED_AT]))
    return letters < _FEWEST_LETTERS or own >= _SHARE * letters
