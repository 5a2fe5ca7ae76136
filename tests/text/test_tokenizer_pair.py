from __future__ import annotations

import random
from pathlib import Path

import pytest

from dragoman.config import TokenizerConfig
from dragoman.errors import ConfigError, DataError
from dragoman.text import Pair, TokenizerPair, tokenizer_training


def pairs(left: str, right: str, glue: str = " ") -> list[Pair]:
    draw = random.Random(1)
    sources, targets = left.split(), right.split()
    return [
        Pair(" ".join(draw.choices(sources, k=6)) + ".", glue.join(draw.choices(targets, k=6)), "f", i)
        for i in range(300)
    ]


ENGLISH_GERMAN = pairs("the cat eats and sees fish in winter", "die Katze and sieht fish in Winter.")
ENGLISH_CHINESE = pairs("the cat eats and sees fish", "猫 吃 鱼 看", glue="")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("config", "data", "names"),
    [
        (TokenizerConfig(), ENGLISH_GERMAN, {"tokenizer.model"}),
        (TokenizerConfig(joint=False), ENGLISH_GERMAN, {"tokenizer.source.model", "tokenizer.target.model"}),
        (TokenizerConfig(), ENGLISH_CHINESE, {"tokenizer.source.model", "tokenizer.target.model"}),
        (TokenizerConfig(kind="unigram", joint=True), ENGLISH_CHINESE, {"tokenizer.model"}),
        (TokenizerConfig(kind="word", joint=True), ENGLISH_GERMAN, {"vocabulary.json"}),
        (TokenizerConfig(kind="word"), ENGLISH_CHINESE, {"vocabulary.source.json", "vocabulary.target.json"}),
        (TokenizerConfig(kind="character", joint=True), ENGLISH_CHINESE, {"vocabulary.json"}),
        (TokenizerConfig(), pairs("the cat", "K AE T"), {"tokenizer.source.model", "vocabulary.target.json"}),
    ],
)
def test_train_save_load_save(tmp_path: Path, config: TokenizerConfig, data: list[Pair], names: set[str]) -> None:
    said: list[str] = []
    trained = TokenizerPair.train(data, config, report=said.append)
    assert len(said) == 1
    assert str(len(trained.source)) in said[0]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    trained.save(tmp_path / "a")
    loaded = TokenizerPair.load(tmp_path / "a")
    loaded.save(tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert set(files(tmp_path / "a")) == names
    assert loaded.joint == trained.joint == (len(names) == 1)
    for pair in data[:5]:
        assert loaded.source.encode(pair.source) == trained.source.encode(pair.source)
        assert loaded.target.decode(loaded.target.encode(pair.target)) == pair.target


def test_sizes_follow_the_config_and_the_mask_gets_an_id() -> None:
    fixed = TokenizerPair.train(ENGLISH_GERMAN, TokenizerConfig(vocab_size=300, joint=False), mask=True)
    assert len(fixed.source) == len(fixed.target) == 300
    assert fixed.source.mask == 4
    rare = TokenizerPair.train([*ENGLISH_GERMAN, Pair("x", "y", "f", 1)], TokenizerConfig(kind="word", min_count=2))
    assert rare.source.encode("x the") == [1, rare.source.encode("the")[0]]


def test_sides_of_different_kinds_cannot_be_joined() -> None:
    with pytest.raises(ConfigError, match="bpe for the source, word for the target"):
        TokenizerPair.train(pairs("the cat", "K AE T"), TokenizerConfig(joint=True))


def test_nothing_to_train_on() -> None:
    with pytest.raises(DataError, match="no text"):
        TokenizerPair.train([Pair("", "", "f", 1)], TokenizerConfig())


def test_incomplete_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found:    none"):
        TokenizerPair.load(tmp_path)
    TokenizerPair.train(ENGLISH_CHINESE, TokenizerConfig()).save(tmp_path)
    (tmp_path / "tokenizer.target.model").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"found:    tokenizer\.source\.model"):
        TokenizerPair.load(tmp_path)
    (tmp_path / "elsewhere").rename(tmp_path / "tokenizer.target.model")
    (tmp_path / "vocabulary.target.json").write_text("{}")
    with pytest.raises(DataError, match="two tokenizers for the same side"):
        TokenizerPair.load(tmp_path)


@pytest.mark.parametrize("most", [600, 300, 200, 150])
def test_of_a_large_corpus_a_joint_vocabulary_sees_both_sides(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_training, "MAX_TRAINING_LINES", most)  # of 600, so every 1st, 2nd, 3rd, 4th
    data = pairs("the dog cat runs sees house red", "der Hund läuft Katze sieht Häuser größer")
    trained = TokenizerPair.train(data, TokenizerConfig(kind="bpe", joint=True, vocab_size=330))
    assert trained.joint
    for word in ("house", "größer"):
        assert trained.target.pieces(trained.target.encode(word)) == ["\u2581" + word]
