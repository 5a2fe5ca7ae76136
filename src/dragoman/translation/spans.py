"""Words of an output: where they stand, how likely they are, and which part of the source they come from.

Tokenizers give pieces without offsets, of a text that they may have normalised. So the pieces are written one after the
other, and that is compared with the text, character by character.
"""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dragoman.search.outputs import Alternative
from dragoman.text.tokenizer import SPECIALS, UNKNOWN_TEXT
from dragoman.translation.results import Translation

Span = tuple[int, int]

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_UNKNOWN = SPECIALS[1]
_ESCAPED = re.compile("\u241b([_\u241b])")
# Scripts without blanks between words, and their punctuation: there a word is a piece.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u3190-\u4dbf\u4e00-\ua4cf\uf900-\ufaff"
    "\ufe30-\ufe4f\uff00-\uffef\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
# Where two texts differ, they are looked through so far for a place from which on they are alike for some characters.
_AHEAD, _TEXT_AHEAD, _ALIKE = 16, 64, 3


@dataclass(frozen=True)
class Word:
    """A word of an output; all offsets count characters (code points), as slices of a `str` do.

    Attributes:
        start: where it begins in the output's text.
        end: where it ends there.
        probability: the product of the probabilities of its pieces.
        sources: the parts of the source text that its pieces are aligned to, in order, apart from each other; none
            where there is no alignment.
    """

    start: int
    end: int
    probability: float
    sources: tuple[Span, ...]


def spans(translation: Translation, output: Alternative | None = None) -> tuple[Word, ...]:
    """Return the words of an output in order, without overlaps.

    Words are what stands between blanks. In scripts that write none between words (Chinese, Japanese, Thai, Lao, Khmer,
    Burmese, Tibetan) a word is a piece. Where the text says something else than the pieces (unknown pieces, copied
    words, normalisation), words are matched with what stands at the same place.

    Args:
        translation: with an alignment, if `sources` are wanted.
        output: one of its alternatives; None is the best.
    """
    output = translation if output is None else output
    places = piece_spans(output.text, output.tokens)
    found = _words(output.text, places)
    if not found:
        return ()
    scores, sources = [0.0] * len(found), [set[Span]() for _ in found]
    origins = piece_spans(translation.source, translation.source_tokens) if output.alignment else []
    looked_at: dict[int, list[Span]] = {}
    for source, place in output.alignment or ():
        if 0 <= source < len(origins) and origins[source][0] < origins[source][1]:
            looked_at.setdefault(place, []).append(origins[source])
    starts, ends = [start for start, _ in found], [end for _, end in found]
    for number, ((start, end), score) in enumerate(zip(places, output.token_scores, strict=False)):
        first = min(bisect_right(ends, start), len(found) - 1)  # a blank belongs to the word after it
        for word in range(first, max(first + 1, bisect_left(starts, end))):
            scores[word] += score
            sources[word].update(looked_at.get(number, ()))
    return tuple(
        Word(start, end, min(1.0, math.exp(score)), _joined(some))
        for (start, end), score, some in zip(found, scores, sources, strict=True)
    )


def piece_spans(text: str, pieces: Sequence[str]) -> list[Span]:
    """Return the part of a text that each piece spells, blanks at its ends left out; (n, n) of one that spells none.

    Starts and ends never go back from one piece to the next. Several pieces may spell one character, byte by byte.

    Args:
        text: what was cut into the pieces, or made of them.
        pieces: as `Tokenizer.pieces` gives them.
    """
    for parts in ([found.span() for found in re.finditer(r"\S+", text)], [(i, i + 1) for i in range(len(text))]):
        if len(parts) == len(pieces) and all(
            piece in (_UNKNOWN, text[start:end].replace(" ", "\u2581"))
            for (start, end), piece in zip(parts, pieces, strict=True)
        ):
            return [(start, end) if text[start:end].strip() else (end, end) for start, end in parts]
    written, ranges = _written(pieces)
    places = _compared(_folded(written), _folded(text))
    found, least = [], 0
    for start, end in ranges:
        inner = [place for place in places[start:end] if text[place[0] : place[1]].strip()]
        start = max(least, inner[0][0] if inner else places[start - 1][1] if start else 0)
        part = text[start : inner[-1][1]] if inner else ""
        least = start + len(part) - len(part.lstrip())
        found.append((least, max(least, start + len(part.rstrip()))))
    return found


