"""Near duplicates: what bands of MinHash and the exact comparison find, against all pairs compared with all."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from dragoman.cleaning import clean, near
from dragoman.cleaning.facts import near_key
from dragoman.cleaning.near import Likeness, sets_of, shape_of_bands
from dragoman.config.cleaning import CleaningConfig
from dragoman.errors import ConfigError
from dragoman.text import ParallelCorpus

WORDS = [
    f"{first}{second}" for first in ("ba", "do", "ki", "mu", "re") for second in ("la", "no", "pu", "ti", "xe", "wo")
]
Texts = list[tuple[str, str]]


def corpus_of(seed: int, originals: int = 120) -> Texts:
    """Random pairs, each followed somewhere by others in which none to five words differ, or nothing but signs."""
    random = np.random.default_rng(seed)
    pairs: Texts = []
    for _ in range(originals):
        sides = [list(random.choice(WORDS, random.integers(4, 25))) for _ in range(2)]
        pairs.append((" ".join(sides[0]), " ".join(sides[1])))
        for changed in random.integers(0, 6, random.integers(0, 4)):
            other = [list(side) for side in sides]
            for _ in range(changed):
                side = other[random.integers(2)]
                side[random.integers(len(side))] = str(random.choice(WORDS))
            pairs.append((" ".join(other[0]).upper() + "!", " ".join(other[1]) + " ."))
    return [pairs[place] for place in random.permutation(len(pairs))]


def likeness(one: set[object], other: set[object]) -> float:
    return len(one & other) / len(one | other)


def plain_set(pair: tuple[str, str]) -> set[object]:
    """What a pair counts as, said slowly."""
    found: set[object] = set()
    for side, text in enumerate(pair):
        words = "".join(c if c.isalnum() else " " for c in text.casefold()).split()
        found |= {(side, word) for word in words}
        found |= {(side, *two) for two in itertools.pairwise(["", *words, ""])}
    return found


def marked(pairs: Texts, similarity: float, folder: Path, step: int = 50) -> np.ndarray:
    found = Likeness(folder, similarity)
    for begin in range(0, len(pairs), step):
        found.add(sets_of(pairs[begin : begin + step], similarity))
    return found.found()


@pytest.mark.parametrize("similarity", [0.5, 0.8, 0.9])
def test_against_all_pairs_compared_with_all(similarity: float, tmp_path: Path) -> None:
    wanted = found = 0
    for seed in range(2):
        pairs = corpus_of(seed, 80)
        marks = marked(pairs, similarity, tmp_path / str(seed))
        sets = [plain_set(pair) for pair in pairs]
        kept: list[int] = []  # by comparing with all that are kept
        for place, here in enumerate(sets):
            if any(likeness(here, sets[other]) >= similarity for other in kept):
                wanted += 1
                found += int(marks[place])
            else:
                kept.append(place)
        # None is dropped but for one that is kept, and is as like it as was asked for.
        stay = np.flatnonzero(~marks)
        for place in np.flatnonzero(marks):
            assert any(likeness(sets[place], sets[other]) >= similarity for other in stay[stay < place])
    assert wanted > 50
    assert found >= 0.95 * wanted


@pytest.mark.parametrize("similarity", [0.3, 0.8, 1.0])
def test_what_is_equal_but_for_signs_is_always_found(similarity: float, tmp_path: Path) -> None:
    pairs = corpus_of(7)
    signs = [(f"« {one.title()}, »", f"({other.upper()}?)") for one, other in pairs]
    marks = marked([*pairs, *signs], similarity, tmp_path / "near", step=77)
    assert marks[len(pairs) :].all()


def test_pairs_far_apart_are_never_found(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    pairs = [tuple(" ".join(random.choice(WORDS, 8)) for _ in range(2)) for _ in range(600)]
    sets = [plain_set(pair) for pair in pairs]
    assert max(likeness(one, other) for one, other in itertools.combinations(sets, 2)) < 0.7
    assert not marked(pairs, 0.7, tmp_path / "near").any()


@pytest.mark.parametrize(("part", "compared"), [(40, 3), (100_000, 1000)])
def test_memory_is_no_part_of_the_result(
    part: int, compared: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = corpus_of(5)
    usual = marked(pairs, 0.6, tmp_path / "usual")
    monkeypatch.setattr(near, "_PART", part)
    monkeypatch.setattr(near, "_COMPARED", compared)
    assert np.array_equal(marked(pairs, 0.6, tmp_path / "again", step=13), usual)


def test_words_of_any_script() -> None:
    def members(*pair: str) -> set[int]:
        return set(sets_of([(pair[0], pair[1])], 0.8).members.tolist())

    assert members("猫吃鱼。", "The cat, eats fish!") == members("猫 吃 鱼", "the CAT eats (fish)")
    assert members("Ｐａｇｅ １２", "ab") == members("page 7", "AB")
    assert members("1,000 – 5", "") == members("3.7 5", "")
    assert members("tom saw mary", "x") != members("mary saw tom", "x")
    assert members("a", "b") != members("b", "a")
    assert len(members("猫吃鱼", "")) == 3 + 4
    assert len(members("ข้าว", "")) == 2 * 4 + 1
    assert not members("…", " ")
    assert members("\ud800a", "b\u2028c") == members("\ud800a", "b\nc")


def test_bands_find_nearly_all_that_is_just_as_alike_as_asked_for() -> None:
    for similarity in (0.05, 0.5, 0.8, 0.95):
        bands, rows = shape_of_bands(similarity)
        assert bands * rows <= 64
        assert rows == 1 or 1 - (1 - similarity**rows) ** bands >= 0.95
    assert shape_of_bands(1.0) == (1, 64)
    assert shape_of_bands(0.0)[1] == 1


@pytest.mark.parametrize("similarity", [0.0, -0.5, 1.5])
def test_a_similarity_that_nothing_can_have_is_refused(similarity: float) -> None:
    with pytest.raises(ConfigError, match="near_similarity"):
        CleaningConfig(near_similarity=similarity)


def test_chains_do_not_lead_away(tmp_path: Path) -> None:
    """Each pair is like the one before it; each that is dropped is like one that is kept."""
    words = [f"{one}{other}" for one in WORDS[:8] for other in WORDS[:8]]
    pairs = [(" ".join(words[begin : begin + 20]), "y") for begin in range(40)]
    marks = marked(pairs, 0.8, tmp_path / "near")
    sets = [plain_set(pair) for pair in pairs]
    stay = np.flatnonzero(~marks)
    assert 8 <= len(stay) < 40
    for place in np.flatnonzero(marks):
        assert max(likeness(sets[place], sets[other]) for other in stay[stay < place]) >= 0.8


def test_the_rule_drops_what_other_rules_have_left(tmp_path: Path) -> None:
    base = "the quick brown fox jumps over the lazy dog near the old stone bridge in the quiet evening light"
    wrong = (f"{base} 12", f"{base} there 13")  # numbers differ: it is dropped, and nothing on account of it
    right, like = (f"{base} 12", f"{base} there 12"), (f"{base} 12 too", f"{base} there 12")
    rows = [wrong, right, like, *(((f"one sentence {word} of many {word}"), f"und hier {word}") for word in WORDS)]
    for side, name in enumerate(("a", "b")):
        (tmp_path / name).write_text("".join(f"{row[side]}\n" for row in rows), encoding="utf-8")
    corpus = ParallelCorpus.from_files([tmp_path / "a"], [tmp_path / "b"])
    without = ["near duplicate", "copy", "boilerplate", "exchanged"]
    assert near_key(*wrong) == near_key(*right)
    usual = clean(corpus, tmp_path / "usual", without=without[1:])
    assert usual.rules["near duplicate"].count == 1  # a number is no difference there
    settings = CleaningConfig(near_similarity=0.8)
    found = clean(corpus, tmp_path / "near", without=without[1:], settings=settings)
    assert found.rules["near duplicate"].count == 1
    assert [one.source for one in clean(corpus, tmp_path / "off", without=without).rules["numbers"].samples] == [
        wrong[0]
    ]
