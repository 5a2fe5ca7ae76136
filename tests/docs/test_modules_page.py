"""The page of the modules has a section for each class of a model, the same in both languages."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

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


def test_shapes_and_neighbours_are_those_of_the_paper(pages: dict[str, str]) -> None:
    _, _, attention = pages["en"].partition("## MultiHeadAttention\n")
    attention = attention.partition("\n## ")[0]
    cross = "`[batch, tgt, d_model], [batch, src, d_model], [batch, 1, 1, src] → [batch, tgt, d_model]`"
    assert cross in attention
    assert "- upstream: `Encoder`, `LayerNorm`" in attention
    _, _, generator = pages["en"].partition("## Generator\n")
    assert "`[batch, tgt, d_model] → [batch, tgt, target_vocab]`" in generator.partition("\n## ")[0]
    _, _, whole = pages["en"].partition("## Transformer\n")
    assert "used in" not in whole.partition("\n## ")[0]
