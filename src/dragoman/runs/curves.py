"""The curves of runs as a picture: loss, score on held-out lines and learning rate, over updates and over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dragoman.canvas import INK, LINES, QUIET, Picture, draw, label
from dragoman.config.training import LOWER_IS_BETTER
from dragoman.errors import ModelError
from dragoman.runs.history import History, number, read_history

CURVES = "curves.png"
# Okabe and Ito's colours, which colour-blind readers tell apart, darkest first; a marker each, for print in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
_NAMES = {"bleu": "BLEU", "chrf": "chrF", "exact": "lines right (%)", "loss": "token accuracy (%)", "ter": "TER"}
_NAMES |= {"wer": "word error (%)", "cer": "character error (%)"}
_LONG = 180  # minutes from which hours are told
_MOST = len(_COLOURS)
_LEAST_UPDATES = 500  # of a run that draws its own, which takes a second or two
_FAR_APART = 20  # largest loss by smallest, from which losses are drawn in logarithms


def plot(runs: str | Path | Sequence[str | Path], path: str | Path | None = None) -> Picture:
    """Draw the curves of a run, or of several in one picture.

    Above the loss: of what is being learned (with dropout and label smoothing), and at validations that of held-out and
    of training lines alike (without). Below it what the first run's best model was judged by, its best value marked;
    below that the learning rate. On the left over updates, on the right over training time.

    Args:
        runs: run directories, seven at most.
        path: the file to write; its suffix chooses the format: `.png`, `.svg` or `.pdf`. `curves.png` in the first run
            if None.

    Raises:
        ModelError: there is no run, or it has no curves.
        DragomanError: matplotlib is not installed, or the file cannot be written.
    """
    several = [runs] if isinstance(runs, (str, Path)) else list(runs)
    if not 1 <= len(several) <= _MOST:
        raise ModelError(
            "so many runs cannot be distinguished in one picture", expected=f"1 to {_MOST} of them", found=len(several)
        )
    histories = [read_history(one) for one in several]
    for one in histories:
        if not one.training and len(one.validations) < 2:
            hint = "there is something to draw after the first lines of the log; Markov models are counted, not trained"
            raise ModelError("this run has no curves", file=one.directory, hint=hint)
    names = _names([one.directory for one in histories])
    return draw(path or histories[0].directory / CURVES, "".join(names), lambda: _figure(histories, names))


def draw_if_possible(directory: Path, updates: int) -> None:
    """Draw the curves of a run that has ended, where matplotlib is installed; a run is worth more than its picture.

    Args:
        directory: the run.
        updates: how long it trained; a short run is left without, which the picture would make much longer.
    """
    if updates < _LEAST_UPDATES or find_spec("matplotlib") is None:
        return
    with suppress(Exception):  # a font, a backend or a disk: nothing of it may end a training
        plot(directory)


def _names(directories: Sequence[Path]) -> list[str]:
    """What tells the runs apart: their names, or as much of their paths as it takes."""
    parts = [one.resolve().parts for one in directories]
    for depth in range(1, max(map(len, parts)) + 1):
        names = [label("/".join(one[-depth:])) for one in parts]
        if len(set(names)) == len(set(parts)):
            return names
    return [label(str(one)) for one in directories]


def _figure(histories: Sequence[History], names: Sequence[str]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8.4), facecolor="white", layout="constrained")
    axes: Any = figure.subplots(3, 2, sharex="col", sharey="row")
    in_hours = max(one.seconds for one in histories) / 60 > _LONG
    times: tuple[Callable[[History, int], float], ...] = (
        lambda _, step: float(step),
        lambda history, step: history.minutes_at(step) / (60 if in_hours else 1),
    )
    for column, when in enumerate(times):
        for history, colour, marker in zip(histories, _COLOURS, _MARKERS, strict=False):
            _draw_run(axes[:, column], history, histories[0].metric, when, colour, marker)
    score = _NAMES.get(histories[0].metric, histories[0].metric)
    for row, what in enumerate(("loss (nats per token)", f"held-out: {score}", "learning rate")):
        axes[row, 0].set_ylabel(what, color=INK, fontsize=10)
    axes[2, 0].set_xlabel("updates", color=INK, fontsize=10)
    axes[2, 1].set_xlabel("hours of training" if in_hours else "minutes of training", color=INK, fontsize=10)
    for one in axes.flat:
        _dress(one)
    _limit_losses(axes[0, 0], histories)
    axes[1, 0].set_ylim(bottom=max(0.0, axes[1, 0].get_ylim()[0]))
    axes[2, 0].set_ylim(bottom=0)
    axes[2, 0].ticklabel_format(axis="y", style="sci", scilimits=(-2, 4), useMathText=True)
    figure.align_ylabels(axes[:, 0])
    _add_words(figure, histories, names)
    return figure


def _draw_run(
    axes: Any, history: History, metric: str, when: Callable[[History, int], float], colour: str, marker: str
) -> None:
    def points(events: Iterable[Mapping[str, Any]], name: str, factor: float = 1.0) -> tuple[list[float], list[float]]:
        found = [(when(history, one["step"]), value) for one in events if (value := number(one, name)) is not None]
        return [x for x, _ in found], [factor * y for _, y in found]

    marked = {"marker": marker, "markersize": 4, "color": colour, "linewidth": 1.6}
    axes[0].plot(*points(history.training, "loss"), color=colour, linewidth=1, alpha=0.35)
    axes[0].plot(*points(history.validations, "training_loss"), **marked, linestyle=(0, (4, 2)), fillstyle="none")
    axes[0].plot(*points(history.validations, "loss"), **marked)
    name, factor = ("accuracy", 100.0) if metric == "loss" else (metric, 1.0)
    times, scores = points(history.validations, name, factor)
    axes[1].plot(times, scores, **marked)
    if scores:
        # Of the loss, the accuracy is drawn.
        best = (min if metric in LOWER_IS_BETTER - {"loss"} else max)(range(len(scores)), key=scores.__getitem__)
        ring = {"marker": "o", "markersize": 11, "fillstyle": "none", "linewidth": 0, "clip_on": False}
        axes[1].plot(times[best], scores[best], color=colour, **ring)
    axes[2].plot(*points(history.training, "learning_rate"), color=colour, linewidth=1.6, marker=marker, markersize=2.5)


def _limit_losses(axes: Any, histories: Sequence[History]) -> None:
    """What is seen after the first updates, whose loss would press all else together; far apart, in logarithms."""
    held_out = [event for one in histories for event in one.validations]
    later = [event for one in histories for event in one.training[len(one.training) // 10 :]]
    told = [value for event in (*held_out, *later) if (value := number(event, "loss")) is not None and value > 0]
    told += [value for event in held_out if (value := number(event, "training_loss")) is not None and value > 0]
    if told and max(told) > _FAR_APART * min(told):
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        axes.set_yscale("log")
        axes.set_ylim(min(told) / 1.3, 1.15 * max(told))
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.ticklabel_format(axis="y", style="plain", useOffset=False)
        axes.set_ylim(0, 1.06 * max(told, default=1.0))


def _dress(axes: Any) -> None:
    axes.grid(color=LINES, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=9, length=0)
    axes.margins(x=0.03, y=0.12)
    axes.set_xlim(left=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(LINES)
    axes.yaxis.get_offset_text().set(color=QUIET, fontsize=9)


def _add_words(figure: Any, histories: Sequence[History], names: Sequence[str]) -> None:
    """Above the curves what they are of, below them what their colours and kinds stand for."""
    from matplotlib.lines import Line2D

    told = [f"{name}{_best(one, histories[0].metric)}" for name, one in zip(names, histories, strict=True)]
    if len(told) == 1:
        figure.suptitle(told[0], x=0.012, ha="left", fontsize=12, color=INK, parse_math=False)
    colour = _COLOURS[0] if len(names) == 1 else QUIET
    marked = {"color": colour, "linewidth": 1.6, "marker": "o", "markersize": 4}
    kinds = [
        Line2D([], [], **marked, label="held-out lines"),
        Line2D([], [], **marked, fillstyle="none", linestyle=(0, (4, 2)), label="training lines, measured alike"),
        Line2D([], [], color=colour, linewidth=1, alpha=0.5, label="as trained (dropout, smoothed labels)"),
        Line2D([], [], color=colour, linewidth=0, marker="o", markersize=9, fillstyle="none", label="best"),
    ]
    style = {"frameon": False, "fontsize": 9, "labelcolor": INK}
    if len(told) > 1:
        runs = [
            Line2D([], [], color=colour, linewidth=1.6, marker=marker, markersize=5, label=name)
            for name, colour, marker in zip(told, _COLOURS, _MARKERS, strict=False)
        ]
        figure.legend(handles=runs, loc="outside upper left", ncols=2, **style)
    figure.legend(handles=kinds, loc="outside lower center", ncols=len(kinds), **style)


def _best(history: History, metric: str) -> str:
    """The best value of a metric in words, and where it was."""
    best = history.best(metric)
    if best is None or (value := number(best, metric)) is None:
        return ""
    told = {"loss": f"loss {value:.3f}", "exact": f"{value:.1f} % of lines right"}
    return f": best {told.get(metric, f'{_NAMES.get(metric, metric)} {value:.1f}')}, at update {int(best['step']):,}"
