"""The architecture of README and guide is what the tool draws, with every box and every arrow."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dragoman.inspection import draw_architecture, explain_config, read_model_config

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import architecture_figure

ROOT = Path(__file__).parents[2]
TEXT, RECT, ARROW = (f"{{http://www.w3.org/2000/svg}}{tag}" for tag in ("text", "rect", "polygon"))


def texts(path: Path) -> list[str]:
    return [str(one.text) for one in ElementTree.parse(path).iter(TEXT)]


def test_the_figures_are_those_the_tool_draws(tmp_path: Path) -> None:
    for path in architecture_figure.draw(tmp_path):
        kept = architecture_figure.IMAGES / path.name
        assert path.read_bytes() == kept.read_bytes(), "python scripts/architecture_figure.py draws it again"


@pytest.mark.parametrize("language", architecture_figure.LANGUAGES)
def test_readme_and_chapters_show_the_figure_of_their_language(language: str) -> None:
    name = f"images/architecture.{language}.svg"
    chapters = ("06-attention", "08-encoder", "09-decoder", "13-three-families")
    pages = [ROOT / ("README.md" if language == "en" else "README.zh.md")]
    pages += [ROOT / "docs" / language / f"{chapter}.md" for chapter in chapters]
    assert [page for page in pages if name not in page.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(("norm", "layers"), [("pre", 2), ("post", 1), ("pre", 6)])
def test_norms_layers_and_shapes_are_the_models(norm: str, layers: int, tmp_path: Path) -> None:
    changes = [f"model.norm={norm}", f"model.num_encoder_layers={layers}", f"model.num_decoder_layers={layers}"]
    plan = explain_config(read_model_config(["base", *changes]), src=5, tgt=3)
    picture = draw_architecture(plan, tmp_path / "a.svg")
    found, shown = texts(picture.path), min(layers, 2) if layers <= 2 else 1
    assert found.count("LayerNorm") == 5 * shown + (2 if norm == "pre" else 0)
    assert found.count("multi-head cross-attention") == shown
    assert found.count("× 6") == (2 if layers == 6 else 0)
    for name in ("encoder.layers.0.self_attention.query", "decoder.layers.0.cross_attention.query"):
        [stage] = [one for one in plan.stages if one.name == name]
        assert f"Q {stage.size}" in found
    svg = picture.path.read_text(encoding="utf-8")
    arrows = re.findall(r'<polyline points="([^"]*)"[^>]*stroke="#3a50a3"', svg)
    assert len(arrows) == shown, "the memory goes into every cross-attention that is drawn"


@pytest.mark.parametrize("family", ["causal", "masked"])
def test_the_other_families_have_one_column(family: str, tmp_path: Path) -> None:
    plan = explain_config(read_model_config(["base", f"model.family={family}", "model.num_decoder_layers=1"]))
    found = texts(draw_architecture(plan, tmp_path / "a.svg", lang="zh").path)
    assert ("解码器" in found) == (family == "causal")
    assert ("编码器" in found) == (family == "masked")
    assert "多头交叉注意力" not in found
