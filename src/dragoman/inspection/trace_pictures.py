"""The pictures of a trace: positions, masks, every attention map, the learning rate and the smoothed target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.canvas import FORMATS, INK, LINES, QUIET, Picture, draw, label
from dragoman.config import TrainingConfig
from dragoman.errors import ConfigError, DragomanError
from dragoman.inspection.pictures import attention_grid, attention_map, label_axes, letters
from dragoman.inspection.stage import Stage
from dragoman.inspection.trace import Trace
from dragoman.optimizers.schedule import learning_rate

# Columns of the position table, and pieces of the smoothed target, that can still be told apart.
COLUMNS, BARS = 512, 10
_DARK, _LIGHT, _WARM = "#3a50a3", "#c5e0ee", "#c2571a"
_PAPER = {"schedule": "paper", "learning_rate": 1.0, "warmup_steps": 4000, "max_steps": 100_000, "label_smoothing": 0.1}


def draw_trace(trace: Trace, directory: str | Path, *, format: str = "png") -> list[Picture]:
    """Draw what is selected of a trace, a file for each picture, and returns them in the order of the walk.

    `positions`, `masks`, one for each attention (`encoder.layers.0.self_attention`), `schedule`, `label-smoothing`.
    The last two show the run's own settings where they are known, else the paper's.

    Args:
        trace: whole or a selection; positions, schedule and smoothing belong to a whole one.
        directory: made if it is not there; files of the same name are replaced.
        format: "png", "svg" or "pdf".

    Raises:
        ConfigError: there is no such format, or nothing selected that can be drawn.
        DragomanError: matplotlib is not installed (the extra `plot`), or a file cannot be written.
    """
    if f".{format}" not in FORMATS:
        raise ConfigError("no such picture format", expected=", ".join(one[1:] for one in FORMATS), found=format)
    drawings = list(_drawings(trace))
    if not drawings:
        raise ConfigError("nothing that is selected has a picture", hint="select weights or masks, or everything")
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DragomanError("cannot make the directory", file=directory, found=error.strerror or error) from error
    return [make(directory / f"{name}.{format}") for name, make in drawings]


def _drawings(trace: Trace) -> Iterator[tuple[str, Callable[[Path], Picture]]]:
    """Names, and what draws them into a file."""
    whole = "text" in trace.parts and "checks" in trace.parts
    positions = trace.positions
    if whole and positions is not None:
        yield "positions", lambda path: position_picture(positions, path)
    masks = [stage for stage in trace.stages if stage.name.startswith("masks.") and stage.values is not None]
    if masks:
        yield "masks", lambda path: mask_picture(masks, path)
    for stage in trace.stages:
        if stage.name.endswith(".weights") and stage.values is not None:
            yield stage.name.removesuffix(".weights"), lambda path, stage=stage: _attention(stage, path)
    if whole:
        training, note = trace.schedule, "as this run was trained"
        known = training is not None and None not in (
            training.learning_rate, training.warmup_steps, training.label_smoothing
        )  # fmt: skip
        if training is None or not known:
            training, note = TrainingConfig.from_dict(_PAPER), "as in the paper"
        width, smoothing = trace.sizes["d_model"], training.label_smoothing or 0.0
        yield "schedule", lambda path: schedule_picture(training, width, path, title=f"Learning rate, {note}")
        smoothed = _smoothed(trace)
        if smoothed is not None:
            entries, said, right = smoothed
            yield "label-smoothing", lambda path: smoothing_picture(entries, said, right, smoothing, path)


def _attention(stage: Stage, path: Path) -> Picture:
    assert stage.values is not None
    weights = stage.values[0].double().numpy()
    title = stage.name.removesuffix(".weights")
    if len(weights) == 1:
        return attention_map(weights[0], stage.columns, stage.rows, path, title=f"{title}, head {stage.heads[0]}")
    captions = [f"head {head}" for head in stage.heads]
    return attention_grid(weights, stage.columns, stage.rows, path, captions=captions, title=title)


def position_picture(table: Float[Tensor, "positions d_model"], path: str | Path) -> Picture:
    """Draw a table of positions: a row for each position, a column for each dimension.

    Args:
        table: numbers from -1 to 1.
        path: the file to write.
    """
    count, width = table.shape
    nearest = float((torch.cdist(table.double(), table.double()) + torch.eye(count) * 1e9).min())
    kept = table[:, :COLUMNS].double().numpy()

    def make() -> Any:
        figure = _figure(min(10.0, max(4.0, kept.shape[1] * 0.05)), min(6.0, max(2.0, count * 0.07)))
        axes = figure.add_subplot()
        mesh = axes.pcolormesh(kept, cmap="RdBu_r", vmin=-1, vmax=1, rasterized=True)
        axes.invert_yaxis()
        shown = f"the first {COLUMNS} of {width} dimensions" if width > COLUMNS else f"dimension, of {width}"
        _name_axes(axes, shown, "position")
        _quiet(figure.colorbar(mesh, ax=axes, pad=0.02).ax)
        return figure

    return draw(path, "", make, title=f"Every position has a row of its own (the nearest two are {nearest:.2f} apart)")


def mask_picture(masks: list[Stage], path: str | Path) -> Picture:
    """Draw masks side by side: dark where a query may look at a key.

    Args:
        masks: stages whose values are true or false, with pieces for columns.
        path: the file to write.
    """
    names = [[label(piece) for piece in (*stage.columns, *stage.rows)] for stage in masks]

    def make() -> Any:
        from matplotlib.colors import ListedColormap

        # The strip of the padding mask may be longer than a square is wide.
        cells = [min(0.3, (4 if stage.rows else 6) / stage.shape[-1]) for stage in masks]
        wide = [stage.shape[-1] * cell for stage, cell in zip(masks, cells, strict=True)]
        room = 0.5 + 0.09 * max(len(name) for one in names for name in one)
        height = max(stage.shape[-2] * cell for stage, cell in zip(masks, cells, strict=True))
        width = sum(wide) + room * len(masks)
        figure, left = _figure(width, height), 0.0
        colours = ListedColormap([_LIGHT, _DARK])
        for stage, cell, across in zip(masks, cells, wide, strict=True):
            assert stage.values is not None
            values = stage.values[0, 0].double().numpy()
            high = len(values) * cell
            axes = figure.add_axes((left / width, 1 - high / height, across / width, high / height))
            lines = {"edgecolors": "white", "linewidth": 0.8} if cell > 0.1 else {}
            axes.pcolormesh(values, cmap=colours, vmin=0, vmax=1, **lines)
            axes.invert_yaxis()
            _pieces_at(axes, stage, cell)
            axes.set_xlabel(stage.name, fontsize=9, color=INK, labelpad=5)
            left += across + room
        return figure

    title = "Who may look at whom: a query (row) at a key (column) where it is dark"
    return draw(path, "".join("".join(one) for one in names), make, title=title)


def _pieces_at(axes: Any, stage: Stage, cell: float) -> None:
    columns = [label(piece) for piece in stage.columns]
    rows = [label(piece) for piece in stage.rows] or ["any query"]
    size, leaning = letters(columns, cell)
    label_axes(axes, columns, rows, cell=cell, size=size, leaning=leaning)
    axes.spines[:].set_visible(False)


def schedule_picture(training: TrainingConfig, d_model: int, path: str | Path, *, title: str | None = None) -> Picture:
    """Draw the learning rate of every update and marks the end of the warm-up.

    Args:
        training: with learning rate and warm-up set.
        d_model: on which the paper's formula depends.
        path: the file to write.
        title: a line above the picture.
    """
    warmup = max(training.warmup_steps or 0, 1)
    last = max(training.max_steps or 10 * warmup, 2)
    steps = np.unique(np.append(np.linspace(1, last, 500).round(), min(warmup, last))).astype(int)
    rates = [learning_rate(int(step), training, d_model) for step in steps]
    peak = min(warmup, last)
    height = learning_rate(peak, training, d_model)

    def make() -> Any:
        figure = _figure(6.5, 3.2)
        axes = figure.add_subplot()
        axes.plot(steps, rates, color=_DARK, linewidth=1.8)
        axes.plot([peak], [height], "o", color=_WARM)
        axes.axvline(peak, color=_WARM, linewidth=0.8, linestyle=":")
        text = f"warm-up ends at update {peak:,}: rate {height:.3g}"
        axes.annotate(text, (peak, height), (8, 5), textcoords="offset points", fontsize=9, color=_WARM)
        axes.set_ylim(0, 1.2 * max(rates))
        axes.set_xlim(0, last)
        axes.margins(x=0)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        _name_axes(axes, "update", f"learning rate ({training.schedule})")
        axes.spines[["top", "right"]].set_visible(False)
        return figure

    return draw(path, "", make, title=title)


def _smoothed(trace: Trace) -> tuple[list[tuple[str, int]], Float[Tensor, " vocab"], int] | None:
    """Some entries to draw, the model's probabilities where it writes its first piece, and the label there."""
    probabilities = next((one.values for one in trace.stages if one.name == "probabilities"), None)
    if trace.target is None or probabilities is None:
        return None
    # Labels are the decoder's input one place further, then the </s> that ends the output.
    labels = [*zip(trace.target.pieces, trace.target.ids, strict=True)][1:]
    labels.append((trace.output.pieces[-1], trace.output.ids[-1]))
    first = trace.steps[0]
    place = len(first.given) - 1  # after the prompt, if there was one
    likely = [(candidate.piece, candidate.id) for candidate in first.top]
    entries = list(dict.fromkeys([labels[place], *likely, *labels[place:]]))[:BARS]
    return entries, probabilities[0, place], labels[place][1]


