"""The figure of what each means made of 10,000 captions, out of the table of its page."""

from __future__ import annotations

import re

from guide_figures import DARK, WARM, Tell, titled
from notebooks import DOCS

from dragoman.canvas import LINES, QUIET
from dragoman.inspection.sketch import Box, Line, Sketch, Words

ROW = re.compile(
    r"^\| ([^|]+) \| [\d.]+ \| ([+-][\d.]+) \(([+-][\d.]+), ([+-][\d.]+)\) \| [\d.]+ \| ([^|*]+)\*? \|$", re.MULTILINE
)
UNSURE = "#8b93a5"
LEFT, MIDDLE, UNIT, HIGH = 20, 600, 50, 17
# Differences below this are written down at the edge, as a few great losses would leave no room for all else.
LEAST = -4


def effects(tell: Tell) -> Sketch:
    """The difference of BLEU of each means with its interval, greatest gain first, and what it costs."""
    page = (DOCS / tell("en", "zh") / "measured.md").read_text(encoding="utf-8")
    rows = ROW.findall(page.partition("../images/guide-effects")[2].partition("\n## ")[0])
    title = tell(
        "BLEU beside the base: what each means made of 10,000 captions",
        "与基线相比的 BLEU：每种办法用一万条描述得到多少",
    )
    note = tell(
        "a line: the 95 % interval. Blue: better, orange: worse, grey: unsure. At the right: × time of training",
        "线段：95 % 区间。蓝：更好，橙：更差，灰：分不出。右边：训练时间的倍数",
    )
    sketch = titled(MIDDLE + 8 * UNIT + 70, 112 + HIGH * len(rows), title, note)
    low = 78 + HIGH * len(rows)
    for bleu in range(LEAST, 8, 2):
        x = MIDDLE + bleu * UNIT
        sketch.add(Line(((x, 66), (x, low)), QUIET if bleu == 0 else LINES, 0.8))
        sketch.add(Words(x, low + 14, f"{bleu:+d}".replace("-", "−") if bleu else "0", 11, colour=QUIET))
    for number, (what, *measured, cost) in enumerate(rows):
        y = 76 + HIGH * number
        difference, least, most = map(float, measured)
        ink = DARK if least > 0 else WARM if most < 0 else UNSURE
        told = what if len(what) < 72 else what.replace(" (matrices at twice the rate)", "")
        sketch.add(Words(LEFT, y, told, 10, "start"))
        if difference < LEAST:
            shown = f"◂ {difference:.1f}".replace("-", "−")
            sketch.add(Words(MIDDLE + LEAST * UNIT, y, shown, 10, "start", ink))
        else:
            ends = tuple((MIDDLE + max(LEAST, value) * UNIT, y) for value in (least, most))
            sketch.add(Line(ends, ink, 1.6), Box(MIDDLE + difference * UNIT - 3, y - 3, 6, 6, ink, round=3))
        sketch.add(Words(MIDDLE + 8 * UNIT + 56, y, cost.replace("none", "–"), 10, "end", QUIET))
    return sketch


FIGURES = {"effects": effects}
