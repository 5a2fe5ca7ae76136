"""The figures of the road from counting to attention, and of embeddings and positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from guide_figures import DARK, GREY, PALE, WARM, Tell, mixed, numbers, titled

from dragoman.canvas import INK, LINES, QUIET
from dragoman.inspection.sketch import Box, Line, Sketch, Words, width_of

ROW, COLUMN = 3, 0  # of the product's cell that is shown by example
ORANGE, GREEN = "#fbe3c8", "#d5ecd9"


def _cells(
    sketch: Sketch,
    at: tuple[float, float],
    values: Sequence[Sequence[float]],
    wide: float,
    marked: set[tuple[int, int]],
) -> None:
    """Numbers in cells of 28 pixels' height; some are marked."""
    (x, y), high = at, 28
    for row, line in enumerate(values):
        for place, value in enumerate(line):
            fill = ORANGE if (row, place) in marked else PALE if value else "white"
            sketch.add(Box(x + place * wide, y + row * high, wide, high, fill, LINES, stroke_width=0.8))
            ink = INK if value or (row, place) in marked else "#b6bcc9"
            sketch.add(Words(x + (place + 0.5) * wide, y + (row + 0.5) * high, f"{value:.0f}", 12, colour=ink))


def product(tell: Tell) -> Sketch:
    """A matrix product cell by cell: a row of one-hot vectors looks up a row of a table."""
    made = numbers("01-one-hot-vectors", "looked_up")
    sentence, table, found = made["sentence"].tolist(), made["table"].tolist(), made["looked_up"].tolist()
    title = tell("A matrix product, cell by cell", "矩阵乘法，逐格来看")
    note = tell(
        "orange: one row times one column gives one cell; the 1 takes a row of the table, each 0 takes nothing",
        "橙色：一行乘一列得到一格；1 取出表中的一行，0 什么也不取",
    )
    sketch = titled(760, 400, title, note)
    known = (tell("letters", "字母数"), tell("vowels", "元音数"), tell("a thing", "事物"))
    left, top = 82.0, 128.0
    columns = len(table)
    for place, word in enumerate(made["words"]):
        sketch.add(Words(left + (place + 0.5) * 30, top - 12 - 13 * (place % 2), word, 10, colour=QUIET))
        if place % 2:
            x = left + (place + 0.5) * 30
            sketch.add(Line(((x, top - 17), (x, top - 3)), LINES, 0.8))
    _cells(sketch, (left, top), sentence, 30, {(ROW, place) for place in range(columns)})
    for row, word in enumerate(made["command"]):
        sketch.add(Words(left - 8, top + (row + 0.5) * 28, word, 12, "end", bold=row == ROW))
    sketch.add(Words(left + columns * 15, top + 5 * 28 + 18, tell("sentence [5, 7]", "句子 [5, 7]"), 11, colour=QUIET))
    sketch.add(Words(318, top + 70, "×", 18))
    middle, above = 418.0, 100.0
    _cells(sketch, (middle, above), table, 44, {(row, COLUMN) for row in range(columns)})
    for row, word in enumerate(made["words"]):
        sketch.add(Words(middle - 8, above + (row + 0.5) * 28, word, 11, "end", bold=word == made["command"][ROW]))
    right = 612.0
    for place, name in enumerate(known):
        sketch.add(Words(middle + (place + 0.5) * 44, above - 10, name, 10, colour=QUIET))
        sketch.add(Words(right + (place + 0.5) * 44, top - 10, name, 10, colour=QUIET))
    sketch.add(Words(middle + 66, above + 7 * 28 + 18, tell("table [7, 3]", "表 [7, 3]"), 11, colour=QUIET))
    sketch.add(Words(580, top + 70, "=", 18))
    _cells(sketch, (right, top), found, 44, {(ROW, COLUMN)})
    sketch.add(Words(right + 66, top + 5 * 28 + 18, tell("looked up [5, 3]", "查得 [5, 3]"), 11, colour=QUIET))
    terms = " + ".join(f"{one:.0f}·{row[COLUMN]:.0f}" for one, row in zip(sentence[ROW], table, strict=True))
    sketch.add(
        Words(380, 366, f"{made['command'][ROW]}: {terms} = {found[ROW][COLUMN]:.0f}", 13, colour=WARM, bold=True)
    )
    return sketch


