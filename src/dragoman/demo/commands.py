"""Spoken commands: the same sentence in English and Chinese from a small grammar, and voices to say it.

The sentences and voices live in `commands.toml`, whose head explains them. A share of the sentences is held out, and
some voices are: a model is judged on sentences that it never heard, said by voices that it knows and by others.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from dragoman.audio.speaking import Voice
from dragoman.errors import DataError

SLOT = re.compile(r"\{([a-z_]+?)(\d?)\}")
# Sentences drawn for one that is wanted, and slots within slots.
DRAWS, DEEPEST = 200, 10
SPEEDS, PITCHES = (130, 215), (25, 75)
Language = Literal["en", "zh"]


class Command(NamedTuple):
    """What is said, in both languages."""

    en: str
    zh: str


class Spoken(NamedTuple):
    """A command, and the voice that says it."""

    command: Command
    voice: Voice


@dataclass(frozen=True)
class CommandGrammar:
    """The sentences and the voices.

    Attributes:
        patterns: English and Chinese, each as often as its share.
        slots: what may stand in each, in both languages.
        voices: of each language: those heard in training, and those that are not.
        sizes: of the splits.
        percent: of the sentences are held out.
        show: held-out English sentences that come first.
    """

    patterns: list[Command]
    slots: dict[str, list[Command]]
    voices: dict[str, dict[str, list[str]]]
    sizes: dict[str, int]
    percent: int
    show: list[str]

    def draw(self, random: Random) -> Command:
        """Return a random sentence."""
        filled = self._fill(random.choice(self.patterns), random)
        return Command(*(text[:1].upper() + text[1:] for text in filled))

    def words(self, language: Language = "en") -> set[str]:
        """Return the words that there are (in Chinese: characters)."""
        texts = [getattr(one, language) for some in (self.patterns, *self.slots.values()) for one in some]
        plain = [SLOT.sub(" ", text) for text in texts]
        return {word for text in plain for word in (text.split() if language == "en" else text.replace(" ", ""))}

    def is_held_out(self, command: Command) -> bool:
        """Return whether no training sentence may say it."""
        digest = int.from_bytes(sha256(command.en.encode()).digest()[:8], "big")
        return command.en in self.show or digest % 100 < self.percent

    def _fill(self, command: Command, random: Random, depth: int = 0) -> Command:
        """Fill the slots of both sides alike: the n-th slot of a name is the n-th one of that name."""
        chosen: dict[str, Command] = {}
        for match in SLOT.finditer(command.en):
            options = self.slots[match[1]]
            option = self._fill(random.choice(options), random, depth + 1)
            while match[2] and option == chosen.get(match[1]):
                option = self._fill(random.choice(options), random, depth + 1)
            chosen[match[1] + match[2]] = option
        sides = zip(("en", "zh"), command, strict=True)
        return Command(*(SLOT.sub(lambda m, s=side: getattr(chosen[m[1] + m[2]], s), text) for side, text in sides))


@dataclass(frozen=True)
class CommandCorpus:
    """What is said by whom.

    Attributes:
        train: sentences to learn from, by voices that are heard.
        dev: held-out sentences, by the same voices.
        test: others, by the same voices.
        test_unseen: the sentences of `test`, by voices that training never hears.
    """

    train: list[Spoken]
    dev: list[Spoken]
    test: list[Spoken]
    test_unseen: list[Spoken]


def load_commands(path: str | Path | None = None) -> CommandGrammar:
    """Return the grammar in a file; the one that ships with the package if no path is given.

    Raises:
        DataError: the file cannot be read, or an entry does not hold.
    """
    source = Path(path) if path is not None else resources.files("dragoman.demo") / "commands.toml"
    try:
        tree = tomllib.loads(source.read_bytes().decode("utf-8"))
        split: dict[str, Any] = tree["split"]
        slots = {name: [_pair(text, name) for text in texts] for name, texts in tree["slot"].items()}
        patterns = [Command(one["en"], one["zh"]) for one in tree["pattern"] for _ in range(one.get("share", 1))]
        sizes = {name: int(split[name]) for name in ("train", "dev", "test")}
        grammar = CommandGrammar(patterns, slots, tree["voices"], sizes, int(split["percent"]), list(split["show"]))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise DataError("this is no grammar of commands", file=str(source), found=error) from error
    _check(grammar, str(source))
    return grammar


def _pair(text: str, name: str) -> Command:
    english, bar, chinese = text.partition(" | ")
    if not bar or not english or not chinese:
        raise ValueError(f"{name}: {text!r} is not English | Chinese")
    return Command(english, chinese)


def _check(grammar: CommandGrammar, file: str) -> None:
    for command in (*grammar.patterns, *(one for some in grammar.slots.values() for one in some)):
        english, chinese = (sorted(SLOT.findall(text)) for text in command)
        if english != chinese:
            raise DataError("the two sides have different slots", file=file, found=" | ".join(command))
        for name, _ in english:
            if name not in grammar.slots:
                raise DataError(f"there is no slot called {name!r}", file=file, found=command.en)


def draw_commands(grammar: CommandGrammar, language: Language = "en", seed: int = 1) -> CommandCorpus:
    """Draw a corpus: the same one for the same grammar, language and seed, on any machine.

    Args:
        grammar: of `load_commands`.
        language: who speaks: English or Chinese voices.
        seed: of all that is drawn.

    Raises:
        DataError: the grammar has too few sentences, or cannot make one that is to be shown.
    """
    random = Random(int.from_bytes(sha256(f"{seed} {language}".encode()).digest(), "big"))
    kept: dict[str, dict[str, Command]] = {"train": {}, "held out": {}}
    held_out = grammar.sizes["dev"] + grammar.sizes["test"]
    wanted = {"train": grammar.sizes["train"], "held out": held_out}
    shown: dict[str, Command] = {}
    for _ in range(DRAWS * sum(wanted.values())):
        command = grammar.draw(random)
        if command.en in grammar.show:
            shown[command.en] = command
            continue
        name = "held out" if grammar.is_held_out(command) else "train"
        if len(kept[name]) < wanted[name]:
            kept[name].setdefault(command.en, command)
        if len(shown) == len(grammar.show) and all(len(kept[name]) == count for name, count in wanted.items()):
            break
    else:
        missing = [text for text in grammar.show if text not in shown] or [f"{len(kept[name])} {name}" for name in kept]
        hint = "add words, or lower [split]"
        raise DataError("the grammar has too few sentences", found=", ".join(missing), hint=hint)
    new = [shown[text] for text in grammar.show] + list(kept["held out"].values())
    test, dev = new[: grammar.sizes["test"]], new[grammar.sizes["test"] : held_out]
    voices = grammar.voices[language]

    def spoken(commands: list[Command], names: list[str]) -> list[Spoken]:
        return [Spoken(command, _voice(names[number % len(names)], random)) for number, command in enumerate(commands)]

    return CommandCorpus(
        spoken(list(kept["train"].values()), voices["seen"]),
        spoken(dev, voices["seen"]),
        spoken(test, voices["seen"]),
        spoken(test, voices["unseen"]),
    )


def _voice(name: str, random: Random) -> Voice:
    language, _, variant = name.partition("+")
    return Voice(language, variant, random.randint(*SPEEDS), random.randint(*PITCHES))
