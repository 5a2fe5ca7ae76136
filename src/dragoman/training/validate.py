"""What is measured on the held-out pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from dragoman.config import TrainConfig
from dragoman.data import Prepared, collate, eval_batches
from dragoman.decoding import Translator
from dragoman.evaluation import score
from dragoman.models import Languages
from dragoman.nn import Transformer
from dragoman.training.step import Sums, batch_loss

METRICS = ("bleu", "chrf", "exact")


@dataclass(frozen=True)
class Validation:
    """Results on the dev set.

    Attributes:
        loss: negative log-likelihood per target token, in nats, without label smoothing.
        accuracy: share of target tokens that were the likeliest, teacher-forced.
        scores: BLEU, chrF and exact match of the translated dev sentences, in percent; with their signatures below.
        signatures: one per score.
        hypotheses: the translations.
    """

    loss: float
    accuracy: float
    scores: dict[str, float]
    signatures: dict[str, str]
    hypotheses: list[str]

    @property
    def perplexity(self) -> float:
        """e to the loss."""
        return math.exp(min(self.loss, 700.0))

    def value(self, metric: str) -> float:
        """The number that is compared, larger being better."""
        return -self.loss if metric == "loss" else self.scores[metric]

    def numbers(self) -> dict[str, float]:
        """All of it, for the log."""
        return {"loss": self.loss, "perplexity": self.perplexity, "accuracy": self.accuracy, **self.scores}


def dev_loss(
    model: Transformer,
    data: Prepared,
    batch_tokens: int,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Sums:
    """Teacher-forced sums over the dev set; the model must be in evaluation mode."""
    device = next(model.parameters()).device
    sums = Sums()
    store = data.dev
    with torch.no_grad():
        for rows in eval_batches(store.source_lengths, store.target_lengths, batch_tokens=batch_tokens):
            batch = collate(store, rows).to(device)
            with autocast():
                part = batch_loss(model, batch, 0.0)
            sums.add(Sums(float(part.loss), float(part.nll), int(part.correct), part.count, batch.source_tokens, 1))
    return sums


def validate(
    model: Transformer,
    data: Prepared,
    config: TrainConfig,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Validation:
    """Loss over all of the dev set, and scores of (at most `validation.max_sentences`) translations of it."""
    was_training = model.training
    model.eval()
    assert config.training.batch_tokens is not None
    sums = dev_loss(model, data, config.training.batch_tokens, autocast)
    options = config.decoding
    if config.validation.search == "greedy":
        options = options.replace({"beam_size": 1, "n_best": 1, "sampling": False})
    languages = Languages(source=config.data.source_language, target=config.data.target_language)
    translator = Translator([model], data.tokenizers, options, languages)
    sources = data.dev_source[: config.validation.max_sentences]
    references = data.dev_target[: config.validation.max_sentences]
    with autocast():
        hypotheses = [translation.text for translation in translator.translate_with(sources, options)]
    found = score(hypotheses, references, metrics=METRICS, target_language=languages.target, bootstrap=0)
    model.train(was_training)
    return Validation(
        loss=sums.nll / max(1, sums.labels),
        accuracy=sums.correct / max(1, sums.labels),
        scores={one.name: one.value for one in found},
        signatures={one.name: one.signature for one in found},
        hypotheses=hypotheses,
    )
