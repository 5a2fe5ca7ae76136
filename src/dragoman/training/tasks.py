"""What a family of models learns from a prepared corpus: its batches, and what it shows for it on the held-out part.

Everything else about training is the same for all families; whoever needs to know one asks its task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from dragoman.config import DecodingConfig, TrainConfig
from dragoman.data import Batch, Prepared, TextBatch, TokenStore, collate, collate_causal, collate_masked, eval_batches
from dragoman.data.masking import FIRST_PIECE
from dragoman.distributed import ALONE, World
from dragoman.engines import ModuleEngine
from dragoman.evaluation import Metric, Score, score
from dragoman.language import Completer
from dragoman.models import Languages
from dragoman.models.bidirectional import learned_directions
from dragoman.nn import CausalLM, MaskedLM, Transformer
from dragoman.sequences import SPECIALS, Direction, Specials
from dragoman.text import Tokenizer
from dragoman.training.seeding import seed_of
from dragoman.translation import Translator

Model = Transformer | CausalLM | MaskedLM
# Of a text, so many held-out lines are completed or filled at each validation, to be read by people.
SHOWN = 100


@dataclass(frozen=True)
class Outputs:
    """What a model makes of held-out sequences: lines to be read, their scores where there are references, and how many
    of them it did not end: they were cut at the limit of the search.
    """

    lines: list[str]
    scores: list[Score] = field(default_factory=list)
    cut: int = 0


@runtime_checkable
class Task(Protocol):
    """What a family of models learns."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """What "best" may mean."""
        ...

    @property
    def layers(self) -> tuple[str, ...]:
        """The settings that count its layers."""
        ...

    @property
    def perplexity(self) -> str:
        """What e to the loss is called."""
        ...

    def batch(self, store: TokenStore, rows: np.ndarray | Sequence[int], epoch: int | None) -> Batch | TextBatch:
        """Return the batch of some rows in an epoch, a pure function; epoch None is validation, always the same."""
        ...

    def outputs(self, model: Model, data: Prepared, config: TrainConfig, world: World = ALONE) -> Outputs:
        """Return what the model, in evaluation mode, makes of the held-out sequences; processes may share the work."""
        ...


def task_of(config: TrainConfig, specials: Specials = SPECIALS) -> Task:
    """Return the task of a config whose vocabulary sizes are known, and the special ids of its sources."""
    if config.model.family == "causal":
        return Continuing()
    if config.model.family == "masked":
        assert config.model.target_vocab is not None
        return Filling(config.training.seed, config.model.target_vocab)
    assert config.model.family == "transformer"
    if config.model.mels is not None:
        return Translating(learned_directions(config.model), (*Translating().metrics, "wer", "cer"))
    return Translating(learned_directions(config.model), specials=specials)


def dev_bleu(config: TrainConfig) -> Metric:
    """Return the BLEU of validations."""
    return Metric("bleu", config.data.target_language, tokenize=config.validation.tokenize)


@dataclass(frozen=True)
class Translating:
    """Teacher forcing: the decoder reads the target shifted right, the labels are the target shifted left.

    Args:
        directions: in which training reads targets.
        metrics: what "best" may mean.
        layers: the settings that count its layers.
        perplexity: what e to the loss is called.
        specials: of the source's vocabulary, by which sources are framed.
    """

    directions: tuple[Direction, ...] = (Direction.LEFT_TO_RIGHT,)
    metrics: tuple[str, ...] = ("loss", "bleu", "chrf", "exact")
    layers: tuple[str, ...] = ("num_encoder_layers", "num_decoder_layers")
    perplexity: str = "perplexity"
    specials: Specials = SPECIALS

    def batch(self, store: TokenStore, rows: np.ndarray | Sequence[int], epoch: int | None) -> Batch:
        """Return framed source and target; validation is always left to right, so that losses mean the same."""
        directions = (Direction.LEFT_TO_RIGHT,) if epoch is None else self.directions
        return collate(store, rows, directions, self.specials)

    def outputs(self, model: Model, data: Prepared, config: TrainConfig, world: World = ALONE) -> Outputs:
        """Return the translations of (at most `validation.max_sentences`) held-out sources, scored."""
        assert isinstance(model, Transformer)
        options, most = _search(config), config.validation.max_sentences
        languages = Languages(source=config.data.source_language, target=config.data.target_language)
        both = Direction.RIGHT_TO_LEFT in self.directions
        translator = Translator([model], data.tokenizers, options, languages, precision="float32", right_to_left=both)

        def translated(sources: list[Any]) -> list[tuple[str, bool]]:
            return [(one.text, one.finished) for one in translator.translate_with(sources, options)]

        found = world.split(data.dev_inputs(most), translated)
        lines = [text for text, _ in found]
        bleu = dev_bleu(config)
        names = [name for name in self.metrics if name != "loss"]
        metrics = [bleu if name == bleu.name else Metric(name, bleu.language) for name in names]
        scores = score(lines, data.dev_target[:most], metrics=metrics, bootstrap=0)
        return Outputs(lines, scores, sum(not finished for _, finished in found))


@dataclass(frozen=True)
class Continuing:
    """Each token of a line from those before it: the labels are the line shifted left."""

    metrics: tuple[str, ...] = ("loss",)
    layers: tuple[str, ...] = ("num_decoder_layers",)
    perplexity: str = "perplexity"

    def batch(self, store: TokenStore, rows: np.ndarray | Sequence[int], epoch: int | None) -> TextBatch:
        """Return lines, framed."""
        return collate_causal(store, rows)

    def outputs(self, model: Model, data: Prepared, config: TrainConfig, world: World = ALONE) -> Outputs:
        """Return first halves of some held-out lines, each with a TAB and how the model goes on."""
        assert isinstance(model, CausalLM)
        options = _search(config)
        completer = Completer(ModuleEngine(model), data.tokenizers.target, options)
        prompts = [first_half(line) for line in data.dev_target[: min(SHOWN, config.validation.max_sentences)]]
        found = completer.complete(prompts, options)
        rows = zip(prompts, found, strict=True)
        return Outputs([f"{prompt}\t{best[0].text.removeprefix(prompt)}" for prompt, best in rows])


@dataclass(frozen=True)
class Filling:
    """The hidden pieces of a line from all others (Devlin et al. 2019).

    Args:
        seed: of the run; with the epoch and a line's index it determines what is hidden.
        vocabulary: its size.
    """

    seed: int
    vocabulary: int
    metrics: tuple[str, ...] = ("loss",)
    layers: tuple[str, ...] = ("num_encoder_layers",)
    perplexity: str = "pseudo_perplexity"

    def batch(self, store: TokenStore, rows: np.ndarray | Sequence[int], epoch: int | None) -> TextBatch:
        """Return lines with hidden pieces, which are the labels; validation hides the same ones whatever the seed."""
        key = seed_of() if epoch is None else seed_of(self.seed, epoch)
        return collate_masked(store, rows, key=key, vocabulary=self.vocabulary)

    def outputs(self, model: Model, data: Prepared, config: TrainConfig, world: World = ALONE) -> Outputs:
        """Return held-out lines as the model read them, in pieces, each with a TAB and the line it made of them."""
        assert isinstance(model, MaskedLM)
        assert config.training.batch_tokens is not None
        device = next(model.parameters()).device
        lengths = data.dev.target_lengths[: min(SHOWN, config.validation.max_sentences)]
        lines = [""] * len(lengths)
        for rows in eval_batches(0 * lengths, lengths, batch_tokens=config.training.batch_tokens):
            batch = self.batch(data.dev, rows, None).to(device)
            with torch.no_grad():
                likeliest = FIRST_PIECE + model(batch.ids, batch.mask)[..., FIRST_PIECE:].argmax(-1)
            filled = torch.where(batch.label_mask, likeliest, batch.ids)
            ends = (batch.mask.sum(1) - 1).tolist()
            for row, read, made, end in zip(rows.tolist(), batch.ids.tolist(), filled.tolist(), ends, strict=True):
                lines[row] = _filled_line(data.tokenizers.target, read[:end], made[:end])
        return Outputs(lines)


def _filled_line(tokenizer: Tokenizer, read: list[int], made: list[int]) -> str:
    return " ".join(tokenizer.pieces(read)) + "\t" + tokenizer.decode(made)


def first_half(line: str) -> str:
    """Return the beginning of a line, cut at a blank where there is one in its first half."""
    middle = len(line) // 2
    blank = line.rfind(" ", 1, middle + 1)
    return line[: blank if blank > 0 else middle]


def _search(config: TrainConfig) -> DecodingConfig:
    # A datastore is made when training ends.
    config = config.replace({"decoding": config.decoding.replace({"knn_weight": None})})
    if config.validation.search == "beam":
        return config.decoding
    return config.decoding.replace({"beam_size": 1, "n_best": 1, "sampling": False})