def smoothing_picture(
    entries: list[tuple[str, int]],
    probabilities: Float[Tensor, " vocab"],
    right: int,
    smoothing: float,
    path: str | Path,
) -> Picture:
    """Draw what a position is trained towards, beside what the model says there, on a logarithmic scale.

    Args:
        entries: pieces and ids to show.
        probabilities: of the model, for each entry of the vocabulary.
        right: the id of the right piece.
        smoothing: ε; the right piece is due 1 - ε + ε/V, every other one of the V entries ε/V.
        path: the file to write.
    """
    vocab = len(probabilities)
    spread = smoothing / vocab
    due = [1 - smoothing + spread if token == right else spread for _, token in entries]
    said = [float(probabilities[token]) for _, token in entries]
    names = [label(piece) for piece, _ in entries]

    def make() -> Any:
        figure = _figure(max(5.0, 0.75 * len(entries)), 3.2)
        axes = figure.add_subplot()
        places = np.arange(len(entries))
        axes.bar(places - 0.2, due, 0.38, color=_DARK, label="trained towards")
        axes.bar(places + 0.2, said, 0.38, color=_WARM, label="what the model says")
        axes.set_yscale("log")
        axes.set_ylim(min([value for value in (*due, *said) if value > 0]) / 3, 3)
        if smoothing:
            text = f"ε/V = {smoothing:g}/{vocab:,} = {spread:.2g}, due to every other entry"
            axes.axhline(spread, color=QUIET, linewidth=1.0, linestyle=":", label=text)
        axes.annotate(
            f"{max(due):.4g}", (-0.2, max(due)), (0, 2), textcoords="offset points", ha="center", fontsize=8, color=INK
        )
        axes.set_xticks(places, names, fontsize=9, parse_math=False, rotation=30 if len(names) > 7 else 0)
        _name_axes(axes, "", "probability")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False, loc="upper right")
        return figure

    due_piece = names[[token for _, token in entries].index(right)]
    title = f"The smoothed target where {due_piece} is due (ε = {smoothing:g}); {vocab:,} entries, {len(entries)} shown"
    return draw(path, "".join(names), make, title=title)


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="white")


def _name_axes(axes: Any, across: str, down: str) -> None:
    axes.set_xlabel(across, fontsize=9, color=INK)
    axes.set_ylabel(down, fontsize=9, color=INK)
    _quiet(axes)


def _quiet(axes: Any) -> None:
    axes.tick_params(which="both", labelsize=8, labelcolor=QUIET, color=LINES)
    for spine in axes.spines.values():
        spine.set_color(LINES)
