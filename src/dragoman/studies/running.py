"""The verbs that run or compare, each as one function: files or lists in, results out.

A path is a file of lines, anything else the texts themselves. Whoever asks a model more than once opens it once, as a
`Translator`, `Completer`, `Filler` or `TextScorer`, and hands that over in place of its path.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dragoman.errors import ConfigError
from dragoman.evaluation import Comparison, Metric, Score
from dragoman.evaluation import compare as compare_lists
from dragoman.evaluation import score as measure_lists
from dragoman.search.outputs import Alternative, PairScore
from dragoman.studies.given import Answers, Texts, decoding_changes, first_file, read_test_set, texts_of
from dragoman.text import guess_language
from dragoman.translation.results import Translation
from dragoman.translation.translator import Translator

if TYPE_CHECKING:
    from dragoman.language import Completer, Filler, Filling, TextScore, TextScorer

P = ParamSpec("P")
T = TypeVar("T")


def translate(
    model: Translator | str | Path | Sequence[str | Path],
    texts: Texts,
    *,
    beam_size: int | None = None,
    n_best: int | None = None,
    length_penalty: float | None = None,
    sampling: bool | None = None,
    prefix: str = "",
    source_language: str | None = None,
    target_language: str | None = None,
    alignments: bool = False,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    engine: str = "auto",
    precision: str = "auto",
) -> list[Translation]:
    """Translate texts, or the lines of a file: as many come out as went in, in order.

    Args:
        model: a run or model directory, several as an ensemble, or a translator (then the last three do not count).
        texts: any series of strings, or a path.
        beam_size: 1 is greedy search; the model's own if None, as for all options.
        n_best: outputs of each text.
        length_penalty: alpha of the formula.
        sampling: draw instead of searching.
        prefix: what every output must begin with.
        source_language: of a model for many languages, another than that of its import.
        target_language: likewise.
        alignments: also tell which source piece each output piece looked at most.
        settings: any other of decoding by name, as `{"max_length": 50}`.
        device: auto, cpu, cuda or mps.
        engine: auto, native, packed or module.
        precision: auto, float32, int8 or bfloat16.

    Raises:
        ConfigError: options are unknown or contradict each other, or the model has no such language.
        DataError: the file cannot be read, or a text is no string.
        ModelError: there is no encoder-decoder, or it is damaged.
    """
    lines = texts_of(texts)
    if not isinstance(model, Translator):
        model = Translator.from_pretrained(model, device=device, engine=engine, precision=precision)
    model.tokenizers.check_reads()
    model = model.with_languages(source_language, target_language)
    named = {"beam_size": beam_size, "n_best": n_best, "length_penalty": length_penalty, "sampling": sampling}
    options = model.options(decoding_changes(settings, named))
    return list(model.translate_lines(lines, options, prefix=prefix, alignments=alignments))


def complete(
    model: Completer | str | Path,
    prompts: Texts,
    *,
    beam_size: int | None = None,
    n_best: int | None = None,
    sampling: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    engine: str = "auto",
    precision: str = "auto",
) -> list[list[Alternative]]:
    """Continue prompts with a decoder-only or a Markov model: the `n_best` completions of each, best first.

    Args:
        model: a run or model directory, or a completer (then the last three do not count).
        prompts: any series of beginnings, or a file of them.
        beam_size: 1 is greedy search; the model's own if None, as for all options.
        n_best: outputs of each prompt.
        sampling: draw instead of searching.
        settings: any other of decoding by name.
        device: auto, cpu, cuda or mps.
        engine: auto, native, packed or module.
        precision: auto, float32, int8 or bfloat16.

    Raises:
        ConfigError, DataError, ModelError: as for `translate`.
    """
    from dragoman.language import Completer

    lines = texts_of(prompts, "prompts")
    if not isinstance(model, Completer):
        model = Completer.from_pretrained(model, device=device, engine=engine, precision=precision)
    named = {"beam_size": beam_size, "n_best": n_best, "sampling": sampling}
    return list(model.complete_lines(lines, model.options(decoding_changes(settings, named))))


def fill(model: Filler | str | Path, texts: Texts, *, n_best: int = 1, device: str = "auto") -> list[list[Filling]]:
    """Fill each `<mask>` of texts with a masked model: the likeliest fillings of each, best first.

    Args:
        model: a run or model directory, or a filler.
        texts: any series of strings, or a file of lines.
        n_best: fillings of each text.
        device: auto, cpu, cuda or mps.

    Raises:
        ConfigError, DataError, ModelError: as for `Filler.fill`.
    """
    from dragoman.language import Filler

    lines = texts_of(texts)
    filler = model if isinstance(model, Filler) else Filler.from_pretrained(model, device=device)
    return list(filler.fill_lines(lines, n_best=n_best))


def measure(
    hypotheses: Texts,
    references: Answers,
    *,
    metrics: Sequence[Metric | str] = ("bleu", "chrf"),
    bootstrap: int = 1000,
    seed: int = 1,
    confidence: float = 0.95,
) -> list[Score]:
    """Measure outputs by BLEU, chrF and other metrics, each with its interval and signature; no model is needed.

    Args:
        hypotheses: outputs, detokenised, or a file of them.
        references: of each output one, or several that are right; of a file one or several files.
        metrics: `dragoman.evaluation.Metric`s, or names of them.
        bootstrap: resampled test sets for the interval; 0 leaves it out.
        seed: of the resampling.
        confidence: the share of resampled test sets that the interval holds.

    Raises:
        DataError: a file cannot be read, a text is no string, or the numbers differ.
        ConfigError: a metric is unknown, or a number is out of range.
    """
    lines, answers = read_test_set(hypotheses, references, name="hypotheses")
    language = _language(hypotheses, references)
    asked = [Metric.of(metric).in_language(language) for metric in metrics]
    return measure_lists(lines, answers, metrics=asked, bootstrap=bootstrap, seed=seed, confidence=confidence)


def compare(
    hypotheses_a: Texts,
    hypotheses_b: Texts,
    references: Answers,
    metric: Metric | str = "bleu",
    *,
    samples: int = 1000,
    seed: int = 1,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two outputs for the same lines: do they differ by more than chance?

    Args:
        hypotheses_a: the outputs of system A, or a file of them.
        hypotheses_b: those of system B.
        references: of each line one, or several that are right; of files one or several files.
        metric: a `dragoman.evaluation.Metric`, or the name of one.
        samples: resampled test sets, and random exchanges.
        seed: of both.
        confidence: the share of resampled test sets that the intervals hold.

    Raises:
        DataError: a file cannot be read, a text is no string, or the numbers differ.
        ConfigError: the metric is unknown or not installed, or a number is out of range.
    """
    one, answers = read_test_set(hypotheses_a, references, name="hypotheses_a")
    other = texts_of(hypotheses_b, "hypotheses_b")
    how = Metric.of(metric).in_language(_language(hypotheses_a, references))
    return compare_lists(one, other, answers, how, samples=samples, seed=seed, confidence=confidence)


