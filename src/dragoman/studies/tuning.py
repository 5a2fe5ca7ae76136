"""Which search suits a model best: beam sizes, length penalties and shares of others tried on a held-out set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from dragoman.audio.listing import Given
from dragoman.config import SETTINGS_FILE, DecodingConfig, make_config, read_toml, write_toml
from dragoman.errors import ConfigError
from dragoman.evaluation import Comparison, Score, compare, score
from dragoman.evaluation.fitting import AUTO, resolved
from dragoman.evaluation.metrics import Metric, measure
from dragoman.evaluation.references import References
from dragoman.models.description import read_config, replace_decoding
from dragoman.pace import duration, silent
from dragoman.studies.given import Answers, Texts, read_test_set
from dragoman.studies.listening import sources_as
from dragoman.text.lines import BadText
from dragoman.translation.translator import Translator

BEAM_SIZES = (1, 2, 4, 8)
LENGTH_PENALTIES = (0.0, 0.4, 0.8, 1.2, 1.6)
# Translated before the clock starts: the first batch pays for what is made once.
_WARM_UP = 16
# The settings that are tried, and the columns of the shares among them, which a table has where they were.
TUNED = ("beam_size", "length_penalty", "length_penalty_formula", "knn_weight", "right_to_left_weight", "ctc_weight")
_SHARES = {"knn_weight": "store", "right_to_left_weight": "back", "ctc_weight": "ctc"}


@dataclass(frozen=True)
class Trial:
    """One search over the whole set.

    Attributes:
        decoding: its options.
        score: of its outputs.
        against: its outputs (B) compared with those of the model's own search (A); None for that one itself.
        lines_per_second: how fast it was.
    """

    decoding: DecodingConfig
    score: Score
    against: Comparison | None
    lines_per_second: float

    def __repr__(self) -> str:
        options = self.decoding
        penalty = f", length penalty {options.length_penalty:g}" if options.beam_size > 1 else ""
        return f"{type(self).__name__}(beam {options.beam_size}{penalty}: {self.score.brief})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        tree = {**{name: getattr(self.decoding, name) for name in TUNED}, "score": self.score.to_dict()}
        if self.against is not None:
            names = ("difference", "low", "high", "p_randomisation", "p_bootstrap")
            tree["against"] = {name: getattr(self.against, name) for name in names}
        return {**tree, "lines_per_second": self.lines_per_second}

    def row(self, shares: Sequence[str] = ()) -> str:
        """Return the trial in a table that has columns for some of the shares."""
        options, one = self.decoding, self.score
        weights = [getattr(options, name) for name in shares]
        columns = "".join(f"  {'own' if weight is None else f'{weight:.2f}':>5}" for weight in weights)
        penalty = f"{options.length_penalty_formula} {options.length_penalty:.2f}" if options.beam_size > 1 else "-"
        against = "the model's own"
        if self.against is not None:
            against = f"{self.against.difference:+z6.2f}  p = {self.against.p_randomisation:.3f}"
        row = (
            f"{options.beam_size:4}  {penalty:>10}{columns}  {one.value:7.2f}  {f'[{one.low:.2f}, {one.high:.2f}]':>16}"
        )
        return f"{row}  {against:<17}  {self.lines_per_second:7.1f}"


@dataclass(frozen=True)
class Tuning:
    """What each search reached.

    Attributes:
        trials: the model's own search first, then the others as they were tried.
        best: the trial with the best score; between equal ones the smaller beam, then the earlier one. Where all are
            equal, the model's own; a BLEU that comes from smoothing counts as 0.
    """

    trials: list[Trial]
    best: Trial

    @property
    def all_equal(self) -> bool:
        """Whether no search is better than another."""
        return len({_rank(trial.score) for trial in self.trials}) == 1

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.trials)} searches, best: {self.best!r})"

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table for people."""
        label = self.best.score.label
        searches = [trial.decoding for trial in self.trials]
        shares = [name for name in _SHARES if len({getattr(one, name) for one in searches}) > 1]
        columns = "".join(f"  {_SHARES[name]:>5}" for name in shares)
        scores = f"{label:>7}  {'95 % interval':>16}  {'against its own':<17}"
        yield f"{'beam':>4}  {'penalty':>10}{columns}  {scores}  lines/s"
        for trial in self.trials:
            yield f"{trial.row(shares)}{'  best' if trial is self.best and not self.all_equal else ''}"
        if self.all_equal and len(self.trials) > 1:
            yield "all of them score the same on these lines, so the model's own search stays"
        if self.best.score.note:
            yield f"{label}: {self.best.score.note}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        trials = [trial.to_dict() for trial in self.trials]
        return {"trials": trials, "best": self.best.to_dict(), "all_equal": self.all_equal}


