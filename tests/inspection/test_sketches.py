"""Figures of boxes and words: their numbers are the trace's, their text is text, in both languages and every time."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from dragoman import canvas
from dragoman.inspection import Trace, draw_trace, explain
from dragoman.inspection.sketch import Box, Line, Sketch, Words
from dragoman.inspection.trace_sketches import colour
from dragoman.stages.words import speaking
from end_to_end import small

TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.fixture(scope="module", params=["en", "zh"])
def trace(request: pytest.FixtureRequest) -> Trace:
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    translator = small.translator(small.word_pair("猫", "吃", "鱼"), **sizes)
    return explain(translator, "猫 吃 鱼", beam_size=3, lang=request.param, max_length=5)


@pytest.fixture(scope="module")
def figures(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The words of each figure."""
    drawn = draw_trace(trace, tmp_path_factory.mktemp("figures"), format="svg")
    return {one.path.stem: [str(word.text) for word in ElementTree.parse(one.path).iter(TEXT)] for one in drawn}


def test_every_picture_has_text_that_can_be_read(figures: dict[str, list[str]], trace: Trace) -> None:
    assert {"scores", "one-head", "layer-norm", "logits", "beam", "embeddings", "training-and-steps"} <= figures.keys()
    chinese = [name for name, words in figures.items() if re.search("[\u4e00-\u9fff]{2}", " ".join(words))]
    assert all(figures.values())
    assert sorted(chinese) == (sorted(figures) if trace.lang == "zh" else [])


def test_numbers_of_the_figures_are_the_traces(figures: dict[str, list[str]], trace: Trace) -> None:
    scores = trace.stage("decoder.layers.0.cross_attention.scores").values
    assert scores is not None
    assert {f"{value:.2f}" for value in scores.flatten().tolist()} <= set(figures["scores"])
    weights = trace.stage("decoder.layers.0.self_attention.weights").values
    assert weights is not None
    seen = np.tril(np.ones(weights.shape[-2:]))
    shown = [value for value, open_ in zip(weights[0, 0].flatten().tolist(), seen.flatten(), strict=True) if open_]
    assert {f"{value:.2f}" for value in shown} <= set(figures["one-head"])
    for event in trace.beam:
        if event.fate == "finished":
            assert f"{event.sum:.2f}" in figures["beam"]
    logits = trace.stage("generator").values
    assert logits is not None
    assert {f"{value:.2f}" for value in logits[0].max(-1).values.tolist()} <= set(figures["logits"])


def test_rows_are_called_what_they_read_and_write(figures: dict[str, list[str]], trace: Trace) -> None:
    with speaking(trace.lang):
        labels = trace.stage("decoder.output").labels
    for name in ("scores", "one-head", "training-and-steps", "decoder.layers.0.cross_attention", "masks"):
        assert set(labels) <= set(figures[name]), name


def test_a_sketch_is_escaped_and_the_same_each_time(tmp_path: Path) -> None:
    sketch = Sketch(200, 90, 'a "<b>" & c')
    sketch.add(Box(1, 2, 30, 20, "#ffffff", "#000000", 4, dashed=True), Words(10, 10, "<script>&"))
    sketch.add(Line(((0, 0), (50, 50)), arrow=True))
    for suffix in (".svg", ".png", ".pdf"):
        files = [sketch.save(tmp_path / f"{name}{suffix}").path for name in "ab"]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert [one.text for one in ElementTree.parse(tmp_path / "a.svg").iter(TEXT)] == ["<script>&"]


def test_colours_have_one_sense() -> None:
    assert colour(0, 1) == "#ffffff"
    red, blue = colour(1, 1), colour(-1, 1)
    assert int(red[1:3], 16) > int(red[5:7], 16)
    assert int(blue[5:7], 16) > int(blue[1:3], 16)


def test_without_a_font_the_first_pictures_are_svg_and_it_is_said_why(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    covered = canvas._covered
    monkeypatch.setattr(canvas, "_covered", lambda file, text: {c for c in covered(file, text) if ord(c) < 0x3000})
    [picture] = draw_trace(trace.select("encoder.layers.0.self_attention.weights"), tmp_path)
    assert picture.path.suffix == ".svg"
    assert picture.note is not None
    assert "drawn as SVG" in picture.note
    assert "fonts-noto-cjk" in picture.note
    svg = picture.path.read_text(encoding="utf-8")
    assert "猫" in svg
    assert canvas.FAMILIES in svg
