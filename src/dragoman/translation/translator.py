"""Strings in, strings out: a trained encoder-decoder with its tokenizers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.config import DecodingConfig, Placement
from dragoman.engines.torch_free import open_torch_free
from dragoman.errors import ConfigError, DataError
from dragoman.models.description import DATASTORE, Languages, load_tokenizers, read_config
from dragoman.search.batches import length_batches
from dragoman.search.guard import Guarded, is_finished
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.outputs import Alternative, PairScore
from dragoman.search.request import SearchRequest, changed_options
from dragoman.sequences.source import Source
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.translation.backend import Backend
from dragoman.translation.plan import SearchPlan
from dragoman.translation.results import Translation, no_translation
from dragoman.translation.scoring import score_targets

if TYPE_CHECKING:
    import torch

    from dragoman.memory.datastore import Datastore
    from dragoman.nn import Transformer
    from dragoman.translation.torch_backend import TorchBackend


class Translator:
    """Translates strings with one model, or with several that share their tokenizers.

    Args:
        models: encoder-decoders, all on one device; or what runs them already.
        tokenizers: of both sides.
        decoding: options where a call gives none.
        languages: two-letter codes of the sides, where known.
        engine: which engine runs models; "auto" chooses.
        precision: in which precision it multiplies: float32, int8, bfloat16, or the fastest that holds its quality.
        datastores: of each model, None where it has none.
        right_to_left: whether all models learned targets right to left too (`ModelConfig.right_to_left`).

    Attributes:
        backend: what runs the models.
    """

    def __init__(
        self,
        models: Sequence[Transformer] | Backend,
        tokenizers: TokenizerPair,
        decoding: DecodingConfig | None = None,
        languages: Languages | None = None,
        engine: str = "auto",
        precision: str = "auto",
        datastores: Sequence[Datastore | None] = (),
        right_to_left: bool = False,
    ) -> None:
        if not isinstance(models, Backend):
            made = _torch_backend(models, Placement(engine=engine, precision=precision), datastores)
            models = Backend(lambda: made, learned_right_to_left=right_to_left)
        self.backend, self.tokenizers = models, tokenizers
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
        config, decoding, languages = read_config(paths[0])
        alone = len(paths) == 1 and not (paths[0] / DATASTORE).exists()
        placement = Placement(device, engine, precision)
        tokenizers = load_tokenizers(paths[0], config)  # before the weights, which are larger
        opened = open_torch_free(paths[0], config, placement) if alone else None
        if opened is not None:
            opened.await_check()
            backend = Backend(
                partial(_load, paths, placement), whole=opened.searcher, reason=opened.reason,
                learned_right_to_left=bool(config.right_to_left),
            )  # fmt: skip
            return cls(backend, tokenizers, decoding, languages)
        from dragoman.memory.datastore import Datastore
        from dragoman.translation.torch_backend import check_together, load_models, transformers_of

        loaded = load_models(paths, device)
        pairs = [load_tokenizers(one, pretrained.config) for one, pretrained in zip(paths, loaded, strict=True)]
        check_together(paths, pairs, [pretrained.languages for pretrained in loaded])
        models, stores = list(transformers_of(loaded)), [Datastore.load(one) for one in paths]
        right_to_left = all(pretrained.config.right_to_left for pretrained in loaded)
        return cls(models, pairs[0], decoding, languages, engine, precision, stores, right_to_left)

    @property
    def transformers(self) -> list[Transformer]:
        """The models."""
        return self.backend.models

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self.backend.device

    @property
    def engine(self) -> str:
        """The first of the engines and its precision, as `native in int8`."""
        return self.backend.name

    @property
    def engine_reason(self) -> str:
        """Why the first of the engines was chosen, in words."""
        return self.backend.reason

    @property
    def right_to_left(self) -> bool:
        """Whether all models learned targets right to left too."""
        return self.backend.learned_right_to_left

    def plan(self, options: DecodingConfig) -> SearchPlan:
        """Return the search that options ask for.

        Raises:
            ConfigError: the models do not have what an option gives weight to.
        """
        return SearchPlan.of(options, self.backend)

    def aids(self, options: DecodingConfig) -> tuple[str, ...]:
        """Return what a search asks besides the left-to-right models: `datastore`, `right to left`."""
        return self.plan(options).aids

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
            beam_size: 1 is greedy search; at most 1024.
            n_best: outputs per text, at most `beam_size` unless sampling.
            length_penalty: alpha of the formula.
            length_penalty_formula: "gnmt", "power" or "reward".
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
            ConfigError: options contradict each other, there are not as many prefixes as texts, or the target
                vocabulary lacks a word of a prefix.
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
        """Return the model's decoding options with some changed, checked together."""
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
        """Translate as `translate` does, with all options in one object.

        Raises:
            DataError: one text was given in place of a list.
            ConfigError: there are not as many prefixes as texts, or the target vocabulary lacks a word of a prefix; or
                a datastore is given weight that is not there, or a direction that was not learned.
        """
        if isinstance(texts, str):  # it is a sequence of strings too
            raise DataError("a list of texts is translated", expected="[text, ...]", found=f"one text: {texts!r}")
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError("one prefix per text is needed", expected=len(texts), found=len(prefixes))
        plan = self.plan(options)
        most = options.max_source_length
        sources = [self.tokenizers.encode_source(text, most) if text.strip() else Source(()) for text in texts]
        forced = [self._forced(prefix) for prefix in prefixes or [""] * len(texts)]
        cut = [source.cut(most) for source in sources]
        batches = list(self._batches([source.width for source in cut], options))
        asked = [[plan.request(cut[row], forced[row], first + row) for row in rows] for rows in batches]
        results: list[Translation | None] = [None] * len(texts)
        for rows, requests, found in zip(batches, asked, self._run(plan, asked), strict=True):
            pairs = self._align(requests, found.hypotheses) if alignments else None
            for place, (row, request) in enumerate(zip(rows, requests, strict=True)):
                aligned = None if pairs is None else pairs[place]
                results[row] = self._translation(
                    texts[row], request, found.hypotheses[place], aligned, len(sources[row]) > len(request.source)
                )
        return [
            result or no_translation(text, alignments=alignments) for text, result in zip(texts, results, strict=True)
        ]

    def _run(self, plan: SearchPlan, batches: Sequence[Sequence[SearchRequest]]) -> Iterator[Guarded]:
        """What is found for each batch; each on a thread of its own where there are batches enough."""
        workers, threads = self.backend.workers(len(batches), plan.options)
        search = partial(plan.run, threads=threads)
        if workers == 1:
            yield from map(search, batches)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(search, batches)

    def _align(
        self, requests: Sequence[SearchRequest], found: Sequence[Sequence[Hypothesis]]
    ) -> list[list[list[tuple[int, int]]]]:
        return self.backend.torch.align([request.source for request in requests], found)

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

        Raises:
            ConfigError: the target vocabulary lacks a word of the prefix; before any line is read.
        """
        self._forced(prefix)
        return self._translated(lines, options, prefix, chunk, alignments)

    def _translated(
        self, lines: Iterable[str], options: DecodingConfig, prefix: str, chunk: int, alignments: bool
    ) -> Iterator[Translation]:
        from dragoman.text.lines import chunks  # not above: for one sentence it is not needed

        done = 0
        for texts in chunks(lines, chunk):
            prefixes = [prefix if text.strip() else "" for text in texts]
            yield from self.translate_with(texts, options, prefixes=prefixes, alignments=alignments, first=done)
            done += len(texts)

    def score(self, sources: Sequence[str], targets: Sequence[str], *, first: int = 0) -> list[PairScore]:
        """Return how likely the model finds each target, given its source. `first` numbers the first, for messages.

        Raises:
            DataError: there are not as many targets as sources, or a text is too long to be scored.
        """
        return score_targets(self.backend, self.tokenizers, sources, targets, self.decoding, first=first)

    def score_pairs(self, pairs: Iterable[tuple[str, str]], *, chunk: int = 2048) -> Iterator[PairScore]:
        """Yield what `score` returns for a stream of (source, target), `chunk` at a time, in order."""
        from dragoman.text.lines import chunks

        done = 0
        for some in chunks(pairs, chunk):
            yield from self.score(*map(list, zip(*some, strict=True)), first=done)
            done += len(some)

    def _forced(self, prefix: str) -> list[int]:
        """The ids of a prefix; an unknown word among them would be written as a replacement character.

        Raises:
            ConfigError: there is one.
        """
        target = self.tokenizers.target
        ids = target.encode(prefix) if prefix else []
        if target.unk in ids:
            parts = prefix.split() if target.kind == "word" else list(prefix)
            unknown = parts[ids.index(target.unk)] if len(parts) == len(ids) else prefix
            raise ConfigError("the target vocabulary lacks what a prefix says", expected="known words or characters",
                              found=f"{unknown!r} in {prefix!r}")  # fmt: skip
        return ids

    def _batches(self, lengths: Sequence[int], options: DecodingConfig) -> Iterator[list[int]]:
        return length_batches(lengths, 1 if options.sampling else options.beam_size)

    def _translation(
        self,
        text: str,
        request: SearchRequest,
        hypotheses: Sequence[Hypothesis],
        aligned: Sequence[list[tuple[int, int]]] | None,
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
                finished=is_finished(hypothesis, request.max_length),
                alignment=None if pairs is None else tuple(pairs),
                right_to_left=hypothesis.right_to_left,
            )
            for hypothesis, pairs in zip(hypotheses, aligned or [None] * len(hypotheses), strict=True)
        ]
        best = outputs[0]
        return Translation(
            best.text, best.score, best.log_probability, best.tokens, best.token_scores,
            source=text,
            source_tokens=tuple(self.tokenizers.source_pieces(request.source)),
            alternatives=tuple(outputs),
            alignment=best.alignment,
            right_to_left=best.right_to_left,
            truncated=truncated,
            finished=best.finished,
        )  # fmt: skip


def _torch_backend(
    models: Sequence[Transformer], placement: Placement, datastores: Sequence[Datastore | None] = ()
) -> TorchBackend:
    from dragoman.translation.torch_backend import TorchBackend

    return TorchBackend(models, placement, datastores)


def _load(paths: Sequence[Path], placement: Placement) -> TorchBackend:
    from dragoman.translation.torch_backend import load_models, transformers_of

    return _torch_backend(list(transformers_of(load_models(paths, placement.device))), placement)
