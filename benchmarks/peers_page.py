"""The tables of a page of the guide, written from rows: a line for each work, a column for each program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers_report import SECTIONS, TOLD, Section, missing, who

Row = dict[str, Any]
BEGIN, END = "<!-- tables: written by benchmarks/peers_run.py --page -->", "<!-- end of the tables -->"
# What the words of the tables are on pages in Chinese, by the folder that the page is in.
WORDS: dict[str, dict[str, str]] = {
    "zh": {
        "Decoding, equal work": "解码，工作量相同",
        "Translating with a trained model": "用训练好的模型翻译",
        "A file from the command line, start included": "从命令行翻译一个文件，包括启动",
        "The first translation from a cold start": "冷启动后的第一次翻译",
        "Training, the same batches": "训练，批次相同",
        "Training as a user would": "像用户那样训练",
        "Not measured": "没有测量",
        "**Failed**, for they do not compute the same": "**失败**，因为它们算的不是同一件事",
        "cores": "个核",
        "threads": "个线程",
        "model": "模型",
        "batch": "批次",
        "beam size": "束宽",
        "lines": "行数",
        "times as fast": "快几倍",
        "goal": "目标",
        "reached": "达到",
        "missed": "未达到",
        "tokens/s": "词元/秒",
        "sentences/s": "句/秒",
        "target tokens/s": "目标词元/秒",
        "one reading": "只读一遍",
        "sinusoids": "正弦位置",
        "one direction": "一个方向",
        "memory kept": "保留内存",
        "of 7 bits": "7 位",
        "of 8 bits": "8 位",
        "of limit float32 / int8": "占极限 float32 / int8",
    },
}
LEFT_OUT = ("peers curve",)
UNITS = {"output_tokens": "tokens/s", "sentences": "sentences/s", "target_tokens": "target tokens/s"}


def fill(page: Path, rows: Sequence[Row]) -> None:
    """Write the tables between their marks on a page.

    Raises:
        ValueError: the page has no such marks.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no place for the tables: {BEGIN} … {END}")
    page.write_text(f"{before}{BEGIN}\n\n{tables(rows, page.parent.name)}\n\n{END}{after}", encoding="utf-8")


def tables(rows: Sequence[Row], language: str = "en") -> str:
    """Where and with what it was measured, and a table for each section that has rows."""
    words = WORDS.get(language, {})
    parts = [_where(rows, words)] if rows else []
    for section in SECTIONS:
        own = [row for row in rows if row["benchmark"] == section.benchmark]
        if own and section.benchmark not in LEFT_OUT:
            title, unit = (words.get(one, one) for one in (section.title, UNITS[section.unit]))
            headings, lines = pivot(section, own, rows, words)
            bars = ["---"] * len(headings)
            parts += [f"**{title}** ({unit})", "\n".join(_line(cells) for cells in (headings, bars, *lines))]
    told = {kind: words.get(TOLD[kind], TOLD[kind]) for kind in ("peers unequal", "peers unavailable")}
    return "\n\n".join([*parts, *missing(rows, told)])


def _where(rows: Sequence[Row], words: Mapping[str, str]) -> str:
    """The day, the machine and the versions."""
    row = rows[-1]
    found: dict[str, str] = {}
    for one in rows:
        found |= one.get("versions", {})
    counts = (f"{row[name]} {words.get(name, name)}" for name in ("cores", "threads"))
    versions = ", ".join(f"{name} {value}" for name, value in found.items())
    where = (row["date"], row["processor"], *counts, row["system"], f"Python {row['python']}")
    return f"{', '.join(where)}; {versions}."


def pivot(
    section: Section, own: Sequence[Row], rows: Sequence[Row], words: Mapping[str, str]
) -> tuple[list[str], list[list[str]]]:
    """Headings and lines: the rate of each program in its fastest way, and how many times as fast ours are."""
    kinds = list(dict.fromkeys(kind(row, rows) for row in own))
    ours = [one for one in kinds if one.startswith("dragoman") and "module" not in one]
    told = [f"{words.get('times as fast', 'times as fast')}: {_translated(one, words)}" for one in ours]
    share = f"% {words.get('of limit float32 / int8', 'of limit float32 / int8')}"
    keys = [words.get(name, name) for name in (key.replace("_", " ") for key in section.keys)]
    headings = [*keys, *(_translated(one, words) for one in kinds), *told, words.get("goal", "goal"), share]
    lines = []
    for group in dict.fromkeys(tuple(row[key] for key in section.keys) for row in own):
        some = [row for row in own if tuple(row[key] for key in section.keys) == group]
        best = {one: _fastest([row for row in some if kind(row, rows) == one]) for one in kinds}
        rates = [_rate(best[one], section.unit) for one in kinds]
        speeds = [_speed(best[one]) for one in ours]
        first = best[ours[0]] if ours else None
        lines.append([*map(str, group), *rates, *speeds, _goal(first, words), _share(first)])
    return headings, lines


def kind(row: Row, rows: Sequence[Row]) -> str:
    """Who did the work, without the way in which threads were used."""
    return ", ".join(part for part in who(row, rows).split(", ") if "workers" not in part)


def _fastest(rows: Sequence[Row]) -> Row | None:
    return min(rows, key=lambda row: row["seconds"], default=None)


def _rate(row: Row | None, unit: str) -> str:
    if row is None:
        return ""
    rate = row[f"{unit}_per_second"]
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"


def _speed(row: Row | None) -> str:
    if row is None or "speedup" not in row:
        return ""
    return f"{row['speedup']:.2f} ({row['speedup_1']:.2f}–{row['speedup_3']:.2f})"


def _goal(row: Row | None, words: Mapping[str, str]) -> str:
    if row is None or row.get("goal") is None or "speedup" not in row:
        return ""
    verdict = "reached" if row["speedup"] >= row["goal"] else "missed"
    return f"{row['goal']:.2f} {words.get(verdict, verdict)}"


def _share(row: Row | None) -> str:
    names = ("share_of_float32_limit", "share_of_int8_limit")
    return " / ".join(f"{100 * row[name]:.0f}" for name in names if row and name in row)


def _translated(name: str, words: Mapping[str, str]) -> str:
    for one in ("one reading", "sinusoids", "one direction", "memory kept", "of 7 bits", "of 8 bits"):
        name = name.replace(one, words.get(one, one))
    return name


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
