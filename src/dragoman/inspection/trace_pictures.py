"""The pictures of a trace: positions, masks, every attention map, the learning rate and the smoothed target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.canvas import FORMATS, INK, LINES, QUIET, Picture, draw, fitting_format, label
from dragoman.config import TrainingConfig
from dragoman.errors import ConfigError, DragomanError
from dragoman.inspection.architecture import architecture
from dragoman.inspection.pictures import attention_grid, attention_map, label_axes, letters, named
from dragoman.inspection.sound_pictures import listening_picture, listening_stage
from dragoman.inspection.trace import Trace
from dragoman.inspection.trace_sketches import (
    beam_sketch,
    embeddings_sketch,
    head_sketch,
    in_words,
    logits_sketch,
    norm_sketch,
    scores_sketch,
    views_sketch,
)
from dragoman.optimizers.schedule import learning_rate
from dragoman.stages.stage import Stage
from dragoman.stages.words import bare, chinese, say, speaking

# Columns of the position table, and pieces of the smoothed target, that can still be told apart.
COLUMNS, BARS = 512, 10
# Neighbours of each piece in the map of embeddings.
NEAREST = 8
_DARK, _LIGHT, _WARM = "#3a50a3", "#c5e0ee", "#c2571a"
# What is written inside pictures that matplotlib draws.
_SIGNS = (
    "any query", "padding mask", "causal mask", "combined mask", "update", "learning rate ({kind})", "probability",
    "warm-up ends at update {peak}: rate {rate}", "trained towards", "what the model says", "position",
    "ε/V = {epsilon}/{vocab} = {spread}, due to every other entry", "dimension, of {width}",
    "the first {count} of {width} dimensions",
)  # fmt: skip
_PAPER = {"schedule": "paper", "learning_rate": 1.0, "warmup_steps": 4000, "max_steps": 100_000, "label_smoothing": 0.1}


def draw_trace(trace: Trace, directory: str | Path, *, format: str | None = None) -> list[Picture]:
    """Draw what is selected of a trace, a file for each picture, and return them in the order of the walk.

    `architecture`, `positions`, `masks`, `layer-norm`, of a sound `listening` (its frames, and under them the
    attention over time), one for each attention (`encoder.layers.0.self_attention`),
    `scores`, `one-head`, `logits`, `training-and-steps`, `beam`, `embeddings`, `schedule`, `label-smoothing`. The last
    two show the run's own settings where they are known, else the paper's. All are told in the trace's language.

    Args:
        trace: whole or a selection, to which masks and attention alone belong.
        directory: made if it is not there; files of the same name are replaced.
        format: "png", "svg" or "pdf"; if None, PNG where a font here has all signs, else SVG.

    Raises:
        ConfigError: there is no such format, or nothing selected that can be drawn.
        DragomanError: matplotlib is not installed (the extra `plot`), or a file cannot be written.
    """
    note = None
    if format is None:
        format, note = fitting_format(_signs(trace))
    if f".{format}" not in FORMATS:
        raise ConfigError("no such picture format", expected=", ".join(one[1:] for one in FORMATS), found=format)
    with speaking(trace.lang):
        drawings = list(_drawings(trace))
    if not drawings:
        raise ConfigError("nothing that is selected has a picture", hint="select weights or masks, or everything")
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DragomanError("cannot make the directory", file=directory, found=error.strerror or error) from error
    with speaking(trace.lang):
        drawn = [make(directory / f"{name}.{format}") for name, make in drawings]
    return drawn if note is None else [replace(picture, note=note) for picture in drawn]


def _signs(trace: Trace) -> str:
    """Every character that may stand in a picture of it."""
    told = "".join(chinese().values()) if trace.lang == "zh" else ""
    pieces = [piece for stage in trace.stages for piece in (*stage.rows, *stage.columns)]
    return told + "".join(dict.fromkeys("".join(map(named, pieces))))


def _drawings(trace: Trace) -> Iterator[tuple[str, Callable[[Path], Picture]]]:
    """Names, and what draws them into a file."""
    whole = "text" in trace.parts and "checks" in trace.parts
    positions = trace.positions
    if whole:
        yield "architecture", lambda path: architecture(trace).save(path)
    if whole and positions is not None:
        yield "positions", lambda path: position_picture(positions, path)
    masks = [stage for stage in trace.stages if stage.name.startswith("masks.") and stage.values is not None]
    if masks:
        yield "masks", lambda path: mask_picture(masks, path)
    normed = next((stage for stage in trace.stages if stage.given is not None), None)
    if whole and normed is not None:
        yield "layer-norm", lambda path: norm_sketch(normed).save(path)
    if whole and listening_stage(trace) is not None:
        yield "listening", lambda path: listening_picture(trace, path)
    for stage in trace.stages:
        if stage.name.endswith(".weights") and stage.values is not None:
            yield stage.name.removesuffix(".weights"), lambda path, stage=stage: _attention(stage, path)
    if whole:
        yield from _sketches(trace)
        training, title = trace.schedule, say("Learning rate, as this run was trained")
        known = training is not None and None not in (
            training.learning_rate, training.warmup_steps, training.label_smoothing
        )  # fmt: skip
        if training is None or not known:
            training, title = TrainingConfig.from_dict(_PAPER), say("Learning rate, as in the paper")
        width, smoothing = trace.sizes["d_model"], training.label_smoothing or 0.0
        yield "schedule", lambda path: schedule_picture(training, width, path, title=title)
        smoothed = _smoothed(trace)
        if smoothed is not None:
            entries, said, right = smoothed
            yield "label-smoothing", lambda path: smoothing_picture(entries, said, right, smoothing, path)


def _attention(stage: Stage, path: Path) -> Picture:
    assert stage.values is not None
    weights = stage.values[0].double().numpy()
    place, kind = in_words(stage.name)
    if len(weights) == 1:
        title = say("{place}: {kind}, head {head}, who looks at whom")
        title = title.format(place=place, kind=kind, head=stage.heads[0])
        return attention_map(weights[0], stage.columns, stage.labels, path, title=title)
    captions = [say("head {head}").format(head=head) for head in stage.heads]
    title = say("{place}: {kind}, who looks at whom").format(place=place, kind=kind)
    return attention_grid(weights, stage.columns, stage.labels, path, captions=captions, title=title)


def _sketches(trace: Trace) -> Iterator[tuple[str, Callable[[Path], Picture]]]:
    """The figures of a whole trace that are boxes and words."""
    homes = [one.name.removesuffix(".scores") for one in trace.stages if one.name.endswith(".scores")]
    if homes:
        home = next((one for one in homes if "cross" in one), homes[0])
        own = next((one for one in homes if one.startswith("decoder")), homes[0])
        yield "scores", lambda path: scores_sketch(trace, home).save(path)
        yield "one-head", lambda path: head_sketch(trace, own, 0).save(path)
    stage = next(stage for stage in trace.stages if stage.name == "generator")
    same = trace.target is not None and trace.target.ids[1:] == trace.output.ids[:-1]
    if trace.steps and stage.values is not None and stage.writes and same:
        first = len(trace.steps[0].given) - 1
        rows = replace(stage, rows=stage.rows[first:], writes=stage.writes[first:])
        logits = stage.values[0, first:]
        yield "logits", lambda path: logits_sketch(trace.steps, logits, rows).save(path)
    if trace.target is not None and stage.writes:
        pieces, labels = trace.target.pieces, stage.labels
        yield "training-and-steps", lambda path: views_sketch(pieces, labels).save(path)
    if trace.beam:
        yield "beam", lambda path: beam_sketch(trace).save(path)
    table = trace.weights.get("target_embedding.tokens.weight", trace.weights.get("embedding.tokens.weight"))
    if table is not None and stage.entries is not None and trace.target is not None:
        ids = _near(table, [*trace.target.ids, *trace.output.ids])
        names = [bare(piece) for piece in stage.entries(ids)]
        asked = len(dict.fromkeys([*trace.target.ids, *trace.output.ids]))
        points = table[ids].cpu().float()
        yield "embeddings", lambda path: embeddings_sketch(points, names, asked).save(path)


def _near(table: Float[Tensor, "vocab d_model"], asked: list[int]) -> list[int]:
    """Ids that are asked for, and after them those of their nearest rows by cosine."""
    unit = torch.nn.functional.normalize(table.float(), dim=1)
    asked = list(dict.fromkeys(asked))
    near = (unit[asked] @ unit.T).topk(min(NEAREST + 1, len(unit)), dim=1).indices.flatten().tolist()
    return list(dict.fromkeys([*asked, *near]))


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
        told = "the first {count} of {width} dimensions" if width > COLUMNS else "dimension, of {width}"
        _name_axes(axes, say(told).format(count=COLUMNS, width=width), say("position"))
        _quiet(figure.colorbar(mesh, ax=axes, pad=0.02).ax)
        return figure

    title = say("Every position has a row of its own (the nearest two are {nearest} apart)")
    signs = "".join(map(say, _SIGNS))
    return draw(path, signs, make, title=title.format(nearest=f"{nearest:.2f}"))


def mask_picture(masks: list[Stage], path: str | Path) -> Picture:
    """Draw masks side by side: dark where a query may look at a key.

    Args:
        masks: stages whose values are true or false, with pieces for columns.
        path: the file to write.
    """
    names = [[named(piece) for piece in (*stage.columns, *stage.rows)] for stage in masks]

    def make() -> Any:
        from matplotlib.colors import ListedColormap

        # The strip of the padding mask may be longer than a square is wide.
        cells = [min(0.3, (4 if stage.rows else 6) / stage.shape[-1]) for stage in masks]
        wide = [stage.shape[-1] * cell for stage, cell in zip(masks, cells, strict=True)]
        # Before each matrix stand the names of its rows, above and behind it lean those of its columns.
        rooms = [0.5 + 0.085 * max([len(row) for row in stage.labels], default=0) for stage in masks]
        height = max(stage.shape[-2] * cell for stage, cell in zip(masks, cells, strict=True))
        width = sum(wide) + sum(rooms[1:]) + 0.5
        figure, left = _figure(width, height), -rooms[0]
        colours = ListedColormap([_LIGHT, _DARK])
        for stage, cell, across, room in zip(masks, cells, wide, rooms, strict=True):
            left += room
            assert stage.values is not None
            values = stage.values[0, 0].double().numpy()
            high = len(values) * cell
            axes = figure.add_axes((left / width, 1 - high / height, across / width, high / height))
            lines = {"edgecolors": "white", "linewidth": 0.8} if cell > 0.1 else {}
            axes.pcolormesh(values, cmap=colours, vmin=0, vmax=1, **lines)
            axes.invert_yaxis()
            _pieces_at(axes, stage, cell)
            kind = say({"padding": "padding mask", "causal": "causal mask"}.get(stage.name[6:], "combined mask"))
            axes.set_xlabel(kind, fontsize=9, color=INK, labelpad=5)
            left += across
        return figure

    title = say("Who may look at whom: a query (row) at a key (column) where it is dark")
    signs = "".join("".join(one) for one in names) + "".join(map(say, _SIGNS))
    return draw(path, signs, make, title=title)


def _pieces_at(axes: Any, stage: Stage, cell: float) -> None:
    columns = [named(piece) for piece in stage.columns]
    rows = list(stage.labels) or [say("any query")]
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
        text = say("warm-up ends at update {peak}: rate {rate}").format(peak=f"{peak:,}", rate=f"{height:.3g}")
        axes.annotate(text, (peak, height), (8, 5), textcoords="offset points", fontsize=9, color=_WARM)
        axes.set_ylim(0, 1.2 * max(rates))
        axes.set_xlim(0, last)
        axes.margins(x=0)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        _name_axes(axes, say("update"), say("learning rate ({kind})").format(kind=training.schedule))
        axes.spines[["top", "right"]].set_visible(False)
        return figure

    return draw(path, "".join(map(say, _SIGNS)), make, title=title)


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
        axes.bar(places - 0.2, due, 0.38, color=_DARK, label=say("trained towards"))
        axes.bar(places + 0.2, said, 0.38, color=_WARM, label=say("what the model says"))
        axes.set_yscale("log")
        axes.set_ylim(min([value for value in (*due, *said) if value > 0]) / 3, 3)
        if smoothing:
            text = say("ε/V = {epsilon}/{vocab} = {spread}, due to every other entry")
            text = text.format(epsilon=f"{smoothing:g}", vocab=f"{vocab:,}", spread=f"{spread:.2g}")
            axes.axhline(spread, color=QUIET, linewidth=1.0, linestyle=":", label=text)
        axes.annotate(
            f"{max(due):.4g}", (-0.2, max(due)), (0, 2), textcoords="offset points", ha="center", fontsize=8, color=INK
        )
        axes.set_xticks(places, names, fontsize=9, parse_math=False, rotation=30 if len(names) > 7 else 0)
        _name_axes(axes, "", say("probability"))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False, loc="upper right")
        return figure

    due_piece = names[[token for _, token in entries].index(right)]
    title = say("The smoothed target where {piece} is due (ε = {epsilon}); {vocab} entries, {count} shown").format(
        piece=due_piece, epsilon=f"{smoothing:g}", vocab=f"{vocab:,}", count=len(entries)
    )
    return draw(path, "".join(names) + "".join(map(say, _SIGNS)), make, title=title)


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
