"""The figures of the layer norm, of the decoder and of the search."""

from __future__ import annotations

from guide_figures import DARK, GREY, PALE, WARM, Tell, numbers, titled

from dragoman.canvas import INK, LINES, QUIET
from dragoman.inspection.sketch import Box, Line, Sketch, Words

ORANGE, GREEN, FADED = "#fbe3c8", "#d5ecd9", "#b6bcc9"


def _signed(value: float, places: int) -> str:
    return f"{value:.{places}f}".replace("-", "−")


def norm(tell: Tell) -> Sketch:
    """Two vectors before and after layer norm, as bars."""
    made = numbers("08-encoder", "norm")
    before = made["x"].tolist()
    after = [[round(value, 2) for value in line] for line in made["y"].tolist()]
    title = tell("Layer norm: before and after", "层归一化：之前与之后")
    note = tell(
        "each vector by itself: minus its mean, divided by its deviation; the second is ten times the first",
        "每个向量各自计算：减去自己的均值，除以自己的标准差；第二个是第一个的十倍",
    )
    sketch = titled(760, 384, title, note)
    for row, (line, out) in enumerate(zip(before, after, strict=True)):
        y = 186.0 + 128 * row
        mean = sum(line) / len(line)
        spread = (sum((value - mean) ** 2 for value in line) / len(line)) ** 0.5
        sketch.add(Words(24, y - 34, tell(f"vector {row + 1}", f"向量 {row + 1}"), 12, "start", bold=True))
        for left, values, unit, places in ((130.0, line, 2.1, 0), (500.0, out, 26.0, 2)):
            sketch.add(Line(((left - 10, y), (left + 210, y)), QUIET, 0.8))
            for place, value in enumerate(values):
                high = abs(value) * unit
                fill = DARK if value > 0 else WARM
                at = y - high if value > 0 else y
                sketch.add(Box(left + 52 * place, at, 38, high, fill))
                where = at - 9 if value > 0 else y + high + 9
                sketch.add(Words(left + 52 * place + 19, where, _signed(value, places), 11))
        told = (tell(f"mean {mean:g}", f"均值 {mean:g}"), tell(f"deviation {spread:.2f}", f"标准差 {spread:.2f}"))
        sketch.add(Line(((368, y - 20), (470, y - 20)), DARK, 1.6, arrow=True))
        sketch.add(Words(418, y - 34, told[0], 11, colour=QUIET), Words(418, y - 6, told[1], 11, colour=QUIET))
    sketch.add(Words(230, 76, tell("before", "之前"), 12, bold=True))
    sketch.add(Words(600, 76, tell("after: mean 0, deviation 1", "之后：均值 0，标准差 1"), 12, bold=True))
    return sketch


def shifted(tell: Tell) -> Sketch:
    """The target cut twice, and what each place reads and should say, as a staircase."""
    made = numbers("09-decoder", "labels")
    words = made["words"]
    reads = [words[one] for one in made["shifted"][0].tolist()]
    says = [words[one] for one in made["labels"][0].tolist()]
    title = tell("Shifted right: four questions out of one sentence", "右移一位：一个句子出四道题")
    note = tell(
        "a row: one question. Blue is read, orange should be said, grey stands in the input but is hidden by the mask",
        "每行一道题。蓝色是读到的，橙色是应该说出的，灰色也在输入里，但被掩码遮住",
    )
    sketch = titled(760, 390, title, note)
    left, wide = 170.0, 84.0
    for y, name, line, shift, fill in (
        (78.0, tell("target", "目标"), [*reads, says[-1]], 0, GREY),
        (118.0, tell("decoder reads", "解码器读到"), reads, 0, PALE),
        (158.0, tell("should say", "应该说出"), says, 0, ORANGE),
    ):
        sketch.add(Words(left - 12, y + 15, name, 12, "end", bold=True))
        for place, word in enumerate(line):
            x = left + wide * (place + shift)
            sketch.add(Box(x, y, wide - 6, 30, fill, DARK, 6, 0.8), Words(x + wide / 2 - 3, y + 15, word, 12))
    for row, label in enumerate(says):
        y = 222.0 + 38 * row
        sketch.add(Words(left - 12, y + 15, tell(f"question {row + 1}", f"第 {row + 1} 题"), 11, "end", QUIET))
        for place, word in enumerate(reads):
            x, seen = left + wide * place, place <= row
            sketch.add(Box(x, y, wide - 6, 30, PALE if seen else GREY, DARK if seen else LINES, 6, 0.8))
            sketch.add(Words(x + wide / 2 - 3, y + 15, word, 12, colour=INK if seen else FADED))
        x = left + wide * len(reads) + 34
        sketch.add(Line(((x - 34, y + 15), (x - 4, y + 15)), WARM, 1.6, arrow=True))
        sketch.add(Box(x, y, wide - 6, 30, ORANGE, WARM, 6, 0.8), Words(x + wide / 2 - 3, y + 15, label, 12, bold=True))
    return sketch


