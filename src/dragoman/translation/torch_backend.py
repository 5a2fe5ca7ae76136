"""Encoder-decoders run through PyTorch: whatever the packed weights of one model cannot do by themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import torch

from dragoman.config import DecodingConfig, Placement
from dragoman.engines import ModuleEngine, choose_device, choose_engine
from dragoman.engines.native.model import NativeModel
from dragoman.engines.native.searching import NativeSearcher
from dragoman.errors import ModelError
from dragoman.memory.datastore import Datastore
from dragoman.memory.knn import KnnModel
from dragoman.models import Languages, Pretrained, for_direction, load_pretrained
from dragoman.nn import Transformer
from dragoman.search.continuous import ContinuousSearch
from dragoman.search.dispatch import search
from dragoman.search.ensemble import Ensemble
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.joint import ctc_share
from dragoman.search.protocol import NextTokenModel
from dragoman.search.request import SearchRequest
from dragoman.search.scoring import score_serial, score_targets
from dragoman.search.stepped import SteppedSearch
from dragoman.sequences import Direction, Source, SourceBatch
from dragoman.text import TokenizerPair
from dragoman.translation.alignment import align
from dragoman.translation.checks import check_family
from dragoman.translation.off_frames import with_head


class TorchBackend:
    """One model, or several that decide together, with their datastores.

    Args:
        models: encoder-decoders, all on one device.
        placement: which engine runs them, and in which precision.
        datastores: of each model; None where it has none.

    Attributes:
        models: the encoder-decoders.
        engines: what runs each.
        reason: why the first engine runs, in words.
        together: all of the models as one, without their datastores.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        placement: Placement,
        datastores: Sequence[Datastore | None] = (),
    ) -> None:
        self.models = list(models)
        self.datastores = list(datastores) or [None] * len(models)
        self._placement = placement
        chosen = [choose_engine(model, placement) for model in models]
        self.engines: list[ModuleEngine] = [one for one, _ in chosen]
        self.reason = chosen[0][1]
        self.together: NextTokenModel = _together(self.engines)

    @property
    def name(self) -> str:
        """The first of the engines and its precision."""
        return f"{self.engines[0].name} in {self.engines[0].precision}"

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.together.device

    def next_token_model(self, options: DecodingConfig) -> NextTokenModel:
        """Return all models together, each with its datastore and its head, if the options give weight to them."""
        share = ctc_share(options, self.has_heads)
        asks = options.knn_weight != 0 and any(self.datastores)
        if not share and not asks:
            return self.together
        stores = self.datastores if asks else [None] * len(self.engines)
        engines = [
            one if store is None else KnnModel(one, store, options)
            for one, store in zip(self.engines, stores, strict=True)
        ]
        return _together([with_head(*both, share) for both in zip(self.models, engines, strict=True)])

    @cached_property
    def has_heads(self) -> bool:
        """Whether all models read tokens off frames too."""
        return all(model.ctc is not None for model in self.models)

    @cached_property
    def right_to_left(self) -> NextTokenModel:
        """All models together in the right-to-left direction: the same, but for those with a decoder for it."""
        other = [for_direction(one, Direction.RIGHT_TO_LEFT) for one in self.models]
        return _together([engine if reads is one else choose_engine(reads, self._placement)[0]
                          for reads, one, engine in zip(other, self.models, self.engines, strict=True)])  # fmt: skip

    @cached_property
    def whole(self) -> NativeSearcher | None:
        """What answers whole requests by itself, if that is all that searches need."""
        one = None if any(self.datastores) else _whole(self.together)
        return None if one is None else NativeSearcher(one.model, self._native_right_to_left, head=self.has_heads)

    def _native_right_to_left(self) -> NativeModel:
        other = _whole(self.right_to_left)
        assert other is not None
        return other.model

    def search(self, requests: Sequence[SearchRequest]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request, best first; all requests have the same weight of datastores."""
        return search(self.next_token_model(requests[0].options), requests) if requests else []

    def continuous(
        self, options: DecodingConfig, direction: Direction
    ) -> tuple[Hashable, Callable[[], ContinuousSearch]]:
        """Return what opens a search that requests with such options may join; as `Backend.continuous`."""
        if direction is Direction.RIGHT_TO_LEFT:
            return ("steps", direction), lambda: SteppedSearch(self.right_to_left)
        asked = (options.knn_weight, options.knn_neighbours) if any(self.datastores) else None
        share = ctc_share(options, self.has_heads)
        return ("steps", direction, asked, share), lambda: SteppedSearch(self.next_token_model(options))

    def force(
        self,
        sources: Sequence[Source],
        outputs: Sequence[Sequence[Sequence[int]]],
        options: DecodingConfig,
        direction: Direction,
    ) -> list[list[list[float]]]:
        """Return what a search adds up for given outputs; as `Backend.force`."""
        model = self.next_token_model(options) if direction is Direction.LEFT_TO_RIGHT else self.right_to_left
        if (whole := _whole(model)) is not None:
            return whole.force(sources, outputs, direction)
        owners = [row for row, some in enumerate(outputs) for _ in some]
        ordered = [direction.ordered(one) for some in outputs for one in some]
        values = iter(
            score_serial(
                model, SourceBatch.of(sources, self.device), ordered, frame=direction.frame(),
                owners=None if owners == list(range(len(sources))) else owners,
            )
        )  # fmt: skip
        return [[next(values) for _ in some] for some in outputs]

    def score(
        self,
        sources: Sequence[Source],
        targets: Sequence[Sequence[int]],
        options: DecodingConfig,
        direction: Direction,
    ) -> list[list[float]]:
        """Return the log-probability of each token of a target of each source, and of its end, in one pass if it can.

        Args:
            sources: what is read.
            targets: one of each, unframed, from left to right.
            options: whether datastores have weight.
            direction: how targets are read; datastores know only the one from left to right.
        """
        model = self.next_token_model(options) if direction is Direction.LEFT_TO_RIGHT else self.right_to_left
        ordered = [direction.ordered(one) for one in targets]
        return score_targets(model, SourceBatch.of(sources, self.device), ordered, frame=direction.frame())

    def align(
        self, sources: Sequence[Source], found: Sequence[Sequence[Hypothesis]]
    ) -> list[list[list[tuple[int, int]]]]:
        """Return which source token each token of each hypothesis looked at most."""
        aligned: list[list[list[tuple[int, int]]]] = [[] for _ in found]
        for rank in range(max(map(len, found), default=0)):
            rows = [row for row, hypotheses in enumerate(found) if rank < len(hypotheses)]
            targets = [found[row][rank].tokens for row in rows]
            pairs = align(self.models[0], [sources[row] for row in rows], targets)
            for row, one in zip(rows, pairs, strict=True):
                aligned[row].append(one)
        return aligned


def load_models(paths: Sequence[Path], device: str) -> list[Pretrained]:
    """Return encoder-decoders from their directories.

    Raises:
        ModelError: a directory holds no encoder-decoder, or is damaged.
    """
    where = choose_device(device)
    loaded = [load_pretrained(one, where) for one in paths]
    for one, pretrained in zip(paths, loaded, strict=True):
        check_family(one, pretrained.config.family)
    return loaded


def transformers_of(loaded: Sequence[Pretrained]) -> Iterator[Transformer]:
    """Yield the encoder-decoders among models that were loaded."""
    return (one.model for one in loaded if isinstance(one.model, Transformer))


def check_together(paths: Sequence[Path], pairs: Sequence[TokenizerPair], languages: Sequence[Languages]) -> None:
    """Refuse models that cannot decide together.

    Raises:
        ModelError: one has other tokenizers or fuzzy matches than the first, or translates between other languages.
    """
    first = languages[0]
    for path, pair, its in zip(paths, pairs, languages, strict=True):
        if not pair.is_like(pairs[0]):
            expected = f"those of {paths[0]}"
            raise ModelError("an ensemble needs the same tokenizers and fuzzy matches", file=path, expected=expected)
        sides = ((first.source, its.source), (first.target, its.target))
        if any(mine and other and mine != other for mine, other in sides):
            raise ModelError(
                "an ensemble translates between the same languages", file=path,
                expected=f"{first.source} to {first.target}", found=f"{its.source} to {its.target}",
            )  # fmt: skip


def _together(models: Sequence[NextTokenModel]) -> NextTokenModel:
    return models[0] if len(models) == 1 else Ensemble(models)


def _whole(model: NextTokenModel) -> NativeSearcher | None:
    return getattr(model, "whole", None)
