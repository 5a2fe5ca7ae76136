"""Metrics as counts per line and a formula over their sum.

Every metric here is a pair: `statistics`, one row of counts for each line, and `aggregate`, which turns the sum of
rows into the score of the corpus. So a resampled corpus is a sum of rows drawn again, and intervals and paired tests
are written once for all metrics. BLEU, chrF and TER take both halves from sacreBLEU.

All values are percentages (TER, WER, PER and CER can pass 100). The names, and the formula of each:

| name         | formula                                                                            | better |
|--------------|------------------------------------------------------------------------------------|--------|
| `bleu`       | sacreBLEU (Papineni et al. 2002; Post 2018), with the target language's tokenizer  | higher |
| `chrf`       | sacreBLEU's chrF2: F-score of character 1- to 6-grams, recall counted twice        | higher |
| `chrf++`     | the same with word 1- and 2-grams                                                  | higher |
| `ter`        | sacreBLEU: word edits and shifts to the nearest reference / mean reference length  | lower  |
| `exact`      | lines equal to one of their references, outer white space aside / lines            | higher |
| `word_error` | lines whose tokens equal none of their references / lines                          | lower  |
| `wer`        | token edits to the nearest reference / its tokens, both summed over lines          | lower  |
| `per`        | the same, printed as PER: the tokens are phonemes                                  | lower  |
| `cer`        | character edits to the nearest reference / its characters, both summed over lines  | lower  |

"WER" has two meanings in the field. In speech recognition a line is a sentence and WER counts edited words: `wer`.
In grapheme-to-phoneme conversion a line is one word and WER is the share of wrong words: `word_error`; what counts
edits there is PER: `per`. Tokens are what white space separates. The nearest reference is the one with the fewest
edits and, among equals, the longest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import zip_longest
from typing import Any

import numpy as np
from jaxtyping import Float64

from dragoman.config.data import LANGUAGE_OF_COUNTRY
from dragoman.errors import ConfigError
from dragoman.evaluation.edit_distance import Edits, edit_distance, edit_kinds

Alternatives = tuple[str, ...]

# Language codes that stand for one that a tokenizer is named after.
_LANGUAGES = {"zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh", "jpn": "ja", "kor": "ko"}
_LANGUAGES |= {"tha": "th", "lao": "lo", "khm": "km", "mya": "my", "bur": "my"}
_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# Written without spaces between words, and without a tokenizer of their own in sacreBLEU.
_UNSPACED = ("th", "lo", "km", "my")
# BLEU counts n-grams up to this size: shorter references have none of them to be found.
BLEU_ORDER = 4
# From this column on sacreBLEU's statistics of a line have the counts of right n-grams, by size.
_FIRST_FOUND = 2


@dataclass(frozen=True)
class Metric:
    """A metric with all that its number depends on besides the lines.

    Attributes:
        name: one of `METRICS`.
        language: code of the target language, such as `zh`: it chooses the tokenizer of BLEU, and of TER for Chinese
            and Japanese. BLEU without it gives Chinese a score near 0, whatever its worth.
        lowercase: ignore case (TER always does).
        tokenize: sacreBLEU's name of a tokenizer for BLEU, instead of the language's own; `none` for lines of tokens.
    """

    name: str
    language: str | None = None
    lowercase: bool = False
    tokenize: str | None = None

    @classmethod
    def of(cls, metric: Metric | str) -> Metric:
        """Return a metric that may have been given by its name."""
        return cls(metric) if isinstance(metric, str) else metric

    def in_language(self, language: str | None) -> Metric:
        """Return the same in a language, unless it says one of its own."""
        return self if self.language else replace(self, language=language)

    def check(self) -> None:
        """Refuse what cannot be measured, before there are lines.

        Raises:
            ConfigError: there is no such metric or tokenizer, it is not installed, the metric uses no tokenizer, or the
                language is no code of one where tokens depend on it.
        """
        _check_language(self)
        if self.tokenize is not None and self.name != "bleu" and self.name in METRICS:
            hint = "leave the tokenizer out, or score by bleu"
            raise ConfigError(f"a tokenizer is for BLEU, and {self.name} uses none", found=self.tokenize, hint=hint)
        measure(self, ["a"], [("a",)])


@dataclass(frozen=True)
class Measurement:
    """One metric's counts for one system.

    Attributes:
        label: the metric's usual name.
        higher_is_better: whether a larger value is the better one.
        statistics: counts, one row per line.
        aggregate: the score of a corpus from the sum of its rows.
        signature: everything that could change the number, as names and values.
        note: what the reader of the number should know, if anything.
    """

    label: str
    higher_is_better: bool
    statistics: Float64[np.ndarray, "lines counts"]
    aggregate: Callable[[list[float]], float]
    signature: dict[str, str]
    note: str | None = None

    def value(self) -> float:
        """Return the score of the whole corpus, in percent."""
        return self.aggregate(self.statistics.sum(axis=0).tolist())

    @property
    def edits(self) -> Edits | None:
        """The kinds of edits of the whole corpus, of a metric that counts edits."""
        kinds = self.statistics.sum(axis=0)[2:].astype(int).tolist()
        return Edits(*kinds) if "unit" in self.signature and kinds else None

    @property
    def smoothed(self) -> bool:
        """Whether it is a BLEU without a single match of some size of n-gram: then it comes from smoothing, or is 0."""
        return self.label == "BLEU" and not all(_right_ngrams(self))

    def values(self, sums: Float64[np.ndarray, "samples counts"]) -> Float64[np.ndarray, " samples"]:
        """Return the score of each resampled corpus, given the sum of its rows."""
        return np.array([self.aggregate(row) for row in sums.tolist()], dtype=np.float64)


def _right_ngrams(bleu: Measurement) -> list[float]:
    """How many n-grams of a BLEU are right, of each size."""
    return bleu.statistics.sum(axis=0)[_FIRST_FOUND : _FIRST_FOUND + BLEU_ORDER].tolist()


@dataclass(frozen=True)
class _LineMetric:
    """A metric of ours: (counted, out of) for each line; of edits also how many of each kind."""

    label: str
    unit: str
    higher_is_better: bool
    count: Callable[[str, Alternatives], tuple[int, ...]]


def measure(metric: Metric | str, hypotheses: Sequence[str], references: Sequence[Alternatives]) -> Measurement:
    """Return the counts of one metric; `score` is the function with checks and intervals.

    Args:
        metric: a metric, or its name.
        hypotheses: one line for each item.
        references: one or more for each hypothesis.

    Raises:
        ConfigError: there is no such metric or tokenizer, or the tokenizer asked for is not installed.
    """
    metric = Metric.of(metric)
    name, language = metric.name, _language(metric.language)
    if name == "bleu":
        return _bleu(hypotheses, references, language, metric.lowercase, metric.tokenize)
    if name in ("chrf", "chrf++", "ter"):
        from sacrebleu.metrics.chrf import CHRF
        from sacrebleu.metrics.ter import TER

        if name == "ter":
            # Without spaces a whole sentence would be one word: its characters are taken apart first.
            unspaced = language in ("zh", "ja")
            return _sacrebleu(TER(normalized=unspaced, asian_support=unspaced), "TER", hypotheses, references)
        words = 2 if name == "chrf++" else 0
        chrf = CHRF(word_order=words, lowercase=metric.lowercase)
        return _sacrebleu(chrf, "chrF2" + "+" * words, hypotheses, references, _uncounted(hypotheses, references))
    if name in _LINE_METRICS:
        return _measure_lines(_LINE_METRICS[name], hypotheses, references, metric.lowercase)
    near = difflib.get_close_matches(name.lower(), METRICS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else None
    raise ConfigError(f"there is no metric {name!r}", expected=", ".join(METRICS), hint=hint)


def _check_language(metric: Metric) -> None:
    """Refuse what is no code of a language (`ConfigError`), where a metric's tokens depend on the language."""
    code = metric.language
    primary = (code or "").replace("_", "-").partition("-")[0]
    meant = LANGUAGE_OF_COUNTRY.get(primary.lower())
    if code is None or metric.name not in ("bleu", "ter") or (re.fullmatch("[A-Za-z]{2,3}", primary) and not meant):
        return
    expected = "two or three letters (ISO 639) such as de, zh or zh-CN"
    known = ", ".join((*_TOKENIZERS, *_UNSPACED))
    hint = f"only {known} change how {metric.name} splits words: any other code will do for the rest, or none"
    if meant:
        hint = f"{primary} is a country; its language is {meant}"
    raise ConfigError("this is not a language code", expected=expected, found=repr(code), hint=hint)


