"""The guide holds what it shows: its code runs and prints what is printed there, its links lead somewhere.

One chapter alone: `pytest tests/docs -k 07`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chapters import blocks, links, run_page, tokens
from old_weights import write_all

from dragoman import DragomanError, demo

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ENGLISH = [DOCS / "index.md", *sorted((DOCS / "en").glob("*.md"))]
NAV_ENTRY = re.compile(r"^ *- .*?([\w./-]+\.md)$", re.MULTILINE)
ROW = re.compile(r"\|.*\d\.\d\d")
FIGURE, DECIMAL = re.compile(r"\d+\.\d\d"), re.compile(r"\d+\.\d+")
HEADING = re.compile(r"^#+ ", re.MULTILINE)
WIDE = "[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"
BROKEN_LINE = re.compile(rf".{{0,9}}{WIDE}\n{WIDE}.{{0,9}}")
HAN = "[\u3400-\u9fff]"
MOST_IMAGE_BYTES = 60_000


@pytest.fixture(scope="module", autouse=True)
def corpus_made_once() -> Iterator[None]:
    """Several chapters make the demo's corpus: the same for the same seed."""
    make = demo.generate
    made: dict[int, demo.DemoCorpus] = {}

    def remembered(grammar: Any, seed: int = 1) -> demo.DemoCorpus:
        return made.get(seed) or made.setdefault(seed, make(grammar, seed))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "generate", remembered)
        yield


def chinese(page: Path) -> Path:
    """The Chinese page of an English one."""
    return DOCS / "zh" / page.name


def name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


@pytest.mark.arithmetic
@pytest.mark.parametrize("page", ENGLISH, ids=name)
def test_code_runs_and_prints_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`run_page` raises at the first block that fails or prints something else; `PLANTED` has what it must see."""
    monkeypatch.chdir(tmp_path)
    if page.stem == "keepers":
        write_all(tmp_path)
    run_page(page, lambda: capfd.readouterr().out)


def test_every_page_is_there_in_both_languages() -> None:
    assert sorted(PAGES) == sorted([*ENGLISH, *map(chinese, ENGLISH)])


@pytest.mark.parametrize("page", ENGLISH, ids=name)
def test_both_languages_show_the_same_code_under_the_same_headings(page: Path) -> None:
    here, there = (
        ([(block.language, block.text) for block in blocks(one)], HEADING.findall(one.read_text(encoding="utf-8")))
        for one in (page, chinese(page))
    )
    assert here == there


@pytest.mark.parametrize("page", ENGLISH, ids=name)
def test_tables_of_both_languages_have_the_same_figures(page: Path) -> None:
    """Row by row, in whatever order a language has them within a row."""
    here, there = (
        [sorted(DECIMAL.findall(line)) for line in one.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
        for one in (page, chinese(page))
    )
    assert here == there


@pytest.mark.parametrize("page", ENGLISH, ids=name)
def test_no_line_of_a_chinese_paragraph_is_broken_between_characters(page: Path) -> None:
    """Browsers would show a blank there: a paragraph is one line."""
    paragraphs = [part.content for part in tokens(chinese(page)) if part.type == "inline"]
    assert [broken[0] for text in paragraphs for broken in BROKEN_LINE.finditer(text)] == []


@pytest.mark.parametrize("page", ENGLISH, ids=name)
def test_both_languages_link_to_the_same_sections(page: Path) -> None:
    """The site gives Chinese headings the anchors of the English ones."""
    here, there = (sorted(link for link in links(one) if "#" in link) for one in (page, chinese(page)))
    assert here == there


@pytest.mark.parametrize("page", ENGLISH, ids=name)
def test_chinese_is_emphasised_by_weight(page: Path) -> None:
    """A slanted Chinese character is only distorted; and every mark of emphasis is understood as one."""
    inside, slanted, left = 0, [], []
    for part in (child for token in tokens(chinese(page)) for child in token.children or ()):
        inside += {"em_open": 1, "em_close": -1}.get(part.type, 0)
        if part.type == "text" and inside and re.search(HAN, part.content):
            slanted.append(part.content)
        if part.type == "text" and "**" in part.content:
            left.append(part.content)
    assert slanted == []
    assert left == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_and_pictures_are_there(page: Path) -> None:
    inside = [link.split("#")[0] for link in links(page) if not link.startswith(("https://", "http://"))]
    assert [link for link in inside if link and not (page.parent / link).is_file()] == []


def test_every_picture_is_shown_and_small() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page)}
    pictures = sorted((DOCS / "images").glob("guide-*"))
    assert [picture.name for picture in pictures if picture not in shown] == []
    assert [picture.name for picture in pictures if picture.stat().st_size > MOST_IMAGE_BYTES] == []


def test_the_contents_list_every_page_once() -> None:
    listed = NAV_ENTRY.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(map(name, PAGES))


def test_both_readmes_have_the_figures_of_the_recipes() -> None:
    """In the rows of their tables, which a new version of a recipe changes in three places."""
    here, there = (
        [FIGURE.findall(line) for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if ROW.match(line)]
        for page in ("README.md", "README.zh.md")
    )
    assert here == there
    known = FIGURE.findall((ROOT / "recipes" / "README.md").read_text(encoding="utf-8"))
    assert len(here) > 10
    assert [figure for row in here for figure in row if figure not in known] == []


PLANTED = {
    "another output": "```python\nprint(2)\n```\n\n```text\n1\n```\n",
    "an error": "```python\n1 / 0\n```\n",
    "a verb that fails": "```sh\ndragoman info nowhere\n```\n",
    "another command": "```sh\nls\n```\n",
    "an unknown setting": "```toml\n[model]\nd_modell = 8\n```\n",
    "a language we do not run": "```c\nint x;\n```\n",
    "a block inside a list": "- x\n\n  ```python\n  x = 1\n  ```\n",
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_wrong_page_is_seen(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PLANTED[mistake], encoding="utf-8")
    with pytest.raises((AssertionError, ZeroDivisionError, DragomanError)):
        run_page(page, lambda: capfd.readouterr().out)


def test_blocks_of_a_page_share_names_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n```toml\n# small.toml\n[model]\nd_model = 8\n```\n\n"
        "```python\nimport os\nprint(x, os.path.getsize('small.toml'))\n```\n\n```text\n1 33\n```\n\n"
        "```sh\ndragoman train \\\n  --help\n```\n\nSaid elsewhere:\n\n```text\nnothing\n```\n\n~~~\nx²\n~~~\n",
        encoding="utf-8",
    )
    run_page(page, lambda: capfd.readouterr().out)
    assert [block.language for block in blocks(page)] == ["python", "toml", "python", "text", "sh", "text"]
