"""Preparing a corpus of very many pairs: a shard at a time, in memory that does not grow with it, by all processors.

It is read twice. The first time (`begin`) its pairs are counted, those to be held out and those that repeat others are
found, and an even sample is kept: the report, what is chosen, and the tokenizers are made from that. The second time
(`write_shards`) so many pairs of the files at a time become a shard. Whatever is complete stays when the process ends,
and the same call goes on from there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.config import TrainConfig
from dragoman.data.begun import BEGUN, KEYS, Begun, kept_texts
from dragoman.data.corpora import Corpora
from dragoman.data.filtering import Counts, KeptPairs, SeenKeys, drop_texts
from dragoman.data.mixing import repeated
from dragoman.data.prepared_files import write_json, write_texts
from dragoman.data.repetitions import Repetitions
from dragoman.data.shards import finish, shard_path
from dragoman.data.sharing import Encoding, SharedShards, hashed
from dragoman.data.splitting import Candidates, is_held_out
from dragoman.data.store import DESCRIPTION, TokenStore
from dragoman.files import parse_json, read_json, remove_temporaries, write_new_file
from dragoman.pace import Pace
from dragoman.remote import local_file
from dragoman.text import Pair, ReadCounts, TokenizerPair
from dragoman.text.corpus import Corpus, ParallelCorpus
from dragoman.text.lines import count_lines
from dragoman.text.opening import COMPRESSED, is_stream
from dragoman.text.pair_readers import layout_of, read_pairs
from dragoman.workers import Workers

Tell = Callable[[str], None]
# Pairs that the report, the choices and the tokenizers are made from: so many, up to twice as many.
SAMPLE = 250_000
PACKED = (*COMPRESSED, ".parquet")  # whose bytes do not tell how many pairs they hold at most
_SMALLEST_PAIR = 4  # bytes, with the ends of both lines


@dataclass(frozen=True)
class Sample(Corpus):
    """Some pairs of a corpus, in their order."""

    pairs: tuple[Pair, ...]
    names: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the whole corpus."""
        return self.names

    def read(self, counts: ReadCounts | None = None) -> Iterator[Pair]:
        """Yield the pairs."""
        del counts
        return iter(self.pairs)


def is_large(corpora: Corpora, config: TrainConfig, tokenizers: TokenizerPair | None) -> bool:
    """Return whether a corpus is prepared in shards: pairs of text, more of them than one shard has.

    Raises:
        DataError: a file cannot be read.
    """
    matches = config.data.fuzzy_matches or (tokenizers is not None and tokenizers.matching is not None)
    train, limit = corpora.train, config.data.shard_pairs
    if not isinstance(train, ParallelCorpus) or corpora.listens or matches:
        return False
    plain = not any(is_stream(path) or Path(path).suffix in PACKED for path in train.files)
    if plain and sum(os.path.getsize(local_file(path)) for path in train.files) <= _SMALLEST_PAIR * limit:
        return False
    count = sum(count_lines(source) for source, _ in train.aligned)
    for path in train.pairs:
        if layout_of(path) in ("tmx", "parquet"):
            found = read_pairs(path, train.form, on_bad_text="replace", counts=ReadCounts())
            count += sum(1 for _ in islice(found, limit + 1))
        else:
            count += count_lines(path)
    return count > limit


def unfinished(directory: Path) -> Path:
    """Return where a large corpus is prepared until all of it is there."""
    return directory.with_name(f".unfinished-{directory.name}")


def open_unfinished(folder: Path, key: str, report: Tell) -> bool:
    """Return whether a preparation of data with this key has begun in the folder; one of other data is deleted."""
    if not folder.is_dir():
        return False
    begun = folder / BEGUN
    if begun.is_file() and read_json(begun).get("key") == key:
        report("data: going on with a preparation that was stopped")
        return True
    shutil.rmtree(folder)
    return False


def first_reading(
    folder: Path, corpora: Corpora, config: TrainConfig, workers: Workers | None, report: Tell
) -> tuple[Begun, Sample, list[Pair]]:
    """Read all pairs once; return what was found, an even sample, and the held-out pairs.

    Args:
        folder: for what takes more than memory.
        corpora: the pairs.
        config: its `data`.
        workers: who compute hashes; None: this process.
        report: takes a line of plain text now and then.

    Raises:
        DataError: a file cannot be read, or there is nothing to hold out.
    """
    held = None if corpora.dev.files else Candidates()
    repetitions = Repetitions(folder / "repetitions") if config.data.drop_duplicates else None
    sample, stride, total = list[Pair](), 1, 0
    pace = Pace(report, "first reading: pairs", None)
    asked = held is not None, repetitions is not None
    for pair, place, key in hashed(corpora.train, asked, workers):
        if total % stride == 0:
            sample.append(pair)
            if len(sample) == 2 * SAMPLE:
                sample, stride = sample[::2], 2 * stride
        total += 1
        if held is not None:
            held.add(pair, place)
        if repetitions is not None:
            repetitions.add(key)
        if total % 2**14 == 0:
            pace.at(total)
    found = np.zeros(0, np.uint8)
    if repetitions is not None:
        found = repetitions.found()
        shutil.rmtree(folder / "repetitions")
    held_out = None if held is None else held.chosen(corpora.unit)
    counts, reading = Counts(unit=corpora.unit), ReadCounts()
    dev = corpora.dev.read(reading) if held is None or held_out is None else iter(held.pairs(held_out))
    kept = list(drop_texts(dev, counts))
    counts.take_in(reading)
    seen = SeenKeys.of(kept) if config.data.drop_overlap else None
    return Begun(total, held_out, found, seen, counts), Sample(tuple(sample), corpora.train.files), kept


