"""The architecture as a figure: two columns as in the paper's figure 1, drawn from the stages of a trace or a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from dragoman.canvas import INK, QUIET, Picture
from dragoman.inspection.shapes import Plan
from dragoman.inspection.sketch import Box, Line, Sketch, Words, width_of
from dragoman.inspection.trace import Trace
from dragoman.stages.convolutions import GATES
from dragoman.stages.stage import Stage
from dragoman.stages.words import bare, say, speaking

# Stacks of at most so many layers are drawn whole; of others the first layer, and how many there are.
_WHOLE = 2
_WIDTH, _SPACE, _MARGIN, _GAP = 340, 110, 34, 10
_COLOURS = {
    "embedding": "#f4dede", "positions": "#f1ebd8", "attention": "#fbe3c8", "feed_forward": "#cfe8f1",
    "norm": "#eef1c4", "add": "#f5f6f8", "memory": "#dfe3f4", "generator": "#e2e0ef", "probabilities": "#d5ecd9",
}  # fmt: skip
_FRAME, _EDGE, _MEMORY = "#f9fafb", "#8a8fa0", "#3a50a3"


@dataclass
class _Item:
    """A box of a column, or a line of words."""

    kind: str
    title: str
    lines: tuple[str, ...] = ()
    branches: bool = False
    joins: bool = False
    layer: int | None = None
    cross: bool = False
    top: float | int = 0.0

    @property
    def height(self) -> float | int:
        """In pixels."""
        return 22 + 14 * len(self.lines) if self.kind != "words" else 18


@dataclass
class _Column:
    """A stack, from below."""

    stack: str
    count: int
    centre: float | int
    side: int
    items: list[_Item] = field(default_factory=list)


def draw_architecture(shown: Trace | Plan, path: str | Path, *, lang: str = "en") -> Picture:
    """Draw the architecture: each box with its name and its shape, as symbols and numbers.

    Args:
        shown: a trace, or the shape arithmetic of a configuration.
        path: the file; its suffix chooses the format: `.svg` (real text, without matplotlib), `.png` or `.pdf`.
        lang: "en" or "zh".

    Raises:
        ConfigError: there is no such language.
        DragomanError: the file cannot be written.
    """
    with speaking(lang):
        return architecture(shown).save(path)


def architecture(shown: Trace | Plan) -> Sketch:
    """Return the figure of `draw_architecture`, in the language that is spoken."""
    stages = {stage.name: stage for stage in shown.stages}
    columns = []
    for stack, side in (("encoder", -1), ("decoder", 1)):
        if any(name.startswith(f"{stack}.layers") for name in stages):
            centre = _MARGIN + _WIDTH / 2 + 14 + len(columns) * (_WIDTH + _SPACE)
            count = shown.sizes[f"num_{stack}_layers"]
            columns.append(_Column(stack, count, centre, side, list(_items(stages, stack, count, shown))))
    height = max(_height(column) for column in columns)
    width = columns[-1].centre + _WIDTH / 2 + _MARGIN + 14
    sketch = Sketch(width, height, say("The architecture of the model"))
    for column in columns:
        _place(column, height - 20)
        _draw(sketch, column)
    if len(columns) == 2:
        _memory(sketch, *columns)
    return sketch


def _height(column: _Column) -> float | int:
    """Of a column with its heading and the margins."""
    bounds = sum(one.layer != other.layer for one, other in pairwise(column.items))
    return sum(item.height + _GAP for item in column.items) + 24 * bounds + 52


def _items(stages: Mapping[str, Stage], stack: str, count: int, shown: Trace | Plan) -> Iterator[_Item]:
    """The boxes of a stack, from below."""
    side = {"encoder": "source_embedding", "decoder": "target_embedding"}[stack]
    home = side if f"{side}.tokens" in stages else "embedding"
    target = stack == "decoder"
    given = (shown.target if target else shown.source) if isinstance(shown, Trace) else None
    words = say("target, shifted right") if target else say("source")
    heard = isinstance(shown, Trace) and shown.sound is not None and not target
    told = shown.text if heard and isinstance(shown, Trace) else "" if given is None else _some(given.pieces)
    yield _Item("words", say("{name}: {text}").format(name=words, text=told) if told else words)
    if heard:
        yield _Item("positions", say("normalised log-mel frames"), (stages[f"{side}.frames"].size,))
        sizes = tuple(stages[f"{GATES}.{number}"].size for number in (0, 1))
        yield _Item("embedding", say("two convolutions of stride 2, gated"), sizes)
    else:
        yield _Item("embedding", say("embedding of the pieces"), (stages[f"{home}.tokens"].size,))
    if f"{home}.positions" in stages:
        yield _Item("positions", say("+ positional encoding"), (stages[f"{home}.positions"].size,))
    for layer in range(count if count <= _WHOLE else 1):
        parts = ("self_attention", "cross_attention", "feed_forward")
        for part in parts:
            if f"{stack}.layers.{layer}.{part}_residual" in stages:
                yield from _sublayer(stages, f"{stack}.layers.{layer}.{part}", layer)
    ends = "memory" if "memory" in stages and not target else f"{stack}.output"
    if ends in stages:
        if stages[ends].given is not None or "norm" in stages[ends].what.lower():
            yield _Item("norm", say("LayerNorm"))
        title = say("memory: the encoder's output") if ends == "memory" else say("output of the stack")
        yield _Item("memory", title, (stages[ends].size,))
    if target or "decoder.output" not in stages:
        yield _Item("generator", say("linear map to the vocabulary: logits"), (stages["generator"].size,))
        yield _Item("probabilities", say("softmax: probabilities"), (stages["probabilities"].size,))
        if isinstance(shown, Trace):
            written = _some(shown.output.pieces)
            yield _Item("words", say("{name}: {text}").format(name=say("output"), text=written))


def _sublayer(stages: Mapping[str, Stage], home: str, layer: int) -> Iterator[_Item]:
    """A sub-layer with its residual connection, and the norm before or after it."""
    part = home.rpartition(".")[2]
    pre = f"{home}_residual.norm" in stages
    post = f"{home}_residual.sum" in stages
    if pre:
        yield _Item("norm", say("LayerNorm"), branches=True, layer=layer)
    if part == "feed_forward":
        box = _Item("feed_forward", say("feed-forward network"), (stages[f"{home}.inner"].size,), layer=layer)
    else:
        masked = part == "self_attention" and home.startswith("decoder")
        title = "masked multi-head self-attention" if masked else "multi-head self-attention"
        title = "multi-head cross-attention" if part == "cross_attention" else title
        lines = (f"Q {stages[f'{home}.query'].size}", f"K, V {stages[f'{home}.key'].size}")
        box = _Item("attention", say(title), lines, layer=layer, cross=part == "cross_attention")
    box.branches = not pre
    yield box
    yield _Item("add", say("add (residual connection)"), joins=True, layer=layer)
    if post:
        yield _Item("norm", say("LayerNorm"), layer=layer)


def _some(pieces: Sequence[str]) -> str:
    """As many pieces as there is room for beside the name."""
    told = [bare(piece) for piece in pieces]
    count = len(told)
    while count > 1 and width_of(" ".join(told[:count]), 12.5) > 0.6 * _WIDTH:
        count -= 1
    return " ".join(told if count == len(told) else [*told[:count], "…"])


def _place(column: _Column, bottom: float | int) -> None:
    """Gives every box its height, from below; layers keep a distance."""
    before: int | None = None
    for item in column.items:
        bottom -= 24 if item.layer != before else 0
        item.top = bottom - item.height
        bottom = item.top - _GAP
        before = item.layer


def _draw(sketch: Sketch, column: _Column) -> None:
    left = column.centre - _WIDTH / 2
    for layer in sorted({item.layer for item in column.items if item.layer is not None}):
        inside = [item for item in column.items if item.layer == layer]
        top, bottom = inside[-1].top - 7, inside[0].top + inside[0].height + 9
        sketch.add(Box(left - 24, top, _WIDTH + 48, bottom - top, _FRAME, _EDGE, 8, 0.8, dashed=True))
        many = column.count > _WHOLE
        label = f"× {column.count}" if many else say("layer {layer}").format(layer=layer)
        outer = left - 20 if column.side < 0 else left + _WIDTH + 20
        sketch.add(Words(outer, top - 7, label, 11, "start" if column.side < 0 else "end", QUIET, bold=many))
    for below, item in zip([None, *column.items], column.items, strict=False):
        if below is not None:
            path = ((column.centre, below.top), (column.centre, item.top + item.height))
            sketch.add(Line(path, _EDGE, arrow=True))
        _box(sketch, column, item, left)
    _bypasses(sketch, column, left)
    name = {"encoder": "Encoder", "decoder": "Decoder"}[column.stack]
    sketch.add(Words(column.centre, column.items[-1].top - 16, say(name), 15, bold=True))


def _box(sketch: Sketch, column: _Column, item: _Item, left: float | int) -> None:
    if item.kind == "words":
        sketch.add(Words(column.centre, item.top + item.height / 2, item.title, 12.5, colour=INK, bold=True))
        return
    sketch.add(Box(left, item.top, _WIDTH, item.height, _COLOURS[item.kind], _EDGE, 5, 0.9))
    sketch.add(Words(column.centre, item.top + 11.5, item.title, 12))
    sketch.add(
        *(
            Words(column.centre, item.top + 26 + 14 * row, line, 10.5, colour=QUIET)
            for row, line in enumerate(item.lines)
        )
    )


def _bypasses(sketch: Sketch, column: _Column, left: float | int) -> None:
    """The residual connections: around what stands between a branch and a join."""
    edge, outer = (left, left - 13) if column.side < 0 else (left + _WIDTH, left + _WIDTH + 13)
    start: float | None = None
    for item in column.items:
        if item.branches:
            start = item.top + item.height + _GAP / 2
        if item.joins and start is not None:
            level = item.top + item.height / 2
            path = ((column.centre, start), (outer, start), (outer, level), (edge, level))
            sketch.add(Line(path, _EDGE, arrow=True))


def _memory(sketch: Sketch, encoder: _Column, decoder: _Column) -> None:
    """The arrow from the memory into every cross-attention."""
    memory = next(item for item in encoder.items if item.kind == "memory")
    level, begin = memory.top + memory.height / 2, encoder.centre + _WIDTH / 2
    end, between = decoder.centre - _WIDTH / 2, encoder.centre + _WIDTH / 2 + _SPACE / 2 + 4
    crosses = [item for item in decoder.items if item.cross]
    for item in crosses:
        into = item.top + item.height / 2
        path = ((begin, level), (between, level), (between, into), (end, into))
        sketch.add(Line(path, _MEMORY, 1.8, arrow=True))
    sketch.add(Words((begin + between) / 2, level - 10, "K, V", 11, colour=_MEMORY, bold=True))
    if crosses and decoder.count > _WHOLE:
        place = crosses[0].top + crosses[0].height / 2 + 14
        sketch.add(Words(between, place, say("into every layer"), 10.5, colour=_MEMORY))
