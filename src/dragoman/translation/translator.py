"""Strings in, strings out: a trained encoder-decoder with its tokenizers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.audio.listing import Given
from dragoman.config import DecodingConfig, Placement
from dragoman.engines.forking import OneAtATime
from dragoman.errors import ConfigError
from dragoman.given import as_texts
from dragoman.models.description import Languages
from dragoman.models.hub import on_disk
from dragoman.models.language_tokens import pair_for, told_languages
from dragoman.models.opened import Reopened
from dragoman.search.batches import length_batches
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.outputs import PairScore
from dragoman.search.request import changed_options
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.translation.backend import Backend
from dragoman.translation.checks import prefix_ids
from dragoman.translation.opening import backend_of, open_model
from dragoman.translation.plan import SearchPlan
from dragoman.translation.results import Translation
from dragoman.translation.scoring import score_stream, score_targets
from dragoman.translation.texts import AskedTexts, ask, tell

if TYPE_CHECKING:
    import torch

    from dragoman.memory.datastore import Datastore
    from dragoman.nn import Transformer
    from dragoman.translation.scheduler import Scheduler


class Translator(Reopened):
    """Translates strings with one model, or with several that share their tokenizers.

    A model that listens is given sounds for texts: paths, lines of a list of recordings, or `audio.Waveform`s.
    Threads may share one. A forked child goes on with one thread of PyTorch; to other processes it is pickled as the
    paths of its models, whose files must be the same there.

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
        adapters: translators with an adapter each, by name.
    """

    _scheduler: Scheduler | None
    base: object = None  # what shares weights with it

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
            placement = Placement(engine=engine, precision=precision)
            models = backend_of(models, placement, datastores, right_to_left=right_to_left)
        self.backend, self.tokenizers = models, tokenizers
        self.decoding = decoding or DecodingConfig()
        self.languages = told_languages(tokenizers, languages or Languages())
        self.adapters: dict[str, Translator] = {}
        self._making, self._scheduler = OneAtATime(), None

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        device: str = "auto",
        engine: str = "auto",
        precision: str = "auto",
        adapters: Mapping[str, str | Path] | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> Translator:
        """Load a run or model directory, or several that were trained with the same tokenizers, as an ensemble.

        Args:
            path: the directory, or several; `org/name` is fetched from the Hugging Face hub, with the extra `hub`.
            device: auto, cpu, cuda or mps.
            engine: auto, native, packed or module.
            precision: auto, float32, int8 or bfloat16.
            adapters: directories of adapters over one model, or of runs that trained them, by the names that
                `translate(adapter=...)` has for them; what they do not change they share with each other.
            source_language: of a model for many languages, another than that of its import.
            target_language: likewise.

        Raises:
            ConfigError: adapters are given to an ensemble, or the model has no such language.
            ModelError: a directory holds no encoder-decoder, is damaged, or has other tokenizers than the first; or an
                adapter is of another base.
        """
        paths = [on_disk(path)] if isinstance(path, (str, Path)) else [on_disk(one) for one in path]
        found = open_model(paths, Placement(device, engine, precision))
        translator = cls(found.backend, found.tokenizers, found.decoding, found.languages)
        translator.opened = found.files
        if adapters:
            from dragoman.translation.adapted import open_adapters

            placement = Placement(device, engine, precision)
            translator.adapters = open_adapters(paths, adapters, placement)
            found.files.how["adapters"] = {name: os.path.abspath(one) for name, one in adapters.items()}
        return translator.with_languages(source_language, target_language)

    def with_adapter(self, name: str | None) -> Translator:
        """Return what translates with one of the adapters; None: without any.

        Raises:
            ConfigError: there is no such adapter.
        """
        if name is not None and name not in self.adapters:
            there = ", ".join(self.adapters) or "none: from_pretrained(path, adapters={name: directory}) opens some"
            raise ConfigError("there is no such adapter", expected=there, found=repr(name))
        return self if name is None else self.adapters[name]

    def with_languages(self, source: str | None = None, target: str | None = None) -> Translator:
        """Return what translates other languages of a model for many, with the same weights; None: those it has.

        Raises:
            ConfigError: the model is for one pair of languages, or has no such language.
        """
        if source is None and target is None:
            return self
        asked = {"source": source, "target": target}
        languages = self.languages.replace({side: None for side, code in asked.items() if code is not None})
        made = Translator(self.backend, pair_for(self.tokenizers, asked, self.languages), self.decoding, languages)
        made.adapters = {name: one.with_languages(source, target) for name, one in self.adapters.items()}
        made.opened = self.opened and self.opened.opened_with({"source_language": source, "target_language": target})
        return made

    def _details(self) -> Iterator[str]:
        source, target = self.languages.source, self.languages.target
        if source and target:
            yield f"{source} to {target}"
        yield self.engine

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
        return SearchPlan.of(options, self.backend, self.tokenizers.target.decode)

    def aids(self, options: DecodingConfig) -> tuple[str, ...]:
        """Return what a search asks besides the left-to-right models: `datastore`, `right to left`."""
        return self.plan(options).aids

    def translate(
        self,
        texts: Iterable[Given],
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
        prefixes: Iterable[str] | None = None,
        alignments: bool = False,
        first: int = 0,
        adapter: str | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> list[Translation]:
        """Translate each text; results come in the order of the texts, and batch mates never change them.

        Args:
            texts: strings: a list, a generator, a pandas Series, a NumPy array; a blank one gives an empty translation.
            beam_size: 1 is greedy search; at most 1024. Options left at None are the model's own (`DecodingConfig`).
            n_best: outputs per text, at most `beam_size` unless sampling; different ones unless drawn, or fewer.
            length_penalty: alpha of the formula.
            length_penalty_formula: "gnmt", "power" or "reward".
            min_length: tokens at least.
            max_length: tokens at most; follows from the source if None.
            no_repeat_ngram: no n-gram of this size twice; 0 is off.
            sampling: draw instead of searching.
            temperature: above 1 flattens, below 1 sharpens what is drawn from.
            top_k: draw among so many likeliest tokens; 0 is all.
            top_p: draw among the likeliest tokens that reach this probability together.
            seed: of the draws.
            prefixes: one string per text that its output must begin with; "" for none.
            alignments: also tell which source piece each output piece looked at most.
            first: number of the first text in a longer series; text number and seed determine a draw.
            adapter: the name of one that was opened with the model.
            source_language: of a model for many languages, another than that of its import, such as `fra_Latn`.
            target_language: likewise.

        Raises:
            DataError: one text was given in place of a list, or one of them is no string.
            ConfigError: options contradict each other, prefixes do not fit, or there is no such adapter or language.
        """
        given = {
            "beam_size": beam_size, "n_best": n_best, "length_penalty": length_penalty,
            "length_penalty_formula": length_penalty_formula, "min_length": min_length, "max_length": max_length,
            "no_repeat_ngram": no_repeat_ngram, "sampling": sampling, "temperature": temperature, "top_k": top_k,
            "top_p": top_p, "sampling_seed": seed,
        }  # fmt: skip
        options = self.options({name: value for name, value in given.items() if value is not None})
        model = self.with_adapter(adapter).with_languages(source_language, target_language)
        return model.translate_with(texts, options, prefixes=prefixes, alignments=alignments, first=first)

    def options(self, changes: dict[str, Any]) -> DecodingConfig:
        """Return the model's decoding options with some changed, checked together.

        Raises:
            ConfigError: one is unknown or wrong, two contradict each other, or one would do nothing.
        """
        options = changed_options(self.decoding, changes)
        if "knn_neighbours" in changes and not self.backend.has_datastore:
            hint = "make one with `dragoman remember`, or leave decoding.knn_neighbours out"
            raise ConfigError(
                "the model has no datastore", found=f"knn_neighbours = {options.knn_neighbours}", hint=hint
            )
        return options

    def translate_with(
        self,
        texts: Iterable[Given],
        options: DecodingConfig,
        *,
        prefixes: Iterable[str] | None = None,
        alignments: bool = False,
        first: int = 0,
    ) -> list[Translation]:
        """Translate as `translate` does, with all options in one object.

        Raises:
            DataError: one text was given in place of a list, one of them is no string, or has a line break in it.
            ConfigError: there are not as many prefixes as texts, or the target vocabulary lacks a word of a prefix; or
                a datastore is given weight that is not there, or a direction that was not learned.
        """
        texts = list(self.tokenizers.given(texts, first=first))
        asked = self.ask(texts, options, prefixes, first)
        batches = list(length_batches(asked.widths, 1 if options.sampling else options.beam_size))
        requests = [[request for row in rows if (request := asked.requests[row]) is not None] for rows in batches]
        found: list[Sequence[Hypothesis] | None] = [None] * len(texts)
        for rows, guarded in zip(batches, asked.plan.run_all(requests), strict=True):
            for row, hypotheses in zip(rows, guarded.hypotheses, strict=True):
                found[row] = hypotheses
        return self.tell(asked, found, alignments=alignments)

    def ask(
        self, texts: Iterable[Given], options: DecodingConfig, prefixes: Iterable[str] | None = None, first: int = 0
    ) -> AskedTexts:
        """Return what a search is asked for some texts; arguments and errors as for `translate_with`."""
        texts = list(self.tokenizers.given(texts, first=first))
        prefixes = None if prefixes is None else as_texts(prefixes, "prefixes", first)
        return ask(self.tokenizers, self.plan(options), texts, prefixes, first)

    def tell(
        self, asked: AskedTexts, found: Sequence[Sequence[Hypothesis] | None], *, alignments: bool = False
    ) -> list[Translation]:
        """Return what was found for some texts, best first for each, as translations in their order."""
        return tell(self.tokenizers, self.backend.align, asked, found, alignments=alignments)

    async def translate_async(
        self,
        texts: Iterable[Given],
        options: DecodingConfig | None = None,
        *,
        prefixes: Iterable[str] | None = None,
        alignments: bool = False,
        seconds: float | None = None,
    ) -> list[Translation]:
        """Translate as `translate_with` does, without blocking the event loop, beside other calls that are running.

        Cancelling the task frees what it takes at the next step. The searches run on one thread of their own.

        Args:
            texts: any number of strings.
            options: the model's own if None.
            prefixes: one string per text that its output must begin with; "" for none.
            alignments: also tell which source piece each output piece looked at most.
            seconds: of waiting and work at most.

        Raises:
            TimeoutError: it took longer.
            OverloadError: too many calls wait already.
            ConfigError: as `translate_with`.
            DataError: likewise.
        """
        given = None if prefixes is None else as_texts(prefixes, "prefixes")
        return await self.scheduler().translate(
            as_texts(texts), options, prefixes=given, alignments=alignments, seconds=seconds
        )

    def scheduler(self) -> Scheduler:
        """Return what `translate_async` shares its searches by: one for each process, made when it is first asked."""
        from dragoman.translation.scheduler import Scheduler

        with self._making:
            if self._scheduler is None or not self._scheduler.is_open:
                self._scheduler = Scheduler(self)
            return self._scheduler

    def translate_lines(
        self,
        lines: Iterable[Given],
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
        prefix_ids(self.tokenizers.target, prefix)
        lines = self.tokenizers.given(lines, "lines")
        chunk = chunk if self.tokenizers.sound is None else min(chunk, 128)  # recordings are large
        return self._translated(lines, options, prefix, chunk, alignments)

    def _translated(
        self, lines: Iterable[Given], options: DecodingConfig, prefix: str, chunk: int, alignments: bool
    ) -> Iterator[Translation]:
        from dragoman.text.lines import chunks  # not above: for one sentence it is not needed

        done = 0
        for texts in chunks(lines, chunk):
            prefixes = [prefix if str(text).strip() else "" for text in texts]
            yield from self.translate_with(texts, options, prefixes=prefixes, alignments=alignments, first=done)
            done += len(texts)

    def score(self, sources: Iterable[Given], targets: Iterable[str], *, first: int = 0) -> list[PairScore]:
        """Return how likely the model finds each target, given its source: NaN where one has 4,096 tokens or more.

        Raises:
            DataError: there are not as many targets as sources, or one is no string.
        """
        sources, targets = list(self.tokenizers.given(sources, "sources", first)), as_texts(targets, "targets", first)
        return score_targets(self.backend, self.tokenizers, sources, targets, self.decoding)

    def score_pairs(self, pairs: Iterable[tuple[Given, str] | None], *, chunk: int = 2048) -> Iterator[PairScore]:
        """Return what `score` returns for a stream of (source, target), in order, `chunk` at a time; of None, NaN."""
        return score_stream(self.score, pairs, chunk)