def chain(tell: Tell) -> Sketch:
    """The Markov chain of the three commands as a graph."""
    made = numbers("02-markov-models", "width")
    names, matrix = made["names"], made["matrix"]
    places = {
        "<s>": (60, 150), "show": (160, 150), "me": (255, 150), "my": (350, 150), "photos": (490, 80),
        "files": (490, 150), "directories": (490, 220), "please": (630, 150), "</s>": (730, 150),
    }  # fmt: skip
    title = tell("Three commands as a Markov chain", "三条命令构成的马尔可夫链")
    note = tell(
        "an arrow: what follows, with its probability; the thicker, the likelier; what leaves a word sums to 1",
        "箭头：接下来是什么及其概率，越粗越可能；离开一个词的概率之和为 1",
    )
    sketch = titled(790, 270, title, note)

    def half(name: str) -> float:
        return max(22, width_of(name, 12) / 2 + 10)

    for one, (x0, y0) in list(places.items())[:-1]:  # nothing follows the end
        for other, (x1, y1) in places.items():
            chance = float(matrix[names.index(one), names.index(other)])
            if chance:
                start, end = (x0 + half(one), y0), (x1 - half(other) - 2, y1)
                sketch.add(Line((start, end), DARK, 1 + 2.4 * chance, arrow=True))
                where = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 - 11)
                sketch.add(Words(*where, f"{chance:g}", 11, colour=WARM))
    for name, (x, y) in places.items():
        wide = half(name)
        fill = ORANGE if name == "my" else GREY if name.startswith("<") else PALE
        sketch.add(Box(x - wide, y - 16, 2 * wide, 32, fill, DARK, 14), Words(x, y, name, 12, bold=True))
    told = tell("the only open question: the row of my", "唯一的悬念：my 的那一行")
    sketch.add(Words(250, 196, told, 11, colour=QUIET))
    return sketch


def votes(tell: Tell) -> Sketch:
    """The votes of nine features as bars, before and after the mask."""
    made = numbers("03-from-skips-to-attention", "vote", "masked", "ran")
    words = made["program"].split()[: made["program"].split().index("ran")]
    attended = made["vocabulary"].pieces(made["masked"].attended(made["ran"]).tolist())
    title = tell("Nine features vote: down or please?", "九个特征投票：down 还是 please？")
    note = tell(
        "check the program log and find out whether it ran …; each pair gives one vote, shared as it was counted",
        "check the program log and find out whether it ran …；每一对投一票，按计数分给两个词",
    )
    sketch = titled(760, 390, title, note)
    heads = ((tell("all votes count", "每票都算"), 190.0), (tell("under the mask", "加上掩码"), 500.0))
    unit, high = 110.0, 24
    for number, (head, left) in enumerate(heads):
        sketch.add(Words(left + unit, 76, head, 12, bold=True))
        totals = {"down": 0.0, "please": 0.0}
        for row, word in enumerate(words):
            share = made["vote"](word, "ran")
            y = 92 + row * high
            counts = number == 0 or word in attended
            if not number:
                sketch.add(Words(left - 12, y + 9, f"{word}, ran", 11, "end", bold=word in attended))
            start = left
            for name, fill in (("down", "#f0b27a"), ("please", DARK)):
                size = share[name] * unit * 2
                sketch.add(Box(start, y, size, 17, fill if counts else GREY, LINES, stroke_width=0.6))
                if size:
                    ink = "white" if counts and name == "please" else INK if counts else "#b6bcc9"
                    told = f"{name} {share[name]:g}"
                    sketch.add(Words(start + size / 2, y + 8.5, told, 10, colour=ink))
                start += size
                totals[name] += share[name] * counts
        y = 92 + len(words) * high + 8
        sketch.add(Line(((left, y), (left + 2 * unit, y)), QUIET, 0.8))
        told = f"down {totals['down']:g} : please {totals['please']:g}"
        sketch.add(Words(left + unit, y + 18, told, 14, colour=WARM, bold=True))
    sketch.add(Words(178, 92 + len(words) * high + 26, tell("total", "合计"), 11, "end", QUIET))
    return sketch


