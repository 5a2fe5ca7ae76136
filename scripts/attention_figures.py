"""The figures of positions, attention and masks.

The weights of trained models are not the same to the last digit on every processor, so `measured_attention.json` keeps
them, rounded to two places as the demo's picture and that of chapter 12 printed them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from guide_figures import DARK, PALE, WARM, Tell, mixed, numbers, titled
from torch import Tensor

from dragoman.canvas import INK, LINES, QUIET
from dragoman.inspection.sketch import Box, Line, Sketch, Words
from dragoman.inspection.trace_sketches import colour

MEASURED = Path(__file__).with_name("measured_attention.json")
CELL = 30
THREE = ("#dfe5f6", "#fbe3c8", "#d5ecd9")  # a colour for each of three heads


def _number(value: float, places: int) -> str:
    text = f"{value:.{places}f}"
    return text.replace("-", "−") if float(text) else f"{0:.{places}f}"


def _grid(
    sketch: Sketch,
    at: tuple[float, float],
    values: Tensor,
    fills: Sequence[Sequence[str]] | str,
    places: int = 0,
    wide: float = CELL,
) -> None:
    """The numbers of a matrix, in cells of one colour or of a colour each."""
    (x, y), rows = at, values.tolist()
    for row, line in enumerate(rows):
        for column, value in enumerate(line):
            fill = fills if isinstance(fills, str) else fills[row][column]
            dark = isinstance(fills, list) and value > 0.6
            sketch.add(Box(x + column * wide, y + row * CELL, wide, CELL, fill, LINES, stroke_width=0.8))
            where = (x + (column + 0.5) * wide, y + (row + 0.5) * CELL)
            sketch.add(Words(*where, _number(value, places), 11, colour="white" if dark else INK))


def _named(sketch: Sketch, x: float, y: float, words: Sequence[str], bold: int = -1) -> None:
    for row, word in enumerate(words):
        sketch.add(Words(x - 8, y + (row + 0.5) * CELL, word, 12, "end", bold=row == bold))


def _weights_grid(sketch: Sketch, at: tuple[float, float], weights: Tensor, wide: float = 42) -> None:
    """Weights of attention: the darker, the more; the numbers of those that are not 0."""
    (x, y) = at
    for row, line in enumerate(weights.tolist()):
        for column, value in enumerate(line):
            sketch.add(Box(x + column * wide, y + row * CELL, wide, CELL, mixed(value), LINES, stroke_width=0.8))
            if round(value, 2):
                where = (x + (column + 0.5) * wide, y + (row + 0.5) * CELL)
                sketch.add(Words(*where, f"{value:.2f}", 11, colour="white" if value > 0.5 else INK))


def positions(tell: Tell) -> Sketch:
    """The table of sinusoids: a row for each position, and three of its columns as waves."""
    table = numbers("05-embedding-and-positions", "table")["table"]
    title = tell("The positional encoding of 64 positions, 32 columns", "64 个位置、32 列的位置编码")
    note = tell(
        "left: red is 1, white 0, blue −1; the further right, the slower a column changes. Right: three columns",
        "左：红为 1，白为 0，蓝为 −1；越往右，列变得越慢。右：其中三列",
    )
    sketch = titled(860, 366, title, note)
    left, top, wide, high = 70.0, 82.0, 11.0, 3.75
    for column in range(32):
        levels = [round(4 * value) / 4 + 0.0 for value in table[:, column].tolist()]
        begin = 0
        for row in range(1, 65):
            if row == 64 or levels[row] != levels[begin]:
                if levels[begin]:
                    place = (left + column * wide, top + begin * high, wide, (row - begin) * high)
                    sketch.add(Box(*place, colour(levels[begin], 1)))
                begin = row
    sketch.add(Box(left, top, 32 * wide, 64 * high, "none", LINES, stroke_width=0.8))
    for row in range(0, 64, 16):
        sketch.add(Words(left - 8, top + (row + 0.5) * high, str(row), 10, "end", QUIET))
    for column in (0, 4, 8, 16, 24, 31):
        sketch.add(Words(left + (column + 0.5) * wide, top + 64 * high + 12, str(column), 10, colour=QUIET))
    sketch.add(Words(left + 16 * wide, top + 64 * high + 28, tell("column", "列"), 11, colour=QUIET))
    sketch.add(Words(left - 8, top - 12, tell("position", "位置"), 11, "end", QUIET))
    start, unit = 530.0, 4.7
    for number, (column, ink) in enumerate(((0, "#98c5e4"), (4, "#4f8bd2"), (8, "#271f56"))):
        middle = top + 36 + number * 84
        sketch.add(Line(((start, middle), (start + 63 * unit, middle)), LINES, 0.8))
        wave = [(start + row * unit, middle - 32 * value) for row, value in enumerate(table[:, column].tolist())]
        sketch.add(Line(tuple(wave), ink, 1.8))
        told = tell(f"column {column}", f"第 {column} 列")
        sketch.add(Words(start - 8, middle, told, 10.5, "end", QUIET))
    for row in range(0, 64, 16):
        sketch.add(Words(start + row * unit, top + 64 * high + 12, str(row), 10, colour=QUIET))
    sketch.add(Words(start + 32 * unit, top + 64 * high + 28, tell("position", "位置"), 11, colour=QUIET))
    return sketch


def head(tell: Tell) -> Sketch:
    """One head from queries to output, every number of it."""
    from dragoman.nn import attention_scores, attention_weights

    query = torch.tensor([[0.0, 2, 0, 0], [2, 0, 0, 1], [0, 2, 1, 0]], dtype=torch.float64)
    key = torch.tensor([[2.0, 0, 1, 0], [0, 2, 0, 1], [2, 0, 0, 2]], dtype=torch.float64)
    value = torch.tensor([[1.0, 0, 0, 2], [0, 3, 0, 1], [0, 0, 4, 1]], dtype=torch.float64)
    scores = attention_scores(query, key)
    weights = attention_weights(scores)
    words = ["猫", "吃", "鱼"]
    title = tell("One head, computed", "一个头的全部计算")
    note = tell(
        "follow the orange row: the query of 吃 meets each key; its weights mix the rows of V into its output",
        "跟着橙色的一行看：“吃”的查询与每个键相乘，得到的权重把 V 的各行混合成它的输出",
    )
    sketch = titled(760, 440, title, note)
    pale = [[("#fbe3c8" if row == 1 else PALE)] * 4 for row in range(3)]
    plain = [[("#fbe3c8" if row == 1 else PALE)] * 3 for row in range(3)]
    top = 138.0

    def named(x: float, y: float, name: str, shape: str, columns: int, wide: float = CELL) -> None:
        sketch.add(Words(x + columns * wide / 2, y, name, 12, bold=True))
        sketch.add(Words(x + columns * wide / 2, y + 15, shape, 10, colour=QUIET))

    _named(sketch, 56, top, words, 1)
    _grid(sketch, (56, top), query, tuple(map(tuple, pale)))
    named(56, top - 34, "Q", "[3, 4]", 4)
    sketch.add(Words(196, top + 45, "×", 18))
    _grid(sketch, (216, top - 15), key.T, PALE)
    named(216, top - 66, "Kᵀ", "[4, 3]", 3)
    for column, word in enumerate(words):
        sketch.add(Words(216 + (column + 0.5) * CELL, top - 28, word, 12))
    sketch.add(Words(348, top + 45, "/ √4 =", 14))
    _grid(sketch, (392, top), scores, tuple(map(tuple, plain)), 1, 38)
    named(392, top - 34, tell("scores", "分数"), "[3, 3]", 3, 38)
    sketch.add(Line(((514, top + 45), (600, top + 45)), DARK, 1.6, arrow=True))
    sketch.add(Words(556, top + 31, "softmax", 11, colour=QUIET))
    _weights_grid(sketch, (610, top), weights, 42)
    named(610, top - 34, tell("weights", "权重"), "[3, 3]", 3, 42)
    low = 306.0
    _named(sketch, 56, low, words, 1)
    _weights_grid(sketch, (56, low), weights, 42)
    named(56, low - 34, tell("weights", "权重"), "[3, 3]", 3, 42)
    sketch.add(Words(206, low + 45, "×", 18))
    _named(sketch, 250, low, words)
    _grid(sketch, (250, low), value, PALE)
    named(250, low - 34, "V", "[3, 4]", 4)
    sketch.add(Words(394, low + 45, "=", 18))
    _grid(sketch, (416, low), weights @ value, tuple(map(tuple, pale)), 2, 42)
    named(416, low - 34, tell("output", "输出"), "[3, 4]", 4, 42)
    products = " + ".join(f"{one:.0f}·{two:.0f}" for one, two in zip(query[1].tolist(), key[2].tolist(), strict=True))
    told = tell("吃 asks 鱼", "“吃”问“鱼”") + f": ({products}) / 2 = {float(scores[1, 2]):g}"
    sketch.add(Words(600, 254, told, 11, colour=WARM, bold=True))
    parts = " + ".join(f"{float(one):.2f}·{float(two):g}" for one, two in zip(weights[1], value[:, 2], strict=True))
    sketch.add(Words(416, 416, f"{parts} = {float((weights @ value)[1, 2]):.2f}", 11, colour=WARM, bold=True))
    return sketch


def heads(tell: Tell) -> Sketch:
    """Three heads as blocks of columns of one W_Q: the same product, seen as three."""
    from dragoman.nn import MultiHeadAttention

    x = torch.tensor([[1.0, 0, 2, 0, 1, 0], [0, 1, 0, 1, 0, 2], [1, 0, 0, 2, 1, 0]])
    weight = torch.tensor(
        [[1.0, 0, 0, 1, 0, 1], [0, 1, 1, 0, 1, 0], [0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 1, 1], [0, 0, 1, 1, 0, 1],
         [1, 0, 0, 1, 0, 0]]
    )  # fmt: skip
    attend = MultiHeadAttention(6, 3, bias=False).eval()
    seen: list[Tensor] = []
    with torch.no_grad():
        attend.projection.weight[:6] = weight.T
        attend.observe(lambda record: seen.append(record.query[0]))
        attend(x[None])
    words, (query,) = ["猫", "吃", "鱼"], seen
    title = tell("Three heads are blocks of one W_Q", "三个头是同一个 W_Q 的三块")
    note = tell(
        "d_model = 6, three heads of d_k = 2: one product gives the queries of all heads; each head reads its colour",
        "d_model = 6，三个头，d_k = 2：一次乘法得到所有头的查询，每个头取自己颜色的那一块",
    )
    sketch = titled(760, 340, title, note)
    top = 170.0
    _named(sketch, 56, top, words)
    _grid(sketch, (56, top), x, PALE)
    sketch.add(Words(146, top + 108, "X [3, 6]", 11, colour=QUIET), Words(258, top + 45, "×", 18))
    blocks = [[THREE[column // 2] for column in range(6)] for _ in range(6)]
    _grid(sketch, (282, top - 45), weight, tuple(map(tuple, blocks)))
    sketch.add(Words(372, top + 153, "W_Q [6, 6]", 11, colour=QUIET), Words(484, top + 45, "=", 18))
    for number in range(3):
        told = tell(f"head {number + 1}", f"头 {number + 1}")
        sketch.add(Words(282 + (2 * number + 1) * CELL, top - 57, told, 11, bold=True))
        x0 = 508 + number * 74
        _grid(sketch, (x0, top), query[number], THREE[number])
        sketch.add(Words(x0 + CELL, top - 12, told, 11, bold=True))
        sketch.add(Words(x0 + CELL, top + 108, "[3, 2]", 11, colour=QUIET))
    told = tell("Q, viewed as [heads 3, len 3, d_k 2]", "Q，看作 [heads 3, len 3, d_k 2]")
    sketch.add(Words(508 + 104, top + 128, told, 11, colour=QUIET))
    return sketch


def _mask(sketch: Sketch, at: tuple[float, float], may: Tensor, kinds: tuple[Tensor, Tensor]) -> None:
    """The cells of a mask: blue may be seen; grey is padding, orange the future."""
    (x, y), (real, past) = at, kinds
    for row, line in enumerate(may.tolist()):
        for column, open_ in enumerate(line):
            fill = DARK if open_ else "#c9cdd6" if not real[row, column] else "#f0b27a"
            sketch.add(Box(x + column * 26, y + row * 26, 26, 26, fill, "white", 3, 1.2))
            if not open_ and not real[row, column] and not past[row, column]:
                sketch.add(Box(x + column * 26 + 7, y + row * 26 + 7, 12, 12, "#f0b27a", round=3))


def masks(tell: Tell) -> Sketch:
    """Padding, causal and cross masks as rectangles, of one pair of a batch."""
    from dragoman.nn import causal_mask, combine_masks, padding_mask

    source, target = ["狗", "跑", "</s>", "<pad>", "<pad>"], ["<s>", "Dogs", "run", "<pad>"]
    sources, targets = padding_mask(torch.tensor([[5, 7, 3, 0, 0]]), 0), padding_mask(torch.tensor([[2, 4, 6, 0]]), 0)
    past = causal_mask(4)
    both = combine_masks(targets, past)
    assert both is not None
    title = tell("Four masks of one pair", "一对句子的四个掩码")
    note = tell(
        "a row: who looks (query); a column: who is looked at (key). Blue may be seen, grey is padding, orange the "
        "future",
        "行：谁在看（查询）；列：被看的（键）。蓝色可以看，灰色是填充，橙色是未来",
    )
    sketch = titled(860, 330, title, note)
    every = torch.ones(5, 5, dtype=torch.bool)
    drawn = (
        (tell("encoder: padding", "编码器：填充"), source, source, sources[0, 0].expand(5, 5), every),
        (tell("causal", "因果"), target, target, past[0, 0], past[0, 0]),
        (tell("decoder: both", "解码器：两者合一"), target, target, both[0, 0], past[0, 0]),
        (tell("cross: rectangle", "交叉：长方形"), target, source, sources[0, 0].expand(4, 5), every),
    )
    x = 66.0
    for number, (name, rows, columns, may, seen) in enumerate(drawn):
        real = seen & torch.ones_like(seen) if number == 1 else torch.tensor([word != "<pad>" for word in columns])
        known = (torch.ones(len(rows), len(columns), dtype=torch.bool) if number == 1 else real.expand_as(may), seen)
        sketch.add(Words(x + 13 * len(columns), 84, name, 12, bold=True))
        for column, word in enumerate(columns):
            sketch.add(Words(x + 26 * column + 13, 116 - 14 * (column % 2), word, 10))
        _mask(sketch, (x, 130), may, known)
        for row, word in enumerate(rows):
            sketch.add(Words(x - 6, 130 + 26 * row + 13, word, 10, "end"))
        shape = f"[batch, 1, 1, {len(columns)}]" if number in (0, 3) else f"[{'batch' if number == 2 else 1}, 1, 4, 4]"
        sketch.add(Words(x + 13 * len(columns), 130 + 26 * len(rows) + 16, shape, 10, colour=QUIET))
        x += 26 * len(columns) + 78
    told = tell(
        "the encoder's mask has one row, which stretches over all queries; so does that of the cross-attention",
        "编码器的掩码只有一行，对所有查询都一样；交叉注意力的掩码也是如此",
    )
    sketch.add(Words(20, 306, told, 11, "start", QUIET))
    return sketch


def masked(tell: Tell) -> Sketch:
    """What one set of scores becomes under no mask, two masks, and both."""
    made = numbers("07-masks", "kinds", "weights", "pieces")
    pieces, weights = made["pieces"], made["weights"]
    names = (tell("no mask", "无掩码"), tell("padding", "填充"), tell("causal", "因果"), tell("both", "两者合一"))
    title = tell("The same scores under four masks", "同一组分数在四种掩码下")
    note = tell(
        "weights; each row sums to 1, white without a number is exactly 0", "权重；每行之和为 1，没有数的白格正好是 0"
    )
    sketch = titled(860, 480, title, note)
    for number, (name, matrix) in enumerate(zip(names, weights, strict=True)):
        x, y = 90.0 + 420 * (number % 2), 112.0 + 194 * (number // 2)
        _named(sketch, x, y, pieces)
        _weights_grid(sketch, (x, y), matrix, 54)
        sketch.add(Words(x, y - 30, name, 12, "start", bold=True))
        for column, piece in enumerate(pieces):
            sketch.add(Words(x + (column + 0.5) * 54, y - 11, piece, 11))
    return sketch


def _looked(tell: Tell, which: str, title: str) -> Sketch:
    kept = json.loads(MEASURED.read_text(encoding="utf-8"))[which]
    reads, writes, source = kept["reads"], kept["writes"], kept["source"]
    note = tell(
        "a row: what the decoder reads → what it writes; a column: the piece that it looks at; each row sums to 1",
        "行：解码器读到什么 → 写出什么；列：它看的源子词；每行之和为 1",
    )
    sketch = titled(640, 128 + CELL * len(writes), title, note)
    x, y = 180.0, 104.0
    _named(sketch, x, y, [f"{one} → {two}" for one, two in zip(reads, writes, strict=True)])
    _weights_grid(sketch, (x, y), torch.tensor(kept["weights"], dtype=torch.float64), 60)
    for column, piece in enumerate(source):
        sketch.add(Words(x + (column + 0.5) * 60, y - 14, piece, 14))
    return sketch


def looked(tell: Tell) -> Sketch:
    """Where the demo's model looked for each word of a sentence."""
    return _looked(tell, "demo", "猫吃鱼 → Cats eat fish")


