"""Pairs made by a model from one side alone, to train on beside real ones, or in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.config import DecodingConfig
from dragoman.data.filtering import Counts
from dragoman.errors import ConfigError
from dragoman.search.outputs import one_line
from dragoman.studies.given import Texts, texts_of
from dragoman.text.keys import skeleton
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.results import Translation
from dragoman.translation.translator import Translator

MAX_RATIO = 3.0
# Why a line makes no pair.
FAULTS = ("empty", "not one field", "too long", "unfinished", "copy", "length ratio")


class Way(NamedTuple):
    """How pairs are made of lines and outputs: which side the outputs are, and what is put before the sources."""

    outputs: Literal["source", "target"]
    tag: str


# The tags tell the next model what to make of a source: what it learns from real ones holds where there is none.
WAYS: dict[str, Way] = {
    "back-translation": Way("source", "<bt>"),
    "self-training": Way("target", "<st>"),
    "distillation": Way("target", ""),
}


def synthesize(
    translator: Translator | str | Path,
    lines: Texts,
    *,
    kind: str = "back-translation",
    tag: str | None = None,
    decoding: DecodingConfig | None = None,
    max_ratio: float = MAX_RATIO,
    keep_copies: bool = False,
    counts: Counts | None = None,
) -> Iterator[tuple[str, str]]:
    """Translate lines and make pairs of them for training.

    Back-translation (Sennrich et al. 2016; tagged: Caswell et al. 2019): the model translates from the target language
    into the source language, and real targets get made-up sources. Self-training (He et al. 2020) and sequence-level
    distillation (Kim and Rush 2016): real sources get made-up targets; the model is the one to be bettered, or a larger
    one, or an ensemble.

    Args:
        translator: translates the lines; or a run or model directory.
        lines: text of the translator's source language, any series of strings, or a file.
        kind: which of the three.
        tag: put before each source with a blank; "" for none; the usual one of the kind if None. Give it to
            `tokenizer.symbols` too.
        decoding: the search, or sampling; the model's own if None.
        max_ratio: leave out pairs whose token counts differ by more than this factor.
        keep_copies: keep outputs that repeat their line (case and punctuation aside).
        counts: filled in with lines read, kept, and dropped by reason.

    Returns:
        (source, target) pairs, in the order of the lines, made as they are asked for.

    Raises:
        ConfigError: there is no such kind.
    """
    maker = Maker.of(kind, tag, max_ratio, keep_copies)
    if not isinstance(translator, Translator):
        translator = Translator.from_pretrained(translator)
    translator.tokenizers.check_reads()
    stream = texts_of(lines, "lines") if isinstance(lines, (str, PathLike)) else lines
    results = translator.translate_lines(stream, (decoding or translator.decoding).replace({"n_best": 1}))
    return _pairs(results, maker, translator.tokenizers.source, Counts(unit="lines") if counts is None else counts)


class Maker(NamedTuple):
    """Makes pairs of what was translated.

    Attributes:
        way: which side the outputs are, and what is put before the sources.
        max_ratio: of token counts.
        keep_copies: whether outputs that repeat their line make pairs.
    """

    way: Way
    max_ratio: float
    keep_copies: bool

    @classmethod
    def of(cls, kind: str, tag: str | None, max_ratio: float, keep_copies: bool) -> Maker:
        """Return the one of a kind; arguments as for `synthesize`.

        Raises:
            ConfigError: there is no such kind.
        """
        if kind not in WAYS:
            raise ConfigError("there is no such kind of synthesis", expected=", ".join(WAYS), found=kind)
        return cls(WAYS[kind] if tag is None else WAYS[kind]._replace(tag=tag), max_ratio, keep_copies)

    def pair(self, result: Translation) -> tuple[str, str]:
        """Return source and target."""
        outputs, tag = self.way
        source, target = (result.text, result.source) if outputs == "source" else (result.source, result.text)
        return f"{tag} {source}" if tag else source, target

    def fault(self, result: Translation, own: Tokenizer) -> str | None:
        """Say why a pair is not worth learning from, if it is not; `own` cuts the line itself, without its matches."""
        line, output = result.source, result.text
        shorter, longer = sorted((len(own.encode(line)), len(result.tokens)))
        if not (line.strip() and output.strip()):
            return "empty"
        if any("\t" in text or one_line(text) != text for text in (line, output)):
            return "not one field"
        if result.truncated:
            return "too long"
        if not result.finished:
            return "unfinished"
        if not self.keep_copies and skeleton(line) == skeleton(output):
            return "copy"
        return "length ratio" if longer > self.max_ratio * shorter else None


def _pairs(results: Iterable[Translation], maker: Maker, own: Tokenizer, counts: Counts) -> Iterator[tuple[str, str]]:
    for result in results:
        counts.read += 1
        reason = maker.fault(result, own)
        if reason is not None:
            counts.dropped[reason] += 1
            continue
        counts.kept += 1
        yield maker.pair(result)