def ignore_case(metrics: Sequence[Metric]) -> bool:
    """Return whether what is shown beside some metrics ignores case: where all of them do."""
    return bool(metrics) and all(metric.lowercase for metric in metrics)


def _language(code: str | None) -> str:
    """The two-letter code of `zh-CN`, `zho_Hans` and the like."""
    primary = (code or "").lower().replace("_", "-").partition("-")[0]
    return _LANGUAGES.get(primary, primary)


def tokenizer_of(language: str | None) -> str:
    """Return sacreBLEU's name of the tokenizer for a language."""
    code = _language(language)
    return _TOKENIZERS.get(code) or ("char" if code in _UNSPACED else "13a")


def count_tokens(metric: Metric, references: Sequence[Alternatives]) -> list[int]:
    """Return how many tokens BLEU makes of each reference; of several for one line, of the longest.

    Args:
        metric: with the language, case and tokenizer of BLEU; its name does not matter.
        references: one or more for each line.

    Raises:
        ConfigError: there is no such tokenizer, or it is not installed.
    """
    bleu = _make_bleu(_language(metric.language), metric.lowercase, metric.tokenize)[0]
    return _reference_tokens(bleu, references)


def _reference_tokens(bleu: Any, references: Sequence[Alternatives]) -> list[int]:
    return [max(len(bleu._preprocess_segment(text).split()) for text in some) for some in references]


