"""From raw pairs to what training reads: a prepared directory, made once and reused while nothing changes.

```
train/  dev/                            token stores
tokenizer*.model  vocabulary*.json      tokenizers
dev.source.txt  dev.target.txt          the held-out texts
report.json                             the corpus report
prepared.json                           counts, hashes, settings: written last
```
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.config import DataConfig, TrainConfig
from dragoman.data.filtering import Counts, SeenKeys, drop_texts, encode_pairs
from dragoman.data.splitting import choose_held_out
from dragoman.data.store import TokenStore
from dragoman.errors import DataError
from dragoman.files import flush_directory, write_new_file
from dragoman.text.corpus import Pair, ParallelCorpus, guess_language
from dragoman.text.lines import ReadCounts, file_hash
from dragoman.text.report import CorpusReport, corpus_report
from dragoman.text.tokenizer_pair import TokenizerPair

FORMAT = 1
_PARTS = ("train", "dev", "test")
_FILES = (*(f"{part}{side}" for part in ("", "dev_", "test_") for side in ("source", "target", "pairs")), "prepared")
_FACTS = {"counts", "hashes", "languages", "held_out", "key"}
_MAX_JSON = 16 * 2**20


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True)
class Prepared:
    """Data ready for training.

    Attributes:
        directory: where it lies.
        train: tokenised training pairs.
        dev: tokenised held-out pairs.
        tokenizers: of both sides.
        dev_source: the texts of the held-out sources, in the order of `dev`.
        dev_target: the texts of the held-out targets.
        counts: "train" and "dev": pairs read, kept, and dropped by reason.
        hashes: SHA-256 of each file that was read.
        report: the corpus report.
        languages: two-letter codes of source and target, where known.
        held_out: whether the dev pairs were split off the training pairs.
        key: hash of files and settings; equal keys, equal data.
    """

    directory: Path
    train: TokenStore
    dev: TokenStore
    tokenizers: TokenizerPair
    dev_source: list[str]
    dev_target: list[str]
    counts: dict[str, Counts]
    hashes: dict[str, str]
    report: CorpusReport
    languages: tuple[str | None, str | None]
    held_out: bool
    key: str

    @classmethod
    def open(cls, directory: str | Path, *, verify: bool = False) -> Prepared:
        """Open a prepared directory.

        Args:
            directory: made by `prepare`.
            verify: also compare the SHA-256 of the token stores, which reads all of them.

        Raises:
            DataError: it is not a prepared directory, or a file in it is missing, damaged or changed; names it.
        """
        from pydantic import TypeAdapter, ValidationError

        directory = Path(directory)
        facts = _read_facts(directory)
        for name, digest in facts["files"].items():
            if file_hash(directory / name) != digest:
                raise DataError("a prepared file was changed", file=directory / name, hint="prepare the data again")
        try:
            report = TypeAdapter(CorpusReport).validate_json((directory / "report.json").read_bytes())
        except ValidationError as error:
            raise DataError("not a corpus report", file=directory / "report.json", found=error) from error
        return cls(
            directory=directory,
            train=TokenStore.open(directory / "train", verify=verify),
            dev=TokenStore.open(directory / "dev", verify=verify),
            tokenizers=TokenizerPair.load(directory),
            dev_source=_read_texts(directory / "dev.source.txt"),
            dev_target=_read_texts(directory / "dev.target.txt"),
            counts={
                part: Counts(count["read"], count["kept"], Counter(count["dropped"]))
                for part, count in facts["counts"].items()
            },
            hashes=facts["hashes"],
            report=report,
            languages=(facts["languages"][0], facts["languages"][1]),
            held_out=facts["held_out"],
            key=facts["key"],
        )


def prepare(
    config: TrainConfig,
    directory: str | Path,
    *,
    tokenizers: TokenizerPair | None = None,
    report: Callable[[str], None] = _silent,
) -> Prepared:
    """Read, report on, split, tokenise and store the pairs of a config.

    A directory prepared before from the same files with the same settings is opened instead. A new one appears whole
    or not at all. With `data.prepared` set, that directory is opened and nothing is made.

    Args:
        config: its `data` and `tokenizer` sections, and the family of model.
        directory: where to put it; must be new, empty, or prepared before.
        tokenizers: use these instead of training new ones.
        report: takes lines of plain text: the corpus report, its warnings, choices and counts.

    Raises:
        DataError: a file cannot be used, no pair is left, or the directory holds something else.
        ConfigError: no files were given, or settings do not fit the text.
    """
    data, directory = config.data, Path(directory)
    if data.prepared is not None:
        return _open_given(Path(data.prepared), data, tokenizers)
    train, dev, test = (ParallelCorpus.from_config(data, part) for part in _PARTS)
    hashes = {**train.hashes(), **dev.hashes(), **test.hashes()}
    key = _key(config, [[hashes[path] for path in corpus.files] for corpus in (train, dev, test)], tokenizers)
    if (directory / "prepared.json").exists():
        try:
            prepared = Prepared.open(directory)
        except DataError as error:
            report(f"the data in {directory} is damaged and is made again: {error.message}")
        else:
            if prepared.key == key:
                report(f"data: {directory} is up to date: {prepared.counts['train']}")
                return replace(prepared, hashes=hashes, languages=_languages(data))
    elif directory.exists() and any(directory.iterdir()):
        raise DataError("the directory holds something else than prepared data", file=directory, hint="choose another")
    temporary = directory.with_name(f".tmp-{directory.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        facts = _build(temporary, config, train, dev, test, tokenizers, report)
        facts |= {"format": FORMAT, "key": key, "hashes": hashes, "languages": _languages(data)}
        facts["files"] = {path.name: file_hash(path) for path in sorted(temporary.iterdir()) if path.is_file()}
        _write_json(temporary / "prepared.json", facts)
        _move(temporary, directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Prepared.open(directory)


def _build(
    folder: Path,
    config: TrainConfig,
    train: ParallelCorpus,
    dev: ParallelCorpus,
    test: ParallelCorpus,
    tokenizers: TokenizerPair | None,
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Everything but `prepared.json`; returns its facts."""
    data = config.data
    found = corpus_report(train, dev if dev.files else None, test if test.files else None)
    for line in (*found.lines(), *(f"warning: {warning}" for warning in found.warnings)):
        report(line)
    _write_json(folder / "report.json", found.to_dict())
    chosen = None if dev.files else choose_held_out(train)
    dev_counts, reading = Counts(), ReadCounts()
    dev_pairs = list(dev.read(reading)) if chosen is None else [pair for pair in train if chosen(pair)]
    kept_dev = list(drop_texts(dev_pairs, dev_counts))
    kept_train = _Kept(train, data, chosen, SeenKeys.of(kept_dev) if data.drop_overlap else None)
    tokenizers = tokenizers or TokenizerPair.train(kept_train, config.tokenizer, mask=_has_mask(config), report=report)
    tokenizers.save(folder)
    size = max(len(tokenizers.source), len(tokenizers.target))

    encoded = list(encode_pairs(kept_dev, tokenizers, data, dev_counts, limit_ratio=False))
    TokenStore.write(folder / "dev", ((source, target) for _, source, target in encoded), vocabulary_size=size)
    _write_texts(folder / "dev.source.txt", (pair.source for pair, _, _ in encoded))
    _write_texts(folder / "dev.target.txt", (pair.target for pair, _, _ in encoded))
    dev_counts.unreadable(reading.skipped)

    pairs = encode_pairs(kept_train, tokenizers, data, kept_train.counts)
    TokenStore.write(folder / "train", ((source, target) for _, source, target in pairs), vocabulary_size=size)
    counts = {"train": kept_train.counts, "dev": dev_counts}
    for part, count in counts.items():
        report(f"{part}: {count}")
        if not count.kept:
            raise DataError(f"no {'training' if part == 'train' else 'held-out'} pair is left", found=count)
    sides = {"source": tokenizers.source, "target": tokenizers.target}
    return {
        "held_out": chosen is not None,
        "counts": {part: count.to_dict() for part, count in counts.items()},
        "tokenizers": {side: {"kind": one.kind, "size": len(one)} for side, one in sides.items()},
        "joint": tokenizers.joint,
        "settings": config.model_dump(mode="json", include={"data", "tokenizer"}),
    }


