"""The map of the code has every room in its order, with names that are there, and names files that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import house

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dragoman"
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \|([^|]*)\|$", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]*(\w\.(py|cpp|h|md)|/)")
LANGUAGES = ("en", "zh")


def page(language: str) -> str:
    return (ROOT / "docs" / language / "house.md").read_text(encoding="utf-8")


def rooms(text: str) -> dict[str, list[str]]:
    """The rooms of the table, in its order, each with the names that stand there."""
    return {room: CODE.findall(names) for room, _, names in ROW.findall(text)}


def named_files(text: str) -> list[str]:
    """Whatever stands as code and looks like a path."""
    return [code for code in CODE.findall(text) if FILE.fullmatch(code)]


def missing(paths: list[str]) -> Iterator[str]:
    """Those that are neither in the repository nor in the package."""
    for path in paths:
        there = [(folder / path) for folder in (ROOT, PACKAGE)]
        if not any(one.is_dir() if path.endswith("/") else one.is_file() for one in there):
            yield path


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_table_has_every_room_from_the_top_down(language: str) -> None:
    assert tuple(rooms(page(language))) == house.ROOMS


@pytest.mark.parametrize("language", LANGUAGES)
def test_rooms_have_the_names_that_are_said_and_empty_ones_have_none(language: str) -> None:
    for room, names in rooms(page(language)).items():
        there = (PACKAGE / room / "__init__.py").is_file() or (PACKAGE / f"{room}.py").is_file()
        assert bool(names) == there, room
        public = dir(import_module(f"dragoman.{room}")) if there else []
        assert [name for name in names if name not in public or name.startswith("_")] == [], room


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_file_that_is_named_is_there(language: str) -> None:
    named = named_files(page(language))
    assert list(missing(named)) == []
    assert len(set(named)) > 100


def test_both_languages_name_the_same_files() -> None:
    here, there = (sorted(named_files(page(language))) for language in LANGUAGES)
    assert here == there


def test_what_is_missing_is_seen() -> None:
    text = "`search/beam.py` `tests/house.py` `search/` `search/none.py` `nowhere/` `README.md` `a.b` `--engine`"
    assert list(missing(named_files(text))) == ["search/none.py", "nowhere/"]
    assert rooms("| `search` | Finds. | `one`, `two` |\n| `export` | Nothing. | |\n| word | a | `b` |\n") == {
        "search": ["one", "two"],
        "export": [],
    }
