"""The figures of the chapter on sounds.

What a trained model does is not the same to the last digit on every processor, so the weights of attention are kept in
`sound_attention.json`. To measure them anew, run the blocks of the chapter in a folder, train there with

    --set training.max_steps=500 --set training.batch_tokens=512 --set validation.every=500

and call `python scripts/sound_figures.py FOLDER`.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from guide_figures import DARK, GREY, PALE, WARM, Tell, mixed, numbers, titled

from dragoman.canvas import INK, LINES, QUIET
from dragoman.inspection.sketch import Box, Line, Sketch, Words
from dragoman.inspection.trace_sketches import colour

CHAPTER = "14-sounds"
MEASURED = Path(__file__).with_name("sound_attention.json")
SPOKEN = "show me my files please"
TEXT = "check whether the battery ran down please"
LEFT, WIDE = 78, 660
FRAME, VECTOR = 43, 5  # which are shown by example


def _waveform(sketch: Sketch, samples: torch.Tensor, top: float, height: float) -> None:
    """The range of the samples in each of 330 strips of time."""
    strips = samples[: len(samples) // 330 * 330].view(330, -1)
    most = float(samples.abs().max())
    points, middle = [], top + height / 2
    for place, (least, largest) in enumerate(zip(strips.amin(1).tolist(), strips.amax(1).tolist(), strict=True)):
        x = LEFT + place * WIDE / 330
        points += [(x, middle - least / most * height / 2), (x, middle - largest / most * height / 2)]
    sketch.add(Line(tuple(points), DARK, 0.8))


def _seconds(sketch: Sketch, y: float, until: float) -> None:
    for tenth in range(int(10 * until) + 1):
        x = LEFT + tenth / 10 / until * WIDE
        sketch.add(Line(((x, y), (x, y + 4)), QUIET, 0.8), Words(x, y + 12, f"{tenth / 10:.1f}", 10, colour=QUIET))
    sketch.add(Words(LEFT + WIDE + 22, y + 12, "s", 10, colour=QUIET))


def frames(tell: Tell) -> Sketch:
    """The waveform of a command, and what is made of it: 88 frames of 20 normalised mel bins."""
    made = numbers(CHAPTER, "heard")
    sound, heard, centres = made["sound"], made["heard"], made["centres"]
    until = len(sound) / made["RATE"]
    note = tell(
        "red: above the mean of the bin, blue: below it; one frame of 25 ms is marked",
        "红：高于该频带的均值，蓝：低于均值；标出了其中一帧（25 毫秒）",
    )
    sketch = titled(LEFT + WIDE + 52, 420, tell("A sound as the model has it", "模型眼中的一段声音"), note)
    for number, word in enumerate(SPOKEN.split()):
        sketch.add(Words(LEFT + (0.05 + 0.17 * number + 0.06) / until * WIDE, 72, word, 12, bold=True))
    start, step = 80 * FRAME / len(sound) * WIDE, 80 / len(sound) * WIDE
    sketch.add(Box(LEFT + start, 84, 200 / len(sound) * WIDE, 84, "#fbe3c8"))
    _waveform(sketch, sound, 84, 84)
    sketch.add(Words(LEFT - 8, 119, tell("waveform", "波形"), 11, "end"))
    sketch.add(Words(LEFT - 8, 134, f"[{len(sound):,}]", 10, "end", QUIET))
    top, cell = 184, 9
    for row in range(20):
        y = top + (19 - row) * cell
        levels = [0.75 * round(max(-3.0, min(3.0, value)) / 0.75) for value in heard[:, row].tolist()]
        begins = [0, *(place for place, (one, two) in enumerate(pairwise(levels), 1) if one != two), len(levels)]
        for begin, end in pairwise(begins):
            if levels[begin]:
                place = (LEFT + begin * step, y, (end - begin) * step, cell)
                sketch.add(Box(*place, colour(levels[begin], 3)))
    sketch.add(Box(LEFT, top, 88 * step, 20 * cell, "none", LINES, stroke_width=0.8))
    sketch.add(Box(LEFT + start, top, step, 20 * cell, "none", WARM, stroke_width=1.4))
    for row in (0, 5, 10, 15, 19):
        sketch.add(Words(LEFT - 8, top + (19.5 - row) * cell, f"{centres[row]:,} Hz", 10, "end", QUIET))
    told = tell("88 frames, one every 10 ms, of 20 bins: [88, 20]", "88 帧，每 10 毫秒一帧，每帧 20 个频带：[88, 20]")
    sketch.add(Words(LEFT + WIDE / 2, top + 20 * cell + 34, told, 11))
    _seconds(sketch, top + 20 * cell + 2, until)
    return sketch


def lengths(tell: Tell) -> Sketch:
    """How many samples, frames and vectors there are, and what one vector hears of them."""
    made = numbers(CHAPTER, "heard")
    sound = made["sound"]
    title = tell("Lengths: halved twice, a quarter is left", "长度：减半两次，剩下四分之一")
    note = tell(
        f"orange: what vector {VECTOR} hears, 13 frames or 145 ms",
        f"橙色：第 {VECTOR} 个向量听到的范围，13 帧，145 毫秒",
    )
    sketch = titled(LEFT + WIDE + 40, 420, title, note)
    heard = {88: (14, 27), 44: (8, 13), 22: (VECTOR, VECTOR + 1)}
    begin, end = (LEFT + place / len(sound) * WIDE for place in (14 * 80, 26 * 80 + 200))
    sketch.add(Box(begin, 66, end - begin, 60, "#fbe3c8"))
    _waveform(sketch, sound, 66, 60)
    rows = {88: 158, 44: 226, 22: 294}
    edges, low = (begin, end), 126.0
    told = {
        88: "1 + ⌊(7,200 − 200) / 80⌋ = 88", 44: "⌊(88 + 1) / 2⌋ = 44", 22: "⌊(44 + 1) / 2⌋ = 22",
    }  # fmt: skip
    for count, y in rows.items():
        size = WIDE / len(sound) * 80 * 88 / count
        first, last = heard[count]
        into = (LEFT + first * size, LEFT + last * size)
        for above, below in zip(edges, into, strict=True):
            sketch.add(Line(((above, low), (below, y)), WARM, 1.0, dashed=True))
        for place in range(count):
            inside = first <= place < last
            sketch.add(Box(LEFT + place * size, y, size - 1, 26, "#f0b27a" if inside else PALE, LINES, 2, 0.6))
        if count == 22:
            for place in range(count):
                sketch.add(Words(LEFT + (place + 0.5) * size, y + 13, str(place), 11))
        sketch.add(Words(LEFT + WIDE, y - 11, told[count], 11, "end", QUIET))
        edges, low = into, y + 26
    names = (tell("samples", "采样点"), tell("frames", "帧"), tell("once", "一次"), tell("vectors", "向量"))
    for y, name, count in zip((96, 171, 239, 307), names, ("7,200", *rows), strict=True):
        sketch.add(Words(LEFT - 8, y - 7, name, 11, "end"), Words(LEFT - 8, y + 7, str(count), 10, "end", QUIET))
    for place in range(0, 22, 3):
        x = LEFT + (place + 0.5) * WIDE / len(sound) * 320
        sketch.add(Words(x, 330, f"{0.04 * place:.2f} s", 10, colour=QUIET))
    sketch.add(Words(LEFT - 8, 330, tell("position", "位置"), 11, "end"))
    for number, word in enumerate(SPOKEN.split()):
        x = LEFT + (0.05 + 0.17 * number) / 0.9 * WIDE
        width = 0.12 / 0.9 * WIDE
        sketch.add(Box(x, 352, width, 26, "#d5ecd9", LINES, 4, 0.8), Words(x + width / 2, 365, word, 12, bold=True))
    sketch.add(Words(LEFT - 8, 358, tell("words", "词"), 11, "end"), Words(LEFT - 8, 372, "5", 10, "end", QUIET))
    return sketch


def arrived(probs: torch.Tensor, states: list[int]) -> list[list[float]]:
    """Return what has arrived in each place of CTC's lattice, [frames][states]."""
    found = [[float(probs[0, state]) if place < 2 else 0.0 for place, state in enumerate(states)]]
    for row in probs[1:]:
        before, now = found[-1], []
        for place, state in enumerate(states):
            leaps = place > 1 and state not in (0, states[place - 2])
            total = sum(before[max(0, place - 1) : place + 1]) + (before[place - 2] if leaps else 0.0)
            now.append(total * float(row[state]))
        found.append(now)
    return found


