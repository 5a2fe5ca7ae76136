"""This toolkit as one of those measured: searches on ids, strings in and out, training steps."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from typing import Any

import torch
from torch import nn

from dragoman.config import DecodingConfig, ModelConfig, Placement, TrainingConfig
from dragoman.data import Batch
from dragoman.engines import choose_engine
from dragoman.engines.native import load_library
from dragoman.engines.native.model import native_precision
from dragoman.engines.serial import serial_log_probabilities
from dragoman.fast import keep_memory, training_hidden
from dragoman.models import build_model, load_pretrained, save_pretrained
from dragoman.nn import FeedForward, MultiHeadAttention, Transformer
from dragoman.optimizers.optimizer import make_optimizer
from dragoman.search import SearchRequest, search
from dragoman.sequences import SourceBatch, TargetBatch, sources_of
from dragoman.text import TokenizerPair
from dragoman.training.step import BatchLoss, accumulate_gradients, batch_loss
from dragoman.translation import Translator

BOS, EOS, SPECIALS = 2, 3, 4
RANKING = {"length_penalty": 1.0, "length_penalty_formula": "power"}
BANNED = -50.0
CPU = torch.device("cpu")


class Peer:
    def __init__(self, options: dict[str, Any]) -> None:
        torch.set_num_threads(options["threads"])
        self.engine, self.precision = options.get("engine", "auto"), options.get("precision", "auto")
        self.decoding = options.get("decoding", {})
        self.autocast = _autocast(options.get("autocast", False))
        self.model: Transformer
        self.run: Any

    def versions(self) -> dict[str, str]:
        return {"dragoman": version("dragoman"), "torch": version("torch")}

    def arithmetic(self) -> str:
        """Of the products, with the bits of a byte that count."""
        precision, _ = ("float32", "") if self.engine == "module" else native_precision(self.precision)
        return f"int8 of {bits()} bits" if precision == "int8" else precision

    def make_model(self, directory: str, sizes: dict[str, Any], banned: bool) -> None:
        """A model with random weights; with `banned`, no special token is ever emitted, not even `</s>`."""
        torch.manual_seed(1)
        config = ModelConfig(**sizes, generator_bias=banned)
        model = build_model(config)
        assert isinstance(model, Transformer)
        _enliven(model)
        if banned:
            with torch.no_grad():
                model.generator.bias[:SPECIALS] = BANNED
        save_pretrained(directory, model, config)

    def load(self, directory: str) -> str:
        """The engine that runs it, and why."""
        model = load_pretrained(directory).model
        assert isinstance(model, Transformer)
        self.model = model
        self.next_token, reason = choose_engine(model, Placement(engine=self.engine, precision=self.precision))
        return f"{self.next_token.name}: {reason}"

    def prepare_decoding(self, batches: list[list[list[int]]], steps: int, beam_size: int) -> None:
        """Outputs of `steps` tokens, the last of which is `</s>`: as many steps as others take for `steps` tokens."""
        options = DecodingConfig(beam_size=beam_size, min_length=steps - 1, max_length=steps - 1)

        def run() -> None:
            for batch in batches:
                search(self.next_token, self._requests(batch, options))

        self.run = run

    def outputs(self, batches: list[list[list[int]]], steps: int, beam_size: int) -> list[list[int]]:
        """The best output of `steps` tokens for each source, without regard to the `</s>` that follows it here."""
        options = DecodingConfig(beam_size=beam_size, n_best=beam_size, min_length=steps, max_length=steps)
        found = [one for batch in batches for one in search(self.next_token, self._requests(batch, options))]
        return [list(max(some, key=lambda one: sum(one.token_log_probabilities[:-1])).tokens) for some in found]

    def _requests(self, batch: list[list[int]], options: DecodingConfig) -> list[SearchRequest]:
        return [SearchRequest(source, options) for source in sources_of(batch)]

    def scores(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each token of an output, without its end, as the engine's own steps find it."""
        longest = max(map(len, targets))
        framed = torch.tensor([[BOS, *ids, *[EOS] * (longest - len(ids))] for ids in targets])
        found = serial_log_probabilities(self.next_token, SourceBatch.of(sources_of(sources)), framed)
        return [row[: len(ids)].tolist() for row, ids in zip(found, targets, strict=True)]

    def load_translator(self, directory: str) -> str:
        """A trained model, from strings to strings."""
        self.directory, precision = directory, {} if self.precision == "auto" else {"precision": self.precision}
        self.translator = Translator.from_pretrained(directory, device="cpu", engine=self.engine, **precision)
        return self.translator.engine_reason

    def prepare_texts(self, texts: list[str], beam_size: int) -> None:
        """As CTranslate2 ranks: by log-probability over length."""
        self.translator.decoding = self.translator.decoding.replace({**RANKING, **self.decoding})
        self.run = lambda: [one.text for one in self.translator.translate(texts, beam_size=beam_size)]

    def score_texts(self, sources: list[str], targets: list[str]) -> list[list[float]]:
        """As `scores`, of texts, by the direction from left to right."""
        self.load(self.directory)
        tokenizers = TokenizerPair.load(self.directory)
        sides = (tokenizers.source, sources), (tokenizers.target, targets)
        return self.scores(*([side.encode(text) for text in texts] for side, texts in sides))

    def prepare_training(self, directory: str, batches: list[list[list[list[int]]]], dropout: float) -> float:
        """Each run makes an update on each batch; returns the loss per token before, without dropout."""
        loaded = load_pretrained(directory)
        config = loaded.config.replace({"dropout": dropout})
        model = build_model(config)
        assert isinstance(model, Transformer)
        model.load_state_dict(loaded.model.state_dict())
        made = [_batch(*batch) for batch in batches]
        with torch.no_grad():
            first = batch_loss(model.eval(), made[0], 0.1)
        optimizer = make_optimizer(model.train(), TrainingConfig())
        for group in optimizer.param_groups:
            group["lr"] = 1e-4

        keep_memory()
        hidden = training_hidden(model)

        def run() -> None:
            for batch in made:
                accumulate_gradients(
                    BatchLoss(model, hidden), [batch], batch.target_tokens, smoothing=0.1, autocast=self.autocast
                )
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()

        self.run = run
        return float(first.loss) / first.count


def bits() -> int:
    """How many bits of a byte count here in int8: all where four products of bytes are summed at once."""
    library = load_library()
    return 8 if not isinstance(library, str) and "avx512" in library.kernels[-1].name else 7


def _autocast(wanted: bool) -> Callable[[], AbstractContextManager[object]]:
    return functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16) if wanted else nullcontext


@torch.no_grad()
def _enliven(model: nn.Module) -> None:
    """Make random weights emit ever other tokens, that depend on the source, so that beams change places.

    As they are drawn they repeat one token. Where the feed-forward blocks outweigh what passes by them, and have no
    mean, about 11 tokens of 14 are different ones.
    """
    for module in model.modules():
        if isinstance(module, FeedForward):
            module.outer.weight *= 4.0
            mean = module.inner.weight.norm(dim=1) / math.sqrt(2 * math.pi)  # of a ReLU of normal numbers
            module.outer.bias.copy_(-(module.outer.weight @ mean))
        elif isinstance(module, MultiHeadAttention):
            module.projection.weight *= 2.0
            module.output.weight *= 0.3


def _batch(sources: list[list[int]], targets: list[list[int]]) -> Batch:
    counts = (sum(len(ids) + 1 for ids in side) for side in (sources, targets))
    return Batch(SourceBatch.of(sources_of(sources)), TargetBatch.of(targets), *counts)
