"""Filling gaps: against the model asked anew for each gap, in float64."""

from __future__ import annotations

import doctest
import itertools
import math
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.language import Filler, escape_gaps, filling
from dragoman.language.filling import split_at_gaps
from dragoman.models import build_model, save_pretrained
from dragoman.nn import MaskedLM
from dragoman.text import SentencePieceTokenizer, TokenizerPair, Vocabulary
from dragoman.text.tokenizer import EOS, MASK, MASK_TOKEN, SPECIALS, Tokenizer
from end_to_end import small

TEXTS = ["ba <mask> di", "<mask>", "ce <mask> <mask> fo ba <mask>", "gu ha ki lo mu ne pa <mask>"]


def masked_model(tokenizer: Tokenizer, seed: int = 1) -> MaskedLM:
    torch.manual_seed(seed)
    made = build_model(small.shape(TokenizerPair(tokenizer, tokenizer), "masked"))
    assert isinstance(made, MaskedLM)
    with torch.no_grad():
        made.generator.weight.mul_(4.0)
    return made.double().eval()


@cache
def words() -> Vocabulary:
    return Vocabulary("word", [*SPECIALS, MASK_TOKEN, *small.WORDS])


@cache
def pieces() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train("bpe", small.sentences(60), vocab_size=300, mask=True)


@pytest.fixture(scope="module")
def filler() -> Filler:
    return Filler(masked_model(words()), words())


def probabilities(filler: Filler, ids: list[int], place: int) -> list[float]:
    with torch.no_grad():
        found = filler.model(torch.tensor([[*ids, EOS]]))[0, place].softmax(-1)
    found[: MASK + 1] = 0.0
    return found.tolist()


def test_one_gap_gets_the_likeliest_pieces(filler: Filler) -> None:
    ids = [*words().encode("ba"), MASK, *words().encode("di")]
    expected = probabilities(filler, ids, 1)
    ranked = sorted(range(len(expected)), key=lambda token: -expected[token])
    (found,) = filler.fill(["ba <mask> di"], n_best=5)
    assert [one.pieces for one in found] == [tuple(words().pieces([token])) for token in ranked[:5]]
    assert [one.probability for one in found] == pytest.approx([expected[token] for token in ranked[:5]], rel=1e-9)
    assert [one.text for one in found] == [f"ba {one.pieces[0]} di" for one in found]
    assert all(one.piece_probabilities == (pytest.approx(one.probability),) for one in found)
    (every,) = filler.fill(["ba <mask> di"], n_best=50)
    assert len(every) == len(small.WORDS)


def test_of_several_gaps_the_surest_is_filled_first(filler: Filler) -> None:
    for text, (found,) in zip(TEXTS, filler.fill(TEXTS), strict=True):
        ids = [MASK if word == MASK_TOKEN else words().encode(word)[0] for word in text.split()]
        gaps, chosen = [place for place, token in enumerate(ids) if token == MASK], {}
        while len(chosen) < len(gaps):
            rows = {place: probabilities(filler, ids, place) for place in gaps if place not in chosen}
            place = max(rows, key=lambda one: max(rows[one]))
            chosen[place] = max(rows[place])
            ids[place] = rows[place].index(chosen[place])
        assert found.text == words().decode(ids)
        assert found.piece_probabilities == pytest.approx([chosen[place] for place in gaps], rel=1e-9)
        assert found.probability == pytest.approx(math.prod(chosen.values()), rel=1e-9)


def test_the_best_of_all_orders_and_fillings_is_found_with_room_enough(filler: Filler) -> None:
    (found,) = filler.fill(["<mask> ba <mask>"], n_best=len(small.WORDS) ** 2)
    assert len({one.pieces for one in found}) == len(found) == len(small.WORDS) ** 2
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    ids = [MASK, *words().encode("ba"), MASK]
    first = [probabilities(filler, ids, place) for place in (0, 2)]
    surest = 0 if max(first[0]) > max(first[1]) else 2
    best = 0.0
    for token in range(MASK + 1, len(words())):
        filled = [token if place == surest else old for place, old in enumerate(ids)]
        best = max(best, first[surest // 2][token] * max(probabilities(filler, filled, 2 - surest)))
    assert found[0].probability == pytest.approx(best, rel=1e-9)


def test_batch_mates_change_nothing(filler: Filler) -> None:
    for text, together in zip(TEXTS, filler.fill(TEXTS, n_best=3), strict=True):
        (alone,) = filler.fill([text], n_best=3)
        assert [one.pieces for one in alone] == [one.pieces for one in together]
        assert [one.probability for one in alone] == pytest.approx([one.probability for one in together], rel=1e-9)
    lines = filler.fill_lines(iter(TEXTS), n_best=3, chunk=2)
    assert [[one.text for one in row] for row in lines] == [
        [o.text for o in row] for row in filler.fill(TEXTS, n_best=3)
    ]
    assert filler.fill([]) == []


def test_what_the_vocabulary_lacks_stays_as_it_was_written(filler: Filler) -> None:
    ((found,),) = filler.fill(["never   seen\t<mask>ba \\<mask> </s>"])
    assert found.text == f"never   seen\t{found.pieces[0]} ba <mask> </s>"


def test_characters_are_filled_one_by_one() -> None:
    tokenizer = Vocabulary("character", [*SPECIALS, MASK_TOKEN, *"abcd "])
    ((found,),) = Filler(masked_model(tokenizer), tokenizer).fill(["a <mask>z<mask>"])
    first, second = (piece.replace("\u2581", " ") for piece in found.pieces)
    assert found.text == f"a {first}z{second}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ba <mask> di", "\u2581ba <mask> \u2581di"),
        ("<mask> ba", "<mask> \u2581ba"),
        ("ba<mask>", "\u2581ba <mask>"),
        ("ba <mask><mask> di", "\u2581ba <mask> <mask> \u2581di"),
        ("<mask>", "<mask>"),
        ("ba <mask> <mask>", "\u2581ba <mask> <mask>"),
    ],
)
def test_the_blank_before_a_gap_belongs_to_its_piece(text: str, expected: str) -> None:
    ids = filling.with_gaps(pieces(), split_at_gaps(text))
    assert pieces().pieces(ids) == expected.split()