def plain_words(text: str) -> list[Span]:
    """Return the words of a text of which no pieces are known; characters where the script writes no blanks."""
    return _words(text, [(place, place + 1) for place in range(len(text))])


def _written(pieces: Sequence[str]) -> tuple[str, list[Span]]:
    """What pieces spell, and which part of it each one does; bytes of one character all spell that."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    parts: list[str] = []
    ranges: list[Span] = []
    size = waiting = 0
    for piece in [*pieces, ""]:
        byte = _BYTE.fullmatch(piece)
        spelled = decoder.decode(bytes.fromhex(byte[1])) if byte else decoder.decode(b"", final=True)
        waiting += 1 if byte else 0
        if spelled:
            ranges += [(size, size + len(spelled))] * waiting
            parts.append(spelled)
            size, waiting = size + len(spelled), 0
        if not byte:
            decoder.reset()
            text = UNKNOWN_TEXT if piece == _UNKNOWN else _ESCAPED.sub(_plain, piece.replace("\u2581", " "))
            ranges.append((size, size + len(text)))
            parts.append(text)
            size += len(text)
    return "".join(parts), ranges[: len(pieces)]


def _plain(found: re.Match[str]) -> str:
    return "\u2581" if found[1] == "_" else found[1]


def _folded(text: str) -> str:
    """A text of the same length, in which characters that normalisation makes the same are the same."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if c.isspace() else f if len(f := unicodedata.normalize("NFKC", c)) == 1 else c for c in text)


def _compared(written: str, text: str) -> list[Span]:
    """For each character of what was written the part of the text that stands for it; starts and ends never go back."""
    places: list[Span] = []
    j = 0
    while (i := len(places)) < len(written):
        if j < len(text) and written[i] == text[j]:
            places.append((j, j + 1))
            j += 1
        elif j == len(text) or (written[i] == " " != text[j]):
            places.append((j, j))
        elif text[j] == " ":
            j += 1
        else:
            passed, read = _next_alike(written, i, text, j)
            places += [(j + k * read // passed, j - (-(k + 1) * read // passed)) for k in range(passed)]
            j += read
    return places


def _next_alike(written: str, i: int, text: str, j: int) -> Span:
    """How many characters of either differ, from two places on; one of each if that cannot be told."""
    rest = len(written) - i, len(text) - j
    best = rest if rest[0] <= _AHEAD and rest[1] <= _TEXT_AHEAD else (1, 1)
    fewest = sum(best) if best == rest else _AHEAD + _TEXT_AHEAD
    for passed in range(_AHEAD):
        sample = written[i + passed : i + passed + _ALIKE]
        if not sample or passed >= fewest:
            break
        at = text.find(sample, j, j + _TEXT_AHEAD)
        if at >= 0 and passed + at - j < fewest:
            best, fewest = (passed, at - j), passed + at - j
    return best


def _words(text: str, pieces: Sequence[Span]) -> list[Span]:
    cuts = sorted({start for start, end in pieces if 0 < start < end and _may_cut(text, start)})
    found = []
    for word in re.finditer(r"\S+", text):
        inside = cuts[bisect_right(cuts, word.start()) : bisect_left(cuts, word.end())]
        found += pairwise([word.start(), *inside, word.end()])
    return found


def _may_cut(text: str, place: int) -> bool:
    """Whether a word may begin inside a run without blanks: beside a character of a script that writes none."""
    if unicodedata.category(text[place]).startswith("M"):
        return False
    return bool(_UNSPACED.match(text[place]) or _UNSPACED.match(text[place - 1]))


def _joined(parts: set[Span]) -> tuple[Span, ...]:
    """Spans in order; those that touch are one."""
    found: list[Span] = []
    for start, end in sorted(parts):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)
