"""The grammar file of the demo: its shape, its words, and the mistakes one can make in it."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from dragoman.config.values import Bounds, Mistake, convert, convert_dataclass
from dragoman.errors import DataError

Language = Literal["zh", "en"]
LANGUAGES: tuple[Language, Language] = ("zh", "en")
ROLES = ("who", "what", "place")
Positive = Annotated[int, Bounds(gt=0)]
NotNegative = Annotated[int, Bounds(ge=0)]
SLOT = re.compile(r"\{(?P<slot>\w+)(?P<optional>\?)?(?:\.(?P<form>\w+)|@(?P<agrees>\w+))?\}")


@dataclass(frozen=True)
class Word:
    """A word of both languages: its plain forms, and further forms under names of their own."""

    zh: str
    en: str
    kind: str = ""
    agreement: str | None = None
    forms: dict[str, object] = field(default_factory=dict)

    @classmethod
    def read(cls, value: object, place: str, mistakes: list[Mistake]) -> Word:
        """Return the word of a table, in which further forms stand beside the rest; see `values.Readable`."""
        if isinstance(value, Mapping):
            own = [name for name in cls.__dataclass_fields__ if name != "forms"]
            forms = {name: form for name, form in value.items() if name not in own}
            value = {**{name: value[name] for name in own if name in value}, "forms": forms}
        return convert_dataclass(value, cls, place, mistakes)

    def form(self, name: str) -> object:
        """Return one of its forms, None if it has no such form."""
        return {"zh": self.zh, "en": self.en, **self.forms}.get(name)


@dataclass(frozen=True)
class Rule:
    """A phrase or a sentence pattern: one template per language."""

    zh: str
    en: str
    pick: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    agreement: str | None = None
    head: str = "noun"
    share: Positive = 1

    @cached_property
    def placeholders(self) -> list[re.Match[str]]:
        """Every `{slot}` of both templates in reading order."""
        return list(SLOT.finditer(self.zh + self.en))

    @cached_property
    def slots(self) -> dict[str, bool]:
        """The names of its slots, each with whether it must be filled."""
        return {match["slot"]: not match["optional"] for match in self.placeholders}


@dataclass(frozen=True)
class Repair:
    """A regular expression and what is written in its place."""

    find: re.Pattern[str]
    write: str


@dataclass(frozen=True)
class Split:
    """How many sentences to write and what to hold out of training."""

    train: Positive
    dev: NotNegative
    test: NotNegative
    percent: Annotated[int, Bounds(gt=0, lt=100)]
    seen: NotNegative
    show: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tables:
    """The whole file, as it stands."""

    split: Split
    agreement: dict[str, dict[str, str]]
    word: dict[str, dict[str, Word]]
    frames: dict[str, tuple[dict[str, str], ...]]
    phrase: dict[str, Rule]
    pattern: dict[str, Rule]
    repair: dict[Language, tuple[Repair, ...]] = field(default_factory=dict)
    kind: dict[str, str] = field(default_factory=dict)


class Lexicon:
    """The tables of a grammar file, checked, with its words ready to be looked up.

    Args:
        tables: what the file says.
        file: its name, for error messages.
        text: its text, to find the line of an entry.

    Raises:
        DataError: an entry refers to a word, kind, slot or form that does not exist; the entry is named.
    """

    def __init__(self, tables: Tables, file: str, text: str) -> None:
        self.tables, self.file, self.text = tables, file, text
        self.words: dict[str, Word] = {}
        self.category: dict[str, str] = {}
        for category, words in tables.word.items():
            for name, word in words.items():
                self.check(name not in self.words, name, "two words have this name", "rename one of them")
                self.words[name], self.category[name] = word, category
        self._kinds = {name: self._closure({name, *word.kind.split()}) for name, word in self.words.items()}
        self._selected: dict[tuple[str | None, ...], list[str]] = {}
        self._shapes: dict[tuple[str, str], list[str]] = {}
        _Checker(self).check_all()

    def _closure(self, kinds: set[str]) -> frozenset[str]:
        """The kinds together with all that they imply."""
        while (more := kinds.union(*(self.tables.kind.get(kind, "").split() for kind in kinds))) != kinds:
            kinds = more
        return frozenset(kinds)

    @property
    def kinds(self) -> set[str]:
        """Every name and kind by which a word can be selected."""
        return set().union(*self._kinds.values())

    def select(self, category: str, *selectors: str | None) -> list[str]:
        """Return the words of a category that fit every selector that is not None."""
        key = (category, *selectors)
        if key not in self._selected:
            wanted = [{*selector.split()} for selector in selectors if selector is not None]
            names = self.tables.word.get(category, {})
            self._selected[key] = [name for name in names if all(self._kinds[name] & kinds for kinds in wanted)]
        return self._selected[key]

    def companions(self, category: str, selector: str | None, noun: str) -> list[str]:
        """Return the words of a category that may stand with a noun: adjectives with their subjects, others always."""
        frames = self.tables.frames
        kinds = self._kinds[noun]
        return [
            name
            for name in self.select(category, selector)
            if name not in frames or any(kinds & {*frame.get("who", "").split()} for frame in frames[name])
        ]

    def heads(self, phrase: str, selector: str) -> list[str]:
        """Return the words that fit a selector and may head a phrase."""
        rule = self.tables.phrase[phrase]
        return self.select(rule.head, rule.pick.get(rule.head), selector)

    def shapes(self, selector: str, head: str) -> list[str]:
        """Return the phrases that a selector names and another one's words may head, each as often as its share."""
        if (selector, head) not in self._shapes:
            wanted = {*selector.split()}
            rules = [(name, rule) for name, rule in self.tables.phrase.items() if wanted & {name, *rule.kind.split()}]
            self._shapes[selector, head] = [
                name for name, rule in rules if self.heads(name, head) for _ in range(rule.share)
            ]
        return self._shapes[selector, head]

    def predicates(self, pattern: Rule) -> list[str]:
        """Return the slots of a pattern whose words have frames."""
        return [slot for slot in pattern.slots if self.tables.frames.keys() & self.tables.word.get(slot, {}).keys()]

    def check(self, holds: bool, entry: str, message: str, hint: str | None = None) -> None:
        """Raise a `DataError` that names the entry and its line, unless `holds`."""
        if not holds:
            raise DataError(f"{entry}: {message}", file=self.file, line=line_of(self.text, entry), hint=hint)


