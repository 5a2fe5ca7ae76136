"""Strings in, strings out: a trained encoder-decoder with its tokenizers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman.config import DecodingConfig, ModelConfig, validated
from dragoman.decoding.alignment import align
from dragoman.decoding.beam import beam_search
from dragoman.decoding.ensemble import Ensemble
from dragoman.decoding.greedy import greedy_search
from dragoman.decoding.sampling import sample
from dragoman.decoding.scoring import pad_rows, score_parallel, score_serial
from dragoman.decoding.search import Hypothesis, NextTokenModel, SearchRequest
from dragoman.engines import ModuleEngine, choose_device, choose_engine
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.models import Languages, Pretrained, load_pretrained
from dragoman.nn import Transformer
from dragoman.text import TokenizerPair
from dragoman.text.tokenizer import EOS

MAX_SOURCE_TOKENS = 1024
BATCH_TOKENS = 4096
MAX_ROWS = 64
MAX_HYPOTHESES = 256


@dataclass(frozen=True)
class Alternative:
    """One output for a source.

    Attributes:
        text: the output.
        score: what outputs are ranked by: log-probability divided by the length penalty.
        log_probability: natural logarithm of the probability of all tokens and `</s>`.
        tokens: the output's pieces.
        token_scores: natural log-probability of each piece, then that of `</s>`.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]


@dataclass(frozen=True)
class Translation(Alternative):
    """The best output for a source, and the rest.

    Attributes:
        source: the text that was given.
        source_tokens: its pieces, as the model read them.
        alternatives: all `n_best` outputs, best first; the first repeats the best.
        alignment: (source piece, output piece) positions from cross-attention, if asked for.
        truncated: the source was longer than the limit and was cut there.
    """

    source: str
    source_tokens: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    alignment: tuple[tuple[int, int], ...] | None = None
    truncated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class PairScore:
    """How likely a model finds a given pair.

    Attributes:
        source: the source text.
        target: the target text.
        log_probability: natural logarithm of the probability of the target's tokens and its `</s>`.
        tokens: the target's pieces.
        token_scores: natural log-probability of each piece, then that of `</s>`.
    """

    source: str
    target: str
    log_probability: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]


def search(model: NextTokenModel, request: SearchRequest) -> list[list[Hypothesis]]:
    """Sampling, greedy or beam search, as the request's options say."""
    if request.options.sampling:
        return sample(model, request)
    if request.options.beam_size == 1:
        return greedy_search(model, request)
    return beam_search(model, request)


def changed_options(options: DecodingConfig, changes: dict[str, Any]) -> DecodingConfig:
    """Decoding options with some changed, checked together; the beam grows with `n_best` unless it is given too.

    Raises:
        ConfigError: an option is unknown or wrong, or two contradict each other.
    """
    n_best = changes.get("n_best")
    if isinstance(n_best, int) and "beam_size" not in changes:
        changes = {**changes, "beam_size": max(options.beam_size, n_best)}
    return validated(DecodingConfig, {**options.model_dump(), **changes})


