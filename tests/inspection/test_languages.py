"""What is told in Chinese: every sentence has its own, with the same values in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter

import pytest
from rich.cells import cell_len
from systems import SYSTEMS, founding_system

import dragoman
from dragoman.errors import ConfigError
from dragoman.inspection import explain
from dragoman.inspection.tables import folded_chinese
from dragoman.nn import AttentionPositions
from dragoman.nn.positions import KINDS
from dragoman.stages.words import chinese, reads_writes, say, speaking
from dragoman.translation import Translator
from end_to_end import small

ROOMS = [Path(dragoman.__file__).parent / room for room in ("inspection", "stages")]


def sentences() -> set[str]:
    """Whatever `say` is called with: strings, and names of strings of the same file."""
    found = set()
    for file in (file for room in ROOMS for file in room.glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        named: dict[str, set[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                for target in node.targets:
                    named.setdefault(ast.unparse(target), set()).add(str(node.value.value))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "say" and node.args:
                told = node.args[0]
                found |= {told.value} if isinstance(told, ast.Constant) else named.get(ast.unparse(told), set())
    return {str(one) for one in found}


def fields(sentence: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name is not None}


def test_every_sentence_has_a_chinese_one_with_the_same_values() -> None:
    told = sentences()
    assert len(told) > 100
    assert told <= chinese().keys(), told - chinese().keys()
    for english, other in chinese().items():
        assert fields(english) == fields(other), english
    for kind in KINDS.values():
        words = (kind.placing, kind.adding) if issubclass(kind, AttentionPositions) else ()
        assert {word for word in words if word} <= chinese().keys()


def english_words(lines: list[str], known: str) -> set[str]:
    """Words that are neither names of stages, options and symbols nor pieces."""
    text = "\n".join(lines)
    text = re.sub(r"[\w.'*\[\]]*[._][\w.'*\[\]]*|--[\w-]+|\[[^\]]*\]|`[^`]*`", " ", text)
    return {word for word in re.findall(r"\b[A-Za-z]{4,}\b", text) if word not in known}


@pytest.mark.parametrize("family", ["transformer", "causal"])
def test_no_english_sentence_is_left(family: str, tmp_path: Path) -> None:
    folder = small.saved(tmp_path / family, small.word_pair(), family)
    trace = explain(folder, "ba ce di", "ce ba" if family == "transformer" else None, lang="zh", beam_size=3)
    lines = trace.lines()
    known = " ".join([*small.WORDS, "LayerNorm float32 float64 softmax logits relu True False gnmt memory mask masks"])
    assert not english_words(lines, known + " generator probabilities causal padding combined heads vocab embedding")
    assert any("注意力权重" in line for line in lines)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_founding_systems_are_told_in_chinese_too(system: str) -> None:
    translator = Translator([founding_system(system)], small.word_pair())
    assert explain(translator, "ba ce", lang="zh", max_length=3).lines()


def test_the_language_ends_with_the_block_and_unknown_ones_are_refused() -> None:
    assert say("score") == "score"
    with speaking("zh"):
        assert say("score") == "得分"
        assert reads_writes("<s>", "▁Cats") == "读 <s> → 写 Cats"
    assert reads_writes("<s>", "▁Cats") == "reads <s> → writes Cats"
    assert reads_writes("▁", "</s>") == "reads ▁ → writes </s>"
    with pytest.raises(ConfigError, match="language"), speaking("de"):
        pass


def test_chinese_lines_break_in_no_word_and_begin_with_no_comma() -> None:
    text = "编码器，解码器：d_model=128, d_k=32，共 1,158,400 个参数"
    for width in range(12, 60):
        lines = folded_chinese(text, width)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert all(cell_len(line) <= width for line in lines)
        assert not any(line.startswith(("，", "：")) for line in lines)
        assert any("d_model=128" in line for line in lines)