def lattice(tell: Tell) -> Sketch:
    """The lattice of CTC for one output over three vectors."""
    probs, states = numbers(CHAPTER, "probs")["probs"], [0, 1, 0, 2, 0]
    sums = arrived(probs, states)
    title = tell("All paths that say ab, summed from left to right", "说出 ab 的所有路径，从左到右求和")
    note = tell(
        "in each place: what arrives, times the probability of its symbol there; pale: on no path that ends right",
        "每一格：到达此处的总和乘以该符号在此处的概率；浅色：不在任何一条走得完的路径上",
    )
    sketch = titled(700, 420, title, note)
    useful = [[False] * 5 for _ in sums]
    for place in (3, 4):
        useful[-1][place] = sums[-1][place] > 0

    def x(at: int) -> float:
        return 150 + at * 180

    def y(place: int) -> float:
        return 104 + place * 62

    links = [
        (at, old, new)
        for at in range(2)
        for new in range(5)
        for old in (new, new - 1, new - 2)
        if old >= 0 and (old != new - 2 or states[new] not in (0, states[old]))
    ]
    for at, old, new in sorted(links, reverse=True):
        useful[at][old] |= useful[at + 1][new] and sums[at][old] > 0
    for at, old, new in links:
        if useful[at][old] and useful[at + 1][new] and sums[at][old] > 0:
            sketch.add(Line(((x(at) + 40, y(old)), (x(at + 1) - 40, y(new))), DARK, 1.2, arrow=True))
    for place, state in enumerate(states):
        name = tell("blank –", "空白 –") if state == 0 else "ab"[state - 1]
        sketch.add(Words(92, y(place), name, 12, "end", bold=state != 0))
        for at, total in enumerate(row[place] for row in sums):
            good = useful[at][place]
            box = (x(at) - 40, y(place) - 20, 80, 40)
            sketch.add(Box(*box, PALE if good else GREY, DARK if good else LINES, 6, 1.0 if good else 0.7))
            ink, quiet = (INK, QUIET) if good else ("#a9afbc", "#a9afbc")
            sketch.add(Words(x(at), y(place) - 6, f"{total:.3f}", 12, colour=ink))
            sketch.add(Words(x(at), y(place) + 10, f"× {float(probs[at, state]):.1f}", 10, colour=quiet))
    for at in range(3):
        sketch.add(Words(x(at), 74, tell(f"vector {at + 1}", f"向量 {at + 1}"), 12, bold=True))
    total = sums[-1][3] + sums[-1][4]
    for place in (3, 4):
        sketch.add(Line(((x(2) + 40, y(place)), (596, (y(3) + y(4)) / 2)), WARM, 1.2, arrow=True))
    sketch.add(Words(604, (y(3) + y(4)) / 2 - 8, f"P(ab) = {total:.3f}", 13, "start", WARM, bold=True))
    sketch.add(Words(604, (y(3) + y(4)) / 2 + 10, f"= {sums[-1][3]:.3f} + {sums[-1][4]:.3f}", 11, "start", QUIET))
    sketch.width = 740
    return sketch