def looked_question(tell: Tell) -> Sketch:
    """Where the model of chapter 12 looked for each word of a question."""
    return _looked(tell, "chapter", "猫吃鱼吗？ → Do cats eat fish?")


def links(tell: Tell) -> Sketch:
    """Alignment before attention: words joined by lines; and the same as a table of weights."""
    kept = json.loads(MEASURED.read_text(encoding="utf-8"))["chapter"]
    target, source = kept["writes"][:-1], kept["source"][:-1]
    weights = [line[:-1] for line in kept["weights"][:-1]]
    title = tell("Alignment: first lines, then weights", "对齐：先是连线，后是权重")
    note = tell(
        "left: before attention, a word belongs to a word or does not; right: attention, the weights the model learned",
        "左：注意力之前，词与词要么对应，要么不对应；右：注意力，模型学到的权重",
    )
    sketch = titled(820, 310, title, note)
    for column, (above, below) in enumerate(zip(source, target, strict=True)):
        x = 60.0 + 74 * column
        sketch.add(Box(x - 29, 104, 58, 32, PALE, DARK, 8), Words(x, 120, above, 14))
        sketch.add(Box(x - 29, 226, 58, 32, "#d5ecd9", DARK, 8), Words(x, 242, below, 13))
    for row, line in enumerate(weights):
        column = line.index(max(line))
        sketch.add(Line(((60.0 + 74 * column, 137), (60.0 + 74 * row, 225)), WARM, 1.8))
    x, y = 490.0, 106.0
    _named(sketch, x, y, target)
    _weights_grid(sketch, (x, y), torch.tensor(weights, dtype=torch.float64), 54)
    for column, piece in enumerate(source):
        sketch.add(Words(x + (column + 0.5) * 54, y - 14, piece, 14))
    told = tell("a line stands where a row has its largest weight", "每一行权重最大的地方，就是一条线")
    sketch.add(Words(20, 290, told, 11, "start", QUIET))
    return sketch