def _formerly_measure(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, which still does what its name did until 0.2 for whoever gives it two lists."""

    @functools.wraps(function)
    def either(*given: Any, **named: Any) -> Any:
        first = given[0] if given else named.get("hypotheses")
        if "hypotheses" in named or isinstance(first, (list, tuple)):
            message = "dragoman.score(hypotheses, references) is now dragoman.measure; score gives log-probabilities"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return measure(*given, **named)
        return function(*given, **named)

    return either


@_formerly_measure
def score(
    model: Translator | TextScorer | str | Path,
    source: Texts | None = None,
    target: Texts | None = None,
    *,
    text: Texts | None = None,
    device: str = "auto",
) -> list[PairScore] | list[TextScore]:
    """Score pairs or texts: how likely a model finds each, as natural log-probabilities, `</s>` included.

    (Metrics of outputs are `measure`.)

    Args:
        model: a run or model directory; a `Translator` for pairs, a `TextScorer` for texts of one language.
        source: for pairs, any series of strings or a file of lines.
        target: one for each source.
        text: instead, for a causal, masked or Markov model: texts of one language.
        device: auto, cpu, cuda or mps.

    Raises:
        ConfigError: neither pairs nor texts were given, or both.
        DataError: a file cannot be read, a text is no string, or the numbers differ.
        ModelError: the model does not score such things, or is damaged.
    """
    from dragoman.language import TextScorer

    given = {"source": source, "target": target, "text": text}
    names = [name for name, value in given.items() if value is not None]
    if names not in (["source", "target"], ["text"]):
        raise ConfigError("give source and target, or text", found=", ".join(names) or "nothing")
    if source is None or target is None:
        assert text is not None
        lines = texts_of(text)
        if isinstance(model, Translator):
            raise ConfigError("a translator scores pairs", found="text", hint="give source and target")
        scorer = model if isinstance(model, TextScorer) else TextScorer.from_pretrained(model, device=device)
        return list(scorer.score_lines(lines))
    if isinstance(model, TextScorer):
        raise ConfigError("a scorer of texts scores no pairs", found="source, target", hint="give text")
    left, right = texts_of(source, "sources"), texts_of(target, "targets")
    if not isinstance(model, Translator):
        model = Translator.from_pretrained(model, device=device, engine="module")
    return model.score(left, right)


def _language(hypotheses: Texts, references: Answers) -> str | None:
    file = first_file(hypotheses, references)
    return None if file is None else guess_language([file])
