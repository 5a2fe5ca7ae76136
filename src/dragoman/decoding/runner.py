"""Encoder-decoders run through PyTorch: whatever a `Translator` does that the native engine cannot do by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch

from dragoman.config import DecodingConfig
from dragoman.decoding.alignment import align
from dragoman.decoding.batches import BATCH_TOKENS, length_batches
from dragoman.decoding.beam import beam_search
from dragoman.decoding.both_ways import read_whole
from dragoman.decoding.datastore import Datastore
from dragoman.decoding.ensemble import Ensemble
from dragoman.decoding.greedy import greedy_search
from dragoman.decoding.hypothesis import Hypothesis, IdRequest, check_numbers
from dragoman.decoding.protocol import NextTokenModel, SearchRequest
from dragoman.decoding.remembering import Remembering
from dragoman.decoding.sampling import sample
from dragoman.decoding.scoring import pad_rows, score_serial, score_targets
from dragoman.decoding.translation import PairScore
from dragoman.decoding.whole import force_rows, search_rows
from dragoman.engines import ModuleEngine, NativeEngine, NativeModel, choose_device, choose_engine
from dragoman.engines.native.model import Readings
from dragoman.errors import DataError, ModelError
from dragoman.models import Languages, Pretrained, load_pretrained
from dragoman.nn import Transformer
from dragoman.text import TokenizerPair
from dragoman.text.tokenizer import BOS, EOS


def search(model: NextTokenModel, request: SearchRequest) -> list[list[Hypothesis]]:
    """Sampling, greedy or beam search, as the request's options say; by the native engine as a whole where it can."""
    options = request.options
    if options.sampling:
        return sample(model, request)
    if isinstance(model, NativeEngine) and model.native.knows_positions:
        return search_rows(
            model.native, model.unpadded(request.source), options, request.max_lengths, request.prefixes,
            begin=request.bos, end=request.eos, never=request.never, threads=torch.get_num_threads(),
        )  # fmt: skip
    return greedy_search(model, request) if options.beam_size == 1 else beam_search(model, request)


