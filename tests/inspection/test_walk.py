"""What a learner reads: every line within reach, aligned where characters are wide, cropped with a word about it."""

from __future__ import annotations

import pytest
import torch
from rich.cells import cell_len

from dragoman.inspection import Trace, explain
from dragoman.inspection.tables import number, stage_numbers, table
from dragoman.stages.stage import Stage, make_stage
from end_to_end import small

CHINESE = ("猫", "吃", "鱼", "小", "狗", "dog")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return explain(small.translator(small.word_pair(*CHINESE)), "猫 吃 鱼", "小 dog")


def test_the_walk_tells_every_stage_of_the_first_layer_and_each_sentence_once(trace: Trace) -> None:
    lines = trace.lines()
    text = "\n".join(lines)
    assert lines[0] == f"猫 吃 鱼 → {trace.output.text}"
    for stage in trace.stages:
        if stage.layer is None:
            assert any(line.startswith(f"   {stage.name}  {stage.size}") for line in lines), stage.name
        elif stage.layer == 0:
            tail = stage.name.partition(".layers.0")[2]
            assert f"      {tail}  {stage.size}" in lines
    assert text.count("what each position looks for") == 1
    assert "[batch=1, src=4, d_model=16]" in text
    for step in trace.steps:
        assert f"step {step.number} " in text
    assert f"{trace.training[0].parallel:.6f}" in text
    assert len(lines) < 300


def test_numbers_are_those_of_the_stage(trace: Trace) -> None:
    lines = trace.select("memory").lines(numbers=3)
    values = trace.stage("memory").values
    assert values is not None
    for piece, row in zip(("猫", "吃", "鱼", "</s>"), values[0], strict=True):
        [line] = [line for line in lines if line.split()[:1] == [piece] and line.endswith("…")]
        assert line.split() == [piece, *(f"{value:.3f}" for value in row[:3].tolist()), "…"]
    assert "   (the first 3 of 16 columns)" in lines


def test_no_numbers_are_shapes_only(trace: Trace) -> None:
    lines = trace.lines(numbers=0)
    assert sum("[" in line and line.startswith(stage.name) for stage in trace.stages for line in lines) >= len(
        trace.stages
    )
    assert not any(line.split()[:1] == ["猫"] and "0." in line for line in lines)


def test_columns_align_in_cells_not_in_characters() -> None:
    first, second = table([["猫", "1.5"], ["</s>", "-10.25"]], 2)
    assert (first, second) == ("  猫       1.5", "  </s>  -10.25")
    assert cell_len(first) == cell_len(second)
    # Two columns wide each, for one character.
    assert table([["猫吃鱼", "x"], ["cats", "y"]], 0) == ["猫吃鱼  x", "cats    y"]


def test_attention_tables_align_under_their_keys(trace: Trace) -> None:
    lines = trace.select("encoder.layers.0.self_attention.weights", head=1).lines()
    begin = lines.index("   head 1")
    block = lines[begin + 1 : begin + 6]
    assert {cell_len(line) for line in block} == {cell_len(block[0])}
    assert block[0].split() == ["猫", "吃", "鱼", "</s>"]


def test_only_an_exact_zero_reads_as_zero() -> None:
    assert [number(value) for value in (0.0, 1e-9, -0.25, 12345678.0)] == ["0", "0.000", "-0.250", "1.23e+07"]


def test_masked_cells_are_zero_in_the_table(trace: Trace) -> None:
    lines = trace.select("decoder.layers.0.self_attention.weights", head=0).lines()
    [row] = [line for line in lines if "reads <s> → writes" in line]
    assert row.split()[-3:] == ["1.000", "0", "0"]


def test_long_tables_say_what_was_left_out() -> None:
    pieces = [str(place) for place in range(40)]
    stage = make_stage("weights", ("batch", "heads", "src", "src"), torch.rand(1, 1, 40, 40), "x", pieces, pieces)
    lines = list(stage_numbers(stage, 6))
    assert lines[-1].strip() == "(the first 16 of 40 columns; 28 more rows)"
    assert len(lines) == 1 + 1 + 12 + 1
    logits = make_stage(
        "generator", ("batch", "tgt", "target_vocab"), torch.arange(90.0).view(1, 3, 30), "x", pieces[:3]
    )
    assert "29: 29.000  28: 28.000" in next(iter(stage_numbers(logits, 2)))
    one_hot = Stage("one_hot", ("batch", "src", "vocab"), (1, 2, 9), "x", rows=("a", "b"), picked=(4, 8))
    assert list(stage_numbers(one_hot, 1, indent=0)) == ["a  1 in column 4", "b  1 in column 8"]


def test_control_characters_of_a_text_reach_no_terminal() -> None:
    translator = small.translator(small.byte_pair())
    text = "ba\x1b[31m\tce"
    lines = explain(translator, text).select("text", "steps").lines()
    assert all(character.isprintable() for line in lines for character in line)
