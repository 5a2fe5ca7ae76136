"""How likely a model of one text finds given lines: scores a line, sums of many, perplexity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from dragoman.errors import ModelError
from dragoman.files import finite, json_text
from dragoman.given import as_texts, each_text
from dragoman.language.loading import load_language_model
from dragoman.models.opened import Reopened
from dragoman.nn import MaskedLM
from dragoman.search.hypothesis import check_numbers
from dragoman.search.outputs import PairScore
from dragoman.search.protocol import NextTokenModel
from dragoman.search.scoring import score_targets
from dragoman.sequences import MASKED_SPECIALS, SourceBatch, length_mask, pad_rows
from dragoman.text.lines import chunks
from dragoman.text.tokenizer import SPECIALS, Tokenizer

BATCH_TOKENS = 4096
MAX_ROWS = 64


@dataclass(frozen=True)
class TextScore:
    """How likely a model finds a text.

    Attributes:
        text: the text.
        log_probability: natural logarithm of the probability of its tokens and its `</s>`; of a masked model, the
            pseudo-log-likelihood: the sum over its tokens of the logarithm of each one's probability, given all others.
            NaN where it could not be scored.
        tokens: its pieces.
        token_scores: natural log-probability of each piece, then that of `</s>` (not of a masked model).
    """

    text: str
    log_probability: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON, which has no infinity: None stands for the logarithm of 0."""
        return finite(asdict(self))


