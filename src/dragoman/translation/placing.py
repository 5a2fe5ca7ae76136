"""Where the tags inside a text go in its translation, by the alignment of words.

A tag with content wraps the words that come from what it wrapped; one without content stands beside the word that comes
from its neighbour. Tags stay nested as they were, and siblings stay apart. Nothing here is recursive, and the time
grows with the length of a text and the number of its tags.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from dragoman.translation.spans import Span, Word, plain_words

_LOOKED_AT = 64  # words of siblings that one tag goes around
_Part = tuple[Span, tuple[Span, ...], bool | None]


@dataclass(frozen=True)
class MarkedOutput:
    """A translation of a text that had tags in it.

    Attributes:
        text: plain; it is escaped when it is put in.
        words: its words with where they come from; without any, or without `sources`, tags go by relative position.
    """

    text: str
    words: Sequence[Word] = ()

    def between(self, before: str, after: str) -> MarkedOutput:
        """Return it with white space around it that stands around the source too."""
        by = len(before)
        words = self.words
        if by:
            words = [
                Word(word.start + by, word.end + by, word.probability, tuple((i + by, j + by) for i, j in word.sources))
                for word in words
            ]
        return MarkedOutput(f"{before}{self.text}{after}", words)


@dataclass(slots=True, eq=False)
class Tag:
    """A pair of tags, or a single one, inside a text.

    Attributes:
        start: as written; of a single one all of it.
        end: the end tag as written; "" of a single one, and of one whose end tag is not in this text.
        single: whether it can hold no words.
        begins: where it begins in the text.
        ends: where it ends there.
        open_left: it began before this text.
        open_right: it ends after this text.
        blank_left: a blank stood before a single one.
        blank_right: a blank stood after it.
        texts: the parts of the text that it holds itself.
        inner: tags in it, in order.
    """

    start: str
    begins: int
    end: str = ""
    single: bool = False
    ends: int = 0
    open_left: bool = False
    open_right: bool = False
    blank_left: bool = False
    blank_right: bool = False
    texts: list[Span] = field(default_factory=list)
    inner: list[Tag] = field(default_factory=list)


@dataclass(slots=True)
class _Place:
    """Where a tag goes: words `first` to `last` (none if `last` is below), characters `start` to `end`."""

    first: int
    last: int
    start: int
    end: int


def put_tags(root: Tag, source: str, output: MarkedOutput) -> str:
    """Return an output as markup, with each tag in it exactly once.

    Args:
        root: holds all tags of the source.
        source: its text.
        output: the translation.
    """
    if not root.inner:
        return escape(output.text, quote=False)
    starts, ends = [], []
    while len(root.inner) == 1 and not root.texts and not root.inner[0].single:  # all of the text is in it
        root = root.inner[0]
        starts.append(root.start)
        ends.append(root.end)
    inside = Tag("", 0, ends=len(source), texts=root.texts, inner=root.inner)
    places = _Placing(inside, source, output).places
    return "".join([*starts, *_written(inside, output.text, places), *reversed(ends)])


class _Placing:
    """Places of all tags of a text in its output, by their identity: those of a tag, then those inside it."""

    def __init__(self, root: Tag, source: str, output: MarkedOutput) -> None:
        self.text = output.text
        words = [word for word in output.words if 0 <= word.start < word.end <= len(output.text)]
        parts = _parts(words or _plain(output.text), output.text)
        self.words: list[Span] = [span for span, _, _ in parts]
        aligned = any(word.sources for word in words)
        self.first, self.last = _links(parts, source) if aligned else _by_position(source, self.words, len(output.text))
        self.before, self.after = _neighbours(self.first, self.last)
        self.least = len(source) - len(source.lstrip())
        self.most = len(source.rstrip())
        order = _outer_first(root)
        self.wanted = self._wanted(order)
        self.places = {id(root): _Place(0, len(self.words) - 1, 0, len(self.text))}
        for tag in order:
            if tag.inner:
                self._place_inner(tag)

    def _wanted(self, order: Sequence[Tag]) -> dict[int, Span]:
        """The first and the last word that come from what each tag wrapped; none if the second is below."""
        wanted: dict[int, Span] = {}
        for tag in reversed(order):
            if tag.single:
                continue
            found = [wanted[id(one)] for one in tag.inner if not one.single]
            found += [(self.first[i], self.last[i]) for start, end in tag.texts for i in range(start, end)]
            found = [(first, last) for first, last in found if first <= last]
            first, last = min((one[0] for one in found), default=1), max((one[1] for one in found), default=0)
            if tag.begins <= self.least and tag.ends >= self.most and self.least < self.most:
                first, last = 0, len(self.words) - 1
            wanted[id(tag)] = first, last
        return wanted

    def _place_inner(self, outer: Tag) -> None:
        around = self.places[id(outer)]
        taken: list[Span] = []
        wrapping: list[tuple[int, int, int, Tag]] = []
        for number, tag in enumerate(outer.inner):
            if not tag.single:
                first, last = self.wanted[id(tag)]
                first, last = max(first, around.first), min(last, around.last)
                if tag.open_left or tag.open_right:
                    last = around.last if tag.open_right and first <= last else last
                    first = around.first if tag.open_left and first <= last else first
                    wrapping.append((-1, number, first, tag))
                elif first <= last:
                    wrapping.append((last - first, number, first, tag))
                self.places[id(tag)] = _Place(first, last, 0, 0)
        held: list[tuple[int, int, int]] = []  # start and end in characters, number
        for _, number, _, tag in sorted(wrapping, key=lambda one: one[:3]):
            place = self.places[id(tag)]
            place.first, place.last = _free(taken, place.first, place.last)
            if place.first <= place.last:
                taken.insert(bisect_left(taken, (place.first, place.last)), (place.first, place.last))
                place.start = around.start if self._reaches(tag, True) else self.words[place.first][0]
                place.end = around.end if self._reaches(tag, False) else self.words[place.last][1]
                held.append((place.start, place.end, number))
        held.sort()
        for number, tag in enumerate(outer.inner):
            place = self.places.get(id(tag))
            if place is None or place.first > place.last:
                at = self._beside(tag, number, around, held, outer)
                self.places[id(tag)] = _Place(1, 0, at, at)

    def _reaches(self, tag: Tag, left: bool) -> bool:
        """Whether a tag reaches to the beginning, or the end, of what it is in: all of the text was in it."""
        if tag.begins <= self.least and tag.ends >= self.most:
            return True
        return tag.open_left if left else tag.open_right

    def _beside(self, tag: Tag, number: int, around: _Place, held: list[tuple[int, int, int]], outer: Tag) -> int:
        """The character before which a tag without words goes: never inside a sibling."""
        least, most = around.start, around.end
        for start, end, other in (held[:1] + held[-1:]) if held else ():
            least = end if outer.inner[other].open_left and other < number else least
            most = start if outer.inner[other].open_right and other > number else most
        at = self._anchor(tag, least, most)
        place = bisect_left(held, (at, -1, -1)) - 1
        if place >= 0 and held[place][0] < at < held[place][1]:
            at = held[place][1] if held[place][2] < number else held[place][0]
        return max(least, min(at, most))

    def _anchor(self, tag: Tag, least: int, most: int) -> int:
        if tag.open_left or tag.open_right:
            return most if tag.open_right else least
        if tag.begins <= self.least:
            return least
        if tag.begins >= self.most:
            return most
        left, right = self.before[tag.begins], self.after[tag.begins]
        if right >= 0 and (left < 0 or (tag.blank_left and not tag.blank_right)):
            return self.words[right][0]
        return self.words[left][1] if left >= 0 else least


def _plain(text: str) -> list[Word]:
    return [Word(start, end, 1.0, ()) for start, end in plain_words(text)]


def _parts(words: Sequence[Word], text: str) -> list[_Part]:
    return [part for word in words for part in _without_punctuation(word, text)]


def _without_punctuation(word: Word, text: str) -> Iterator[_Part]:
    """The punctuation before a word, the word, and what is after it; whether it is punctuation, None of all in one."""
    written = text[word.start : word.end]
    marks = [not (c.isalnum() or unicodedata.category(c).startswith("M")) for c in written]
    if all(marks) or not (marks[0] or marks[-1]):
        yield (word.start, word.end), word.sources, None
        return
    start = word.start + marks.index(False)
    end = word.end - marks[::-1].index(False)
    for span, is_mark in (((word.start, start), True), ((start, end), False), ((end, word.end), True)):
        if span[0] < span[1]:
            yield span, word.sources, is_mark


def _links(words: Sequence[_Part], source: str) -> tuple[list[int], list[int]]:
    """For each character of the source the first and the last word that come from it; 1 and 0 if none does."""
    first, last = [1] * len(source), [0] * len(source)
    marks = [None if c.isspace() else not c.isalnum() for c in source]
    for number, (_, sources, is_mark) in enumerate(words):
        places = [i for start, end in sources for i in range(max(0, start), min(end, len(source)))]
        of_kind = places if is_mark is None else [i for i in places if marks[i] is is_mark]
        for i in of_kind if of_kind or is_mark else places:
            if marks[i] is not None:
                first[i] = number if first[i] > last[i] else first[i]
                last[i] = number
    return first, last


def _by_position(source: str, words: Sequence[Span], size: int) -> tuple[list[int], list[int]]:
    """As `_links`: for each word of the source those that stand as far from the beginning, at least one."""
    first, last = [1] * len(source), [0] * len(source)
    ends, middles = [end for _, end in words], [(start + end) / 2 for start, end in words]
    ratio = size / len(source) if source else 0.0
    spans = [span for span, _, _ in _parts(_plain(source), source)] if words else []
    for (start, end), (until, _) in zip(spans, [*spans[1:], (len(source), 0)], strict=False):
        nearest = min(bisect_right(ends, (start + end) / 2 * ratio), len(words) - 1)
        low = min(nearest, bisect_left(middles, start * ratio))
        high = max(nearest, bisect_left(middles, until * ratio) - 1)
        first[start:end], last[start:end] = [low] * (end - start), [high] * (end - start)
    return first, last


def _neighbours(first: Sequence[int], last: Sequence[int]) -> tuple[list[int], list[int]]:
    """For each place the last word of what is before it and the first word of what is after it; -1 for none."""
    before, after = [-1], [-1]
    for one, other in zip(first, last, strict=True):
        before.append(other if one <= other else before[-1])
    for one, other in zip(reversed(first), reversed(last), strict=True):
        after.append(one if one <= other else after[-1])
    return before, after[::-1]


def _free(taken: Sequence[Span], first: int, last: int) -> Span:
    """The longest part of some words that no sibling has; (1, 0) if there is none."""
    best, start = (1, 0), first
    begin = max(0, bisect_left(taken, (first, first)) - 1)
    for one, other in taken[begin : begin + _LOOKED_AT]:
        if one > last:
            break
        if one - 1 - start > best[1] - best[0]:
            best = start, one - 1
        start = max(start, other + 1)
    else:
        last = min([last, *(one - 1 for one, _ in taken[begin + _LOOKED_AT : begin + _LOOKED_AT + 1])])
    return (start, last) if last - start > best[1] - best[0] else best


def _outer_first(root: Tag) -> list[Tag]:
    found, waiting = [], [root]
    while waiting:
        tag = waiting.pop()
        found.append(tag)
        waiting += reversed(tag.inner)
    return found


def _written(root: Tag, text: str, places: dict[int, _Place]) -> Iterator[str]:
    """The parts of the markup, in order."""

    def in_order(tag: Tag) -> Iterator[Tag]:
        return iter(sorted(tag.inner, key=lambda one: (places[id(one)].start, places[id(one)].end)))

    cursor, ends_blank = 0, True
    waiting = [(root, in_order(root))]
    while waiting:
        tag, inner = waiting[-1]
        following = next(inner, None)
        until = places[id(tag)].end if following is None else places[id(following)].start
        if until > cursor:
            yield escape(text[cursor:until], quote=False)
            ends_blank = text[until - 1].isspace()
            cursor = until
        if following is None:
            yield tag.end
            waiting.pop()
            continue
        if following.blank_left and not ends_blank:
            yield " "
        yield following.start
        ends_blank = False
        if following.single:
            if following.blank_right and cursor < len(text) and not text[cursor].isspace():
                yield " "
                ends_blank = True
        else:
            waiting.append((following, in_order(following)))
