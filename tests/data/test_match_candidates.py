from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dragoman.config import DataConfig, TokenizerConfig, TrainConfig, TrainingConfig
from dragoman.data import Prepared, prepare
from dragoman.data.match_candidates import PER_MATCH, MatchCandidates
from dragoman.data.resampling import EpochStores
from dragoman.errors import DataError
from dragoman.sequences import Source

COUNT = 60
SIZE = 2 * PER_MATCH


def prepared(folder: Path, **data: object) -> Prepared:
    draw = random.Random(1)
    words = ["".join(draw.choices("abcd", k=draw.randint(2, 7))) for _ in range(COUNT)]
    words[1] = words[0]  # one source, two targets
    for part, some in (("t", words), ("d", words[:3])):
        (folder / f"{part}.g").write_text("".join(" ".join(word) + "\n" for word in some))
        targets = (" ".join([*word.upper(), str(row)]) for row, word in enumerate(some))
        (folder / f"{part}.p").write_text("".join(f"{target}\n" for target in targets))
    files = {"source": "t.g", "target": "t.p", "dev_source": "d.g", "dev_target": "d.p"}
    paths = {key: (str(folder / name),) for key, name in files.items()}
    config = TrainConfig(
        out="unused",
        data=DataConfig.from_dict({**paths, "fuzzy_matches": 2, **data}),
        tokenizer=TokenizerConfig(kind="word", joint=False),
    )
    return prepare(config, folder / "out")


def rows(made: Prepared, epoch: int, seed: int = 1) -> list[list[str]]:
    """Each source of an epoch, and each of its matches."""
    store = EpochStores(made, TrainingConfig(seed=seed)).of(epoch)
    sources = (Source.from_joined(store.source(row).tolist()) for row in range(len(store)))
    pieces = (made.tokenizers.source_pieces(source) for source in sources)
    return [" ".join(one).split(" <s> ") for one in pieces]


def test_each_epoch_draws_others_of_the_nearest_but_never_the_pair_itself(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    assert made.match_candidates is not None
    sources = (tmp_path / "t.g").read_text().splitlines()
    targets = (tmp_path / "t.p").read_text().splitlines()
    seen: list[set[str]] = [set() for _ in range(COUNT)]
    sizes: Counter[int] = Counter()
    firsts = 0
    for epoch in range(40):
        for row, (own, *found) in enumerate(rows(made, epoch)):
            assert own == sources[row]
            allowed = [targets[match] for match in made.match_candidates.nearest[row] if match >= 0]
            assert [target for target in allowed if target in found] == found  # in their order, none twice
            assert not any(sources[targets.index(target)] == own for target in found)
            seen[row] |= set(found)
            sizes[len(found)] += 1
            firsts += allowed[0] in found
    assert min(map(len, seen)) >= SIZE - 2
    assert set(sizes) == {0, 2}
    assert 0.05 < sizes[0] / (40 * COUNT) < 0.15
    assert firsts / (40 * COUNT) > 2 / SIZE


def test_draws_are_a_function_of_seed_and_epoch(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    assert rows(made, 3) == rows(made, 3)
    assert rows(made, 3) != rows(made, 4)
    assert rows(made, 3) != rows(made, 3, seed=2)
    again = Prepared.open(made.directory)
    assert rows(again, 3) == rows(made, 3)


def test_repeated_pairs_have_the_same_candidates(tmp_path: Path) -> None:
    made = prepared(tmp_path, repeat=(3,))
    assert made.match_candidates is not None
    assert made.match_candidates.nearest.shape == (3 * COUNT, SIZE)
    assert (made.match_candidates.nearest[::3] == made.match_candidates.nearest[2::3]).all()
    assert made.match_candidates.nearest.max() < COUNT


def test_the_stored_pairs_have_the_nearest(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    assert made.match_candidates is not None
    matching = made.match_candidates.matching
    for row in range(COUNT):
        own = Source.from_joined(made.train.source(row).tolist()).ids
        nearest = made.match_candidates.nearest[row][:2].tolist()
        assert made.train.source(row).tolist() == matching.beside(own, nearest).joined


def test_a_small_corpus_has_few_candidates(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    nearest = np.full((COUNT, SIZE), -1, np.int32)
    nearest[:30, 0] = 5
    drawn = list(MatchCandidates(made.match_candidates.matching, nearest).drawn(made.train, 1, 0))
    assert {row.count(made.tokenizers.source.bos) for row in drawn[:30]} <= {0, 1}
    assert {row.count(made.tokenizers.source.bos) for row in drawn[30:]} == {0}


def test_damage_is_named(tmp_path: Path) -> None:
    made = prepared(tmp_path)
    path = made.directory / "pool.npy"
    np.save(path, np.full((COUNT, SIZE), COUNT, np.int32))
    with pytest.raises(DataError, match="a prepared file was changed"):
        Prepared.open(made.directory)
    for wrong in (np.full((COUNT, SIZE), COUNT, np.int32), np.zeros((COUNT, 2), np.int32), np.zeros((COUNT, SIZE))):
        np.save(path, wrong)
        with pytest.raises(DataError, match="do not fit the data"):
            MatchCandidates.load(path, made.match_candidates.matching, COUNT)
    path.write_bytes(b"no")
    with pytest.raises(DataError, match="cannot read the stored fuzzy matches"):
        MatchCandidates.load(path, made.match_candidates.matching, COUNT)
