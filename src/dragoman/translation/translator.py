"""Strings in, strings out: a trained encoder-decoder with its tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.config import DecodingConfig
from dragoman.engines.native.model import Readings, default_threads
from dragoman.engines.native.searching import read_whole, search_whole
from dragoman.engines.torch_free import open_torch_free
from dragoman.errors import ConfigError, DataError
from dragoman.models.description import DATASTORE, WEIGHTS, Languages, load_tokenizers, read_config
from dragoman.models.sums import check_aside
from dragoman.search.batches import length_batches
from dragoman.search.guard import is_finished, search_without_loops
from dragoman.search.hypothesis import Hypothesis, IdRequest, changed_options
from dragoman.search.outputs import Alternative, PairScore
from dragoman.search.reranking import in_directions
from dragoman.text.tokenizer import UNK, own_length
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.translation.results import Translation, no_translation


class TorchFree:
    """A model that runs without PyTorch, which is only imported for what this cannot do.

    Attributes:
        native: the packed weights, and what packs those that read from right to left.
        reason: why it runs so, in words.
        load: makes the `Runner` of the same model.
    """

    def __init__(self, native: Readings, reason: str, load: Callable[[], Any]) -> None:
        self.native, self.reason, self.load = native, reason, load


class Translator:
    """Translates strings with one model, or with several that share their tokenizers.

    Args:
        models: encoder-decoders (`dragoman.nn.Transformer`), all on one device; or one that needs no PyTorch.
        tokenizers: source and target tokenizers.
        decoding: options where a call gives none.
        languages: two-letter codes of the sides, where known.
        engine: which engine runs them; "auto" chooses.
        precision: in which precision it multiplies: float32, int8, bfloat16, or the fastest that holds its quality.
        datastores: of each model (`dragoman.memory.Datastore`), None where it has none.
        right_to_left: whether all models learned targets from their end too (`ModelConfig.right_to_left`).
    """

    def __init__(
        self,
        models: Sequence[Any] | TorchFree,
        tokenizers: TokenizerPair,
        decoding: DecodingConfig | None = None,
        languages: Languages | None = None,
        engine: str = "auto",
        precision: str = "auto",
        datastores: Sequence[Any] = (),
        right_to_left: bool = False,
    ) -> None:
        self._torch_free = models if isinstance(models, TorchFree) else None
        self._runner: Any = None if isinstance(models, TorchFree) else _runner(models, engine, precision, datastores)
        self.tokenizers = tokenizers
        self.decoding = decoding or DecodingConfig()
        self.languages = languages or Languages()
        self.right_to_left = right_to_left

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
        await_check = check_aside(paths[0] / WEIGHTS)
        alone = len(paths) == 1 and not (paths[0] / DATASTORE).exists()
        opened = open_torch_free(paths[0], config, device, engine, precision) if alone else None
        if opened is not None:
            tokenizers = load_tokenizers(paths[0], config)
            await_check()
            whole = TorchFree(*opened, partial(_load, paths, device, engine, precision))
            return cls(whole, tokenizers, decoding, languages, right_to_left=bool(config.right_to_left))
        from dragoman.memory.datastore import Datastore
        from dragoman.translation.runner import check_together, load_models

        loaded = load_models(paths, device)
        pairs = [load_tokenizers(one, pretrained.config) for one, pretrained in zip(paths, loaded, strict=True)]
        check_together(paths, pairs, [pretrained.languages for pretrained in loaded])
        models, stores = [pretrained.model for pretrained in loaded], [Datastore.load(one) for one in paths]
        both_ways = all(pretrained.config.right_to_left for pretrained in loaded)
        return cls(models, pairs[0], decoding, languages, engine, precision, stores, both_ways)

    @property
    def runner(self) -> Any:
        """The models run through PyTorch (`dragoman.translation.runner.Runner`), loaded when they are first needed."""
        if self._runner is None:
            assert self._torch_free is not None
            self._runner = self._torch_free.load()
        return self._runner

    @property
    def transformers(self) -> list[Any]:
        """The models (`dragoman.nn.Transformer`)."""
        return self.runner.transformers

    @property
    def engines(self) -> list[Any]:
        """What runs each of them (`dragoman.engines.ModuleEngine`)."""
        return self.runner.engines

    @property
    def engine(self) -> str:
        """The first of the engines and its precision, as `native in int8`."""
        if self._torch_free is not None:
            return f"native in {self._torch_free.native[0].precision}"
        first = self.engines[0]
        return f"{first.name} in {first.precision}"

    @property
    def engine_reason(self) -> str:
        """Why the first of the engines was chosen, in words."""
        return self.runner.reason if self._torch_free is None else self._torch_free.reason

    @property
    def model(self) -> Any:
        """All of them together, as a next-token model."""
        return self.runner.model

    @property
    def device(self) -> Any:
        """Where the models are (`torch.device`)."""
        return self.runner.model.device

    def aids(self, options: DecodingConfig) -> tuple[str, ...]:
        """What a search asks beside one reading of the models: `datastore`, `right to left`."""
        remembers = self._torch_free is None and any(self.runner.datastores) and options.knn_weight != 0
        turns = self.right_to_left and options.right_to_left_weight != 0 and options.is_beam_search
        return (*(["datastore"] if remembers else []), *(["right to left"] if turns else []))

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
            DataError: one text was given in place of a list.
            ConfigError: there are not as many prefixes as texts, or the target vocabulary lacks a word of a prefix; or
                a datastore is given weight that is not there, or a reading that was not learned.
        """
        if isinstance(texts, str):  # it is a sequence of strings too
            raise DataError("a list of texts is translated", expected="[text, ...]", found=f"one text: {texts!r}")
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError("one prefix per text is needed", expected=len(texts), found=len(prefixes))
        if options.knn_weight and "datastore" not in self.aids(options):
            hint = "make one with `dragoman remember`, or leave decoding.knn_weight out"
            raise ConfigError("the model has no datastore", found=f"knn_weight = {options.knn_weight:g}", hint=hint)
        sources = [self.tokenizers.source.encode(text) if text.strip() else [] for text in texts]
        forced = [self._forced(prefix) for prefix in prefixes or ()]
        results: list[Translation | None] = [None] * len(texts)
        longest = options.max_source_length
        batches = list(self._batches([min(len(ids), longest) for ids in sources], options))
        requests = [
            IdRequest(
                [sources[row][:longest] for row in rows],
                options,
                [forced[row] for row in rows] if prefixes else (),
                [first + row for row in rows],
            )
            for rows in batches
        ]
        for rows, request, found in zip(batches, requests, self._find(requests, options), strict=True):
            aligned = self.runner.align(request, found) if alignments else [[None] * len(one) for one in found]
            columns = zip(rows, request.sources, found, aligned, request.max_lengths, strict=True)
            for row, ids, hypotheses, pairs, most in columns:
                cut = own_length(sources[row]) > len(ids)
                results[row] = self._translation(texts[row], ids, hypotheses, pairs, most, cut)
        return [
            result or no_translation(text, alignments=alignments) for text, result in zip(texts, results, strict=True)
        ]

    def _find(self, requests: Sequence[IdRequest], options: DecodingConfig) -> Iterator[list[list[Hypothesis]]]:
        """The hypotheses of each batch; each on a thread of its own where there are batches enough."""
        native = self.runner.native if self._torch_free is None else self._torch_free.native
        if options.sampling or native is None:
            search = in_directions(self.runner.find, self.runner.read_backwards, options, self.right_to_left)
            yield from (search_without_loops(search, request) for request in requests)
            return
        threads = default_threads()
        side_by_side = len(requests) >= 2 * threads and threads > 1
        each = 1 if side_by_side else None
        model, turned = native
        other = turned() if "right to left" in self.aids(options) else model
        find, read = partial(search_whole, model, threads=each), partial(read_whole, other, threads=each)
        search = partial(search_without_loops, in_directions(find, read, options, self.right_to_left))
        if not side_by_side:
            yield from map(search, requests)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(search, requests)

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
        """How likely the model finds each target, given its source. `first` is the number of the first, for messages.

        Raises:
            DataError: there are not as many targets as sources, or a text is too long to be scored.
        """
        return self.runner.score(self.tokenizers, sources, targets, self.decoding, self.right_to_left, first)

    def score_pairs(self, pairs: Iterable[tuple[str, str]], *, chunk: int = 2048) -> Iterator[PairScore]:
        """`score` for a stream of (source, target), `chunk` at a time, in order."""
        from dragoman.text.lines import chunks

        for number, some in enumerate(chunks(pairs, chunk)):
            yield from self.score(*map(list, zip(*some, strict=True)), first=number * chunk)

    def _forced(self, prefix: str) -> list[int]:
        """The ids of a prefix; an unknown word among them would be written as a replacement character.

        Raises:
            ConfigError: there is one.
        """
        target = self.tokenizers.target
        ids = target.encode(prefix) if prefix else []
        if UNK in ids:
            parts = prefix.split() if target.kind == "word" else list(prefix)
            unknown = parts[ids.index(UNK)] if len(parts) == len(ids) else prefix
            raise ConfigError("the target vocabulary lacks what a prefix says", expected="known words or characters",
                              found=f"{unknown!r} in {prefix!r}")  # fmt: skip
        return ids

    def _batches(self, lengths: Sequence[int], options: DecodingConfig) -> Iterator[list[int]]:
        return length_batches(lengths, 1 if options.sampling else options.beam_size)

    def _translation(
        self,
        text: str,
        ids: Sequence[int],
        hypotheses: Sequence[Hypothesis],
        aligned: Sequence[list[tuple[int, int]] | None],
        max_length: int,
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
                finished=is_finished(hypothesis, max_length),
                alignment=None if pairs is None else tuple(pairs),
                right_to_left=hypothesis.right_to_left,
            )
            for hypothesis, pairs in zip(hypotheses, aligned, strict=True)
        ]
        best = outputs[0]
        return Translation(
            best.text, best.score, best.log_probability, best.tokens, best.token_scores,
            source=text,
            source_tokens=tuple(self.tokenizers.source.pieces(ids)),
            alternatives=tuple(outputs),
            alignment=best.alignment,
            right_to_left=best.right_to_left,
            truncated=truncated,
            finished=best.finished,
        )  # fmt: skip


def _runner(models: Sequence[Any], engine: str, precision: str, datastores: Sequence[Any]) -> Any:
    from dragoman.translation.runner import Runner

    return Runner(models, engine, precision, datastores)


def _load(paths: Sequence[Path], device: str, engine: str, precision: str) -> Any:
    from dragoman.translation.runner import load_models, make_runner

    return make_runner(load_models(paths, device), engine, precision)