class Translator:
    """Translates strings with one model, or with several that share their tokenizers.

    Args:
        models: encoder-decoders in evaluation mode, all on one device.
        tokenizers: source and target tokenizers.
        decoding: options where a call gives none.
        languages: two-letter codes of the sides, where known.
        engine: which engine runs them; "auto" chooses.
        precision: in which precision it multiplies: float32, int8, bfloat16, or the fastest that holds its quality.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizers: TokenizerPair,
        decoding: DecodingConfig | None = None,
        languages: Languages | None = None,
        engine: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.transformers = list(models)
        chosen = [choose_engine(model, engine, precision) for model in models]
        self.engines: list[ModuleEngine] = [one for one, _ in chosen]
        self.engine_reason = chosen[0][1]
        self.model: NextTokenModel = self.engines[0] if len(self.engines) == 1 else Ensemble(self.engines)
        self.tokenizers = tokenizers
        self.decoding = decoding or DecodingConfig()
        self.languages = languages or Languages()

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        device: str = "auto",
        engine: str = "auto",
        precision: str = "auto",
    ) -> Translator:
        """Load a run or model directory, or several that were trained with the same tokenizers, as an ensemble.

        Raises:
            ModelError: a directory holds no encoder-decoder, is damaged, or has other tokenizers than the first.
        """
        paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(one) for one in path]
        where = choose_device(device)
        loaded = [load_pretrained(one, where) for one in paths]
        for one, pretrained in zip(paths, loaded, strict=True):
            if not isinstance(pretrained.model, Transformer):
                found, hint = pretrained.config.family, "`dragoman complete` and `dragoman score --text` run it"
                raise ModelError("only an encoder-decoder translates", file=one, found=found, hint=hint)
        tokenizers = [TokenizerPair.load(one) for one in paths]
        for one, pretrained, pair in zip(paths, loaded, tokenizers, strict=True):
            _check_sizes(one, pretrained, pair)
            if _vocabularies(pair) != _vocabularies(tokenizers[0]):
                raise ModelError("an ensemble needs the same tokenizers", file=one, expected=f"those of {paths[0]}")
        models = [pretrained.model for pretrained in loaded if isinstance(pretrained.model, Transformer)]
        return cls(models, tokenizers[0], loaded[0].decoding, loaded[0].languages, engine, precision)

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.model.device

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        n_best: int | None = None,
        length_penalty: float | None = None,
        length_penalty_formula: str | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        no_repeat_ngram: int | None = None,
        sampling: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        prefixes: Sequence[str] | None = None,
        alignments: bool = False,
        first: int = 0,
    ) -> list[Translation]:
        """Translate each text; results come in the order of the texts, and batch mates never change them.

        An empty or blank text gives an empty translation. Options left at None are the model's own
        (`DecodingConfig` describes each).

        Args:
            texts: any number of strings.
            beam_size: 1 is greedy search.
            n_best: outputs per text, at most `beam_size` unless sampling.
            length_penalty: alpha of the formula.
            length_penalty_formula: "gnmt" or "power".
            min_length: tokens at least.
            max_length: tokens at most; the source's length and more if None.
            no_repeat_ngram: no n-gram of this size twice; 0 is off.
            sampling: draw instead of searching.
            temperature: above 1 flattens, below 1 sharpens what is drawn from.
            top_k: draw among so many likeliest tokens; 0 is all.
            top_p: draw among the likeliest tokens that reach this probability together.
            seed: of the draws.
            prefixes: one string per text that its output must begin with; "" for none.
            alignments: also tell which source piece each output piece looked at most.
            first: number of the first text in a longer series; text number and seed determine a draw.

        Raises:
            ConfigError: options contradict each other, or there are not as many prefixes as texts.
        """
        given = {
            "beam_size": beam_size, "n_best": n_best, "length_penalty": length_penalty,
            "length_penalty_formula": length_penalty_formula, "min_length": min_length, "max_length": max_length,
            "no_repeat_ngram": no_repeat_ngram, "sampling": sampling, "temperature": temperature, "top_k": top_k,
            "top_p": top_p, "sampling_seed": seed,
        }  # fmt: skip
        options = self.options({name: value for name, value in given.items() if value is not None})
        return self.translate_with(texts, options, prefixes=prefixes, alignments=alignments, first=first)

    def options(self, changes: dict[str, Any]) -> DecodingConfig:
        """The model's decoding options with some changed, checked together."""
        return changed_options(self.decoding, changes)

    def translate_with(
        self,
        texts: Sequence[str],
        options: DecodingConfig,
        *,
        prefixes: Sequence[str] | None = None,
        alignments: bool = False,
        first: int = 0,
    ) -> list[Translation]:
        """`translate` with all options in one object.

        Raises:
            ConfigError: there are not as many prefixes as texts.
        """
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError("one prefix per text is needed", expected=len(texts), found=len(prefixes))
        sources = [self.tokenizers.source.encode(text) if text.strip() else [] for text in texts]
        forced = [self.tokenizers.target.encode(prefix) for prefix in prefixes or [""] * len(texts)]
        results: list[Translation | None] = [None] * len(texts)
        for rows in self._batches([min(len(ids), MAX_SOURCE_TOKENS) for ids in sources], options):
            kept = [sources[row][:MAX_SOURCE_TOKENS] for row in rows]
            request = SearchRequest(
                source=pad_rows([[*ids, EOS] for ids in kept], self.device),
                source_lengths=[len(ids) for ids in kept],
                options=options,
                prefixes=[forced[row] for row in rows],
                seeds=[first + row for row in rows],
            )
            found = search(self.model, request)
            aligned = self._align(request, found) if alignments else [None] * len(rows)
            for row, ids, hypotheses, alignment in zip(rows, kept, found, aligned, strict=True):
                results[row] = self._translation(texts[row], ids, hypotheses, alignment, len(sources[row]) > len(ids))
        return [result or _nothing(text, alignments) for text, result in zip(texts, results, strict=True)]

    def translate_lines(
        self,
        lines: Iterable[str],
        options: DecodingConfig,
        *,
        prefix: str = "",
        chunk: int = 2048,
        alignments: bool = False,
    ) -> Iterator[Translation]:
        """Translate a stream, `chunk` lines at a time, in order: memory stays bounded, batches stay full.

        Args:
            lines: any number of strings.
            options: the search.
            prefix: what every output must begin with.
            chunk: how many lines wait for each other.
            alignments: as for `translate`.
        """

        def some(texts: list[str], first: int) -> list[Translation]:
            prefixes = [prefix if text.strip() else "" for text in texts]
            return self.translate_with(texts, options, prefixes=prefixes, alignments=alignments, first=first)

        waiting: list[str] = []
        done = 0
        for line in lines:
            waiting.append(line)
            if len(waiting) >= chunk:
                yield from some(waiting, done)
                done += len(waiting)
                waiting = []
        yield from some(waiting, done)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[PairScore]:
        """How likely the model finds each target, given its source.

        Raises:
            DataError: there are not as many targets as sources, or a text is too long to be scored.
        """
        if len(sources) != len(targets):
            raise DataError("a score needs a target for each source", expected=len(sources), found=len(targets))
        source_ids = [self.tokenizers.source.encode(text) for text in sources]
        target_ids = [self.tokenizers.target.encode(text) for text in targets]
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(source_ids, target_ids, strict=True)]
        if lengths and max(lengths) > BATCH_TOKENS:
            number = 1 + lengths.index(max(lengths))
            limit = f"at most {BATCH_TOKENS - 1} tokens"
            raise DataError("a text is too long to be scored", line=number, expected=limit, found=max(lengths) - 1)
        values: list[list[float]] = [[]] * len(sources)
        for rows in self._batches(lengths, DecodingConfig(beam_size=1)):
            batch = pad_rows([[*source_ids[row], EOS] for row in rows], self.device)
            wanted = [target_ids[row] for row in rows]
            alone = len(self.engines) == 1
            scored = (
                score_parallel(self.engines[0], batch, wanted) if alone else score_serial(self.model, batch, wanted)
            )
            for row, one in zip(rows, scored, strict=True):
                values[row] = one
        pieces = [tuple(self.tokenizers.target.pieces(ids)) for ids in target_ids]
        return [
            PairScore(source, target, sum(value), piece, tuple(value))
            for source, target, piece, value in zip(sources, targets, pieces, values, strict=True)
        ]

    def _batches(self, lengths: Sequence[int], options: DecodingConfig) -> Iterator[list[int]]:
        """Rows of like length together, longest first, within a budget of rows and of tokens; empty rows left out."""
        most = min(MAX_ROWS, max(1, MAX_HYPOTHESES // (1 if options.sampling else options.beam_size)))
        order = sorted((row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row])
        start = 0
        while start < len(order):
            fit = max(1, min(most, BATCH_TOKENS // (lengths[order[start]] + 1)))
            yield order[start : start + fit]
            start += fit

    def _align(self, request: SearchRequest, found: Sequence[Sequence[Hypothesis]]) -> list[list[tuple[int, int]]]:
        return align(self.transformers[0], request.source, [hypotheses[0].tokens for hypotheses in found])

    def _translation(
        self,
        text: str,
        ids: list[int],
        hypotheses: Sequence[Hypothesis],
        alignment: list[tuple[int, int]] | None,
        truncated: bool,
    ) -> Translation:
        target = self.tokenizers.target
        outputs = [
            Alternative(
                target.decode(hypothesis.tokens),
                hypothesis.score,
                hypothesis.log_probability,
                tuple(target.pieces(hypothesis.tokens)),
                hypothesis.token_log_probabilities,
            )
            for hypothesis in hypotheses
        ]
        best = outputs[0]
        return Translation(
            best.text, best.score, best.log_probability, best.tokens, best.token_scores,
            source=text,
            source_tokens=tuple(self.tokenizers.source.pieces(ids)),
            alternatives=tuple(outputs),
            alignment=None if alignment is None else tuple(alignment),
            truncated=truncated,
        )  # fmt: skip


def _nothing(text: str, alignments: bool) -> Translation:
    """The translation of an empty or blank text."""
    empty = Alternative("", 0.0, 0.0, (), ())
    alignment = () if alignments else None
    return Translation("", 0.0, 0.0, (), (), source=text, source_tokens=(), alternatives=(empty,), alignment=alignment)


def _check_sizes(path: Path, pretrained: Pretrained, tokenizers: TokenizerPair) -> None:
    config: ModelConfig = pretrained.config
    for side, size, rows in (
        ("source", len(tokenizers.source), config.source_vocab),
        ("target", len(tokenizers.target), config.target_vocab),
    ):
        if rows != size:
            raise ModelError(f"the {side} vocabulary does not fit the model", file=path, expected=rows, found=size)


def _vocabularies(tokenizers: TokenizerPair) -> tuple[list[str], list[str]]:
    source, target = tokenizers.source, tokenizers.target
    return source.pieces(range(len(source))), target.pieces(range(len(target)))