def relu(tell: Tell) -> Sketch:
    """A feature as a small network: three inputs, a sum, a ReLU, and its four cases."""
    weights = numbers("03-from-skips-to-attention", "weights")["weights"].tolist()
    title = tell("And: a sum and a cut", "“与”：一个和加一道截断")
    note = tell(
        "the feature program, ran is on only if both words are there", "只有两个词都在，特征 program, ran 才打开"
    )
    sketch = titled(760, 330, title, note)
    inputs = (
        tell("last word is ran", "最后一个词是 ran"),
        tell("program was said", "说过 program"),
        tell("constant 1", "常数 1"),
    )
    total, cut = (300.0, 170.0), (400.0, 170.0)
    for row, (name, weight) in enumerate(zip(inputs, weights, strict=True)):
        y = 100 + row * 70
        sketch.add(Box(24, y - 18, 132, 36, GREY if row == 2 else PALE, DARK, 8), Words(90, y, name, 11.5))
        sketch.add(Line(((156, y), (total[0] - 22, total[1])), DARK if weight > 0 else WARM, 1.8, arrow=True))
        at = ((156 + total[0] - 22) / 2, (y + total[1]) / 2 - 11)
        sketch.add(Words(*at, f"{weight:+.0f}".replace("-", "−"), 12, colour=DARK if weight > 0 else WARM, bold=True))
    sketch.add(Box(total[0] - 22, total[1] - 18, 44, 36, ORANGE, DARK, 18), Words(*total, "Σ", 16, bold=True))
    sketch.add(Line(((total[0] + 22, total[1]), (cut[0] - 32, cut[1])), DARK, 1.8, arrow=True))
    sketch.add(Box(cut[0] - 32, cut[1] - 18, 64, 36, GREEN, DARK, 8), Words(*cut, "ReLU", 13, bold=True))
    origin, unit = (590.0, 250.0), 74.0
    sketch.add(
        Line(((origin[0] - 1.35 * unit, origin[1]), (origin[0] + 1.5 * unit, origin[1])), QUIET, 0.8, arrow=True)
    )
    sketch.add(Line(((origin[0], origin[1] + 16), (origin[0], origin[1] - 1.5 * unit)), QUIET, 0.8, arrow=True))
    curve = ((-1.3, 0.0), (0.0, 0.0), (1.35, 1.35))
    sketch.add(Line(tuple((origin[0] + x * unit, origin[1] - y * unit) for x, y in curve), DARK, 2.2))
    sketch.add(Words(origin[0] + 1.5 * unit + 6, origin[1], tell("sum", "和"), 11, "start", QUIET))
    sketch.add(Words(origin[0], origin[1] - 1.5 * unit - 12, "max(0, x)", 11, colour=QUIET))
    cases: dict[float, list[str]] = {}
    for last, said in ((0, 0), (0, 1), (1, 0), (1, 1)):
        value = sum(weight * one for weight, one in zip(weights, (last, said, 1), strict=True))
        cases.setdefault(value, []).append(f"{last}, {said}")
    for value, told in cases.items():
        x, y = origin[0] + value * unit, origin[1] - max(0.0, value) * unit
        sketch.add(Box(x - 5, y - 5, 10, 10, WARM, "white", 5))
        for line, case in enumerate(told):
            shown = (x, y + 18 + 15 * line) if value <= 0 else (x + 14, y + 6)
            x_shift = -28 if value == 0 else 0
            sketch.add(Words(shown[0] + x_shift, shown[1], case, 11, "middle" if value <= 0 else "start"))
    told = tell("beside each point: last is ran, program was said", "点旁：最后一个词是 ran，说过 program")
    sketch.add(Words(origin[0] + 4, origin[1] + 58, told, 10.5, colour=QUIET))
    return sketch


