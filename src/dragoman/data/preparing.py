"""From raw pairs, or a text, to what training reads: a prepared directory, made once and reused while nothing changes.

```
train/  dev/                            token stores
pool.npy                                of fuzzy matches: which training pairs are alike
tokenizer*.model  vocabulary*.json      tokenizers
dev.source.txt  dev.target.txt          the held-out texts
report.json                             the corpus report
prepared.json                           counts, hashes, settings: written last
```
Of a text, every source is empty.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.config import TrainConfig
from dragoman.data.begun import Begun
from dragoman.data.content import check_settings, data_key, tokenizer_hashes
from dragoman.data.corpora import Corpora, languages_of
from dragoman.data.filtering import Counts, KeptPairs, SeenKeys, drop_texts, tell_counts
from dragoman.data.large import begin, forget, is_large, open_unfinished, unfinished, write_shards
from dragoman.data.limits import LengthsSeen
from dragoman.data.match_candidates import FILE as CANDIDATES_FILE
from dragoman.data.match_candidates import CandidateFinder, MatchCandidates
from dragoman.data.mixing import repeated
from dragoman.data.prepared_files import (
    FORMAT,
    PREPARED,
    file_sum,
    hashes_by_setting,
    put,
    read_facts,
    read_report,
    read_texts,
    restore,
    write_json,
    write_texts,
)
from dragoman.data.shards import open_store
from dragoman.data.sounds import SoundStore, as_heard
from dragoman.data.splitting import choose_held_out
from dragoman.data.store import Row, TokenStore
from dragoman.data.unknown import tell_unknown
from dragoman.errors import DataError
from dragoman.files import (
    remove_orphans,
    sealed,
    temporary_sibling,
    written_as,
)
from dragoman.pace import duration, silent
from dragoman.text import CorpusReport, ReadCounts, TextReport, TokenizerPair
from dragoman.text.lines import file_hash
from dragoman.workers import Cluster, check_workers, open_workers


@dataclass(frozen=True)
class Prepared:
    """Data ready for training.

    Attributes:
        directory: where it lies.
        train: tokenised training pairs; of a text, targets only: every source is empty.
        dev: tokenised held-out pairs.
        tokenizers: of both sides; of a text, one for both.
        dev_source: the texts of the held-out sources, in the order of `dev`.
        dev_target: the texts of the held-out targets.
        counts: "train" and "dev": pairs read, kept, and dropped by reason.
        hashes: SHA-256 of each file that was read.
        report: the corpus report.
        languages: two-letter codes of source and target, where known.
        held_out: whether the dev pairs were split off the training pairs.
        is_text: lines of a text, not pairs.
        key: hash of files and settings; equal keys, equal data.
        match_candidates: of which the fuzzy matches are drawn in training; None without.
        files: the hashes of the files that each setting named, in their order; of older data unknown.
        sizes: training pairs of each file, as they lie one after the other; None of older data.
    """

    directory: Path
    train: TokenStore
    dev: TokenStore
    tokenizers: TokenizerPair
    dev_source: list[str]
    dev_target: list[str]
    counts: dict[str, Counts]
    hashes: dict[str, str]
    report: CorpusReport | TextReport
    languages: tuple[str | None, str | None]
    held_out: bool
    is_text: bool
    key: str
    match_candidates: MatchCandidates | None
    files: dict[str, list[str]]
    sizes: list[int] | None = None

    def dev_inputs(self, most: int) -> list[Any]:
        """Return the first held-out sources, so many at most, as a translator takes them: texts, or waveforms."""
        if isinstance(self.dev, SoundStore):
            return [self.dev.waveform(row) for row in range(min(most, len(self.dev)))]
        return self.dev_source[:most]

    @classmethod
    def open(cls, directory: str | Path, *, verify: bool = True) -> Prepared:
        """Open a prepared directory.

        Args:
            directory: made by `prepare`.
            verify: compare the SHA-256 of every file, which reads all of them, and the ids with the vocabularies.

        Raises:
            DataError: it is not a prepared directory, or a file in it is missing, damaged or changed; names it.
        """
        directory = Path(directory)
        facts = read_facts(directory)
        for name, digest in facts["files"].items():
            if verify and file_sum(directory / name) != digest:
                raise DataError("a prepared file was changed", file=directory / name, hint="prepare the data again")
        report = read_report(
            directory / "report.json", TextReport if facts["is_text"] or facts["listens"] else CorpusReport
        )
        train, tokenizers = open_store(directory / "train", verify=verify), TokenizerPair.load(directory)
        dev = TokenStore.open(directory / "dev", verify=verify)
        if verify:
            for store in (train, dev):
                store.check_ids(tokenizers.source_vocab, len(tokenizers.target))
        matching = tokenizers.matching
        return cls(
            directory=directory,
            train=as_heard(train, tokenizers.sound),
            dev=as_heard(dev, tokenizers.sound),
            tokenizers=tokenizers,
            dev_source=read_texts(directory / "dev.source.txt"),
            dev_target=read_texts(directory / "dev.target.txt"),
            counts={part: Counts.from_dict(count) for part, count in facts["counts"].items()},
            hashes=facts["hashes"],
            report=report,
            languages=(facts["languages"][0], facts["languages"][1]),
            held_out=facts["held_out"],
            is_text=facts["is_text"],
            key=facts["key"],
            files=hashes_by_setting(facts),
            sizes=facts.get("sizes"),
            match_candidates=None
            if matching is None
            else MatchCandidates.load(directory / CANDIDATES_FILE, matching, len(train)),
        )


def prepare(
    config: TrainConfig,
    directory: str | Path,
    *,
    tokenizers: TokenizerPair | None = None,
    workers: int | Cluster = 1,
    report: Callable[[str], None] = silent,
) -> Prepared:
    """Read, report on, split, tokenise and store the pairs, or the text, of a config.

    A directory prepared before from the same files with the same settings is opened instead. A new one appears whole
    or not at all. With `data.prepared` set, that directory is opened and nothing is made.

    Args:
        config: its `data` and `tokenizer` sections, and the family of model.
        directory: where to put it; must be new, empty, or prepared before.
        tokenizers: use these instead of training new ones.
        workers: processes that encode a large corpus, or where Ray runs; 1 is this process with all its threads.
        report: takes lines of plain text: the corpus report, its warnings, choices and counts.

    Raises:
        DataError: a file cannot be used, no pair is left, or the directory holds something else.
        ConfigError: no files were given, or not of the sort that the family of model learns from (pairs for an
            encoder-decoder, a text for all others), settings do not fit the text, or there cannot be so many workers.
    """
    check_workers(workers)
    directory = Path(directory)
    restore(directory)
    if config.data.prepared is not None:
        return _open_given(Path(config.data.prepared), config, tokenizers)
    corpora = Corpora.open(config)
    hashes = {path: digest for part in corpora.all for path, digest in part.hashes().items()}
    key = data_key(config, [[hashes[path] for path in part.files] for part in corpora.all], tokenizers, corpora.sizes())
    if (directory / PREPARED).exists():
        try:
            prepared = Prepared.open(directory)
        except DataError as error:
            report(f"the data in {directory} is damaged and is made again: {error.message}")
        else:
            if prepared.key == key:
                report(f"data: {directory} is up to date: {prepared.counts['train']}")
                return replace(prepared, hashes=hashes, languages=languages_of(config))
    elif directory.exists() and any(directory.iterdir()):
        raise DataError(
            "the directory contains something else, not prepared data", file=directory, hint="choose another"
        )
    if directory.resolve() == Path.cwd():
        raise DataError("prepared data need a directory of their own", found="the current one", hint="give another")
    remove_orphans(directory)
    _make(directory, config, corpora, tokenizers, {"key": key, "hashes": hashes}, workers, report)
    return Prepared.open(directory, verify=False)


def _make(
    directory: Path,
    config: TrainConfig,
    corpora: Corpora,
    tokenizers: TokenizerPair | None,
    known: dict[str, Any],
    workers: int | Cluster,
    report: Callable[[str], None],
) -> None:
    """Prepare a corpus beside its directory, and put it there."""
    large = is_large(corpora, config, tokenizers)
    temporary = unfinished(directory) if large else temporary_sibling(directory)
    try:
        with written_as(temporary, directory):
            if large:
                facts = _build_large(temporary, known["key"], config, corpora, tokenizers, workers, report)
            else:
                if workers != 1:
                    report("data: a corpus of one shard is prepared by one process")
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir(parents=True)
                facts = _build(temporary, config, corpora, tokenizers, report)
            facts |= {"format": FORMAT, **known, "languages": languages_of(config)}
            facts["files"] = {path.name: file_hash(path) for path in sorted(temporary.iterdir()) if path.is_file()}
            write_json(temporary / PREPARED, sealed(facts))
            put(temporary, directory)
    finally:
        if not large:
            shutil.rmtree(temporary, ignore_errors=True)


def _build(
    folder: Path,
    config: TrainConfig,
    corpora: Corpora,
    tokenizers: TokenizerPair | None,
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Everything but `prepared.json`; returns its facts."""
    data, unit = config.data, corpora.unit
    found = corpora.report(config)
    for line in (*found.lines(), *(f"warning: {warning}" for warning in found.warnings)):
        report(line)
    write_json(folder / "report.json", found.to_dict())
    chosen = None if corpora.dev.files else choose_held_out(corpora.train, unit)
    counts, reading = {part: Counts(unit=unit) for part in ("train", "dev")}, ReadCounts()
    dev = corpora.dev.read(reading) if chosen is None else (pair for pair in corpora.train if chosen(pair))
    kept_dev = list(drop_texts(dev, counts["dev"]))
    seen = SeenKeys.of(kept_dev) if data.drop_overlap else None
    kept = KeptPairs(corpora.train, data, chosen, seen, counts["train"])
    plain = tokenizers or corpora.train_tokenizers(kept, config, report)
    tokenizers = corpora.with_matches(kept, plain, data, report, given=tokenizers is not None)
    tokenizers.save(folder)
    size, listens = max(tokenizers.source_vocab or 0, len(tokenizers.target)), tokenizers.sound is not None
    encoded = list(corpora.encode(kept_dev, tokenizers, config, counts["dev"], limit_ratio=False))
    ids = ((source, target) for _, source, target in encoded)
    held_out = TokenStore.write(folder / "dev", ids, vocabulary_size=size, sounds=listens)
    write_texts(folder / "dev.source.txt", (pair.source for pair, _, _ in encoded))
    write_texts(folder / "dev.target.txt", (pair.target for pair, _, _ in encoded))
    counts["dev"].take_in(reading)
    lengths = LengthsSeen()
    pairs = corpora.encode(kept, tokenizers.without_matches(), config, counts["train"], limit_ratio=True)
    pairs = pairs if corpora.is_text or listens else lengths.watch(pairs)
    sizes = dict.fromkeys((*data.source, *data.pairs, *data.text), 0)
    train = _write_train(folder, repeated(pairs, data.repeats, sizes), tokenizers, size, report)
    for part, count in counts.items():
        tell_counts(part, count, report)
    tell_unknown({"train": train, "dev": held_out}, tokenizers, config, "lines" if listens else unit, report)
    if not listens:
        lengths.report(config.decoding, report)
    if data.repeat:
        report(f"train: {len(train):,} {unit} with those that are repeated")
    return _facts(config, corpora, tokenizers, counts, sizes)