def tune(
    model: Translator | str | Path,
    source: Texts,
    references: Answers,
    *,
    metric: Metric | str = AUTO,
    group: bool = False,
    beam_sizes: Sequence[int] = BEAM_SIZES,
    length_penalties: Sequence[float] = LENGTH_PENALTIES,
    formulas: Sequence[str] = ("gnmt",),
    knn_weights: Sequence[float] = (),
    right_to_left_weights: Sequence[float] = (),
    ctc_weights: Sequence[float] = (),
    decoding: DecodingConfig | None = None,
    samples: int = 1000,
    on_bad_text: BadText = "stop",
    report: Callable[[str], None] = silent,
) -> Tuning:
    """Translate a held-out set with each beam size and length penalty, and compare the outputs.

    Each search is run in full: a penalty decides when a search stops, so outputs of one cannot stand for another's.
    Greedy search has no penalty and no ranking and is tried once for each weight of a datastore. The best of many is a
    little luckier than it is good: judge it on other lines than these.

    Args:
        model: a translator, or a run or model directory.
        source: a file of held-out sources, or the sources themselves.
        references: of a file, another file or several; of sources, for each a text or several.
        metric: a `dragoman.evaluation.Metric`, or the name of one; without a language in the model's own. "auto" is
            what fits the references: BLEU, chrF or exact match (`fitting_metric`).
        group: lines with the same source are one item with several references.
        beam_sizes: to try.
        length_penalties: alphas to try with each beam larger than 1.
        formulas: some of "gnmt", "power", "reward".
        knn_weights: of a datastore, each tried with all of the above; the model's own alone if empty.
        right_to_left_weights: of the right-to-left direction, likewise.
        ctc_weights: of what is read off frames, likewise.
        decoding: all other options, and the search to compare with; the model's own if None.
        samples: of the intervals and paired tests.
        on_bad_text: as for `evaluate`.
        report: takes a line of plain text about each search.

    Raises:
        ConfigError: an option or the metric is unknown or wrong, or the model has not what a weight is for; said
            before anything is translated.
        DataError: a file cannot be read, or they have different numbers of lines.
    """
    sources, answers = read_test_set(source, references, group=group, on_bad_text=on_bad_text, report=report)
    translator = model if isinstance(model, Translator) else Translator.from_pretrained(model)
    sources = sources_as(translator.tokenizers, source, sources)
    own = (decoding or translator.decoding).replace({"n_best": 1})
    if own.sampling:
        raise ConfigError("a search is tuned, not sampling", found="sampling = true", hint="leave sampling out")
    # Without a penalty the formula does not matter.
    penalties = [(alpha, name if alpha else formulas[0]) for name in formulas for alpha in length_penalties]
    tried = _grid(own, beam_sizes, penalties, knn_weights, right_to_left_weights, ctc_weights)
    searches = list(dict.fromkeys([own, *tried]))
    return try_searches(translator, sources, answers, searches, metric=metric, samples=samples, report=report)


def try_searches(
    translator: Translator,
    sources: Sequence[Given],
    answers: References,
    searches: Sequence[DecodingConfig],
    *,
    metric: Metric | str = AUTO,
    samples: int = 1000,
    report: Callable[[str], None] = silent,
) -> Tuning:
    """Translate some lines by each of several searches, with one output for each line, and compare the outputs.

    Args:
        translator: whose searches they are.
        sources: held-out lines.
        answers: one reference, or several, for each.
        searches: the one that the others are compared with first.
        metric, samples, report: as for `tune`.

    Raises:
        ConfigError: the metric or its tokenizer is unknown, or wants another code for the language; or a search asks
            for what the model has not.
    """
    own = searches[0]
    metric, why = resolved(Metric.of(metric).in_language(translator.languages.target), answers)
    metric.check()
    if why:
        report(why)
    rising = measure(metric, ["a"], [("a",)]).higher_is_better
    for options in searches:  # what the model cannot do is told before the first search, not after it
        translator.translate_with([], options)
    translator.translate_with(sources[:_WARM_UP], own)
    trials: list[Trial] = []
    started = time.perf_counter()
    usual: list[str] | None = None
    for number, options in enumerate(searches, 1):
        began = time.perf_counter()
        outputs = [one.text for one in translator.translate_with(sources, options)]
        speed = len(sources) / max(time.perf_counter() - began, 1e-9)
        if usual is None:
            usual, against = outputs, None
            found = score(outputs, answers, metrics=[metric], bootstrap=samples)[0]
        else:
            against = compare(usual, outputs, answers, metric, samples=samples)
            found = against.b
        trials.append(Trial(options, found, against, speed))
        left = (time.perf_counter() - started) / number * (len(searches) - number)
        report(f"{number} of {len(searches)}: {found.label} {found.value:.2f}, about {duration(left)} left")
    sign = 1 if rising else -1
    best = max(trials, key=lambda one: (sign * _rank(one.score), -one.decoding.beam_size))
    tuned = Tuning(trials, best)
    return replace(tuned, best=trials[0]) if tuned.all_equal else tuned


def _rank(score: Score) -> float:
    return round(score.rank, 9)


def save_decoding(directory: str | Path, decoding: DecodingConfig) -> None:
    """Make a search the one that a model directory uses unless told otherwise.

    In a run directory the settings of the run say so too: going on with it would else bring the former search back.

    Raises:
        ModelError: there is no model.
        ConfigError: the settings of the run are damaged; nothing was changed.
    """
    directory = Path(directory)
    read_config(directory)
    settings = directory / SETTINGS_FILE
    if settings.exists():
        write_toml(make_config(read_toml(settings)).replace({"decoding": decoding}), settings)
    replace_decoding(directory, decoding)


def _grid(
    own: DecodingConfig,
    beam_sizes: Sequence[int],
    penalties: Sequence[tuple[float, str]],
    knn_weights: Sequence[float],
    right_to_left_weights: Sequence[float],
    ctc_weights: Sequence[float],
) -> Iterator[DecodingConfig]:
    """All searches to try; some more than once."""
    for size, knn, ctc in product(beam_sizes, knn_weights or (own.knn_weight,), ctc_weights or (own.ctc_weight,)):
        one = own.replace({"beam_size": size, "knn_weight": knn, "ctc_weight": ctc})
        ranked = [
            one.replace({"length_penalty": alpha, "length_penalty_formula": formula, "right_to_left_weight": back})
            for (alpha, formula), back in product(penalties, right_to_left_weights or (own.right_to_left_weight,))
        ]
        yield from [one] if size == 1 else ranked  # made, and so checked, in any case
