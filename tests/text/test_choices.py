from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from dragoman.text.choices import MAX_VOCAB, TextStatistics, choose_joint, choose_kind, choose_vocab_size


def drawn(symbols: str, count: int = 300, glue: str = " ", end: str = "") -> list[str]:
    draw = random.Random(3)
    return [glue.join(draw.choices(symbols.split(), k=draw.randint(2, 9))) + end for _ in range(count)]


LETTERS = " ".join("ABCDEFGHIJKLMNOPQRSTUVWXYZ'")
SOUNDS = "AA AE AH B CH D EH ER F G HH IH K L M N OW P R S T Z"
COMMANDS = "walk run jump look turn left right twice thrice and after around opposite"


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (drawn(LETTERS), "word"),
        (drawn(SOUNDS), "word"),
        (drawn(COMMANDS), "word"),
        (drawn("I_JUMP I_TURN_LEFT"), "word"),
        (drawn("the cat dog eats sees fish", end="."), "bpe"),  # sentences, however few words
        (drawn("猫 吃 鱼 狗 看", glue=""), "bpe"),
        (drawn(" ".join(f"word{i}" for i in range(5000))), "bpe"),  # open
        (drawn(LETTERS, glue=""), "bpe"),
        (sorted(drawn(LETTERS)), "word"),  # as a word list is
        ([" ".join([f"s{i}"] * 6) for i in range(100)], "bpe"),  # still growing
        (["yes", "no"] * 100, "bpe"),  # one to a line
        (["a b c"], "bpe"),  # too little to tell
        ([], "bpe"),
        ([""], "bpe"),
    ],
)
def test_words_for_closed_sets_of_symbols_only(texts: list[str], kind: str) -> None:
    assert choose_kind(texts) == kind


def statistics(characters: int, alphabet: int) -> TextStatistics:
    return TextStatistics(1, characters, Counter({chr(i + 97): characters // alphabet for i in range(alphabet)}))


def test_vocabulary_grows_with_text_and_holds_the_alphabet() -> None:
    sizes = [choose_vocab_size(statistics(10**n, 60)) for n in range(2, 10)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 400
    assert sizes[-1] == MAX_VOCAB
    assert choose_vocab_size(statistics(29_000 * 65, 80)) < 8000
    assert choose_vocab_size(statistics(270_000, 3000), character_coverage=1.0) > 3260
    assert choose_vocab_size(TextStatistics()) >= 260


def test_characters_beyond_the_coverage_take_no_room() -> None:
    common, rare = TextStatistics(), TextStatistics()
    common.add("ab" * 10_000)
    rare.add("ab" * 10_000 + "xyz")
    assert choose_vocab_size(rare) == choose_vocab_size(common)
    assert choose_vocab_size(rare, character_coverage=1.0) == choose_vocab_size(common) + 3


def test_joint_where_the_sides_share_their_units() -> None:
    english, chinese = drawn("the cat sat on a mat with hats"), drawn("猫 吃 鱼 狗 看", glue="")
    assert choose_joint(english, [text.upper() for text in english])
    assert not choose_joint(english, chinese)
    assert not choose_joint([], [])
    assert choose_joint(drawn(LETTERS), drawn(LETTERS)[::-1], "word")
    assert not choose_joint(drawn(LETTERS), drawn(SOUNDS), "word")


def test_the_sample_is_spread_evenly_and_bounded() -> None:
    side = TextStatistics()
    for i in range(150_000):
        side.add(str(i))
    numbers = [int(text) for text in side.sample]
    steps = {b - a for a, b in itertools.pairwise(numbers)}
    assert len(steps) == 1
    assert 20_000 <= len(numbers) < 40_000
    assert side.lines == 150_000
    assert side.characters == sum(len(str(i)) for i in range(150_000))