@dataclass(frozen=True)
class TextSummary:
    """Sums over texts; two of them add up to that of all.

    Attributes:
        log_probability: of all texts together.
        lines: how many texts.
        tokens: how many were predicted: pieces, and the `</s>` of each text unless `pseudo`.
        words: words between blanks, and one for the end of each text unless `pseudo`.
        bytes: UTF-8 bytes, and one for the end of each text (its line feed) unless `pseudo`.
        unknown: pieces that the vocabulary lacks. They are predicted as `<unk>`, whatever they were, which is easier:
            where there are any, only models with the same vocabulary compare.
        pseudo: the log-probabilities are those of a masked model.
        unscored: texts that were too long to be scored; they count nowhere else.
    """

    log_probability: float = 0.0
    lines: int = 0
    tokens: int = 0
    words: int = 0
    bytes: int = 0
    unknown: int = 0
    pseudo: bool = False
    unscored: int = 0

    @classmethod
    def of(cls, score: TextScore | PairScore) -> TextSummary:
        """Return the sums of one text, or of the target of one pair."""
        if math.isnan(score.log_probability):
            return cls(unscored=1)
        text = score.text if isinstance(score, TextScore) else score.target
        ends = len(score.token_scores) - len(score.tokens)
        counts = len(score.token_scores), len(text.split()) + ends, len(text.encode()) + ends
        unknown = score.tokens.count(SPECIALS[MASKED_SPECIALS.unk])
        return cls(score.log_probability, 1, *counts, unknown, pseudo=not ends)

    def __add__(self, other: TextSummary) -> TextSummary:
        sums = {name: getattr(self, name) + getattr(other, name) for name in ("log_probability", *_COUNTS)}
        return TextSummary(**sums, pseudo=self.pseudo or other.pseudo)

    @property
    def perplexity(self) -> float:
        """Per token: exp of the mean negative log-probability; of a masked model, the pseudo-perplexity.

        Of nothing there is none: NaN, as for the other rates.
        """
        return _exp(self._loss(self.tokens))

    @property
    def word_perplexity(self) -> float:
        """The same per word: compares tokenizers, for languages that put blanks between words."""
        return _exp(self._loss(self.words))

    @property
    def bits_per_byte(self) -> float:
        """Bits that a perfect coder would need for a byte of the text: compares any tokenizers."""
        return self._loss(self.bytes) / math.log(2)

    def _loss(self, count: int) -> float:
        return -self.log_probability / count if count else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON, the rates included; None for what is infinite, or not to be had."""
        rates = {name: getattr(self, name) for name in ("perplexity", "word_perplexity", "bits_per_byte")}
        return finite({**asdict(self), **rates})

    def __str__(self) -> str:
        left = f"; {self.unscored:,} more could not be scored" if self.unscored else ""
        if not self.tokens:
            return f"{self.lines:,} lines, in which there is nothing to predict{left}"
        pseudo, counted = ("pseudo-", "") if self.pseudo else ("", ", </s> counted")
        sort = "pseudo-log-likelihood" if self.pseudo else "log-probability"
        total = f"{self.lines:,} lines, {sort} {self.log_probability:.4f}"
        rates = f"{self.perplexity:.3f} per token{counted}, {self.word_perplexity:.3f} per word"
        unknown = f"; {self.unknown:,} unknown tokens" if self.unknown else ""
        return f"{total}; {pseudo}perplexity {rates}; {self.bits_per_byte:.4f} bits per byte{unknown}{left}"


_COUNTS = ("lines", "tokens", "words", "bytes", "unknown", "unscored")


class TextScorer(Reopened):
    """Scores texts with a decoder-only model, a Markov model or a masked model.

    A masked model has no probability of a text. It gives the pseudo-log-likelihood (Salazar et al. 2020): each token is
    masked once and predicted from all others, in as many rows as the text has tokens. It compares masked models, not
    with the others.

    Args:
        model: a next-token model that needs no source, or a masked model.
        tokenizer: its vocabulary.
    """

    def __init__(self, model: NextTokenModel | MaskedLM, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model.eval() if isinstance(model, MaskedLM) else model, tokenizer

    def _details(self) -> Iterator[str]:
        yield f"{self.tokenizer.kind} vocabulary of {len(self.tokenizer):,}"

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, device: str = "auto", engine: str = "module", precision: str = "auto"
    ) -> TextScorer:
        """Load a run or model directory.

        Raises:
            ModelError: it holds an encoder-decoder, or is damaged.
        """
        loaded = load_language_model(path, device=device, engine=engine, precision=precision)
        if loaded.family == "transformer":
            hint = "give it pairs: --source and --target, or `Translator.score`"
            raise ModelError("an encoder-decoder scores no text by itself", file=path, found=loaded.family, hint=hint)
        scorer = cls(loaded.model, loaded.tokenizer)
        scorer.opened = loaded.opened
        return scorer

    @property
    def pseudo(self) -> bool:
        """Whether the scores are pseudo-log-likelihoods."""
        return isinstance(self.model, MaskedLM)

    def score(self, texts: Iterable[str], *, first: int = 0) -> list[TextScore]:
        """Return how likely the model finds each text: NaN, and no tokens, where it has 4,096 tokens or more.

        Args:
            texts: any number of strings; batch mates change nothing.
            first: number of the first text in a longer series, for messages.

        Raises:
            DataError: one is no string.
        """
        texts = as_texts(texts, first=first)
        found = [TextScore(text, math.nan, (), ()) for text in texts]
        encoded = [self.tokenizer.encode(text) for text in texts]
        short = [row for row, ids in enumerate(encoded) if len(ids) < BATCH_TOKENS]
        some = [encoded[row] for row in short]
        values = self._pseudo_values(some) if self.pseudo else self._values(some)
        for row, value in zip(short, values, strict=True):
            check_numbers(value)
            pieces = tuple(self.tokenizer.pieces(encoded[row]))
            found[row] = TextScore(texts[row], sum(value, 0.0), pieces, tuple(value))
        return found

    def score_lines(self, lines: Iterable[str], *, chunk: int = 2048) -> Iterator[TextScore]:
        """Yield what `score` returns for a stream of texts, `chunk` at a time, in order."""
        done = 0
        for some in chunks(each_text(lines, "lines"), chunk):
            yield from self.score(some, first=done)
            done += len(some)

    def summary(self, texts: Iterable[str]) -> TextSummary:
        """Return perplexity and bits per byte of many texts together."""
        return summarize(self.score_lines(texts))

    def _values(self, encoded: Sequence[list[int]]) -> list[list[float]]:
        """Of each token and of `</s>`."""
        model, values = self.model, [[0.0]] * len(encoded)
        assert not isinstance(model, MaskedLM)
        for rows in _batches([len(ids) + 1 for ids in encoded]):
            wanted = [encoded[row] for row in rows]
            scored = score_targets(model, SourceBatch.nothing(len(rows), model.device), wanted)
            for row, one in zip(rows, scored, strict=True):
                values[row] = one
        return values

    @torch.no_grad()
    def _pseudo_values(self, encoded: Sequence[list[int]]) -> list[list[float]]:
        """Of each token, masked alone."""
        model = self.model
        assert isinstance(model, MaskedLM)
        device = next(model.parameters()).device
        mask, eos = self.tokenizer.mask, self.tokenizer.eos
        assert mask is not None
        values = [[0.0] * len(ids) for ids in encoded]
        gaps = [(row, place) for row, ids in enumerate(encoded) for place in range(len(ids))]
        for some in _batches([len(encoded[row]) + 1 for row, _ in gaps]):
            chosen = [gaps[index] for index in some]
            masked = [[*encoded[row][:place], mask, *encoded[row][place + 1 :], eos] for row, place in chosen]
            read = length_mask([len(row) for row in masked], device=device)
            hidden = model.hidden(pad_rows(masked, device), read)
            places = torch.tensor([place for _, place in chosen], device=device)
            logits = model.generator(hidden[torch.arange(len(chosen), device=device), places])
            log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
            wanted = torch.tensor([encoded[row][place] for row, place in chosen], device=device)
            for (row, place), value in zip(chosen, log_probs.gather(1, wanted[:, None])[:, 0].tolist(), strict=True):
                values[row][place] = value
        return values


def summarize(scores: Iterable[TextScore | PairScore]) -> TextSummary:
    """Return the sums over scores; of pairs, over their targets."""
    found = TextSummary()
    for one in scores:
        found += TextSummary.of(one)
    return found


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of like length together, longest first, within a budget of rows and of tokens."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        fit = max(1, min(MAX_ROWS, BATCH_TOKENS // lengths[order[start]]))
        yield order[start : start + fit]
        start += fit


def _exp(value: float) -> float:
    return math.inf if value >= 700.0 else math.exp(value)


def format_score(score: TextScore | PairScore, *, tokens: bool = False, as_json: bool = False) -> str:
    """Return the line to print for a score: the log-probability; with `tokens` a TAB and `piece:value`s."""
    if as_json:
        return json_text(finite(asdict(score)))
    pieces = zip_longest(score.tokens, score.token_scores, fillvalue=SPECIALS[MASKED_SPECIALS.eos])
    detail = "\t" + " ".join(f"{piece}:{value:.3f}" for piece, value in pieces) if tokens else ""
    return f"{score.log_probability:.4f}{detail}"
