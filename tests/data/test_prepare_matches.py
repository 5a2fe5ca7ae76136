from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config import DataConfig, TokenizerConfig, TrainConfig, TrainingConfig
from dragoman.data import Prepared, prepare
from dragoman.data.resampling import EpochStores
from dragoman.errors import ConfigError, DataError
from dragoman.sequences import Source
from dragoman.text import BOS, TokenizerPair, choices

WORDS = ("cat", "cats", "cot", "cots", "dog", "dogs", "dot", "dots", "god", "cat")


def settings(folder: Path, kind: str = "word", **data: object) -> TrainConfig:
    folder.mkdir(exist_ok=True)
    held = ("cads", "toe")
    for part, words in (("t", WORDS), ("d", held)):
        (folder / f"{part}.g").write_text("".join(" ".join(word) + "\n" for word in words))
        (folder / f"{part}.p").write_text("".join(" ".join(word.upper()) + "\n" for word in words))
    files = {"source": "t.g", "target": "t.p", "dev_source": "d.g", "dev_target": "d.p"}
    paths = {key: (str(folder / name),) for key, name in files.items()}
    return TrainConfig(
        out="unused", data=DataConfig.from_dict({**paths, **data}), tokenizer=TokenizerConfig(kind=kind, joint=False)
    )


def shown(made: Prepared, part: str, row: int) -> str:
    return " ".join(made.tokenizers.source_pieces(Source.from_joined(getattr(made, part).source(row).tolist())))


def test_training_pairs_find_others_and_held_out_ones_any(tmp_path: Path) -> None:
    said: list[str] = []
    made = prepare(settings(tmp_path / "in", fuzzy_matches=2), tmp_path / "out", report=said.append)
    assert "matches: each source is read with the targets of the 2 training pairs most like it" in said
    assert shown(made, "train", 1) == "c a t s <s> C A T <s> C O T S"
    for row, word in enumerate(WORDS):
        own, *found = shown(made, "train", row).split(" <s> ")
        assert own == " ".join(word)
        assert len(found) == 2
        assert " ".join(word.upper()) not in found
    for row, text in enumerate(made.dev_source):
        ids = made.dev.source(row).tolist()
        assert ids == made.tokenizers.encode_source(text).joined
        assert ids.count(BOS) == 2
    again = Prepared.open(tmp_path / "out").tokenizers
    assert again.encode_source("c a t") == made.tokenizers.encode_source("c a t")


def test_other_data_without_them(tmp_path: Path) -> None:
    plain = prepare(settings(tmp_path / "in"), tmp_path / "plain")
    made = prepare(settings(tmp_path / "in", fuzzy_matches=1), tmp_path / "out")
    assert plain.key != made.key
    assert plain.tokenizers.matching is None
    assert shown(plain, "train", 1) == "c a t s"
    assert [made.train.target(row).tolist() for row in range(10)] == [
        plain.train.target(row).tolist() for row in range(10)
    ]


def test_many_pairs_of_two_sorts_of_symbols_are_matched_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(name: str, given: TokenizerPair | None = None, **data: object) -> int:
        made = prepare(settings(tmp_path / "in", **data), tmp_path / name, tokenizers=given, report=said.append)
        return made.tokenizers.count_of_matches

    said: list[str] = []
    monkeypatch.setattr(choices, "FEWEST_TO_MATCH", len(WORDS) + 1)
    assert count("few") == 0
    monkeypatch.setattr(choices, "FEWEST_TO_MATCH", len(WORDS))
    assert count("many") == choices.MATCHES
    assert any("10 pairs of symbols, which the model keeps; data.fuzzy_matches = 0 does without" in one for one in said)
    monkeypatch.setattr(choices, "MOST_TO_MATCH", len(WORDS) - 1)
    assert count("too many") == 0
    monkeypatch.setattr(choices, "MOST_TO_MATCH", len(WORDS))
    assert count("none", fuzzy_matches=0) == 0
    first = prepare(settings(tmp_path / "in", fuzzy_matches=1), tmp_path / "one").tokenizers
    assert count("next", first) == 1, "as the model to start from"
    assert count("plain", first.without_matches()) == 0
    joint = settings(tmp_path / "in").replace({"tokenizer": {"kind": "word", "joint": True}})
    assert prepare(joint, tmp_path / "joint").tokenizers.count_of_matches == 0
    monkeypatch.setattr(choices, "MOST_SYMBOLS", 3)
    assert count("text") == 0


