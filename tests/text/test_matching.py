from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.numpy import load, save

from dragoman.errors import DataError
from dragoman.sequences import Source
from dragoman.text import BOS, TokenizerPair, Vocabulary
from dragoman.text.matching import Matching, digest
from dragoman.text.tokenizer import SPECIALS

PAIRS = (("c a t", "K AE T"), ("c a t s", "K AE T S"), ("d o g", "D AO G"), ("c o t", "K AA T"))
LETTERS = Vocabulary("word", [*SPECIALS, *"acdgost"])
SOUNDS = Vocabulary("word", [*SPECIALS, "AA", "AE", "AO", "D", "G", "K", "S", "T"])
BOTH = Vocabulary("word", [*SPECIALS, *"acdgost", "AA", "AE", "AO", "D", "G", "K", "S", "T"])


def pair(*, joint: bool = False, count: int = 2, limit: int = 99) -> TokenizerPair:
    plain = TokenizerPair(BOTH, BOTH) if joint else TokenizerPair(LETTERS, SOUNDS)
    ids = [(plain.source.encode(source), plain.target.encode(target)) for source, target in PAIRS]
    return plain.with_matches(ids, count=count, limit=limit)


@pytest.mark.parametrize("joint", [False, True])
def test_a_source_goes_on_with_the_targets_of_its_matches(joint: bool) -> None:
    tokenizers = pair(joint=joint)
    source = tokenizers.encode_source("c o t s")
    assert tokenizers.source_pieces(source) == [
        "c", "o", "t", "s", "<s>", "K", "AA", "T", "<s>", "K", "AE", "T", "S",
    ]  # fmt: skip
    assert tokenizers.source.decode(source.ids) == "c o t s"
    assert tokenizers.source_of(tokenizers.source.encode("c o t s")) == source
    assert tokenizers.joint == joint
    assert tokenizers.source_vocab == (len(BOTH) if joint else len(LETTERS) + len(SOUNDS))
    assert max(source.joined) < tokenizers.source_vocab
    assert tokenizers.without_matches().source_vocab == len(tokenizers.source)


def test_a_letter_and_a_sound_spelled_alike_have_ids_of_their_own() -> None:
    same = Vocabulary("word", [*SPECIALS, "a", "b"])
    plain = TokenizerPair(same, Vocabulary("word", [*SPECIALS, "a", "b"]))
    source = plain.with_matches([([4, 5], [4, 5])], count=1, limit=9).encode_source("a b")
    assert source.joined == [4, 5]  # of a single source every stretch is as common as can be
    source = plain.with_matches([([4, 5], [4, 5]), ([5], [5])], count=1, limit=9).encode_source("a b")
    assert source.joined == [4, 5, BOS, 4 + 6, 5 + 6]


def test_the_text_alone_is_known_again() -> None:
    tokenizers = pair()
    source, own = tokenizers.encode_source("c a t"), tokenizers.source.encode("c a t")
    assert source.matches
    assert list(source.ids) == list(Source.from_joined(source.joined).ids) == own
    assert Source.from_joined(own) == Source(tuple(own))
    assert tokenizers.without_matches().source_of([4]) == Source((4,))


def test_no_match_goes_beyond_the_limit() -> None:
    assert pair(limit=8).encode_source("c o t s").width == 8
    assert pair(limit=7).encode_source("c o t s").width == 4
    assert pair(limit=2).encode_source("c o t s").width == 4  # the text itself is whole


def test_an_empty_text_has_no_matches() -> None:
    assert pair().encode_source("") == Source(())


@pytest.mark.parametrize("joint", [False, True])
def test_saved_and_loaded_it_reads_the_same_and_is_the_same_file(tmp_path: Path, joint: bool) -> None:
    made = pair(joint=joint)
    made.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.joint == joint
    assert loaded.encode_source("c o t s") == made.encode_source("c o t s")
    assert loaded.encode_source("c o t s").matches
    before = (tmp_path / "matches.safetensors").read_bytes()
    loaded.save(tmp_path)
    assert (tmp_path / "matches.safetensors").read_bytes() == before
    loaded.without_matches().save(tmp_path)
    assert TokenizerPair.load(tmp_path).matching is None


def test_damage_is_named(tmp_path: Path) -> None:
    pair().save(tmp_path)
    path = tmp_path / "matches.safetensors"
    whole = path.read_bytes()

    def refused() -> str:
        with pytest.raises(DataError) as caught:
            Matching.load(path, LETTERS, SOUNDS)
        assert caught.value.file == str(path)
        return str(caught.value)

    path.write_bytes(whole[:-1])
    assert "cannot read" in refused()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "damaged" in refused()
    path.write_bytes(save(load(whole), {"matches": json.dumps({"format": 1, "count": 0, "limit": 9})}))
    assert "damaged" in refused()
    parts = load(whole) | {"source.offsets": load(whole)["source.offsets"][::-1].copy()}
    settings = {"format": 1, "count": 1, "limit": 9, "sha256": digest(parts)}
    path.write_bytes(save(parts, {"matches": json.dumps(settings)}))
    assert "not those of the tokenizers" in refused()
    path.write_bytes(save(load(whole)))
    assert "cannot read" in refused()
    path.unlink()
    assert "cannot read" in refused()
    path.write_bytes(whole)
    with pytest.raises(DataError, match="not those of the tokenizers"):
        Matching.load(path, Vocabulary("word", [*SPECIALS, "a"]), SOUNDS)