class _Kept:
    """The training pairs that pass the filters on text; `counts` belongs to the latest pass."""

    def __init__(
        self, corpus: ParallelCorpus, data: DataConfig, chosen: Callable[[Pair], bool] | None, seen: SeenKeys | None
    ) -> None:
        self._corpus, self._data, self._chosen, self._seen = corpus, data, chosen, seen
        self.counts = Counts()

    def __iter__(self) -> Iterator[Pair]:
        counts, reading = self.counts, ReadCounts()
        counts.clear()
        pairs = self._corpus.read(reading)
        if self._chosen is not None:
            pairs = self._without(pairs, self._chosen)
        yield from drop_texts(pairs, counts, drop_duplicates=self._data.drop_duplicates, seen=self._seen)
        counts.unreadable(reading.skipped)

    def _without(self, pairs: Iterable[Pair], chosen: Callable[[Pair], bool]) -> Iterator[Pair]:
        for pair in pairs:
            if chosen(pair):
                self.counts.read += 1
                self.counts.dropped["held out"] += 1
            else:
                yield pair


def _has_mask(config: TrainConfig) -> bool:
    return config.model.family == "masked"


def _open_given(directory: Path, data: DataConfig, tokenizers: TokenizerPair | None) -> Prepared:
    prepared = Prepared.open(directory)
    if tokenizers is not None and _tokenizer_hashes(tokenizers) != _tokenizer_hashes(prepared.tokenizers):
        raise DataError(
            "the data was prepared with other tokenizers than the model has",
            file=directory,
            hint="prepare it again with the model's own, or give the text files",
        )
    source, target = prepared.languages
    return replace(prepared, languages=(data.source_language or source, data.target_language or target))


