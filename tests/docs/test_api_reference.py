"""The reference that is built out of the docstrings names what is public, says what it says, and its links resolve."""

from __future__ import annotations

import inspect
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import dragoman
import house

ROOT = Path(__file__).parents[2]
NAMES = [name for name in dragoman.__all__ if name != "__version__"]
WORD = re.compile(r"\w+")


class Page(HTMLParser):
    """The text of a page's article, its anchors, and where it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.text, self.anchors, self.links, self.tags = path, "", set[str](), list[str](), set[str]()
        self._inside = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside |= tag == "article"
        found = dict(attrs)
        self.anchors |= {found.get("id") or ""}
        if self._inside:
            self.tags.add(tag)
            if tag == "a" and found.get("href"):
                self.links.append(unquote(found["href"] or ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside &= tag != "article"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.text += data

    @property
    def words(self) -> str:
        """The text as words, whatever stands between them."""
        return " ".join(WORD.findall(self.text))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Every page of the built reference by the name of its folder; that of all names is `api`."""
    assert "griffe" not in (site.parent / "told").read_text("utf-8"), "a docstring does not fit its signature"
    return {path.parent.name: Page(path) for path in sorted((site / "api").rglob("index.html"))}


def first_line(value: object) -> str:
    """The words of a docstring's first line."""
    line = (inspect.getdoc(value) or "").split("\n")[0]
    return " ".join(WORD.findall(line))


def test_every_room_has_a_page(pages: dict[str, Page]) -> None:
    package = ROOT / "src" / "dragoman"
    rooms = {room for room in house.ROOMS if (package / room).exists() or (package / f"{room}.py").exists()}
    assert set(pages) == {"api", *rooms}


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_there_with_the_first_line_of_its_docstring(pages: dict[str, Page], name: str) -> None:
    value = getattr(dragoman, name)
    line = first_line(value)
    assert line
    assert f"{name} {line}" in pages["api"].words
    (link,) = (link for link in pages["api"].links if link.endswith(f".{name}"))
    room = pages[link.split("#")[0].strip("./")]
    assert line in room.words


def test_links_lead_to_a_page_and_a_place_on_it(pages: dict[str, Page]) -> None:
    missing = []
    seen = {page.path.resolve(): page for page in pages.values()}
    for page in pages.values():
        for link in page.links:
            address, anchor = urldefrag(link)
            if "://" in address:
                continue
            target = (page.path.parent / address).resolve() if address else page.path
            target = target / "index.html" if target.is_dir() else target
            if target.is_file() and target not in seen:
                seen[target] = Page(target)
            if target not in seen or (anchor and anchor not in seen[target].anchors):
                missing.append(f"{page.path.parent.name}: {link}")
    assert missing == []
    assert sum(len(page.links) for page in pages.values()) > 100


def test_examples_are_shown_as_code(pages: dict[str, Page]) -> None:
    """Outside a section `Examples:` Markdown takes `>>>` for a quotation."""
    assert [name for name, page in pages.items() if "blockquote" in page.tags] == []
