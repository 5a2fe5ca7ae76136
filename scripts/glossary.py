"""The words of the glossary: linked where a chapter first uses them, found by the search where they are explained."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROW = re.compile(r'^\| <a id="([^"]+)"></a>\[([^\]]+)\]\(([\w-]+)\.md#([^)]+)\) \| ([^|]+) \|', re.MULTILINE)
CHAPTER = re.compile(r"\d\d-")
# What is no prose: fences, headings, tables, links and pictures, tags, code, formulas.
OTHER = re.compile(
    r"^(?:```|~~~)[\s\S]*?^(?:```|~~~)\n|^#.*\n|^\|.*\n|!?\[[^\]]*\]\([^)]*\)|<[^>]*>|`[^`]*`|\x00\d+\x00", re.MULTILINE
)
# Chinese words that also stand inside others: 口头, 开头; 下采样, 采样点.
ALONE = {"头": "(?<![口开从两])头(?!尾)", "采样": "(?<!下)采样(?![点率])"}


@dataclass(frozen=True)
class Term:
    """A word of the field: its anchor in the glossary, in two languages, and the section that explains it."""

    anchor: str
    word: str
    other: str
    page: str
    section: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """What a use of the word looks like: broken by a line or not, of one or of several."""
        if not self.word.isascii():
            return re.compile(ALONE.get(self.word, re.escape(self.word)))
        words = re.split(r"[ -]", re.sub(r" search$", "", self.word))
        return re.compile(r"(?<![\w-])" + r"(?:\s+|-)".join(map(re.escape, words)) + r"s?(?![\w-])", re.IGNORECASE)


def terms(page: Path) -> list[Term]:
    """Return the rows of a glossary."""
    rows = ROW.findall(page.read_text(encoding="utf-8"))
    return [Term(anchor, word, other.strip(), where, section) for anchor, word, where, section, other in rows]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the pieces of a page that are prose, each with where it begins."""
    start = 0
    for other in OTHER.finditer(text):
        yield start, text[start : other.start()]
        start = other.end()
    yield start, text[start:]


def with_links(text: str, known: list[Term], address: str) -> str:
    """Return a page whose first use of each word leads to the glossary; longer words first, for they hold shorter ones.

    Args:
        text: the page in Markdown.
        known: the glossary.
        address: the glossary's address, seen from the page.
    """
    links: list[str] = []
    for term in sorted(known, key=lambda term: -len(term.word)):
        for start, piece in prose(text):
            if use := term.pattern.search(piece):
                title = html.escape(term.other)
                links.append(f'<a class="term" href="{address}#{term.anchor}" title="{title}">{use[0]}</a>')
                at = start + use.start()
                text = f"{text[:at]}\x00{len(links) - 1}\x00{text[at + len(use[0]) :]}"
                break
    return re.sub(r"\x00(\d+)\x00", lambda mark: links[int(mark[1])], text)