def _bleu(
    hypotheses: Sequence[str], references: Sequence[Alternatives], language: str, lowercase: bool, tokenize: str | None
) -> Measurement:
    metric, note = _make_bleu(language, lowercase, tokenize)
    measured = _sacrebleu(metric, "BLEU", hypotheses, references)
    doubt = unspaced(references) or _tokenised(hypotheses) if measured.signature["tok"] == "13a" else None
    doubt = doubt or short_references(_reference_tokens(metric, references))
    if doubt is None and measured.smoothed:
        size = 1 + _right_ngrams(measured).index(0)
        doubt = f"no {size}-gram is right, so the value comes from smoothing"
    return replace(measured, note="; ".join(one for one in (note, doubt) if one) or None)


def short_references(tokens: Sequence[int]) -> str | None:
    """Return why BLEU says little of references of so many tokens; None if it can tell.

    Args:
        tokens: of each reference; blank ones, of none, do not count.
    """
    written = [count for count in tokens if count]
    enough = sum(count >= BLEU_ORDER for count in written)
    if 2 * enough >= len(written):
        return None
    if not enough:
        return (
            f"no reference has {BLEU_ORDER} tokens, so BLEU has no {BLEU_ORDER}-gram to find and stays near 0 however "
            "good the outputs are: use chrf or exact"
        )
    return (
        f"only {enough:,} of {len(written):,} references have {BLEU_ORDER} tokens, and BLEU hangs on these few: use "
        "chrf or exact"
    )


def _make_bleu(language: str, lowercase: bool, tokenize: str | None) -> tuple[Any, str | None]:
    """SacreBLEU's metric, and what is to be known of its tokenizer."""
    from sacrebleu.metrics.bleu import BLEU

    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise ConfigError(f"there is no tokenizer {tokenize!r}", expected=", ".join(BLEU.TOKENIZERS))
    note = None
    wanted = tokenize or tokenizer_of(language)
    try:
        metric = BLEU(tokenize=wanted, lowercase=lowercase, force=True)
    except (RuntimeError, OSError, ImportError) as error:
        how = "sacreBLEU downloads its model when it is first used"
        if wanted.endswith("-mecab"):
            how = f"pip install 'sacrebleu[{wanted.removesuffix('-mecab')}]'"
        if tokenize is not None:
            first = str(error).strip().partition("\n")[0]
            raise ConfigError(f"the tokenizer {wanted!r} cannot be used", found=first, hint=how) from error
        note = f"the tokenizer {wanted} is not installed, so these are character n-grams; for the usual score: {how}"
        metric = BLEU(tokenize="char", lowercase=lowercase, force=True)
    return metric, note


def unspaced(references: Sequence[Alternatives]) -> str | None:
    """Return why 13a tokens of these references mean little, if most characters are Chinese or Japanese; else None."""
    characters = "".join(alternatives[0] for alternatives in references)
    # Kana, the unified ideographs and their extensions.
    count = sum("\u3040" <= character <= "\u9fff" or character >= "\U00020000" for character in characters)
    if 2 * count > len(characters):
        return "the references look Chinese or Japanese: the score means little until the target language is given"
    return None