def bottleneck(tell: Tell) -> Sketch:
    """The encoder-decoder before attention: recurrent, with one vector between the two sides."""
    encode = torch.nn.GRU(16, 512, batch_first=True)
    with torch.no_grad():
        short, long = (list(encode(torch.zeros(1, length, 16))[1].shape[1:]) for length in (4, 40))
    title = tell("Encoder-decoder before attention: one context vector", "注意力之前的编码器-解码器：一个上下文向量")
    note = tell(
        "orange: all that the decoder ever sees of the source; attention gives it every state instead",
        "橙色：解码器能看到的源句信息全在这里；注意力让它能看到每一个状态",
    )
    sketch = titled(800, 280, title, note)
    for place, word in enumerate(("猫", "吃", "鱼", "</s>")):
        x = 66.0 + 88 * place
        sketch.add(Box(x - 26, 190, 52, 30, "white", LINES, 6), Words(x, 205, word, 13))
        sketch.add(Line(((x, 189), (x, 152)), QUIET, 1.2, arrow=True))
        sketch.add(Box(x - 26, 116, 52, 34, PALE, DARK, 8), Words(x, 133, f"h{place + 1}", 12, bold=True))
        end = x + 60 if place < 3 else x + 50
        sketch.add(Line(((x + 27, 133), (end, 133)), DARK, 1.6, arrow=True))
    sketch.add(Box(382, 106, 56, 54, "#fbe3c8", WARM, 8), Words(410, 126, "c", 15, bold=True))
    sketch.add(Words(410, 145, "[512]", 10, colour=QUIET))
    reads, writes = ("<s>", "Cats", "eat", "fish"), ("Cats", "eat", "fish", "</s>")
    for place, (reading, writing) in enumerate(zip(reads, writes, strict=True)):
        x = 506.0 + 84 * place
        sketch.add(Line(((x - 40 if not place else x - 56, 133), (x - 28, 133)), DARK, 1.6, arrow=True))
        if not place:
            sketch.add(Line(((439, 133), (470, 133)), DARK, 1.6))
        sketch.add(Box(x - 26, 116, 52, 34, "#d5ecd9", DARK, 8), Words(x, 133, f"s{place + 1}", 12, bold=True))
        sketch.add(Box(x - 26, 190, 52, 30, "white", LINES, 6), Words(x, 205, reading, 12))
        sketch.add(Line(((x, 189), (x, 152)), QUIET, 1.2, arrow=True))
        sketch.add(Line(((x, 115), (x, 94)), QUIET, 1.2, arrow=True), Words(x, 82, writing, 12, bold=True))
    told = tell(
        f"however long the source: 4 words → {short[-1]} numbers, 40 words → {long[-1]} numbers",
        f"不管源句多长：4 个词 → {short[-1]} 个数，40 个词 → {long[-1]} 个数",
    )
    sketch.add(Words(410, 250, told, 12, colour=WARM, bold=True))
    return sketch


FIGURES = {
    "positions": positions,
    "bottleneck": bottleneck,
    "links": links,
    "head": head,
    "heads": heads,
    "masks": masks,
    "masked": masked,
    "looked": looked,
    "looked-question": looked_question,
}