class Runner:
    """One model, or several that share their tokenizers.

    Args:
        models: encoder-decoders, all on one device.
        engine: which engine runs them; "auto" chooses.
        precision: in which precision it multiplies.
        datastores: of each model; None where it has none.

    Attributes:
        transformers: the models.
        engines: what runs each.
        reason: why the first engine runs, in words.
        model: all of them together, without their datastores.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        engine: str = "auto",
        precision: str = "auto",
        datastores: Sequence[Datastore | None] = (),
    ) -> None:
        self.transformers = list(models)
        self.datastores = list(datastores) or [None] * len(models)
        self._choice = engine, precision
        chosen = [choose_engine(model, engine, precision) for model in models]
        self.engines: list[ModuleEngine] = [one for one, _ in chosen]
        self.reason = chosen[0][1]
        self.model: NextTokenModel = _together(self.engines)

    def with_datastores(self, options: DecodingConfig) -> NextTokenModel:
        """All models together, each with its datastore if it has one that the options give weight to."""
        if options.knn_weight == 0 or not any(self.datastores):
            return self.model
        both = zip(self.engines, self.datastores, strict=True)
        return _together([one if store is None else Remembering(one, store, options) for one, store in both])

    @cached_property
    def turned(self) -> NextTokenModel:
        """All of them together as they read from right to left: the same, but for those with a decoder for it."""
        both = zip(self.transformers, self.engines, strict=True)
        return _together([engine if one.turned() is one else choose_engine(one.turned(), *self._choice)[0]
                          for one, engine in both])  # fmt: skip

    @property
    def native(self) -> Readings | None:
        """The packed model, and one that reads from right to left, if they are all that searches need."""
        model = None if any(self.datastores) else self.model
        if not isinstance(model, NativeEngine) or not model.native.knows_positions:
            return None

        def turned() -> NativeModel:
            assert isinstance(self.turned, NativeEngine)
            return self.turned.native

        return model.native, turned

    def find(self, request: IdRequest) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        return search(
            self.with_datastores(request.options),
            SearchRequest(
                source=pad_rows(request.framed, self.model.device),
                source_lengths=[len(ids) for ids in request.sources],
                options=request.options,
                prefixes=request.prefixes,
                seeds=request.seeds,
            ),
        )

    def force(
        self, sources: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]], options: DecodingConfig
    ) -> list[list[float]]:
        """What a search adds up for given outputs: log-probabilities of their tokens and ends, datastores asked too.

        Args:
            sources: framed ids.
            outputs: one of each, unframed.
            options: whether datastores have weight.
        """
        model = self.with_datastores(options)
        if isinstance(model, NativeEngine) and model.native.knows_positions:
            found = force_rows(model.native, sources, outputs, threads=torch.get_num_threads())
            return [list(one.token_log_probabilities) for one in found]
        return score_serial(model, pad_rows(sources, model.device), outputs)

    def read_backwards(
        self, sources: Sequence[Sequence[int]], outputs: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[float]]:
        """A `dragoman.decoding.both_ways.Reader`; without datastores, which hold what was read forwards."""
        model = self.turned
        if isinstance(model, NativeEngine) and model.native.knows_positions:
            return read_whole(model.native, sources, outputs, torch.get_num_threads())
        backwards = [one[::-1] for some in outputs for one in some]
        owners = [row for row, some in enumerate(outputs) for _ in some]
        batch = pad_rows(sources, model.device)
        values = iter(score_serial(model, batch, backwards, begin=EOS, end=BOS, owners=owners))
        return [[sum(next(values)) for _ in some] for some in outputs]

    def align(self, request: IdRequest, found: Sequence[Sequence[Hypothesis]]) -> list[list[list[tuple[int, int]]]]:
        """Which source token each token of each hypothesis looked at most."""
        framed, aligned = request.framed, [[] for _ in found]
        for rank in range(max(map(len, found), default=0)):
            rows = [row for row, hypotheses in enumerate(found) if rank < len(hypotheses)]
            source = pad_rows([framed[row] for row in rows], self.model.device)
            pairs = align(self.transformers[0], source, [found[row][rank].tokens for row in rows])
            for row, one in zip(rows, pairs, strict=True):
                aligned[row].append(one)
        return aligned

    def score(
        self,
        tokenizers: TokenizerPair,
        sources: Sequence[str],
        targets: Sequence[str],
        options: DecodingConfig,
        right_to_left: bool = False,
        first: int = 0,
    ) -> list[PairScore]:
        """How likely the model finds each target, given its source, with its datastore if it has one.

        Args:
            tokenizers: of both sides.
            sources, targets: a pair each.
            options: whether datastores have weight.
            right_to_left: whether the model learned to read targets from their end, and is to say that too.
            first: number of the first pair in a longer series, for messages.

        Raises:
            DataError: there are not as many targets as sources, or a text is too long to be scored.
        """
        if len(sources) != len(targets):
            raise DataError("a score needs a target for each source", expected=len(sources), found=len(targets))
        source_ids = [tokenizers.source.encode(text) for text in sources]
        target_ids = [tokenizers.target.encode(text) for text in targets]
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(source_ids, target_ids, strict=True)]
        if lengths and max(lengths) > BATCH_TOKENS:
            number = first + 1 + lengths.index(max(lengths))
            limit = f"at most {BATCH_TOKENS - 1} tokens"
            longest, hint = max(lengths) - 1, "leave this pair out"
            raise DataError("a text is too long to be scored", line=number, expected=limit, found=longest, hint=hint)
        found: list[PairScore | None] = [None] * len(sources)
        model = self.with_datastores(options)
        for rows in length_batches(lengths):
            batch = pad_rows([[*source_ids[row], EOS] for row in rows], self.model.device)
            wanted = [target_ids[row] for row in rows]
            scored, behind = score_targets(model, batch, wanted), [None] * len(rows)
            if right_to_left:
                behind = map(sum, score_targets(self.turned, batch, [ids[::-1] for ids in wanted], begin=EOS, end=BOS))
            for row, value, end in zip(rows, scored, behind, strict=True):
                check_numbers(value)
                pieces = tuple(tokenizers.target.pieces(target_ids[row]))
                found[row] = PairScore(sources[row], targets[row], sum(value), pieces, tuple(value), end)
        return [one for one in found if one is not None]


def load_models(paths: Sequence[Path], device: str) -> list[Pretrained]:
    """Encoder-decoders from their directories.

    Raises:
        ModelError: a directory holds no encoder-decoder, or is damaged.
    """
    where = choose_device(device)
    loaded = [load_pretrained(one, where) for one in paths]
    for one, pretrained in zip(paths, loaded, strict=True):
        if not isinstance(pretrained.model, Transformer):
            found, hint = pretrained.config.family, "`dragoman complete` and `dragoman score --text` run it"
            raise ModelError("only an encoder-decoder translates", file=one, found=found, hint=hint)
    return loaded


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


def make_runner(loaded: Sequence[Pretrained], engine: str, precision: str) -> Runner:
    """What runs models that were loaded."""
    return Runner([one.model for one in loaded if isinstance(one.model, Transformer)], engine, precision)


def _together(models: Sequence[NextTokenModel]) -> NextTokenModel:
    return models[0] if len(models) == 1 else Ensemble(models)
