"""Unknown words: counted in sources; never written, copied or kept in outputs; on each engine."""

from __future__ import annotations

import random

import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.models import build_model
from dragoman.sequences import Source
from dragoman.text import TokenizerPair
from dragoman.text.tokenizer import UNKNOWN_TEXT
from dragoman.text.unknown import count_unknown, is_written_in, script_of
from dragoman.text.vocabulary import Vocabulary
from dragoman.translation import Translator
from dragoman.translation.copying import with_copies

WORDS = [f"w{number}" for number in range(8)]


def tokenizers(kind: str = "word") -> TokenizerPair:
    texts = [" ".join(WORDS)]
    vocabulary = Vocabulary.train("word" if kind == "word" else "character", texts)
    return TokenizerPair(vocabulary, Vocabulary.train("word", texts))


def translator(engine: str) -> Translator:
    """A model that likes unknown words best of all."""
    pair = tokenizers()
    torch.manual_seed(1)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    vocabs = {"source_vocab": len(pair.source), "target_vocab": len(pair.target)}
    config = ModelConfig.from_dict({**sizes, **vocabs, "generator_bias": True}).with_paper_defaults()
    model = build_model(config).eval()
    with torch.no_grad():
        model.generator.bias[pair.target.unk] = 4.0
        model.generator.bias[pair.target.eos] = 2.0
    return Translator([model], pair, engine=engine, precision="float32")


TEXTS = ["w1 w2 w3", "new w1", "", "w4 other words w5"]


@pytest.mark.parametrize("engine", ["native", "packed", "module"])
@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 4, "n_best": 4}, {"sampling": True}])
def test_unknown_words_are_written_only_where_they_are_kept(engine: str, search: dict[str, object]) -> None:
    model = translator(engine)
    for unknown in ("forbid", "copy", "keep"):
        options = model.options({**search, "unknown": unknown, "max_length": 6})
        results = model.translate_with(TEXTS, options)
        texts = [one.text for result in results for one in result.alternatives]
        pieces = [piece for result in results for one in result.alternatives for piece in one.tokens]
        assert ("<unk>" in pieces) == (unknown != "forbid")
        assert any(UNKNOWN_TEXT in text for text in texts) == (unknown == "keep")
        assert [one.unknown for one in results] == [0, 1, 0, 2]
        assert all(one.alignment is None for one in results)
        if unknown == "copy":
            allowed = {word for text in TEXTS for word in text.split()} | set(WORDS)
            assert all(set(text.split()) <= allowed for text in texts)


def test_a_copy_is_of_the_word_that_was_looked_at() -> None:
    pair = tokenizers()
    source = Source(tuple(pair.source.encode("w1 Ulm w2 Bonn")))
    unk, known = pair.target.unk, pair.target.encode("w3")[0]
    found = with_copies(pair, "w1 Ulm w2 Bonn", source, (unk, known, unk, unk), [(3, 0), (0, 1), (1, 2), (4, 3)])
    assert found == f"Bonn w3 Ulm {UNKNOWN_TEXT}", "what looked at the end of the source stays unknown"


@pytest.mark.parametrize("seed", range(5))
def test_pieces_that_the_vocabulary_lacks_are_counted(seed: int) -> None:
    draw, pair = random.Random(seed), tokenizers()
    words = [draw.choice([*WORDS, "x", "yy"]) for _ in range(12)]
    ids = pair.source.encode(" ".join(words))
    assert count_unknown(pair.source, ids) == sum(word not in WORDS for word in words)


def test_a_script_is_told_from_others() -> None:
    assert script_of("zh") == "Chinese"
    assert script_of("sr") is None, "it is written in two"
    assert script_of(None) is None
    for script, text in (("Latin", "Straße nach Ulm"), ("Cyrillic", "нове слово"), ("Chinese", "猫吃鱼，狗喝水")):
        assert is_written_in(text, script)
    assert not is_written_in("Cats eat fish", "Chinese")
    assert not is_written_in("зовсім нове", "Latin")
    assert is_written_in("X1 猫吃鱼 ABC", "Chinese"), "names in another script are no other language"
    assert is_written_in("12:30 !?", "Chinese"), "there is no letter"
