"""The pages of the guide as programs: their fenced blocks, run as a reader would run them.

- `python` blocks run in order in one namespace; `sh` blocks hold `dragoman …` lines, run in this process. Both run in a
  directory of their own, which the blocks of a page share.
- A `text` block that stands directly after one of them is exactly what it prints; any other is there to be read.
- `toml` blocks are settings of a run; one whose first line is `# NAME.toml` is also written there, for later blocks.
- Fences of tildes are illustrations. They alone may differ between languages.
"""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dragoman.cli import main
from dragoman.config import make_config, merge, read_toml

LANGUAGES = ("python", "sh", "text", "toml")
# What a file of settings may leave to the command line.
NEEDED = {"out": "run", "data": {"source": "source", "target": "target"}}
ReadOutput = Callable[[], str]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, where it stands, and the output it promises (None: nothing promised)."""

    language: str
    text: str
    page: Path
    line: int
    output: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> Iterator[Block]:
    """Every block of backticks in order; one that is only an output belongs to the block before it."""
    parts = tokens(page)
    for index, part in enumerate(parts):
        if part.type != "fence" or part.markup.startswith("~"):
            continue
        line = (part.map or [0])[0] + 1
        assert part.level == 0, f"{page}:{line}: a block stands at the left margin"
        assert part.info in LANGUAGES, f"{page}:{line}: {part.info!r} is none of {', '.join(LANGUAGES)}"
        following = parts[index + 1] if index + 1 < len(parts) else None
        shown = following is not None and following.info == "text" and not following.markup.startswith("~")
        promises = shown and part.info in ("python", "sh")
        yield Block(part.info, part.content, page, line, following.content if promises and following else None)


def links(page: Path) -> Iterator[str]:
    """The destination of every link and picture."""
    inner = (child for part in tokens(page) for child in part.children or ())
    for part in inner:
        if part.type in ("link_open", "image"):
            yield str(part.attrs["href" if part.type == "link_open" else "src"])


def run_page(page: Path, read_output: ReadOutput) -> None:
    """Run every block of a page in the present directory.

    Args:
        page: the file.
        read_output: what was printed since it was last called.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        read_output()
        if block.language == "python":
            # Blank lines before it, so that a traceback shows the line of the page.
            exec(compile("\n" * block.line + block.text, str(page), "exec"), namespace)
        elif block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                run_line(line, block)
        elif block.language == "toml":
            read_settings(block)
        printed = read_output()
        if block.output is not None and printed != block.output:
            lines = difflib.unified_diff(block.output.split("\n"), printed.split("\n"), "page", "printed", lineterm="")
            raise AssertionError("\n".join([f"{block.place}: prints something else", *lines]))


def run_line(line: str, block: Block) -> None:
    """One `dragoman` command, which must succeed."""
    words = shlex.split(line)
    assert words[:1] == ["dragoman"], f"{block.place}: not a dragoman command: {line}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code, f"{block.place}: exit status {ended.value.code}: {line}"


def read_settings(block: Block) -> None:
    """Settings that `dragoman train --config` would take; kept in a file if the block names one."""
    first = block.text.split("\n", 1)[0]
    named = first.startswith("# ") and first.endswith(".toml")
    path = Path(first.removeprefix("# ") if named else "unnamed.toml")
    path.write_text(block.text, encoding="utf-8")
    make_config(merge(NEEDED, read_toml(path)))
    if not named:
        path.unlink()
