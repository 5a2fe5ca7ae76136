"""The figures of the chapters are what the chapters' numbers give, in both languages, each on its own page."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import guide_figures
import sound_figures

TEXT = "{http://www.w3.org/2000/svg}text"
HAN = range(0x3400, 0xA000)
SENTENCES = "猫吃鱼吗狗跑"  # what the models of the guide read, in figures of both languages


def test_the_figures_are_those_that_are_drawn_now(tmp_path: Path) -> None:
    drawn = list(guide_figures.draw(tmp_path))
    assert len(drawn) == len(guide_figures.LANGUAGES) * len(guide_figures.figures())
    for path in drawn:
        kept = guide_figures.IMAGES / path.name
        assert path.read_bytes() == kept.read_bytes(), "python scripts/guide_figures.py draws it again"


@pytest.mark.parametrize("language", guide_figures.LANGUAGES)
def test_pages_show_the_figures_of_their_language(language: str) -> None:
    folder = guide_figures.IMAGES.parent / language
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md")))
    for name in guide_figures.figures():
        assert f"(../images/guide-{name}.{language}.svg)" in pages
        picture = ElementTree.parse(guide_figures.IMAGES / f"guide-{name}.{language}.svg")
        own = {sign for one in picture.iter(TEXT) for sign in str(one.text) if ord(sign) in HAN} - set(SENTENCES)
        assert bool(own) == (language == "zh"), name


def test_the_lattice_of_ctc_sums_to_what_its_loss_is_of() -> None:
    random = torch.Generator().manual_seed(1)
    for tokens in ([1, 2], [1, 1], [2], [1, 2, 1]):
        probs = torch.rand(6, 3, generator=random, dtype=torch.float64).softmax(-1)
        states = [0, *(one for token in tokens for one in (token, 0))]
        total = sum(sound_figures.arrived(probs, states)[-1][-2:])
        loss = torch.nn.functional.ctc_loss(
            probs.log()[:, None], torch.tensor([tokens]), (6,), (len(tokens),), reduction="sum"
        )
        assert total == pytest.approx(float((-loss).exp()), rel=1e-9)
