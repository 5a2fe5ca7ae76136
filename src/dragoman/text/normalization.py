"""Writing texts alike before they are cut into tokens: odd blanks, invisible characters, Unicode's normal forms.

A tokenizer that normalises does it in its `encode`, so training and every reader of sources do the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Literal, get_args

Normalization = Literal["none", "blanks", "nfc", "nfkc", "nmt_nfkc"]
NORMALIZATIONS: tuple[Normalization, ...] = get_args(Normalization)

# What `str.split` splits at, and what is not seen: soft hyphen, grapheme joiner, marks of direction, ZWSP, word joiner
# and its kin, BOM. Variation selectors and tags are not seen either, but choose a glyph or an emoji.
_BLANKS = "\t-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_INVISIBLE = "\xad\u034f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
_ODD = re.compile(f"([{_BLANKS}])|[{_INVISIBLE}]")
# ZWNJ and ZWJ spell words in Arabic and Indic scripts, and join emoji. Between characters of these scripts (Latin,
# Greek, Cyrillic, Armenian, punctuation, Chinese, Japanese, Korean) and blanks they say nothing.
_UNJOINED = "\x00-\u058f\u1e00-\u1fff\u2000-\u200b\u2010-\u20cf\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef"
_IDLE_JOINERS = re.compile(f"(?<![^{_UNJOINED}])[\u200c\u200d]+(?![^{_UNJOINED}])")


def normalizer(name: Normalization) -> Callable[[str], str]:
    """Return a function that writes a text alike.

    Args:
        name: "none" leaves it as it is. "blanks" makes each Unicode blank a space and drops outer blanks and invisible
            characters, but not ZWNJ and ZWJ where scripts or emoji need them. "nfc" and "nfkc" do that, then give
            Unicode's normal form. "nmt_nfkc" is SentencePiece's rule of that name: nfkc for which ZWNJ, ZWSP and marks
            of direction are blanks too, runs of blanks one, and control characters nothing.
    """
    return {"none": str, "blanks": plain_blanks, "nfc": _nfc, "nfkc": _nfkc, "nmt_nfkc": _nmt_nfkc}[name]


def target_normalization(name: Normalization) -> Normalization:
    """Return what targets get where sources get this: nothing that would change how an output looks."""
    return "nfc" if name in ("nfkc", "nmt_nfkc") else name


def plain_blanks(text: str) -> str:
    """Return a text with a space for each blank, without outer blanks and characters that are not seen."""
    if text.isascii() and text.isprintable():
        return text.strip(" ")
    text = _ODD.sub(lambda match: " " if match[1] else "", text)
    if "\u200c" in text or "\u200d" in text:
        text = _IDLE_JOINERS.sub("", text)
    return text.strip(" ")


def _nfc(text: str) -> str:
    return _formed("NFC", text)


def _nfkc(text: str) -> str:
    return _formed("NFKC", text)


def _formed(form: Literal["NFC", "NFKC"], text: str) -> str:
    """In one form, and once more as long as that makes other blanks or lets a joiner go: seldom."""
    if text.isascii():
        return plain_blanks(text)
    while (again := unicodedata.normalize(form, plain_blanks(text))) != text:
        text = again
    return text


def _nmt_nfkc(text: str) -> str:
    return _nmt_rule()(text)


@cache
def _nmt_rule() -> Callable[[str], str]:
    from sentencepiece import SentencePieceNormalizer

    rule = SentencePieceNormalizer(
        rule_name="nmt_nfkc", add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=True
    )

    def normalized(text: str) -> str:
        return rule.normalize(text.encode("utf-8", "replace")).decode()

    return normalized
