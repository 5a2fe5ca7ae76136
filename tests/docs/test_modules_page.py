"""The page of the modules has a section for each class of a model, the same in both languages."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from pathlib import Path

import pytest
from torch import nn

from dragoman import nn as rooms

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
modules_page = importlib.import_module("modules_page")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {language: modules_page.page(language) for language in modules_page.TITLES}


def test_every_part_of_the_paper_has_a_section(pages: dict[str, str]) -> None:
    sections = re.findall(r"^## (\w+)$", pages["en"], re.MULTILINE)
    for part in ("MultiHeadAttention", "FeedForward", "EncoderLayer", "DecoderLayer", "TokenEmbedding", "Generator"):
        assert part in sections
    assert sections == re.findall(r"^## (\w+)$", pages["zh"], re.MULTILINE)
    assert re.findall(r"`\[.*", pages["en"]) == re.findall(r"`\[.*", pages["zh"])


def test_every_module_of_the_room_has_a_section(pages: dict[str, str]) -> None:
    """Those that its files define, public ones: none is forgotten, and none is there that is no module."""
    every = set()
    for path in Path(rooms.__file__).parent.glob("*.py"):
        held = importlib.import_module(f"dragoman.nn.{path.stem}") if path.stem != "__init__" else rooms
        every |= {
            name
            for name, one in vars(held).items()
            if isinstance(one, type) and issubclass(one, nn.Module) and one.__module__.startswith("dragoman.nn")
        }
    for page in pages.values():
        sections = re.findall(r"^## (\w+)$", page, re.MULTILINE)
        assert len(sections) == len(set(sections))
        assert set(sections) == {name for name in every if not name.startswith("_")}


def test_every_example_runs_and_prints_the_shape_that_its_section_tells(pages: dict[str, str]) -> None:
    assert re.findall(r"```python.*?```", pages["en"], re.DOTALL) == re.findall(
        r"```python.*?```", pages["zh"], re.DOTALL
    )
    names = {str(size): name for size, name in modules_page.SIZES.items()}
    for section in pages["en"].split("\n## ")[1:]:
        (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {})
        shapes = [
            "[" + ", ".join(names.get(size, size) for size in re.findall(r"\d+", line)) + "]"
            for line in printed.getvalue().splitlines()
        ]
        (way, *_) = re.findall(r"- in → out: `[^`]* → ([^`]*)`", section)
        assert ", ".join(shapes) == way, section


def test_shapes_and_neighbours_are_those_of_the_paper(pages: dict[str, str]) -> None:
    _, _, attention = pages["en"].partition("## MultiHeadAttention\n")
    attention = attention.partition("\n## ")[0]
    cross = "`[batch, tgt, d_model], [batch, src, d_model], [batch, 1, 1, src] → [batch, tgt, d_model]`"
    assert cross in attention
    assert "- upstream: `Encoder`, `LayerNorm`" in attention
    _, _, generator = pages["en"].partition("## Generator\n")
    assert "`[batch, tgt, d_model] → [batch, tgt, target_vocab]`" in generator.partition("\n## ")[0]
    _, _, whole = pages["en"].partition("## Transformer\n")
    assert "- in the paper: 3.1" in whole.partition("\n## ")[0]
    assert "used in" not in whole.partition("\n## ")[0]
