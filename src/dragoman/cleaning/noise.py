"""Noise of known kinds in a clean corpus, by which rules and their effect are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple


class Noisy(NamedTuple):
    """A pair, and the kind of noise that was put into it; None where it is as it was."""

    source: str
    target: str
    kind: str | None


Texts = tuple[str, str]
_SLIP = 400  # pairs of a stretch in which lines slip
_BANNERS = ("Accept all cookies and continue", "Sign up for our newsletter today", "All rights reserved worldwide")
_ACCENTED = ("café", "naïve", "it’s")
_SIGNS = "=-*|/\\#~+<>[]{}"


def add_noise(
    pairs: Sequence[Texts],
    share: float,
    seed: int = 1,
    kinds: Sequence[str] | None = None,
    *,
    other: Sequence[str] = (),
) -> list[Noisy]:
    """Return the pairs with so many noisy ones more that they make up a share of all, each kind about as often.

    Args:
        pairs: clean; they stay, in their order, noise between them.
        share: of the result that is noise, less than 1.
        seed: of the draws.
        kinds: some of `KINDS`; all if None.
        other: texts of a third language; without them no target is in one.
    """
    random, made = Random(seed), list[list[Noisy]]()
    names = [name for name in (kinds or KINDS) if name != "language" or other]
    each = round(len(pairs) * share / (1 - share) / len(names))
    for kind in names:
        if kind == "slip":
            made += _slips(pairs, each, random)
            continue
        maker = KINDS[kind]
        for _ in range(each):
            source, target = maker(random.choice(pairs), pairs, random, other)
            made.append([Noisy(source, target, kind)])
    # A repetition has to come after what it repeats: every second half of the places will do.
    places = sorted(((random.random(), number) for number in range(len(made))), key=lambda one: one[0])
    found, taken = list[Noisy](), 0
    for position, (source, target) in enumerate(pairs):
        while taken < len(places) and places[taken][0] * len(pairs) <= position:
            found += made[places[taken][1]]
            taken += 1
        found.append(Noisy(source, target, None))
    for _, number in places[taken:]:
        found += made[number]
    return found


def _slips(pairs: Sequence[Texts], count: int, random: Random) -> list[list[Noisy]]:
    """Stretches whose targets are those of the next line."""
    stretches = []
    while count > 0:
        size = min(_SLIP, count, len(pairs) - 1)
        first = random.randrange(len(pairs) - size)
        stretches.append([Noisy(pairs[i][0], pairs[i + 1][1], "slip") for i in range(first, first + size)])
        count -= size
    return stretches


def _stranger(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del other
    return pair[0], random.choice(pairs)[1]


def _copy(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del pairs, random, other
    return pair[0], pair[0]


def _repetition(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del pairs, random, other
    return pair


def _near(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del pairs, other
    change: Callable[[str], str] = random.choice((str.upper, lambda text: f"  {text} !", lambda text: f"- {text}"))
    return change(pair[0]), change(pair[1])


def _decoded_twice(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    """The target as whoever takes UTF-8 for Latin-1 reads it; text of ASCII has a broken apostrophe or letter in it."""
    del pairs, other
    word = random.choice(_ACCENTED)
    target = f"{pair[1]} – {word}" if pair[1].isascii() else pair[1]
    return pair[0], target.encode("utf-8").decode("latin-1")


def _cut(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    """The source of several sentences, of which one was translated."""
    del other
    return " ".join([pair[0], *(random.choice(pairs)[0] for _ in range(4))]), pair[1]


def _numbers(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del pairs, other
    one = random.randrange(10, 1000)
    return f"{pair[0]} ({one})", f"{pair[1]} ({one + random.randrange(1, 9)})"


def _banner(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del pairs, other
    return pair[0], random.choice(_BANNERS)


def _address(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del pair, pairs, other
    text = f"https://www.example.org/page/{random.randrange(10**6)}.html"
    return f"See {text}", f"{text} !"


def _signs(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del pairs, other
    return pair[0], "".join(random.choice(_SIGNS) for _ in range(max(3, len(pair[1]))))


def _script(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    """A target in Greek letters."""
    del pairs, random, other
    return pair[0], "".join(chr(0x3B1 + ord(one.lower()) % 24) if one.isalpha() else one for one in pair[1])


def _exchanged(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del pairs, random, other
    return pair[1], pair[0]


def _language(pair: Texts, pairs: Sequence[Texts], random: Random, other: Sequence[str]) -> Texts:
    del pairs
    return pair[0], random.choice(other)


Maker = Callable[[Texts, Sequence[Texts], Random, Sequence[str]], Texts]
KINDS: dict[str, Maker] = {
    "stranger": _stranger,
    "slip": _stranger,
    "copy": _copy,
    "duplicate": _repetition,
    "near duplicate": _near,
    "encoding": _decoded_twice,
    "cut": _cut,
    "numbers": _numbers,
    "banner": _banner,
    "address": _address,
    "signs": _signs,
    "script": _script,
    "exchanged": _exchanged,
    "language": _language,
}