class _Checker:
    """Finds the references of a grammar file that lead nowhere."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon, self.tables, self.check = lexicon, lexicon.tables, lexicon.check
        self.kinds = lexicon.kinds
        phrases = self.tables.phrase.items()
        self.shapes = {shape for name, phrase in phrases for shape in (name, *phrase.kind.split())}

    def check_all(self) -> None:
        for name, word in self.lexicon.words.items():
            self._agreement(name, word.agreement)
            for form, text in word.forms.items():
                self.check(isinstance(text, str), name, f"the form {form!r} is not a text", "put it in quotes")
        for name, frames in self.tables.frames.items():
            self._frames(name, frames)
        for name, phrase in self.tables.phrase.items():
            self._rule(name, phrase, set(self.tables.word))
            self.check(phrase.head in phrase.slots, name, f"its head {phrase.head!r} is not one of its slots")
        for name, pattern in self.tables.pattern.items():
            self._rule(name, pattern, {*self.tables.word, *ROLES})
            self.check(len(self.lexicon.predicates(pattern)) == 1, name, "it needs one slot whose words have frames")
            for slot in pattern.slots:
                phrases = slot in self.tables.word or slot in pattern.pick
                self.check(phrases, name, f"nothing says which phrases may fill {{{slot}}}", f"add {slot} to its pick")

    def _agreement(self, entry: str, name: str | None) -> None:
        self.check(name is None or name in self.tables.agreement, entry, f"there is no agreement called {name!r}")

    def _frames(self, name: str, frames: tuple[dict[str, str], ...]) -> None:
        self.check(name in self.lexicon.words, name, "there are frames for it, but no such word")
        for frame in frames:
            for role, selector in frame.items():
                self.check(role in ROLES, name, f"{role!r} is not a role", f"the roles are {', '.join(ROLES)}")
                self._names(name, selector, self.kinds)

    def _rule(self, name: str, rule: Rule, slots: set[str]) -> None:
        self._agreement(name, rule.agreement)
        for slot in [*rule.slots, *rule.pick]:
            self.check(slot in slots, name, f"no slot is called {slot!r}", f"the slots are {', '.join(sorted(slots))}")
        for slot, selector in rule.pick.items():
            self._names(name, selector, self.kinds if slot in self.tables.word else self.shapes)
        for match in rule.placeholders:
            other = match["agrees"]
            self.check(other is None or other in rule.slots, name, f"{match[0]} has nothing to agree with")
            # What fills a role depends on the frame: a form missing there shows when the sentence is written.
            if match["form"] and match["slot"] not in ROLES:
                self._forms(name, match["form"], self.lexicon.select(match["slot"], rule.pick.get(match["slot"])))

    def _forms(self, rule: str, form: str, words: list[str]) -> None:
        for word in words:
            self.check(
                self.lexicon.words[word].form(form) is not None,
                word,
                f"the word has no form {form!r}, which {rule!r} asks for",
            )

    def _names(self, entry: str, selector: str, known: set[str]) -> None:
        for name in selector.split():
            close = difflib.get_close_matches(name, sorted(known), 1)
            hint = f"did you mean {close[0]!r}?" if close else None
            self.check(name in known, entry, f"nothing is called {name!r}", hint)


def read_lexicon(path: str | Path | None = None) -> Lexicon:
    """Read and check a grammar file; the one that ships with the package if no path is given.

    Raises:
        DataError: the file cannot be read, is not TOML, or an entry does not hold; the entry is named.
    """
    source = Path(path) if path is not None else resources.files("dragoman.demo") / "grammar.toml"
    file = str(source)
    try:
        text = source.read_bytes().decode("utf-8")
    except OSError as error:
        raise DataError(f"the grammar cannot be read: {error.strerror}", file=file) from error
    except UnicodeDecodeError as error:
        raise DataError("the grammar is not UTF-8", file=file, hint="save it as UTF-8") from error
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"the grammar is not TOML: {error}", file=file) from error
    return Lexicon(_tables(tree, file, text), file, text)


def _tables(tree: Mapping[str, object], file: str, text: str) -> Tables:
    mistakes: list[Mistake] = []
    tables: Tables = convert(tree, Tables, "", mistakes)
    if mistakes:
        names = mistakes[0].place.split(".")
        line = next((line for name in reversed(names) if (line := line_of(text, name))), None)
        raise DataError(str(mistakes[0]), file=file, line=line)
    return tables


def line_of(text: str, entry: str) -> int | None:
    """Return the line, counted from 1, on which an entry starts as a key or as a table."""
    name = re.escape(entry)
    found = re.search(rf"^(\[+[\w.]*\b{name}\]|{name} *=)", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else None
