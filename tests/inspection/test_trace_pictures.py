"""The pictures of a trace: which files come, what they show, and that long and wide ones are still drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman import canvas
from dragoman.config import TrainingConfig
from dragoman.errors import ConfigError, DragomanError
from dragoman.inspection import Trace, draw_trace, explain, trace_pictures
from dragoman.inspection.trace_pictures import position_picture, schedule_picture, smoothing_picture
from dragoman.nn import sinusoids
from end_to_end import small


@pytest.fixture(scope="module")
def trace() -> Trace:
    sizes = {"num_encoder_layers": 1, "num_heads": 1, "num_decoder_layers": 2}
    return explain(small.translator(small.word_pair("猫", "吃", "鱼", "dog"), **sizes), "猫 吃 鱼")


def test_a_whole_trace_gives_all_pictures(trace: Trace, tmp_path: Path) -> None:
    drawn = draw_trace(trace, tmp_path / "new" / "pictures", format="png")
    names = [
        "architecture", "positions", "masks", "layer-norm", "encoder.layers.0.self_attention",
        "decoder.layers.0.self_attention", "decoder.layers.0.cross_attention", "decoder.layers.1.self_attention",
        "decoder.layers.1.cross_attention", "scores", "one-head", "logits", "training-and-steps", "embeddings",
        "schedule", "label-smoothing",
    ]  # fmt: skip
    assert [picture.path for picture in drawn] == [tmp_path / "new" / "pictures" / f"{name}.png" for name in names]
    assert all(picture.path.read_bytes().startswith(b"\x89PNG") for picture in drawn)


def test_a_selection_gives_its_own_and_the_same_bytes(trace: Trace, tmp_path: Path) -> None:
    chosen = trace.select("*.weights", layer=1, head=0)
    for folder in "ab":
        names = [picture.path.name for picture in draw_trace(chosen, tmp_path / folder, format="svg")]
    assert names == [f"decoder.layers.1.{kind}_attention.svg" for kind in ("self", "cross")]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_smoothed_target_is_that_of_the_first_piece_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = small.saved(tmp_path / "causal", small.word_pair(), "causal")
    trace, drawn = explain(folder, "ba ce di"), []

    def kept(*given: object) -> canvas.Picture:
        drawn.append(given)
        return canvas.Picture(tmp_path / "a.png")

    monkeypatch.setattr(trace_pictures, "smoothing_picture", kept)
    draw_trace(trace, tmp_path)
    [(entries, said, right, *_)] = drawn
    assert trace.steps[0].given == ("<s>", "ba", "ce", "di")
    assert right == trace.steps[0].chosen.id
    assert [float(said[chance.id]) for chance in trace.steps[0].top] == [
        pytest.approx(chance.probability) for chance in trace.steps[0].top
    ]
    assert {(chance.piece, chance.id) for chance in trace.steps[0].top} <= set(entries)


def test_masks_are_dark_where_one_may_look(trace: Trace, tmp_path: Path) -> None:
    [picture] = draw_trace(trace.select("masks"), tmp_path, format="svg")
    meshes = re.findall(r'<g id="QuadMesh_\d+">(.*?)</g>', picture.path.read_text(encoding="utf-8"), re.DOTALL)
    dark = [np.array(re.findall(r"fill: (#\w+)", mesh)) == trace_pictures._DARK for mesh in meshes]
    for found, name in zip(dark, ("padding", "causal", "combined"), strict=True):
        values = trace.stage(f"masks.{name}").values
        assert values is not None
        assert found.tolist() == values.flatten().tolist()


def test_the_schedule_marks_the_end_of_the_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    save = canvas._save
    monkeypatch.setattr(canvas, "_save", lambda figure, path: (figures.append(figure), save(figure, path)))
    training = TrainingConfig(schedule="paper", learning_rate=1.0, warmup_steps=4000, max_steps=100_000)
    schedule_picture(training, 512, tmp_path / "a.png")
    [axes] = figures[0].axes
    curve, peak = axes.lines[0], axes.lines[1]
    assert (peak.get_xdata()[0], peak.get_ydata()[0]) == (4000, pytest.approx(512**-0.5 * 4000**-0.5))
    assert max(curve.get_ydata()) == pytest.approx(peak.get_ydata()[0])
    assert curve.get_xdata()[[0, -1]].tolist() == [1, 100_000]


def test_the_smoothed_target_has_its_heights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    monkeypatch.setattr(canvas, "_save", lambda figure, path: figures.append(figure))
    said = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25])
    smoothing_picture([("a", 2), ("b", 0), ("鱼", 4)], said, 2, 0.1, tmp_path / "a.png")
    [axes] = figures[0].axes
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx([0.92, 0.02, 0.02, 0.3, 0.1, 0.25])


def test_wide_and_long_ones_are_drawn_and_say_what_was_cropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    save = canvas._save
    monkeypatch.setattr(canvas, "_save", lambda figure, path: (figures.append(figure), save(figure, path)))
    position_picture(sinusoids(300, 1024).float(), tmp_path / "a.png")
    assert figures[0].axes[0].get_xlabel() == "the first 512 of 1024 dimensions"
    words = explain(small.translator(small.word_pair()), " ".join(small.WORDS * 8))
    [grid, masks] = draw_trace(words.select("masks", "encoder.layers.0.self_attention.weights"), tmp_path)[::-1]
    for picture in (grid, masks):
        width, height = np.frombuffer(picture.path.read_bytes()[16:24], dtype=">u4").tolist()
        assert width < 6000
        assert height < 4000


def test_a_trace_without_settings_shows_the_papers_and_a_run_its_own(trace: Trace, tmp_path: Path) -> None:
    drawn = dict(trace_pictures._drawings(trace))
    assert {"schedule", "label-smoothing"} <= drawn.keys()
    own = TrainingConfig(schedule="cosine", learning_rate=2e-3, warmup_steps=20, max_steps=100, label_smoothing=0.2)
    paper, run = tmp_path / "paper.svg", tmp_path / "run.svg"
    drawn["schedule"](paper)
    dict(trace_pictures._drawings(replace(trace, schedule=own)))["schedule"](run)
    assert paper.read_bytes() != run.read_bytes()


def test_chinese_without_a_font_says_what_to_install(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    covered = canvas._covered
    monkeypatch.setattr(canvas, "_covered", lambda file, text: {c for c in covered(file, text) if ord(c) < 0x3000})
    [picture] = draw_trace(trace.select("encoder.layers.0.self_attention.weights"), tmp_path)
    assert picture.path.exists()
    assert picture.note is not None
    for system in ("Debian", "Fedora", "macOS", "Windows", "fonts-noto-cjk", "google-noto-sans-cjk-fonts"):
        assert system in picture.note


def test_what_cannot_be_drawn_is_refused(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="format"):
        draw_trace(trace, tmp_path, format="gif")
    with pytest.raises(ConfigError, match="nothing that is selected"):
        draw_trace(trace.select("memory"), tmp_path)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DragomanError, match="directory"):
        draw_trace(trace, tmp_path / "file" / "inside")