def word_map(tell: Tell) -> Sketch:
    """Embeddings as two maps: the first two of their four numbers, and the other two."""
    made = numbers("05-embedding-and-positions", "words", "unit")
    embedding, words = made["embedding"], made["words"]
    # A singular vector may point either way; here the first word that is not at 0 is above it.
    first_word = (embedding.abs() > 1e-6).int().argmax(0)
    embedding = embedding * embedding[first_word, torch.arange(4)].sign()
    title = tell("Eleven words as four numbers, on two maps", "十一个词各用四个数，画成两张地图")
    note = tell("words that keep the same company lie in the same place", "同样的词前后相伴的词，落在同一处")
    sketch = titled(760, 380, title, note)
    heads = (
        (tell("numbers 1 and 2: verbs, or who does them", "第 1、2 个数：动词，还是做事的人和动物"), 0, 40.0),
        (tell("numbers 3 and 4: who does the same things", "第 3、4 个数：谁做同样的事"), 2, 410.0),
    )
    size = 270.0
    for head, first, left in heads:
        points = embedding[:, first : first + 2]
        low, high = points.amin(0) - 0.18, points.amax(0) + 0.18
        scale = size / float((high - low).max())
        centre = (low + high) / 2
        sketch.add(Box(left, 84, 310, size, "white", LINES, 4), Words(left + 155, 70, head, 11, bold=True))
        zero = (left + 155 - float(centre[0]) * scale, 84 + size / 2 + float(centre[1]) * scale)
        sketch.add(Line(((zero[0], 84), (zero[0], 84 + size)), LINES, 0.8, dashed=True))
        sketch.add(Line(((left, zero[1]), (left + 310, zero[1])), LINES, 0.8, dashed=True))
        there: dict[tuple[float, float], list[str]] = {}
        for word, (x, y) in zip(words, points.tolist(), strict=True):
            there.setdefault((round(x, 3) + 0.0, round(y, 3) + 0.0), []).append(word)
        for (x, y), together in there.items():
            at = (zero[0] + x * scale, zero[1] - y * scale)
            sketch.add(Box(at[0] - 5, at[1] - 5, 10, 10, WARM if "run" in together else DARK, "white", 5))
            lines = [", ".join(together[start : start + 3]) for start in range(0, len(together), 3)]
            end = at[0] > left + 175
            for line, told in enumerate(lines):
                y_shift = 15 * (line - (len(lines) - 1) / 2)
                sketch.add(
                    Words(at[0] - 11 if end else at[0] + 11, at[1] + y_shift, told, 11, "end" if end else "start")
                )
    return sketch


def circles(tell: Tell) -> Sketch:
    """Positions as hands of clocks: the pairs of columns of an encoding of width 8."""
    from dragoman.nn import sinusoids

    table = sinusoids(7, 8).double()
    title = tell("Positions as hands of clocks", "位置好比时钟的指针")
    note = tell(
        "d_model = 8: four pairs of columns, each a clock ten times slower than the one before; positions 0 to 6",
        "d_model = 8：四对列就是四座钟，后一座比前一座慢十倍；位置 0 到 6",
    )
    sketch = titled(760, 300, title, note)
    radius, example = 66.0, 5
    for pair in range(4):
        x, y = 104 + pair * 184, 156
        ring = tuple(
            (x + radius * math.sin(turn * math.pi / 24), y - radius * math.cos(turn * math.pi / 24))
            for turn in range(49)
        )
        sketch.add(Line(ring, LINES, 1.2))
        for position in range(len(table)):
            sine, cosine = table[position, 2 * pair : 2 * pair + 2].tolist()
            at = (x + radius * sine, y - radius * cosine)
            if position == example:
                sketch.add(Line(((x, y), (at[0] - 5 * sine, at[1] + 5 * cosine)), WARM, 2.0, arrow=True))
            sketch.add(Box(at[0] - 4, at[1] - 4, 8, 8, mixed(0.25 + position / 8), "white", 4, 0.8))
            if pair == 0 or (pair == 1 and position in (0, 6)):
                out = (x + (radius + 14) * sine, y - (radius + 14) * cosine)
                sketch.add(Words(*out, str(position), 11, bold=position == example))
        sketch.add(
            Words(
                x,
                256,
                tell(f"columns {2 * pair} and {2 * pair + 1}", f"第 {2 * pair}、{2 * pair + 1} 列"),
                11,
                bold=True,
            )
        )
        sine, cosine = table[example, 2 * pair : 2 * pair + 2].tolist()
        told = tell(f"position {example}", f"位置 {example}")
        sketch.add(Words(x, 274, f"{told}: {sine:.3f}, {cosine:.3f}".replace("-", "−"), 10.5, colour=WARM))
    return sketch


FIGURES = {
    "product": product,
    "chain": chain,
    "votes": votes,
    "relu": relu,
    "map": word_map,
    "circles": circles,
}