def _languages(data: DataConfig) -> tuple[str | None, str | None]:
    return (
        data.source_language or guess_language(data.source),
        data.target_language or guess_language(data.target),
    )


def _key(config: TrainConfig, hashes: list[list[str]], tokenizers: TokenizerPair | None) -> str:
    settings = {
        "format": FORMAT,
        "data": config.data.model_dump(mode="json", exclude={*_FILES, "source_language", "target_language"}),
        "files": [len(config.data.pairs), len(config.data.dev_pairs), len(config.data.test_pairs), hashes],
        "tokenizer": _tokenizer_hashes(tokenizers) if tokenizers else config.tokenizer.model_dump(mode="json"),
        "mask": _has_mask(config),
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _tokenizer_hashes(tokenizers: TokenizerPair) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        tokenizers.save(folder)
        return {path.name: file_hash(path) for path in sorted(Path(folder).iterdir())}


def _move(temporary: Path, directory: Path) -> None:
    flush_directory(temporary)
    old = directory.with_name(f".old-{directory.name}")
    shutil.rmtree(old, ignore_errors=True)
    if directory.exists():
        os.rename(directory, old)
    os.rename(temporary, directory)
    flush_directory(directory.parent)
    shutil.rmtree(old, ignore_errors=True)


def _read_facts(directory: Path) -> dict[str, Any]:
    path = directory / "prepared.json"
    try:
        with open(path, "rb") as stream:
            facts = json.loads(stream.read(_MAX_JSON).decode("utf-8"))
        if facts["format"] != FORMAT:
            raise DataError("prepared data of an unknown format", file=path, expected=FORMAT, found=facts["format"])
        if any(Path(name).name != name for name in facts["files"]) or not facts.keys() >= _FACTS:
            raise ValueError("entries are missing or wrong")
    except OSError as error:
        raise DataError("not a prepared directory", file=path, found=error.strerror) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError("the description of the prepared data is damaged", file=path, found=error) from error
    return facts


def _write_json(path: Path, tree: dict[str, Any]) -> None:
    write_new_file(path, (json.dumps(tree, ensure_ascii=False, indent=2) + "\n").encode("utf-8"))


def _write_texts(path: Path, texts: Iterable[str]) -> None:
    write_new_file(path, "".join(f"{text}\n" for text in texts).encode("utf-8"))


def _read_texts(path: Path) -> list[str]:
    # Not `read_lines`: a CR at the end of a text was a character of it.
    return path.read_bytes().decode("utf-8").split("\n")[:-1]