def begin(
    folder: Path,
    key: str,
    corpora: Corpora,
    config: TrainConfig,
    tokenizers: TokenizerPair | None,
    workers: Workers | None,
    report: Tell,
) -> None:
    """Make all but the shards: the report, the tokenizers and the held-out part; see `first_reading`."""
    begun, sample, kept = first_reading(folder, corpora, config, workers, report)
    sampled = replace(corpora, train=sample)
    found = sampled.report(config)
    report(f"{begun.pairs:,} pairs; what follows is of {len(sample.pairs):,}, spread evenly over them")
    for line in (*found.lines(), *(f"warning: {warning}" for warning in found.warnings)):
        report(line)
    write_json(folder / "report.json", found.to_dict())
    if tokenizers is None:
        chosen = begun.held_out
        test = None if chosen is None else lambda pair: is_held_out(pair, chosen)
        trained_on = KeptPairs(sample, config.data, test, begun.seen, Counts(unit=corpora.unit))
        tokenizers = sampled.train_tokenizers(trained_on, config, report)
    tokenizers.save(folder)
    encoded = list(corpora.encode(kept, tokenizers, config, begun.counts, limit_ratio=False))
    ids = ((source, target) for _, source, target in encoded)
    TokenStore.write(folder / "dev", ids, vocabulary_size=_size(tokenizers))
    write_texts(folder / "dev.source.txt", (pair.source for pair, _, _ in encoded))
    write_texts(folder / "dev.target.txt", (pair.target for pair, _, _ in encoded))
    begun.save(folder, key)


def _size(tokenizers: TokenizerPair) -> int:
    return max(len(tokenizers.source), len(tokenizers.target))


def write_shards(
    folder: Path, corpora: Corpora, config: TrainConfig, workers: Workers | None, report: Tell
) -> tuple[TokenStore, Counts, dict[str, int]]:
    """Write the shards that are not there yet; return the store, the counts, and how many pairs each file gave.

    Args:
        folder: where `begin` left what it made.
        corpora: the pairs.
        config: its `data`.
        workers: who filter and encode; None: this process, with all its threads.
        report: takes a line of plain text now and then.

    Raises:
        DataError: a file cannot be read.
    """
    begun, tokenizers, data, reading = Begun.load(folder), TokenizerPair.load(folder), config.data, ReadCounts()
    train, total = folder / "train", Counts(unit=corpora.unit)
    train.mkdir(exist_ok=True)
    remove_temporaries(train)
    sizes = dict.fromkeys((*data.source, *data.pairs), 0)
    pairs, pace = corpora.train.read(reading), Pace(report, "train: pairs", begun.pairs)
    done = {number for number in range(-(-begun.pairs // data.shard_pairs)) if shard_path(train, number).is_dir()}
    encoding = Encoding(begun, tokenizers, data)
    shards = None if workers is None else SharedShards(workers, encoding, pairs, done, pace)
    for number, start in enumerate(range(0, begun.pairs, data.shard_pairs)):
        block, path = islice(pairs, data.shard_pairs), shard_path(train, number)
        facts = path.with_suffix(".json")
        if path.is_dir():
            if shards is None:
                deque(block, maxlen=0)
        else:
            counts, found = Counts(unit=corpora.unit), dict[str, int]()
            if shards is None:
                kept = kept_texts(block, start, begun, counts, pace)
                encoded = corpora.encode(kept, tokenizers, config, counts, limit_ratio=True)
            else:
                encoded = shards.rows(number, counts)
            facts.unlink(missing_ok=True)
            rows = _counted(repeated(encoded, data.repeats, found), facts, counts, found)
            TokenStore.write(path, rows, vocabulary_size=_size(tokenizers))
        known = parse_json(facts.read_bytes(), facts)
        total.add(Counts.from_dict(known["counts"]))
        for name, size in known["sizes"].items():
            sizes[name] = sizes.get(name, 0) + size
    deque(pairs, maxlen=0)
    total.take_in(reading)
    (train / DESCRIPTION).unlink(missing_ok=True)
    return finish(train), total, sizes


def forget(folder: Path) -> None:
    """Delete what only going on needed, when all else is there."""
    for file in (*(folder / "train").glob("[0-9]*.json"), folder / KEYS, folder / BEGUN):
        file.unlink()


def _counted(rows: Iterable[Any], file: Path, counts: Counts, sizes: dict[str, int]) -> Iterator[Any]:
    """The rows of a shard; what was counted of them is written down before the shard is complete."""
    yield from rows
    write_new_file(file, json.dumps({"counts": counts.to_dict(), "sizes": sizes}).encode())