def _build_large(
    folder: Path,
    key: str,
    config: TrainConfig,
    corpora: Corpora,
    tokenizers: TokenizerPair | None,
    workers: int | Cluster,
    report: Callable[[str], None],
) -> dict[str, Any]:
    """The same of a corpus in shards; what is complete is not made again."""
    with open_workers(workers) as opened:
        shared = None if workers == 1 else opened
        if not open_unfinished(folder, key, report):
            folder.mkdir(parents=True)
            begin(folder, key, corpora, config, tokenizers, shared, report)
        dev, held_out = TokenStore.open(folder / "dev"), Begun.load(folder).counts
        train, count, sizes = write_shards(folder, corpora, config, shared, report)
    counts, made = {"train": count, "dev": held_out}, TokenizerPair.load(folder)
    for part, one in counts.items():
        tell_counts(part, one, report)
    tell_unknown({"train": train, "dev": dev}, made, config, corpora.unit, report)
    forget(folder)
    return _facts(config, corpora, made, counts, sizes)


def _facts(
    config: TrainConfig, corpora: Corpora, tokenizers: TokenizerPair, counts: dict[str, Counts], sizes: dict[str, int]
) -> dict[str, Any]:
    sides = {"source": (tokenizers.source, tokenizers.source_vocab), "target": (tokenizers.target, None)}
    listens = tokenizers.sound is not None
    return {
        "held_out": not corpora.dev.files,
        "is_text": corpora.is_text,
        "listens": listens,
        "counts": {part: count.to_dict() for part, count in counts.items()},
        "tokenizers": {side: {"kind": one.kind, "size": size or len(one)} for side, (one, size) in sides.items()},
        "joint": tokenizers.joint,
        "sizes": list(sizes.values()),
        "settings": {
            "data": {**config.data.to_dict(), "fuzzy_matches": tokenizers.count_of_matches},
            "tokenizer": config.tokenizer.to_dict(),
            **({"audio": config.audio.to_dict()} if listens else {}),
        },
    }


