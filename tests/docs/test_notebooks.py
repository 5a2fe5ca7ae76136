"""The notebooks of the chapters have the blocks that the tests run, no more and no fewer, and run as they do."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import nbformat
import pytest
from chapters import blocks

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
notebooks = importlib.import_module("notebooks")
CHAPTERS = sorted((ROOT / "docs").glob("*/[01][0-9]-*.md"))


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_a_notebook_has_the_blocks_of_its_chapter(page: Path) -> None:
    made = notebooks.notebook(page)
    nbformat.validate(made)
    python = [cell.source for cell in made.cells if cell.cell_type == "code" and cell.source[0] not in "!%"]
    assert python == [block.text.rstrip("\n") for block in blocks(page) if block.language == "python"]
    code = [cell.source for cell in made.cells if cell.cell_type == "code"]
    commands = [line for source in code for line in source.split("\n") if line.startswith("!")]
    told = [block.text.replace("\\\n", " ") for block in blocks(page) if block.language == "sh"]
    assert commands == [f"!{line}" for text in told for line in text.splitlines()]
    assert notebooks.notebook(page) == made


def test_a_notebook_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells, as a notebook would run them, print what the page shows."""
    page = ROOT / "docs" / "zh" / "07-masks.md"
    namespace: dict[str, object] = {"attention_grid": None}
    shown = [block.output for block in blocks(page) if block.language == "python"]
    for cell in notebooks.notebook(page).cells:
        if cell.cell_type == "code" and "attention_grid" not in cell.source:
            exec(cell.source, namespace)
            printed = capsys.readouterr().out
            assert printed == (shown.pop(0) or "")
        elif cell.cell_type == "code":
            shown.pop(0)


def test_all_chapters_are_written_in_both_languages(tmp_path: Path) -> None:
    written = notebooks.write_notebooks(tmp_path)
    assert len(written) == len(CHAPTERS) == 28