def test_subwords_are_filled_and_the_rest_is_as_it_was() -> None:
    filler = Filler(masked_model(pieces()), pieces())
    (found,) = filler.fill(["ba \u2581\U000f0000 <mask> \\<mask> 猫"], n_best=40)
    assert len(found) == 40
    for one in found:
        assert one.text.startswith("ba \u2581\U000f0000")
        assert one.text.endswith(" <mask> 猫")


# What is a gap, and what is text


@given(st.lists(st.sampled_from(["<mask>", "\\", "<", "mask>", " ", "ba", "猫"]), max_size=12).map("".join))
def test_any_text_can_be_said_without_gaps(text: str) -> None:
    assert split_at_gaps(escape_gaps(text)) == [text]


@given(st.lists(st.sampled_from(["", "a", "<mask>", "\\", "\\\\"]), min_size=1, max_size=5))
def test_gaps_stand_between_parts_that_say_anything(parts: list[str]) -> None:
    # A part that ends in backslashes must double them before a gap.
    written = [escape_gaps(part) for part in parts]
    tails = [len(part) - len(part.rstrip("\\")) for part in parts]
    doubled = [text + "\\" * tail for text, tail in zip(written[:-1], tails[:-1], strict=True)]
    assert split_at_gaps(MASK_TOKEN.join([*doubled, written[-1]])) == parts


def test_backslashes_elsewhere_are_ordinary() -> None:
    assert split_at_gaps(r"C:\new \\ <mask>") == ["C:\\new \\\\ ", ""]
    assert split_at_gaps(r"\\<mask>") == ["\\", ""]
    assert split_at_gaps(r"\\\<mask>") == ["\\<mask>"]


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(filling) == (0, 3)


@given(st.integers(0, 200), st.integers(1, 3))
def test_a_text_of_gaps_alone_is_cut_into_gaps(blanks: int, gaps: int) -> None:
    ids = filling.with_gaps(pieces(), [" " * (blanks % 3), *itertools.repeat("", gaps)])
    assert ids.count(MASK) == gaps


# Mistakes


def test_mistakes_are_told(filler: Filler) -> None:
    with pytest.raises(DataError, match="line 4: there is no <mask> to fill") as caught:
        filler.fill(["<mask>", r"ba \<mask>"], first=2)
    assert caught.value.found == r"ba \<mask>"
    with pytest.raises(DataError, match="too long"):
        filler.fill(["<mask>" * 5000])
    with pytest.raises(ConfigError, match="at least one filling"):
        filler.fill(["<mask>"], n_best=0)
    with pytest.raises(ConfigError, match="without a search"):
        filler.n_best({"beam_size": 2, "n_best": 3})
    assert filler.n_best({"n_best": 3}) == 3
    assert filler.n_best({}) == 1


def test_a_directory_fills_as_the_model_that_was_saved(filler: Filler, tmp_path: Path) -> None:
    pair = TokenizerPair(words(), words())
    save_pretrained(tmp_path / "m", filler.model, small.shape(pair, "masked"), DecodingConfig())
    pair.save(tmp_path / "m")
    assert Filler.from_pretrained(tmp_path / "m").fill(TEXTS) == filler.fill(TEXTS)
    plain = small.saved(tmp_path / "causal", small.word_pair(), "causal")
    with pytest.raises(ModelError, match="only a masked model fills gaps"):
        Filler.from_pretrained(plain)
    small.word_pair("ba", *small.WORDS[1:], "xu").save(tmp_path / "m")
    with pytest.raises(ModelError, match="needs a <mask>"):
        Filler.from_pretrained(tmp_path / "m")