def over_time(tell: Tell) -> Sketch:
    """Where each word that is written looks, and what CTC reads at each vector, as they were measured."""
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    count, cell, high = len(found["weights"][0]), 18, 20
    left, wide = 118, len(found["weights"][0]) * 18
    title = tell("Attention over time, and what CTC reads", "沿时间的注意力，以及 CTC 读到的内容")
    note = tell(
        "the deeper the blue, the more weight (above) or probability (below); green: when the word sounds",
        "蓝色越深，权重（上）或概率（下）越大；绿色：这个词发声的时间",
    )
    sketch = titled(left + wide + 40, 0, title, note)
    top = 112
    for start, end, word in found["spoken"]:
        x, width = left + start / 0.04 * cell, (end - start) / 0.04 * cell
        sketch.add(Box(x, 82, width, 12, "#8fcf9b"), Words(x + width / 2, 72, word, 11, bold=True))
    sketch.add(Words(left - 8, 88, tell("sounds", "发声"), 11, "end"))
    rows = [*found["written"], "</s>"]
    sketch.add(Words(left - 8, top, tell("cross-attention", "交叉注意力"), 11, "end", QUIET))
    low = _heat(sketch, (left, top + 12), found["weights"], rows, (cell, high))
    sketch.add(Words(left - 8, low + 22, "CTC", 11, "end", QUIET))
    rows = [*found["written"], tell("blank –", "空白 –")]
    low = _heat(sketch, (left, low + 34), found["ctc"], rows, (cell, high))
    for place in range(0, count + 1, 5):
        x = left + place * cell
        sketch.add(Line(((x, low), (x, low + 5)), QUIET, 0.8))
        sketch.add(Words(x, low + 14, f"{0.04 * place:.1f}", 10, colour=QUIET))
    sketch.add(Words(left + wide + 24, low + 14, "s", 10, colour=QUIET))
    sketch.height = low + 36
    return sketch


