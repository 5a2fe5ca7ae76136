"""Texts of many lines and sentences cut into what a model translates at a time, and outputs joined again.

Sentences are found by `sentencex`, which knows abbreviations and quotation marks of many languages. It is imported when
it is first needed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dragoman.errors import ConfigError, DragomanError
from dragoman.languages import base_language

# The library's time grows with the square of what it is given at once, and so does any fault it has: 2 ms for this.
_WINDOW = 2000
# It takes offsets inside characters, and stops, where a blank is not ASCII; half of a surrogate pair has no UTF-8.
_UNREADABLE = re.compile("(\\s)|[\ud800-\udfff]")
_NO_BREAK = "\xa0\u202f\u2007"
# Written without blanks between sentences. Thai, Lao, Khmer and Burmese have none between words, but between sentences.
_WITHOUT_BLANKS = frozenset(["zh", "ja", "yue", "wuu", "nan", "hak", "gan", "lzh", "cmn", "zho", "chi", "jpn"])
_PAUSE = re.compile(r"[;:,\u060c\u061b\u2013\u2014](?=\s)|[，；：、。]")
_BLANK = re.compile(r"\S(?=\s)")
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"


@dataclass(frozen=True)
class Segment:
    """A piece of a text that is translated by itself.

    Attributes:
        text: a sentence or a line, without line breaks and without white space at its ends; "" for a blank text.
        before: white space before it; only the first segment of a text has any.
        after: white space after it, up to the next segment: `""`, `" "`, a line break, blank lines.
    """

    text: str
    before: str
    after: str


def split_text(
    text: str, language: str | None = None, sentences: bool = True, *, longest: int | None = None
) -> list[Segment]:
    r"""Return the lines of a text, or its sentences; `before + text + after` of all of them joined is the text.

    Lines end at each line break that `str.splitlines` knows; a blank line is white space between segments. The time
    grows with the length of the text, whatever is in it.

    Args:
        text: any string.
        language: of the text, as `zh`, `pt-BR` or `und`; one that `sentencex` does not know is cut like English.
        sentences: cut lines at the ends of sentences.
        longest: in characters: longer segments are cut further, after the last pause (comma, semicolon, colon) of what
            fits, else at the last blank, else inside a word. A model cuts what is over its limit; for 250 tokens of
            source, 400 characters are safe in most languages written with letters, 200 in Chinese.

    Raises:
        DragomanError: `sentences`, and `sentencex` is not installed.
        ConfigError: `longest` is below 1.
    """
    if longest is not None and longest < 1:
        raise ConfigError("no text is that short", expected="longest >= 1, or None", found=longest)
    find_ends = _sentence_ends(language) if sentences else _line_end
    spans, place = [], 0
    for line in text.splitlines(keepends=True):
        start = 0
        for end in find_ends(line):
            spans += _cut(text, *_stripped(text, place + start, place + end), longest)
            start = end
        place += len(line)
    if not spans:
        return [Segment("", text, "")]
    ends = [start for start, _ in spans[1:]] + [len(text)]
    before = text[: spans[0][0]]
    return [
        Segment(text[start:end], "" if number else before, text[end:following])
        for number, ((start, end), following) in enumerate(zip(spans, ends, strict=True))
    ]


def join_text(segments: Sequence[Segment], outputs: Sequence[str], target: str | None) -> str:
    """Return a text of outputs, one for each segment.

    White space with a line break or a tab in it stays. Between sentences of one line there is a blank where the target
    language writes one, and none where it does not, however the source did it.

    Args:
        segments: as `split_text` gives them.
        outputs: their translations.
        target: language of the outputs; None leaves all white space as it was.

    Raises:
        ValueError: there are not as many outputs as segments.
    """
    pairs = list(zip(segments, outputs, strict=True))
    found = []
    for pair, following in zip(pairs, [*pairs[1:], None], strict=False):
        segment, output = pair
        found += [segment.before, output, segment.after if following is None else _gap(*pair, *following, target)]
    return "".join(found)


def _gap(segment: Segment, output: str, following: Segment, next_output: str, target: str | None) -> str:
    """What stands between two outputs; `before` of the following segment is empty."""
    gap = segment.after
    if target is None or "\t" in gap or len(f"{gap}.".splitlines()) > 1:
        return gap
    if not output:
        return ""
    if base_language(target) in _WITHOUT_BLANKS:
        both = output[-1:] + next_output[:1]
        return " " if gap and len(both) == 2 and both.isascii() and both.isalnum() else ""
    if gap:
        return gap.replace("\u3000", " ")
    return " " if _parted(segment.text[-1:], following.text[:1]) else ""


def _parted(left: str, right: str) -> bool:
    """Whether two characters without a blank between them can be of two sentences: not those of `a.b` and `2.5`."""
    return not left.isascii() or (right.isalnum() and unicodedata.east_asian_width(right) in "WF")


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _line_end(line: str) -> list[int]:
    return [len(line)]


def _sentence_ends(language: str | None) -> Callable[[str], list[int]]:
    """A function from a line to the offsets at which its sentences end, the last one its length."""
    try:
        from sentencex import segment  # pyrefly: ignore[missing-module-attribute]  # in its binary module
    except ImportError as error:
        hint = "pip install 'dragoman[serve]', or translate line by line"
        raise DragomanError("finding sentences needs sentencex", hint=hint) from error
    code = base_language(language) or "en"

    def ends(line: str) -> list[int]:
        readable = _UNREADABLE.sub(lambda found: " " if found[1] else "\ufffd", line)
        return [end for end in _ends(readable, lambda text: segment(code, text)) if _is_end(line, end)]

    return ends


def _is_end(line: str, end: int) -> bool:
    if end == len(line):
        return True
    left = line[end - 1]
    return left not in _NO_BREAK and (left.isspace() or _parted(left, line[end]))


def _ends(line: str, segment: Callable[[str], list[str]]) -> Iterator[int]:
    """Where sentences may end, in order, the end of the line too; it is looked at a window at a time."""
    start = 0
    while start < len(line):
        window = line[start : start + _WINDOW]
        sizes = _sizes(window, segment)
        following = start + len(window)
        if following < len(line) and (last := sizes.pop()) <= _WINDOW // 2:
            following -= last  # a longer one is not read again: no part of a line is read over and over
        for size in sizes:
            start += size
            yield start
        start = following


def _sizes(window: str, segment: Callable[[str], list[str]]) -> list[int]:
    """How long each sentence is, blanks after it counted; they add up to the window."""
    try:
        sizes = [len(part) for part in segment(window) if part]
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a fault of the library, which is no `Exception`
            raise
        sizes = []
    return sizes if sum(sizes) == len(window) else [len(window)]


def _cut(text: str, start: int, end: int, longest: int | None) -> Iterator[tuple[int, int]]:
    """Parts of a sentence, as `longest` of `split_text` says; nothing for a blank one."""
    while longest is not None and end - start > longest:
        window = text[start : start + longest + 1]  # one more: a blank there is a place to cut at
        cut = start + (_last(_PAUSE, window) or _last(_BLANK, window) or _inside(window))
        yield _stripped(text, start, cut)
        start = _stripped(text, cut, end)[0]
    if start < end:
        yield start, end


def _last(pattern: re.Pattern[str], window: str) -> int:
    """Where the last match in the second half of a window ends, its last character left out; 0 if there is none."""
    ends = (found.end() for found in pattern.finditer(window, len(window) // 2))
    return max((end for end in ends if end < len(window)), default=0)


def _inside(window: str) -> int:
    """A place inside a word, not before a mark that belongs to the character before it."""
    for cut in range(len(window) - 1, max(0, len(window) - 32), -1):
        before, after = window[cut - 1], window[cut]
        if not unicodedata.combining(after) and before not in _JOINERS and after not in _JOINERS:
            return cut
    return max(1, len(window) - 1)
