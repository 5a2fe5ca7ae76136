"""Write the chapters of the guide as Jupyter notebooks, out of the blocks that the tests run.

    python scripts/notebooks.py FOLDER

Blocks of Python are cells of code, and so are commands (`!dragoman …`) and settings (`%%writefile NAME`); what a block
prints is left to the notebook, which prints it itself. All else is text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
FORMULAS = re.compile(r"^~~~math\n(.*?)^~~~$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w.-]+)\n")


def cells(text: str) -> Iterator[tuple[str, str]]:
    """Yield the cells of a page: `markdown` or `code`, and what is in it."""
    start, before = 0, ""
    for block in [*BLOCK.finditer(text), None]:
        prose = text[start : block.start() if block else len(text)].strip()
        if prose:
            yield "markdown", FORMULAS.sub(_dollars, prose).replace("(../images/", "(../../images/")
        if not block:
            return
        start, (language, code) = block.end(), (block[1], block[2])
        printed = language == "text" and before in ("python", "sh") and not prose
        if language == "python":
            yield "code", code.rstrip("\n")
        elif language == "sh":
            yield "code", "\n".join(f"!{line}" for line in code.replace("\\\n", " ").splitlines())
        elif language == "toml" and (name := NAMED.match(code)):
            yield "code", f"%%writefile {name[1]}\n{code.rstrip()}"
        elif not printed:
            yield "markdown", block[0].strip()
        before = language


def _dollars(fence: re.Match[str]) -> str:
    return "\n".join(f"$${line}$$\n" for line in fence[1].splitlines() if line)


def notebook(page: Path) -> nbformat.NotebookNode:
    """Return a page as a notebook; the same page gives the same notebook."""
    made = [
        (new_code_cell if kind == "code" else new_markdown_cell)(source, id=f"cell-{number}")
        for number, (kind, source) in enumerate(cells(page.read_text(encoding="utf-8")))
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=made, metadata={"kernelspec": kernel})


def write_notebooks(folder: Path) -> list[Path]:
    """Write the notebooks of all chapters, in both languages; returns the files."""
    written = []
    for language in ("en", "zh"):
        for page in sorted((DOCS / language).glob("[0-9][0-9]-*.md")):
            path = folder / language / f"{page.stem}.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook(page), path)
            written.append(path)
    return written


if __name__ == "__main__":
    write_notebooks(Path(sys.argv[1]))