def _heat(
    sketch: Sketch, at: tuple[float, float], values: list[list[float]], names: list[str], size: tuple[int, int]
) -> float:
    """Cells as blue as their values are large; gives where they end."""
    (left, top), (cell, high) = at, size
    sketch.add(Box(left, top, len(values[0]) * cell, len(values) * high, "white", LINES, stroke_width=0.8))
    for row, (name, line) in enumerate(zip(names, values, strict=True)):
        y = top + row * high
        sketch.add(Words(left - 8, y + high / 2, name, 11, "end"))
        for place, value in enumerate(line):
            if value >= 0.02:
                sketch.add(Box(left + place * cell, y, cell, high, mixed(value)))
        if row:
            sketch.add(Line(((left, y), (left + len(line) * cell, y)), LINES, 0.4))
    return top + len(values) * high


FIGURES = {
    "sound-frames": frames,
    "sound-lengths": lengths,
    "sound-ctc": lattice,
    "sound-attention": over_time,
}


def measure(folder: Path) -> dict[str, Any]:
    """Return what the chapter's model does with its second test sound, rounded."""
    from dragoman import Translator
    from dragoman.audio import read_audio
    from dragoman.nn import MultiHeadAttention
    from dragoman.sequences import SPECIALS, SourceBatch
    from dragoman.translation.off_frames import read_frames

    translator = Translator.from_pretrained(folder / "commands")
    pair, model = translator.tokenizers, translator.transformers[0]
    attention = model.decoder.layers[0].cross_attention
    assert isinstance(attention, MultiHeadAttention)
    sound = read_audio(folder / "test1.wav")
    batch = SourceBatch.of([pair.encode_source(sound)])
    tokens = pair.target.encode(TEXT)
    records: list[Any] = []
    stop = attention.observe(records.append)
    with torch.no_grad():
        model(batch.ids, torch.tensor([[SPECIALS.bos, *tokens]]), batch.mask)
    stop()
    read = read_frames(model, batch)[0].exp()[:, [*tokens, model.pad]].T
    return {
        "written": TEXT.split(),
        "weights": _rounded(records[0].weights[0].mean(0)),
        "ctc": _rounded(read),
        "spoken": [[start, end, word] for (start, end), word in zip(_loud(sound), TEXT.split(), strict=True)],
    }


def _rounded(values: torch.Tensor) -> list[list[float]]:
    return [[round(value, 2) for value in row] for row in values.tolist()]


def _loud(sound: Any) -> list[tuple[float, float]]:
    """Where tones sound, in seconds: in stretches of 5 ms."""
    size = sound.sample_rate // 200
    loud = sound.samples[: len(sound.samples) // size * size].view(-1, size).abs().amax(1) > 0.04
    edges = [place for place, (one, two) in enumerate(pairwise([False, *loud.tolist(), False])) if one != two]
    return [
        (round(0.005 * start, 3), round(0.005 * end, 3)) for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]


if __name__ == "__main__":
    MEASURED.write_text(json.dumps(measure(Path(sys.argv[1]))) + "\n", encoding="utf-8")