def test_prepared_data_say_how_many_matches_were_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "FEWEST_TO_MATCH", len(WORDS))
    prepare(settings(tmp_path / "in"), tmp_path / "out")
    two, none = (DataConfig(prepared=str(tmp_path / "out"), fuzzy_matches=count) for count in (2, 0))
    assert prepare(TrainConfig(out="x", data=two), "x").tokenizers.count_of_matches == 2
    with pytest.raises(ConfigError, match=r"data\.fuzzy_matches: 2 for the data, 0 now"):
        prepare(TrainConfig(out="x", data=none), "x")


def test_lengths_are_limited_by_the_text_alone(tmp_path: Path) -> None:
    limits = {"max_source_tokens": 8, "max_length_ratio": 1.5}
    made = prepare(settings(tmp_path / "in", fuzzy_matches=2, **limits), tmp_path / "out")
    assert made.counts["train"].kept == len(WORDS)
    assert made.train.source_lengths.max() == 8
    short = prepare(settings(tmp_path / "in", fuzzy_matches=2, max_source_tokens=3), tmp_path / "short")
    assert short.counts["train"].kept == sum(len(word) <= 3 for word in WORDS)
    assert short.train.source_lengths.max() == 3


def test_no_pair_left_is_told_as_without_matches(tmp_path: Path) -> None:
    config = settings(tmp_path / "in", fuzzy_matches=2, max_target_tokens=3)
    for name in ("t.g", "t.p"):
        (tmp_path / "in" / name).write_text("t o o l o n g\n")
    with pytest.raises(DataError, match="no training pair is left"):
        prepare(config, tmp_path / "out")


def test_a_model_that_reads_matches_goes_on_with_those_of_the_new_pairs(tmp_path: Path) -> None:
    first = prepare(settings(tmp_path / "in", fuzzy_matches=1), tmp_path / "first")
    config = settings(tmp_path / "in", fuzzy_matches=2)
    (tmp_path / "in" / "t.g").write_text("c o o l\ng o o d s\nt o a d\n")
    (tmp_path / "in" / "t.p").write_text("C O G\nG O D S\nT O D\n")
    made = prepare(config, tmp_path / "next", tokenizers=first.tokenizers)
    source = made.tokenizers.encode_source("g o o d")
    assert made.tokenizers.source_pieces(source)[:9] == [*"good", "<s>", *"GODS"]
    with pytest.raises(ConfigError, match=r"data\.fuzzy_matches = 1"):
        prepare(settings(tmp_path / "in", fuzzy_matches=0), tmp_path / "none", tokenizers=first.tokenizers)


def test_a_model_of_two_vocabularies_cannot_begin_to_read_matches(tmp_path: Path) -> None:
    first = prepare(settings(tmp_path / "in"), tmp_path / "first")
    with pytest.raises(ConfigError, match="cannot begin to read fuzzy matches"):
        prepare(settings(tmp_path / "in", fuzzy_matches=1), tmp_path / "next", tokenizers=first.tokenizers)
    joint = TokenizerPair(first.tokenizers.target, first.tokenizers.target)
    prepare(settings(tmp_path / "in", fuzzy_matches=1), tmp_path / "joint", tokenizers=joint)


def test_sources_with_matches_are_not_cut_anew(tmp_path: Path) -> None:
    config = settings(tmp_path / "in", fuzzy_matches=1)
    made = prepare(config.replace({"tokenizer": {"kind": "bpe", "vocab_size": 280}}), tmp_path / "out")
    drawn = TrainingConfig(bpe_dropout=0.1)
    with pytest.raises(ConfigError, match="sampled_sides = target"):
        EpochStores(made, drawn)
    store, plain = (
        EpochStores(made, one).of(0) for one in (drawn.replace({"sampled_sides": "target"}), TrainingConfig())
    )
    assert [store.source(row).tolist() for row in range(10)] == [plain.source(row).tolist() for row in range(10)]
