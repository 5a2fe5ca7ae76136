from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from dragoman import canvas
from dragoman.errors import DragomanError
from dragoman.inspection import pictures
from dragoman.inspection.pictures import attention_grid, attention_map

SOURCE = ["▁猫", "吃", "鱼", "</s>"]
TARGET = ["▁Cats", "▁eat", "▁fish", "</s>", "$x_1^2$"]
WEIGHTS = np.full((5, 4), 0.05) + 0.8 * np.eye(5, 4)

Cell = tuple[float, float, float, float, str]  # left, top, width, height, colour


def cells(svg: Path) -> list[list[Cell]]:
    """The cells of each matrix in an SVG file, in the order of its rows."""
    meshes = re.findall(r'<g id="QuadMesh_\d+">(.*?)</g>', svg.read_text(encoding="utf-8"), re.DOTALL)
    found = []
    for mesh in meshes:
        rows = []
        for shape, style in re.findall(r'<path d="(.*?)".*?style="(.*?)"', mesh, re.DOTALL):
            points = np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", shape), dtype=float)
            (left, top), (right, bottom) = points.min(axis=0), points.max(axis=0)
            colour = re.search(r"fill: (#\w+)", style)
            rows.append((left, top, right - left, bottom - top, colour[1] if colour else ""))
        found.append(rows)
    return found


def lightness(colour: str) -> float:
    """CIE L* of `#rrggbb`."""
    channels = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16)


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")]
)
def test_the_suffix_chooses_the_format_and_the_bytes_are_reproducible(
    tmp_path: Path, suffix: str, start: bytes
) -> None:
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        assert attention_map(WEIGHTS, SOURCE, TARGET, file, title="猫吃鱼 costs $5 or $6").path == file
    assert files[0].read_bytes().startswith(start)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_cells_are_square_in_order_and_darker_with_weight(tmp_path: Path) -> None:
    weights = np.linspace(0, 1, 20).reshape(5, 4)
    attention_map(weights, SOURCE, TARGET, tmp_path / "a.svg")
    [found] = cells(tmp_path / "a.svg")
    assert len(found) == 20
    for left, top, width, height, _ in found:
        assert width == pytest.approx(height, abs=1e-3)
        assert left >= 0
        assert top >= 0
    assert [(top, left) for left, top, *_ in found] == sorted((top, left) for left, top, *_ in found)
    shades = [lightness(colour) for *_, colour in found]
    assert shades == sorted(shades, reverse=True)
    assert shades[0] > 95
    assert shades[-1] < 20


def test_the_colours_are_even_steps_of_lightness() -> None:
    steps = -np.diff([lightness(colour) for colour in pictures._COLOURS])
    assert steps == pytest.approx(np.full(len(steps), steps.mean()), rel=0.05)


def test_heads_share_one_scale(tmp_path: Path) -> None:
    heads = np.stack([WEIGHTS, WEIGHTS / 2, WEIGHTS, WEIGHTS, WEIGHTS]).astype(np.float32)
    attention_grid(heads, SOURCE, TARGET, tmp_path / "a.svg", title="five heads")
    found = cells(tmp_path / "a.svg")
    assert [len(mesh) for mesh in found] == [20] * 5
    assert found[0][0][4] == found[2][0][4]
    assert lightness(found[1][0][4]) > lightness(found[0][0][4])
    tops = [mesh[0][1] for mesh in found]
    assert tops[0] == tops[1] == tops[2] < tops[3] == tops[4]


def test_columns_and_captions_are_the_callers(tmp_path: Path) -> None:
    heads = np.stack([WEIGHTS, WEIGHTS])
    attention_grid(heads, SOURCE, TARGET, tmp_path / "a.svg", columns=1, captions=["first", "second"])
    first, second = cells(tmp_path / "a.svg")
    assert first[0][0] == second[0][0]
    assert first[0][1] < second[0][1]
    with pytest.raises(ValueError, match="1 captions for 2 heads"):
        attention_grid(heads, SOURCE, TARGET, tmp_path / "a.svg", captions=["first"])


def test_pieces_of_every_kind_are_drawn(tmp_path: Path) -> None:
    pieces = ["", " ", "\n", "\x00", "$", "$a_{", "é", "<0xE7>", "x" * 99, "\\frac{", "%", "&<>\"'"]
    weights = np.eye(len(pieces))
    weights[0, 1:] = np.nan
    assert attention_map(weights, pieces, pieces, tmp_path / "a.svg").note is None
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert f">{'x' * 23}…</text>" in drawn, "long pieces are cut, and text is text"


def test_nothing_but_hidden_cells_is_drawn_too(tmp_path: Path) -> None:
    attention_map(np.full((5, 4), np.nan), SOURCE, TARGET, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 0


def test_large_matrices_stay_light(tmp_path: Path) -> None:
    pieces = [f"piece{number}" for number in range(200)]
    attention_map(np.eye(200), pieces, pieces, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size < 3_000_000


def test_chinese_is_drawn_with_a_font_that_has_it_or_the_lack_is_told(tmp_path: Path) -> None:
    picture = attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "a.png")
    if picture.note is not None:
        assert "吃猫鱼" in picture.note


def test_a_missing_font_is_told_plainly_and_draws_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    covered = canvas._covered
    monkeypatch.setattr(canvas, "_covered", lambda file, text: {c for c in covered(file, text) if ord(c) < 0x3000})
    picture = attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "a.png")
    assert picture.path.read_bytes().startswith(b"\x89PNG")
    assert picture.note is not None
    assert "吃猫鱼" in picture.note
    assert "apt install fonts-noto-cjk" in picture.note


def test_settings_of_the_caller_stay_as_they_were(tmp_path: Path) -> None:
    import matplotlib

    before, loaded = dict(matplotlib.rcParams), "matplotlib.pyplot" in sys.modules
    attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "a.png")
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == loaded
    with matplotlib.rc_context({"axes.grid": True, "figure.dpi": 30, "font.size": 30, "hatch.linewidth": 9}):
        attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes(), "and have no say in the picture"


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DragomanError, match=r"pip install 'dragoman\[plot\]'"):
        attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "a.png")


def test_what_cannot_be_drawn_or_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match=r"\.png, \.svg, \.pdf(.|\n)*\.gif"):
        attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "a.gif")
    with pytest.raises(DragomanError, match="No such file or directory"):
        attention_map(WEIGHTS, SOURCE, TARGET, tmp_path / "nowhere" / "a.png")
    with pytest.raises(ValueError, match=r"\(5, 4\) do not fit 4 target pieces \(rows\) and 5 source pieces"):
        attention_map(WEIGHTS, TARGET, SOURCE, tmp_path / "a.png")
    with pytest.raises(ValueError, match="no attention weights"):
        attention_map(np.empty((0, 4)), SOURCE, [], tmp_path / "a.png")