def _write_train(
    folder: Path,
    pairs: Iterable[tuple[Row, list[int]]],
    tokenizers: TokenizerPair,
    size: int,
    report: Callable[[str], None],
) -> TokenStore:
    matching, sound = tokenizers.matching, tokenizers.sound
    if matching is None:
        store = TokenStore.write(folder / "train", pairs, vocabulary_size=size, sounds=sound is not None)
        if sound is not None:
            report(f"train: {duration(SoundStore(store, sound).seconds)} of sound")
        return store
    maker = CandidateFinder(matching, report)
    train = TokenStore.write(folder / "train", maker.read(pairs), vocabulary_size=size)
    maker.match_candidates().save(folder / CANDIDATES_FILE)
    return train


def _open_given(directory: Path, config: TrainConfig, tokenizers: TokenizerPair | None) -> Prepared:
    prepared, family = Prepared.open(directory), config.model.family
    hint = f"prepare it again with --family {family}"
    if prepared.is_text == config.model.learns_pairs:
        wanted, found = ("pairs", "a text") if config.model.learns_pairs else ("a text", "pairs")
        hint = f"train another family (--family) on it, or prepare {wanted}"
        raise DataError(f"a {family} model learns from {wanted}", file=directory, found=found, hint=hint)
    if family == "masked" and prepared.tokenizers.target.mask is None:
        raise DataError("a masked model needs a <mask> in its vocabulary", file=directory, hint=hint)
    if tokenizers is not None and tokenizer_hashes(tokenizers) != tokenizer_hashes(prepared.tokenizers):
        raise DataError(
            "the data was prepared with other tokenizers than the model has",
            file=directory,
            hint="prepare it again with the model's own, or give the text files",
        )
    check_settings(directory, config)
    source, target = prepared.languages
    data = config.data
    return replace(prepared, languages=(data.source_language or source, data.target_language or target))
