"""What is measured on the held-out part."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch

from dragoman.config import TrainConfig
from dragoman.config.training import LOWER_IS_BETTER
from dragoman.data import Batch, Prepared, TextBatch, TokenStore, eval_batches
from dragoman.distributed import ALONE, World
from dragoman.errors import ConfigError
from dragoman.evaluation.metrics import Metric, count_tokens, measure, short_references
from dragoman.training.search import searches_beams
from dragoman.training.step import Sums, batch_loss
from dragoman.training.tasks import Model, Task, dev_bleu, task_of

# What orders validations by each metric; after these the loss. BLEU and exact match may be 0 for long, chrF hardly is.
ORDER = {
    "loss": (), "bleu": ("bleu", "chrf"), "chrf": ("chrf",), "exact": ("exact", "chrf"), "wer": ("wer",),
    "cer": ("cer",),
}  # fmt: skip
# Training pairs whose loss is measured beside that of the dev set.
MOST_TRAINING_PAIRS = 1000


@dataclass(frozen=True)
class Validation:
    """Results on the dev set.

    Attributes:
        loss: negative log-likelihood per predicted token, in nats, without label smoothing.
        accuracy: share of those tokens that were the likeliest, teacher-forced.
        training_loss: the same loss, also without dropout, of as many training pairs (or lines), 1,000 at most:
            far below `loss` where much is learned by heart.
        training_accuracy: of those.
        scores: BLEU, chrF and exact match of the translated dev sentences, in percent, and of what was heard the error
            rates of words and characters too; with their signatures below. A model of one text has none.
        signatures: one per score.
        hypotheses: the translations; or completed, or filled, lines.
        perplexity_name: what e to the loss is called.
        notes: what the reader of a score should know, where there is something.
        smoothed: scores that come from smoothing, so that they rank nothing.
        cut: hypotheses that the model did not end, so that they were cut at the limit of the search.
    """

    loss: float
    accuracy: float
    training_loss: float
    training_accuracy: float
    scores: dict[str, float]
    signatures: dict[str, str]
    hypotheses: list[str]
    perplexity_name: str = "perplexity"
    notes: dict[str, str] = field(default_factory=dict)
    smoothed: frozenset[str] = frozenset()
    cut: int = 0

    @property
    def perplexity(self) -> float:
        """e to the loss."""
        return math.exp(min(self.loss, 700.0))

    def value(self, metric: str) -> float:
        """Return the number that is compared, larger being better."""
        if metric == "loss":
            return -self.loss
        return -self.scores[metric] if metric in LOWER_IS_BETTER else self.scores[metric]

    def rank(self, metric: str) -> tuple[float, ...]:
        """Return what validations by a metric are ordered by, larger being better.

        First comes the metric, then chrF. BLEU and chrF are taken in steps of one line's share, 100 / lines points: a
        difference of less is none, as it is for exact match by itself. A BLEU made by smoothing is 0. Error rates of
        words and characters count each edit. What is the same in these is ordered by the loss.
        """
        step = 100 / max(1, len(self.hypotheses))
        values = {name: 0.0 if name in self.smoothed else self.value(name) for name in ORDER[metric]}
        parts = (
            math.floor(value / step + 1e-6) if name in ("bleu", "chrf") else value for name, value in values.items()
        )
        return (*map(float, parts), -self.loss)

    def numbers(self) -> dict[str, float]:
        """Return all numbers, for the log."""
        training = {"training_loss": self.training_loss, "training_accuracy": self.training_accuracy}
        means = {"loss": self.loss, self.perplexity_name: self.perplexity, "accuracy": self.accuracy}
        return {**means, **training, **self.scores, **({"cut": self.cut} if self.scores else {})}


def check_validation(config: TrainConfig) -> None:
    """Refuse what would not be heeded or does not exist, before any data are prepared.

    Raises:
        ConfigError: penalties to try where no beam is searched; a target language that is none; a tokenizer that is
            unknown, cannot be used here, or has no translations to cut.
    """
    settings = config.validation
    if settings.length_penalties and not searches_beams(config):
        hint = "leave validation.length_penalties out"
        raise ConfigError("validation.length_penalties are tried in beam searches of pairs", found="none", hint=hint)
    if config.model.learns_pairs:
        Metric("bleu", config.data.target_language).check()
    if settings.tokenize is not None:
        if not config.model.learns_pairs:
            message = f"validation.tokenize is for translations, which a {config.model.family} model does not make"
            raise ConfigError(message, hint="leave it out")
        Metric("bleu", tokenize=settings.tokenize).check()


def doubt(data: Prepared, config: TrainConfig) -> str | None:
    """Return why the BLEU of validations may not mean what it seems to, going by the references; None if it does.

    Args:
        data: the prepared corpus.
        config: completed.
    """
    if not config.model.learns_pairs:
        return None
    lines, bleu = data.dev_target[: config.validation.max_sentences], dev_bleu(config)
    references = [(line,) for line in lines]
    note = measure(bleu, lines, references).note
    # Where validations are not judged by it for that, it has been said.
    said = config.validation.metric != bleu.name and note == short_references(count_tokens(bleu, references))
    return None if said else note


def teacher_forced(
    model: Model,
    store: TokenStore,
    task: Task,
    batch_tokens: int,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    *,
    most: int | None = None,
    world: World = ALONE,
) -> Sums:
    """Return teacher-forced sums over a store, without label smoothing; the model must be in evaluation mode.

    Args:
        model: of the task's family.
        store: of held-out or of training pairs.
        task: makes the batches, the same ones whenever it is asked.
        batch_tokens: of a batch, as in training.
        autocast: makes the context that chooses the precision.
        most: so many pairs at most, from all over the store.
        world: the processes that share the batches.
    """
    device = next(model.parameters()).device
    sums = Sums()
    rows = np.linspace(0, len(store) - 1, min(len(store), most or len(store))).astype(np.int64)
    lengths = store.source_lengths[rows], store.target_lengths[rows]

    def measured(batches: list[np.ndarray]) -> list[Sums]:
        return [_batch_sums(model, task.batch(store, rows[chosen], None).to(device), autocast) for chosen in batches]

    with torch.no_grad():
        for part in world.split(eval_batches(*lengths, batch_tokens=batch_tokens), measured):
            sums.add(part)
    return sums


def _batch_sums(model: Model, batch: Batch | TextBatch, autocast: Callable[[], AbstractContextManager[object]]) -> Sums:
    with autocast():
        part = batch_loss(model, batch, 0.0)
    return Sums(float(part.loss), float(part.nll), int(part.correct), part.count, batch.source_tokens, 1)


def validate(
    model: Model,
    data: Prepared,
    config: TrainConfig,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    world: World = ALONE,
) -> Validation:
    """Validate: loss over the dev set and some training pairs, and the dev set's outputs, scored if it can be.

    Several processes share the work, and each gets the whole result.
    """
    task = task_of(config, data.tokenizers.source.specials)
    was_training = model.training
    model.eval()
    assert config.training.batch_tokens is not None
    tokens, most = config.training.batch_tokens, min(len(data.dev), MOST_TRAINING_PAIRS)
    sums = teacher_forced(model, data.dev, task, tokens, autocast, world=world)
    training = teacher_forced(model, data.train, task, tokens, autocast, most=most, world=world)
    with autocast():
        outputs = task.outputs(model, data, config, world)
    model.train(was_training)
    return Validation(
        loss=sums.nll / max(1, sums.labels),
        accuracy=sums.correct / max(1, sums.labels),
        training_loss=training.nll / max(1, training.labels),
        training_accuracy=training.correct / max(1, training.labels),
        scores={one.name: one.value for one in outputs.scores},
        signatures={one.name: one.signature for one in outputs.scores},
        hypotheses=outputs.lines,
        perplexity_name=task.perplexity,
        notes={one.name: one.note for one in outputs.scores if one.note},
        smoothed=frozenset(one.name for one in outputs.scores if one.smoothed),
        cut=outputs.cut,
    )