def cache(tell: Tell) -> Sketch:
    """The cache of keys and values, step by step, beside those of the memory."""
    made = numbers("09-decoder", "cached")
    words = [made["words"][one] for one in made["shifted"][0].tolist()]
    model, source, kept = made["model"], ["猫", "吃", "鱼", "</s>"], []
    with made["torch"].no_grad():
        state = model.start(made["source"])
        for place in range(len(words)):
            model.step(state, made["shifted"][:, place])
            kept.append((state.layers[0].own.length, state.layers[0].cross.key.shape[2]))
    title = tell("The cache grows by one each step", "缓存每一步长一格")
    note = tell(
        "orange: the one word that goes through the decoder in this step; blue: keys and values kept from before",
        "橙色：这一步经过解码器的唯一一个词；蓝色：之前留下的键和值",
    )
    sketch = titled(800, 316, title, note)
    first, second, wide = 200.0, 520.0, 62.0
    heads = (
        (88.0, tell("query", "查询")),
        (first + 2 * wide, tell("keys and values of its own: cached", "自己的键和值：缓存")),
        (second + 2 * wide, tell("those of the memory: computed once", "编码器输出的键和值：只算一次")),
    )
    for x, name in heads:
        sketch.add(Words(x, 80, name, 12, bold=True))
    for row, (own, cross) in enumerate(kept):
        y = 98.0 + 46 * row
        sketch.add(Words(20, y + 15, str(row + 1), 12, "start", QUIET))
        sketch.add(Box(60, y, wide - 6, 30, ORANGE, WARM, 6), Words(57 + wide / 2, y + 15, words[own - 1], 12))
        sketch.add(Line(((124, y + 15), (first - 10, y + 15)), DARK, 1.4, arrow=True))
        for place, word in enumerate(words):
            x, there, newest = first + wide * place, place < own, place == own - 1
            fill, border = (ORANGE if newest else PALE, DARK) if there else ("white", LINES)
            sketch.add(Box(x, y, wide - 6, 30, fill, border, 6, 0.8, dashed=not there))
            if there:
                sketch.add(Words(x + wide / 2 - 3, y + 15, word, 12))
        for place in range(cross):
            x = second + wide * place
            sketch.add(Box(x, y, wide - 6, 30, GREEN, DARK, 6, 0.8), Words(x + wide / 2 - 3, y + 15, source[place], 12))
        told = f"[{own}]"
        sketch.add(Words(first + 4 * wide + 20, y + 15, told, 11, colour=QUIET))
    count = len(words)
    told = tell(
        f"through the decoder: {count} vectors with the cache, {count * (count + 1) // 2} without",
        f"经过解码器的向量：有缓存 {count} 个，没有则 {count * (count + 1) // 2} 个",
    )
    sketch.add(Words(400, 296, told, 12, colour=WARM, bold=True))
    return sketch


def beam(tell: Tell) -> Sketch:
    """A beam of 2 as a tree: what lives on, what is finished, what is dropped."""
    follows = numbers("11-search", "follows")["follows"]
    title = tell("A beam of 2 as a tree", "束宽为 2 的束，画成一棵树")
    note = tell(
        "the number: probability of the whole beginning. Blue lives on, green is finished, grey is dropped",
        "数字是整个开头的概率。蓝色继续，绿色完成，灰色丢弃",
    )
    sketch = titled(820, 430, title, note)
    live = [(1.0, ("<s>",), 210.0)]
    _node(sketch, (64.0, 210.0), "<s>", 1.0, "live")
    for step in range(1, 4):
        x = 64.0 + 230 * step
        longer = [(p * q, (*done, word), y) for p, done, y in live for word, q in follows[done[-1]].items()]
        ranked = sorted(longer, reverse=True)
        going = [one for one in ranked if one[1][-1] != "</s>"][:2]
        finished = [one for one in ranked[:2] if one[1][-1] == "</s>"]
        sketch.add(Words(x, 74, tell(f"step {step}", f"第 {step} 步"), 12, bold=True))
        gap = 330 / max(len(longer), 4)
        start = 240 - gap * (len(longer) - 1) / 2
        placed = []
        for number, one in enumerate(longer):
            p, done, parent = one
            y = start + gap * number
            kind = "live" if one in going else "done" if one in finished else "dropped"
            ink = FADED if kind == "dropped" else DARK
            sketch.add(
                Line(((x - (188 if step == 1 else 170), parent), (x - 61, y)), ink, 0.8 if kind == "dropped" else 1.8)
            )
            _node(sketch, (x, y), done[-1], p, kind)
            placed.append((one, y))
        live = [(p, done, y) for (p, done, _), y in placed if (p, done) in {(q, other) for q, other, _ in going}]
    told = tell(
        "the best: I do, 0.243; greedy search, which keeps one, finds Yes, 0.200",
        "最好的：I do，0.243；贪心搜索只留一个，找到的是 Yes，0.200",
    )
    sketch.add(Words(410, 412, told, 12, colour=WARM, bold=True))
    return sketch


def _node(sketch: Sketch, at: tuple[float, float], word: str, chance: float, kind: str) -> None:
    fill, border = {"live": (PALE, DARK), "done": (GREEN, "#2c7a4b"), "dropped": (GREY, LINES)}[kind]
    (x, y), ink = at, QUIET if kind == "dropped" else INK
    wide = 42 if word == "<s>" else 60
    sketch.add(Box(x - wide, y - 14, 2 * wide, 28, fill, border, 8))
    sketch.add(Words(x, y, word if word == "<s>" else f"{word} {chance:.3f}", 12, colour=ink, bold=kind != "dropped"))


FIGURES = {"norm": norm, "shifted": shifted, "cache": cache, "beam": beam}
