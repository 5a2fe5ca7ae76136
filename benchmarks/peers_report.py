"""Rows as tables that people read, in the terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]
RATES = {"output_tokens": "tokens/s", "sentences": "sentences/s", "target_tokens": "target tokens/s"}


@dataclass(frozen=True)
class Section:
    """A table: its rows' name, its heading, what tells its groups apart, and its unit of work."""

    benchmark: str
    title: str
    keys: tuple[str, ...]
    unit: str


SECTIONS = (
    Section("peers decode", "Decoding, equal work", ("model", "batch", "beam_size"), "output_tokens"),
    Section("peers trained", "Translating with a trained model", ("batch", "beam_size"), "sentences"),
    Section("peers file", "A file from the command line, start included", ("lines", "beam_size"), "sentences"),
    Section("peers start", "The first translation from a cold start", ("beam_size",), "sentences"),
    Section("peers train", "Training, the same batches", ("model",), "target_tokens"),
    Section("peers user", "Training as a user would", ("model",), "target_tokens"),
    Section("peers curve", "How costs grow", ("curve", "value"), "output_tokens"),
)
SHARES = "% of limit float32 / int8"
HEADINGS = ("time", "rate", "times as fast", "goal", "same", SHARES, "MiB", "grows with power (counted)")


def tables(rows: Sequence[Row]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, headings and cells of each table that has rows; columns without any value are left out."""
    made = [goals(rows)] if any(_goal(row) for row in rows) else []
    for section in SECTIONS:
        own = [row for row in rows if row["benchmark"] == section.benchmark]
        if own:
            cells = [
                [
                    *(str(row[key]) for key in section.keys),
                    who(row, rows),
                    *_cells(row, section.unit),
                    _power(row, rows),
                ]
                for row in own
            ]
            headings = [*(key.replace("_", " ") for key in section.keys), "who", *HEADINGS]
            kept = [index for index in range(len(headings)) if any(line[index] for line in cells)]
            made.append(
                (section.title, [headings[index] for index in kept], [[line[i] for i in kept] for line in cells])
            )
    laws = [row for row in rows if row["benchmark"] == "peers law"]
    return [*made, growth(laws)] if laws else made


def who(row: Row, rows: Sequence[Row]) -> str:
    """Who did the work, and in which precision where the name does not say it."""
    versions = next((one for one in rows if one["benchmark"] == "peers versions"), {})
    name, _, rest = row["what"].partition(", ")
    trains = row["benchmark"] in ("peers train", "peers user")  # where nothing is int8
    told = None if trains else versions.get("arithmetic", {}).get(name)
    return ", ".join(filter(None, [f"{name} ({told})" if told and told not in name else name, rest]))


def growth(laws: Sequence[Row]) -> tuple[str, list[str], list[list[str]]]:
    """How time grows with the length n, as what is fixed, in proportion and quadratic."""
    headings = ["who", "fixed, ms", "n, ms", "n², µs", "share of n² at the end", "worst error of the formula"]
    cells = [
        [row["what"], f"{1e3 * row['fixed']:.1f}", f"{1e3 * row['linear']:.3f}", f"{1e6 * row['quadratic']:.2f}"]
        + [f"{row[name]:.0%}" for name in ("quadratic_share", "worst")]
        for row in laws
    ]
    return "Time over length, as a formula", headings, cells


def goals(rows: Sequence[Row]) -> tuple[str, list[str], list[list[str]]]:
    """A line for each row that has a goal: this toolkit, the fastest peer, and how far it is."""
    headings = ["work", "dragoman", "the fastest peer", "times as fast", "goal", SHARES]
    lines = []
    for section in SECTIONS:
        own = [row for row in rows if row["benchmark"] == section.benchmark]
        for row in filter(_goal, own):
            same = [one for one in own if all(one[key] == row[key] for key in section.keys)]
            peer = next(one for one in same if one["what"] == row["yardstick"])
            work = [f"{key.replace('_', ' ')} {row[key]}" for key in section.keys]
            _, rate, speed, goal, _, share, _ = _cells(row, section.unit)
            theirs = f"{peer['what']}: {_cells(peer, section.unit)[1]}"
            lines.append([f"{section.title}: {', '.join(work)}", rate, theirs, speed, goal, share])
    return "Goals", headings, lines


def _cells(row: Row, unit: str) -> list[str]:
    rate = row.get(f"{unit}_per_second")
    time = f"{_milliseconds(row['seconds'])} ({_milliseconds(row['seconds_1'])}–{_milliseconds(row['seconds_3'])}) ms"
    speed = f"{row['speedup']:.2f} ({row['speedup_1']:.2f}–{row['speedup_3']:.2f})" if "speedup" in row else ""
    same = f"{row['same_outputs']:.0%}" if "same_outputs" in row else ""
    memory = str(row["peak_mib"]) if row.get("peak_mib") else ""
    return [
        "" if unit == "target_tokens" and "updates" not in row else time,
        f"{rate:,.0f} {RATES[unit]}" if rate and rate >= 10 else f"{rate or 0:.2f} {RATES[unit]}",
        speed, _goal(row), same, _share(row), memory,
    ]  # fmt: skip


def _goal(row: Row) -> str:
    """Goals are for what is chosen by itself."""
    if row.get("goal") is None or row["what"] != "dragoman" or "speedup" not in row:
        return ""
    return f"{row['goal']:.2f} {'reached' if row['speedup'] >= row['goal'] else 'missed'}"


def _share(row: Row) -> str:
    """Of the limit in float32, and in int8."""
    names = ("share_of_float32_limit", "share_of_int8_limit")
    return " / ".join(f"{100 * row[name]:.0f}" for name in names if name in row)


def _power(row: Row, rows: Sequence[Row]) -> str:
    """Of a curve: 1 for time in proportion since the point before, 2 for its square; and that of the operations."""
    found = (
        f"{one['power']:.2f} ({one['counted_power']:.2f}){' a cliff' if one['cliff'] else ''}"
        for one in rows
        if one["benchmark"] == "peers growth"
        and (one["curve"], one["what"], one["to"]) == (row.get("curve"), row["what"], row.get("value"))
    )
    return next(found, "")


def _milliseconds(seconds: float) -> str:
    value = 1000 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def markdown(rows: Sequence[Row]) -> str:
    """The tables for a page."""
    parts = [header(rows), ""]
    for title, headings, cells in tables(rows):
        parts += [f"### {title}", "", _line(headings), _line(["---"] * len(headings)), *map(_line, cells), ""]
    return "\n".join([*parts, *missing(rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def header(rows: Sequence[Row]) -> str:
    """The machine, the versions, the limits."""
    if not rows:
        return "no rows"
    row = rows[-1]
    versions = next((one for one in rows if one["benchmark"] == "peers versions"), {})
    told = ", ".join(f"{name} {value}" for name, value in versions.get("versions", {}).items())
    where = f"{row['date']}, {row['processor']}, {row['cores']} cores, {row['system']}, Python {row['python']}"
    parts = [f"{where}, {row['threads']} threads each; {told}."]
    engines = dict.fromkeys(one["engine"] for one in rows if one.get("what") == "dragoman" and one.get("engine"))
    parts += [f"Dragoman's engine: {engine}." for engine in engines]
    limits = [one for one in rows if one["benchmark"] == "peers limits"]
    for weights in dict.fromkeys(limit["step_weights"] for limit in limits):
        own = [limit for limit in limits if limit["step_weights"] == weights]
        operations, speeds = (
            [f"{_range(own, f'{kind}_{what}')} {unit} ({kind})" for kind in ("float32", "int8")]
            for what, unit in (("operations_per_second", "billion operations/s"), ("weights_bytes_per_second", "GB/s"))
        )
        read = f"{weights / 1e6:.1f} M weights of a step read at {' and '.join(speeds)}"
        parts.append(f"Limits: {', '.join(operations)}; {read}.")
    return "\n".join(parts)


def _range(limits: Sequence[Row], name: str) -> str:
    """In billions, over the pieces of a run."""
    found = sorted({f"{limit[name] / 1e9:.0f}" for limit in limits}, key=int)
    return "–".join(dict.fromkeys((found[0], found[-1])))


TOLD = {
    "peers unequal": "**Failed**, for they do not compute the same",
    "peers unavailable": "Not measured",
    "peers left out": "Not measured",
}


def missing(rows: Sequence[Row], told: Mapping[str, str] = TOLD) -> list[str]:
    """Who could not take part, and why; `told` says how each kind of row is told of."""
    found = (row for row in rows if row["benchmark"] in told)
    return list(dict.fromkeys(f"{told[row['benchmark']]}: {row['what']} ({row['reason']})." for row in found))


def show(rows: Sequence[Row]) -> None:
    """Everything, to standard error."""
    console = Console(stderr=True, width=150, highlight=False)
    console.print(header(rows))
    for title, headings, cells in tables(rows):
        table = Table(*headings, title=title)
        keys = headings.index("who") if "who" in headings else 0
        for before, line in zip([None, *cells], cells, strict=False):
            if before is not None and before[:keys] != line[:keys]:
                table.add_section()
            table.add_row(*line)
        console.print(table)
    for line in missing(rows):
        console.print(line)