def _tokenised(hypotheses: Sequence[str]) -> str | None:
    if 2 * sum(line.endswith(" .") for line in hypotheses) > len(hypotheses):
        how = "detokenise them, or have them scored as they are (--tokenize none, validation.tokenize) and say so"
        return f"the lines look tokenised (most end in ' .'): {how}"
    return None


def _uncounted(hypotheses: Sequence[str], references: Sequence[Alternatives]) -> str | None:
    """What chrF does not punish: outputs where there is nothing to be said."""
    pairs = zip(hypotheses, references, strict=True)
    lines = sum(bool(line.strip()) and not any(text.strip() for text in some) for line, some in pairs)
    return f"text where the reference is blank ({lines:,} of the lines) does not lower chrF" if lines else None


def _sacrebleu(
    metric: Any, label: str, hypotheses: Sequence[str], references: Sequence[Alternatives], note: str | None = None
) -> Measurement:
    """Counts and formula of a sacreBLEU metric, by the methods that its own paired tests use."""
    streams = list(zip_longest(*references))  # sacreBLEU wants one stream per alternative, None where there is none
    statistics = metric._extract_corpus_statistics(hypotheses, streams)
    return Measurement(
        label=label,
        higher_is_better=label != "TER",
        statistics=np.array(statistics, dtype=np.float64),
        aggregate=lambda sums: _without_rounding(float(metric._compute_score_from_stats(sums).score)),
        signature=dict(part.split(":", 1) for part in str(metric.get_signature()).split("|")),
        note=note,
    )


def _without_rounding(value: float) -> float:
    """Of equal files sacreBLEU makes a BLEU of 100.00000000000004."""
    return 100.0 if abs(value - 100) < 1e-9 else value


def _measure_lines(
    metric: _LineMetric, hypotheses: Sequence[str], references: Sequence[Alternatives], lowercase: bool
) -> Measurement:
    if lowercase:
        hypotheses = [line.lower() for line in hypotheses]
        references = [tuple(text.lower() for text in alternatives) for alternatives in references]
    counts = [metric.count(line, alternatives) for line, alternatives in zip(hypotheses, references, strict=True)]
    numbers = {len(alternatives) for alternatives in references}
    return Measurement(
        label=metric.label,
        higher_is_better=metric.higher_is_better,
        statistics=np.array(counts, dtype=np.float64),
        aggregate=_percentage,
        signature={
            "nrefs": str(numbers.pop()) if len(numbers) == 1 else "var",
            "case": "lc" if lowercase else "mixed",
            "unit": metric.unit,
            "version": f"dragoman-{version('dragoman')}",
        },
    )


def _percentage(sums: list[float]) -> float:
    """100 x counted / total; where the references of a resampled corpus are all empty, 100 or 0 as in sacreBLEU."""
    counted, total = sums[:2]
    return 100 * counted / total if total else 100.0 * bool(counted)


def _equal_line(hypothesis: str, references: Alternatives) -> tuple[int, int]:
    return hypothesis.strip() in [text.strip() for text in references], 1


def _unequal_tokens(hypothesis: str, references: Alternatives) -> tuple[int, int]:
    return hypothesis.split() not in [text.split() for text in references], 1


def _token_edits(hypothesis: str, references: Alternatives) -> tuple[int, ...]:
    return _nearest(hypothesis.split(), [text.split() for text in references])


def _character_edits(hypothesis: str, references: Alternatives) -> tuple[int, ...]:
    # A run of white space is one space: how a line is spaced out is not a character error.
    return _nearest(" ".join(hypothesis.split()), [" ".join(text.split()) for text in references])


def _nearest(hypothesis: Sequence[Hashable], references: Sequence[Sequence[Hashable]]) -> tuple[int, ...]:
    """Edits to, and length of, the nearest reference, and how many edits of each kind."""
    nearest = min(references, key=lambda reference: (edit_distance(hypothesis, reference), -len(reference)))
    kinds = edit_kinds(hypothesis, nearest)
    return sum(kinds), len(nearest), *kinds


_LINE_METRICS = {
    "exact": _LineMetric("exact", "line", True, _equal_line),
    "word_error": _LineMetric("word error", "line", False, _unequal_tokens),
    "wer": _LineMetric("WER", "token", False, _token_edits),
    "per": _LineMetric("PER", "token", False, _token_edits),
    "cer": _LineMetric("CER", "character", False, _character_edits),
}

METRICS = ("bleu", "chrf", "chrf++", "ter", *_LINE_METRICS)
