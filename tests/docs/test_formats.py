"""The page of formats lists every number that the code writes, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
ROW = re.compile(r"^\|.*\| (\d+) \| `(dragoman\.[\w.]+)` \|$", re.MULTILINE)


def numbers(tree: ast.AST) -> Iterator[int]:
    """What a module gives to `FORMAT`, to a field `format`, or writes under `"format"`."""
    for node in ast.walk(tree):
        pairs: list[tuple[object, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(getattr(target, "id", None), node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign):
            pairs = [(getattr(node.target, "id", None), node.value)]
        elif isinstance(node, ast.Dict):
            pairs = [(getattr(key, "value", None), value) for key, value in zip(node.keys, node.values, strict=True)]
        for name, value in pairs:
            if name in ("FORMAT", "format") and isinstance(value, ast.Constant) and type(value.value) is int:
                yield value.value


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_format_of_the_code_stands_on_the_page(language: str) -> None:
    written = {
        (".".join(path.relative_to(SOURCES).with_suffix("").parts), number)
        for path in sorted(SOURCES.rglob("*.py"))
        for number in numbers(ast.parse(path.read_text(encoding="utf-8")))
    }
    page = (ROOT / "docs" / language / "formats.md").read_text(encoding="utf-8")
    assert {(module, int(number)) for number, module in ROW.findall(page)} == written
    assert len(written) >= 9


def test_numbers_are_found_where_they_are_written() -> None:
    source = (
        'FORMAT = 2\nclass M:\n    format: Literal[3] = 3\nx = {"format": 4, "a": 1}\nother = 5\ny = {"format": FORMAT}'
    )
    assert sorted(numbers(ast.parse(source))) == [2, 3, 4]
