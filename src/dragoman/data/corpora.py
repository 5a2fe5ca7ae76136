"""The corpora of a config, and all that differs between pairs and one text on the way to token stores."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from dragoman.audio.front_end import FrontEnd
from dragoman.audio.listing import Recording
from dragoman.config import DataConfig, TrainConfig, file_keys
from dragoman.data.filtering import Counts, Encoded, KeptPairs, encode_lines, encode_pairs
from dragoman.data.sounds import encode_sounds, first_rate
from dragoman.errors import ConfigError
from dragoman.text import (
    CorpusReport,
    Pair,
    PairFormat,
    ParallelCorpus,
    TextCorpus,
    TextReport,
    TokenizerPair,
    corpus_report,
    guess_language,
    text_report,
)
from dragoman.text.choices import choose_matches, is_of_symbols
from dragoman.text.corpus import Corpus

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")


@dataclass(frozen=True)
class Corpora:
    """Training, held-out and test part of what a model learns from: pairs, or a text, which is pairs without a source.

    Attributes:
        train: what is learned from.
        dev: what validation measures; empty if it is to be split off.
        test: only compared with `train`.
        is_text: lines of a text, not pairs.
        listens: sources are recordings.
    """

    train: Corpus
    dev: Corpus
    test: Corpus
    is_text: bool
    listens: bool = False

    @classmethod
    def open(cls, config: TrainConfig) -> Corpora:
        """Return the corpora that a config names; none is read yet.

        Raises:
            ConfigError: there is nothing to train on, files are not of the sort that the family of model learns from,
                or they do not go together.
        """
        data, is_text = config.data, not config.model.learns_pairs
        _check_sort(config)
        if is_text:
            train, dev, test = (TextCorpus.from_config(data, part) for part in PARTS)
        else:
            train, dev, test = (ParallelCorpus.from_config(data, part) for part in PARTS)
        return cls(train, dev, test, is_text, bool(data.source_audio))

    @property
    def unit(self) -> Literal["pairs", "lines"]:
        """What its members are called."""
        return "lines" if self.is_text else "pairs"

    @property
    def all(self) -> tuple[Corpus, ...]:
        """The three parts."""
        return self.train, self.dev, self.test

    def sizes(self) -> str | None:
        """Return a sum over the sizes of all recordings, which are too many to be read for it; None of texts."""
        if not self.listens:
            return None
        found = hashlib.sha256()
        for part in self.all:
            for pair in part:
                path = Recording.of_line(pair.source).path
                with suppress(OSError):  # reading it tells what is wrong
                    found.update(f"{os.path.getsize(path)} ".encode())
        return found.hexdigest()

    def report(self, config: TrainConfig) -> CorpusReport | TextReport:
        """Return the report on the corpora (`text.Report`), its warnings included: none of what settings see to."""
        look = text_report if self.is_text or self.listens else corpus_report
        dev, test = (part if part.files else None for part in (self.dev, self.test))
        drop = {name: getattr(config.data, name) for name in ("drop_duplicates", "drop_overlap")}
        return look(self.train, dev, test, normalize=config.tokenizer.normalize or "chosen", **drop)

    def train_tokenizers(self, kept: KeptPairs, config: TrainConfig, report: Callable[[str], None]) -> TokenizerPair:
        """Train tokenizers on what is kept of the training part; those of masked models know `<mask>`."""
        kept.check_any()
        if self.listens:
            front_end = FrontEnd.of(config.audio, first_rate(kept))
            report(f"sounds: {front_end}")
            pair = TokenizerPair.train_one(kept, config.tokenizer, report=report)
            return TokenizerPair(pair.source, pair.target, sound=front_end)
        train = TokenizerPair.train_one if self.is_text else TokenizerPair.train
        return train(kept, config.tokenizer, mask=config.model.family == "masked", report=report)

    def with_matches(
        self,
        kept: Iterable[Pair],
        tokenizers: TokenizerPair,
        data: DataConfig,
        report: Callable[[str], None],
        *,
        given: bool,
    ) -> TokenizerPair:
        """Return the tokenizers, with fuzzy matches from what is kept of the training part if the config asks for them.

        Where it leaves that open, a model to start from stays as it is, and else the corpus decides (`choose_matches`).

        Raises:
            ConfigError: matches are asked for a text; or the tokenizers are those of a model that reads matches and the
                config says none, or the other way round where that changes the source vocabulary.
        """
        if self.listens:
            return self._without_matches(tokenizers, data)
        count, had, why = data.fuzzy_matches, tokenizers.matching, ""
        if count is None and given:
            count = tokenizers.count_of_matches
        elif count is None:
            pairs = sum(1 for _ in kept) if is_of_symbols(tokenizers.target) else 0  # texts are not read for it
            count = choose_matches(tokenizers.source, tokenizers.target, pairs)
            why = f" ({pairs:,} pairs of symbols, which the model keeps; data.fuzzy_matches = 0 does without)"
        if had is not None and not count:
            hint = f"set data.fuzzy_matches = {had.count}"
            raise ConfigError("the model to start from reads fuzzy matches, and none are asked for", hint=hint)
        if not count:
            return tokenizers
        if self.is_text:
            raise ConfigError("a text has no sources to find matches for", found=f"data.fuzzy_matches = {count}",
                              hint="leave it out, or give pairs")  # fmt: skip
        if given and had is None and not tokenizers.joint:
            hint = "set data.fuzzy_matches = 0, or start from nothing"
            raise ConfigError(
                "a model with two vocabularies cannot begin to read fuzzy matches", found=count, hint=hint
            )
        plain = tokenizers.without_matches()
        pairs = encode_pairs(kept, plain, data, Counts(unit=self.unit))
        found = plain.with_matches(
            ((list(source), target) for _, source, target in pairs), count=count, limit=data.max_source_tokens
        )
        report(f"matches: each source is read with the targets of the {count} training pairs most like it{why}")
        return found

    def _without_matches(self, tokenizers: TokenizerPair, data: DataConfig) -> TokenizerPair:
        if data.fuzzy_matches:
            raise ConfigError("recordings have no fuzzy matches", found=f"data.fuzzy_matches = {data.fuzzy_matches}",
                              hint="leave it out")  # fmt: skip
        if tokenizers.sound is None:
            hint = "start from a model that was trained with --source-audio, or from nothing"
            raise ConfigError("the model to start from reads texts, and does not listen", hint=hint)
        return tokenizers

    def encode(
        self, kept: Iterable[Pair], tokenizers: TokenizerPair, config: TrainConfig, counts: Counts, *, limit_ratio: bool
    ) -> Iterator[Encoded]:
        """Yield what is kept with its ids, or its samples and ids; `counts` is filled in."""
        data = config.data
        if tokenizers.sound is not None:
            return encode_sounds(kept, tokenizers.sound, tokenizers.target, data, config.audio, counts)
        if self.is_text:
            return encode_lines(kept, tokenizers.target, data, counts)
        return encode_pairs(kept, tokenizers, data, counts, limit_ratio=limit_ratio)


def languages_of(config: TrainConfig) -> tuple[str | None, str | None]:
    """Return the two-letter codes of source and target, given or guessed from names of files or columns; a text has a
    target only.
    """
    data = config.data
    if not config.model.learns_pairs:
        return None, data.target_language or guess_language(data.text)
    if data.source_audio:
        return data.source_language, data.target_language or guess_language(data.target)
    named = PairFormat.from_config(data).codes
    source = data.source_language or guess_language(data.source) or named[0]
    return source, data.target_language or guess_language(data.target) or named[1]


def _check_sort(config: TrainConfig) -> None:
    """Refuse a text for an encoder-decoder, pairs for the others, and nothing for any."""
    pairs, texts = ([key for key in file_keys(sort) if getattr(config.data, key)] for sort in ("pairs", "text"))
    family = config.model.family
    if config.model.learns_pairs and texts:
        raise ConfigError(
            "an encoder-decoder learns from pairs, not from a text", found=_options(texts),
            hint="name the family that learns from it (--family causal, masked, first-order, ...), or give pairs",
        )  # fmt: skip
    if not config.model.learns_pairs and pairs:
        raise ConfigError(
            f"a {family} model learns from one text; pairs train an encoder-decoder", found=_options(pairs),
            hint="give the text with --text, or leave out --family",
        )  # fmt: skip
    if not config.model.learns_pairs and not config.data.text:
        raise ConfigError("there is nothing to train on: no training text was given", hint="give --text")
    if not (pairs or texts):
        raise ConfigError(
            "there is nothing to train on: no training pairs were given",
            hint="give --source and --target, or --pairs; --source-audio and --target of recordings; or a text with "
            "--text and --family",
        )


def _options(keys: list[str]) -> str:
    return ", ".join("--" + key.replace("_", "-") for key in keys)
