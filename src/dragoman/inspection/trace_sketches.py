"""Figures of a trace that are boxes and words: a head, a norm, logits, a beam, embeddings, training and prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from dragoman.canvas import INK, LINES, QUIET
from dragoman.inspection.beam_events import told_events
from dragoman.inspection.facts import Step
from dragoman.inspection.sketch import Box, Line, Sketch, Words, width_of
from dragoman.inspection.trace import Trace
from dragoman.stages.stage import Stage
from dragoman.stages.words import bare, say

_DARK, _WARM, _PALE = "#3a50a3", "#c2571a", "#e9edf7"
_COLUMNS, _PIECES, _BARS, _CELL = 6, 12, 8, 40


def in_words(name: str) -> tuple[str, str]:
    """Return where an attention stands, and of which kind it is, in words."""
    stack = say("Encoder" if name.startswith("encoder") else "Decoder")
    layer = name.partition(".layers.")[2].partition(".")[0]
    kind = "cross-attention" if "cross_attention" in name else "self-attention"
    kind = say("feed-forward network" if "feed_forward" in name else kind)
    return say("{stack}, layer {layer}").format(stack=stack, layer=layer), kind


def _joined(name: str) -> str:
    place, kind = in_words(name)
    return say("{place}, {kind}").format(place=place, kind=kind)


def _titled(width: float | int, height: float | int, title: str, note: str = "") -> Sketch:
    """A figure with a title above and a note under it."""
    sketch = Sketch(max(width, width_of(title, 15) + 40, width_of(note, 11) + 40), height, title)
    sketch.add(Words(20, 24, title, 15, "start", bold=True))
    if note:
        sketch.add(Words(20, 46, note, 11, "start", QUIET))
    return sketch


def colour(value: float | int, most: float | int) -> str:
    """Return white for 0, deeper blue below and deeper red above: the sense of colours of all figures with signs."""
    share = max(-1.0, min(1.0, value / most if most else 0.0))
    red, blue = (178, 48, 42), (44, 92, 168)
    end = red if share > 0 else blue
    return "#" + "".join(f"{round(255 + (one - 255) * abs(share) ** 0.8):02x}" for one in end)


def _fitted(name: str, room: float | int) -> float | int:
    """The size of letters at which a name fits."""
    return max(5.0, min(10.5, 10.5 * (room - 3) / max(width_of(name, 10.5), 1.0)))


def _matrix(
    sketch: Sketch,
    at: tuple[float | int, float | int],
    values: Shaped[Tensor, "rows columns"],
    names: tuple[Sequence[str], Sequence[str], str],
    seen: Shaped[Tensor, "rows columns"] | None = None,
) -> tuple[float | int, float | int]:
    """Numbers in coloured cells with their names; gives where the matrix ends."""
    (x, y), (rows, columns, title) = at, names
    left = x + max([width_of(row, 10.5) for row in rows], default=0) + 8
    sketch.add(Words(left, y, title, 12, "start", bold=True))
    top = y + (30 if columns else 14)
    for place, name in enumerate(columns):
        sketch.add(Words(left + (place + 0.5) * _CELL, top - 9, name, _fitted(name, _CELL)))
    most = float(values.abs().max()) or 1.0
    for row, line in enumerate(values.tolist()):
        if row < len(rows):
            sketch.add(Words(left - 6, top + (row + 0.5) * 22, rows[row], 10.5, "end"))
        for place, value in enumerate(line):
            box = (left + place * _CELL, top + row * 22, _CELL, 22)
            if seen is not None and not bool(seen[row, place]):
                sketch.add(Box(*box, "#f1f2f5", LINES, stroke_width=0.6))
                for start in (box[0], box[0] + 9, box[0] + 18):
                    sketch.add(Line(((start, box[1] + 22), (start + 22, box[1])), "#c3c7d1", 0.6))
                continue
            deep = abs(value) > 0.62 * most
            sketch.add(Box(*box, colour(value, most), LINES, stroke_width=0.6))
            text = f"{value:.2f}"
            sketch.add(Words(box[0] + _CELL / 2, box[1] + 11, text, 10, colour="white" if deep else INK))
    return left + len(values[0]) * _CELL, top + len(values) * 22


def head_sketch(trace: Trace, home: str, head: int) -> Sketch:
    """Draw one head: Q and K, the scores, the weights under the mask, V, and what the head gives.

    Args:
        trace: with the stages of the attention.
        home: its path.
        head: from 0.
    """
    names = ("query", "key", "value", "scores", "weights", "mixed")
    parts = {part: _part(trace, f"{home}.{part}")[head][:_PIECES] for part in names}
    stage = trace.stage(f"{home}.scores")
    queries = list(stage.labels[:_PIECES])
    keys = [bare(piece) for piece in stage.columns[:_PIECES]]
    d_k = trace.stage(f"{home}.query").shape[-1]
    seen = _part(trace, f"{home}.mask")[0][:_PIECES, :_PIECES].bool() if f"{home}.mask" in trace.stage_names else None
    place, kind = in_words(home)
    title = say("One head computed: {place}, {kind}, head {head}").format(place=place, kind=kind, head=head)
    note = say("the first {count} of {columns} columns; hatched: hidden by the mask")
    note = note.format(count=min(_COLUMNS, d_k), columns=d_k)
    sketch = _titled(0, 0, title, note)
    first = {part: parts[part][:, :_COLUMNS] for part in ("query", "key", "value", "mixed")}
    right, low = _matrix(sketch, (20, 80), first["query"], (queries, (), "Q"))
    end, below = _matrix(sketch, (right + 40, 80), first["key"], (keys, (), "K"))
    scores = parts["scores"][:, :_PIECES]
    top = max(low, below) + 34
    named = say("scores QKᵀ / √{d_k}").format(d_k=d_k)
    right, low = _matrix(sketch, (20, top), scores, (queries, keys, named), None)
    named = say("weights = softmax(scores under the mask)")
    end2, below = _matrix(sketch, (right + 40, top), parts["weights"][:, :_PIECES], (queries, keys, named), seen)
    top = max(low, below) + 34
    right, low = _matrix(sketch, (20, top), first["value"], (keys, (), "V"))
    end3, below = _matrix(sketch, (right + 40, top), first["mixed"], (queries, (), say("weights · V")))
    sketch.width = max(sketch.width, end + 24, end2 + 24, end3 + 24, right + 40 + width_of(named, 12) + 240)
    sketch.height = max(low, below) + 24
    return sketch


def _part(trace: Trace, name: str) -> Tensor:
    values = trace.stage(name).values
    assert values is not None
    return values[0]


def norm_sketch(stage: Stage) -> Sketch:
    """Draw the vectors before and after a norm as bars, the first positions only.

    Args:
        stage: that a norm has made.
    """
    assert stage.given is not None
    assert stage.values is not None
    rows, count = min(len(stage.given[0]), 4), stage.given.shape[-1]
    bar = max(1.5, min(6.0, 420 / count))
    wide = bar * count
    note = say("every bar one of {count} numbers; dashed: the mean").format(count=count)
    name = stage.name if stage.layer is None else _joined(stage.name)
    title = say("LayerNorm, before and after: {name}").format(name=name)
    sketch = _titled(2 * wide + 220, 90 + rows * 110, title, note)
    starts = (130, 130 + wide + 60)
    for start, title in zip(starts, (say("before: x"), say("after")), strict=True):
        sketch.add(Words(start, 70, title, 12, "start", bold=True))
    most = float(max(stage.given[0, :rows].abs().max(), stage.values[0, :rows].abs().max())) or 1.0
    for row in range(rows):
        middle = 90 + row * 110 + 46
        sketch.add(Words(118, middle, stage.label(row), 11, "end"))
        for start, values in zip(starts, (stage.given[0, row], stage.values[0, row]), strict=True):
            mean, deviation = float(values.mean()), float(values.std(correction=0))
            for place, value in enumerate(values.tolist()):
                size = abs(value) / most * 40
                top = middle - size if value > 0 else middle
                sketch.add(Box(start + place * bar, top, bar * 0.8, max(size, 0.4), _DARK if value > 0 else _WARM))
            level = middle - mean / most * 40
            sketch.add(Line(((start, middle), (start + wide, middle)), LINES, 0.8))
            sketch.add(Line(((start, level), (start + wide, level)), QUIET, 1.0, dashed=True))
            told = say("mean {mean}, deviation {deviation}").format(mean=f"{mean:.2f}", deviation=f"{deviation:.2f}")
            sketch.add(Words(start, middle + 52, told, 10.5, "start", QUIET))
    longest = max(width_of(stage.label(row), 11) for row in range(rows))
    return _moved(sketch, max(0.0, longest - 98))


def _moved(sketch: Sketch, by: float | int) -> Sketch:
    """Everything but title and note moved to the right, where names are long."""
    head = [shape for shape in sketch.shapes if isinstance(shape, Words) and shape.x == 20]
    moved: list[Box | Words | Line] = []
    for shape in sketch.shapes:
        if shape in head:
            moved.append(shape)
        elif isinstance(shape, Line):
            moved.append(replace(shape, points=tuple((x + by, y) for x, y in shape.points)))
        else:
            moved.append(replace(shape, x=shape.x + by))
    return Sketch(sketch.width + by, sketch.height, sketch.title, moved)


def logits_sketch(steps: Sequence[Step], logits: Float[Tensor, "rows vocab"], stage: Stage) -> Sketch:
    """Draw the largest logits of each step as bars, the chosen piece marked.

    Args:
        steps: what was chosen.
        logits: a row for each step.
        stage: whose columns the logits are.
    """
    across = min(len(steps), 4)
    down = math.ceil(min(len(steps), 12) / across)
    wide, high = 250, 40 + _BARS * 20
    title = say("Logits per step: the likeliest pieces, before the softmax")
    sketch = _titled(20 + across * wide, 40 + down * high, title)
    for number, (step, row) in enumerate(zip(steps[:12], logits, strict=False)):
        x, y = 20 + number % across * wide, 48 + number // across * high
        name = f"{say('step {number}').format(number=step.number)}: {stage.label(number)}"
        sketch.add(Words(x, y, name, 11, "start", bold=True))
        values, ids = row.topk(min(_BARS, len(row)))
        pieces = stage.entries(ids.tolist()) if stage.entries else [str(one) for one in ids.tolist()]
        most = float(values.abs().max()) or 1.0
        for place, (piece, token, value) in enumerate(zip(pieces, ids.tolist(), values.tolist(), strict=True)):
            level = y + 20 + place * 20
            chosen = token == step.chosen.id
            sketch.add(Words(x + 78, level, bare(piece), 10.5, "end", bold=chosen))
            sketch.add(Box(x + 84, level - 7, max(1.0, 100 * max(value, 0) / most), 14, _WARM if chosen else _DARK))
            sketch.add(Words(x + 90 + 100 * max(value, 0) / most, level, f"{value:.2f}", 10, "start", QUIET))
    return sketch


def beam_sketch(trace: Trace) -> Sketch:
    """Draw the beam as a tree, with sums of log P, pruned ones dashed, and the path of greedy search thick.

    Args:
        trace: of a beam search.
    """
    shown = told_events(trace.beam)
    steps = min(max(event.step for event in shown), 12)
    shown = [event for event in shown if event.step <= steps]
    most = max(sum(event.step == step for event in shown) for step in range(1, steps + 1))
    note = say("number on a candidate: sum of log P; filled: finished; dashed: pruned (the best of each step)")
    note += "; " + say("thick: what greedy search takes")
    sketch = _titled(60 + steps * 132, 90 + most * 44, say("The beam as a tree"), note)
    places: dict[str | None, tuple[float | int, float | int]] = {None: (20 + 34, 90)}
    sketch.add(Box(20, 78, 34, 24, _PALE, QUIET, 4), Words(37, 90, "<s>", 11))
    greedy: set[str | None] = {None}
    for step in range(1, steps + 1):
        row = [event for event in shown if event.step == step]
        follows = [event for event in trace.beam if event.step == step and event.parent in greedy]
        best = max(follows, key=lambda event: event.log_probability).id if follows else None
        sketch.add(Words(80 + (step - 1) * 132 + 50, 66, say("step {number}").format(number=step), 10.5, colour=QUIET))
        for place, event in enumerate(row):
            x, y = 80 + (step - 1) * 132, 78 + place * 44
            begin = places[event.parent]
            thick = event.id == best
            path = (begin, (x, y + 17))
            quiet = event.fate == "pruned"
            edge = _WARM if thick else LINES if quiet else QUIET
            sketch.add(Line(path, edge, 2.2 if thick else 1.0, dashed=quiet))
            fill = "#d5ecd9" if event.fate == "finished" else "white" if quiet else _PALE
            sketch.add(Box(x, y, 100, 34, fill, edge, 4, dashed=quiet))
            sketch.add(Words(x + 50, y + 11, bare(event.piece), 11.5, colour=QUIET if quiet else INK, bold=thick))
            sketch.add(Words(x + 50, y + 25, f"{event.sum:.2f}", 9.5, colour=QUIET))
            places[event.id] = (x + 100, y + 17)
        greedy = {best} if best is not None else set()
    return sketch


def embeddings_sketch(points: Float[Tensor, "count d_model"], names: Sequence[str], asked: int) -> Sketch:
    """Draw a map of embeddings on their two widest axes, those of the text marked.

    Args:
        points: rows of the table of embeddings.
        names: their pieces.
        asked: so many first ones stand in the text; the others are their nearest neighbours.
    """
    centred = points.double() - points.double().mean(0)
    spread, axes = torch.linalg.eigh(centred.T @ centred)
    axes = axes[:, -2:].flip(1)
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()  # a sign that is the same everywhere
    at = centred @ axes
    low, high = at.amin(0), at.amax(0)
    part = float(spread[-2:].sum() / spread.sum().clamp(min=1e-30))
    note = say("these two axes hold {share} of the variance").format(share=f"{part:.0%}")
    sketch = _titled(720, 560, say("Map of the embeddings: the two widest axes (PCA)"), note)
    sketch.add(Box(20, 64, 680, 476, "#fbfbfd", LINES))
    taken: list[tuple[float | int, float | int]] = []
    for place, ((x, y), name) in enumerate(zip(at.tolist(), names, strict=True)):
        across = 60 + 580 * (x - float(low[0])) / (float(high[0] - low[0]) or 1.0)
        down = 520 - 430 * (y - float(low[1])) / (float(high[1] - low[1]) or 1.0)
        own = place < asked
        sketch.add(Box(across - 3, down - 3, 6, 6, _WARM if own else _DARK, round=3))
        free = all(abs(across - one) > 34 or abs(down - other) > 11 for one, other in taken)
        if own or free:
            sketch.add(Words(across + 6, down, name, 12 if own else 10, "start", INK if own else QUIET, bold=own))
            taken.append((across, down))
    return sketch


def views_sketch(reads: Sequence[str], labels: Sequence[str]) -> Sketch:
    """Draw the training view, all rows under the triangle, beside the serial one, whose cache grows step by step.

    Args:
        reads: what the decoder is given, piece by piece.
        labels: what each row is called.
    """
    count = min(len(reads), _PIECES)
    names = [bare(piece) for piece in reads[:count]]
    cell = 34
    left = 20 + max(width_of(one, 11) for one in labels[:count]) + 10
    wide = count * cell
    other = left + wide + 90
    titles = (
        say("training: all rows under the triangle, one pass (teacher forcing)"),
        say("prediction: one row a step, the cache grows (autoregressive)"),
    )
    title = say("Training and prediction: the same rows, at once and one by one")
    down = count * (cell + 12) + 150
    other = max(other, left + width_of(titles[0], 11.5) + 30)
    sketch = _titled(other + max(wide, width_of(titles[1], 11.5)) + 40, down, title)
    for start, told in zip((left, other), titles, strict=True):
        sketch.add(Words(start, 56, told, 11.5, "start", QUIET))
        sketch.add(*(Words(start + (k + 0.5) * cell, 82, name, _fitted(name, cell)) for k, name in enumerate(names)))
    for row in range(count):
        y = 96 + row * cell
        sketch.add(Words(left - 8, y + cell / 2, labels[row], 11, "end"))
        step = 96 + row * (cell + 12)
        told = say("step {number}").format(number=row + 1)
        sketch.add(Words(other - 8, step + cell / 2, told, 11, "end"))
        for key in range(count):
            fill = _DARK if key <= row else "#f1f2f5"
            sketch.add(Box(left + key * cell, y, cell, cell, fill, "white"))
            if key <= row:
                sketch.add(Box(other + key * cell, step, cell, cell, _DARK if key == row else "#98c5e4", "white"))
    y = down - 26
    kinds = ((_DARK, say("computed")), ("#98c5e4", say("from the cache")), ("#f1f2f5", say("hidden")))
    for place, (fill, told) in enumerate(kinds):
        start = left + place * 150
        sketch.add(Box(start, y - 7, 14, 14, fill, LINES), Words(start + 20, y, told, 11, "start", QUIET))
    return sketch


def scores_sketch(trace: Trace, home: str) -> Sketch:
    """Draw the scores of an attention before mask and softmax, all its heads.

    Args:
        trace: with the stages of the attention.
        home: its path.
    """
    stage = trace.stage(f"{home}.scores")
    values = _part(trace, f"{home}.scores")[:, :_PIECES, :_PIECES]
    place, kind = in_words(home)
    title = say("{place}: {kind}, the scores QKᵀ / √d_k before mask and softmax").format(place=place, kind=kind)
    sketch = _titled(0, 0, title)
    rows, keys = list(stage.labels[:_PIECES]), [bare(piece) for piece in stage.columns[:_PIECES]]
    across = 2 if len(keys) <= 6 and len(values) > 1 else 1
    x, y, below, right = 20.0, 60.0, 60.0, 0.0
    for number, (head, matrix) in enumerate(zip(stage.heads, values, strict=True)):
        if number and number % across == 0:
            x, y = 20.0, below + 30
        end, low = _matrix(sketch, (x, y), matrix, (rows, keys, say("head {head}").format(head=head)))
        x, below, right = end + 40, max(below, low), max(right, end)
    sketch.width, sketch.height = max(sketch.width, right + 24), below + 24
    return sketch
