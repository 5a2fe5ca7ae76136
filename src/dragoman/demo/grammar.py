"""The demo corpus: sentence pairs written side by side by a small grammar of two languages.

The words and rules live in `grammar.toml`, whose head explains them. This module knows slots, kinds and forms, but
no word of either language. A sentence's *combination* is what it says apart from how it says it: the first three of
subject, predicate, object and place, whatever the tense, number, negation or question around them. A fixed share of the
combinations is held out, so a held-out sentence is new in what it combines, while each of its fillers is well known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from dragoman.demo.lexicon import LANGUAGES, ROLES, SLOT, Language, Lexicon, Rule, read_lexicon
from dragoman.errors import DataError

Frame = Mapping[str, str]
# At a choice between options (names, or frames): which of them to follow.
Choose = Callable[[list[Any]], list[Any]]
DRAWS_PER_SENTENCE = 100


class Sentence(NamedTuple):
    """One sentence in both languages, and how it was made.

    `parts` are the names of all its fillers, each with its slot (`who:cat`); `combination` is what it is held out by.
    """

    zh: str
    en: str
    pattern: str
    combination: tuple[str, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True)
class DemoCorpus:
    """The three splits `train`, `dev` and `test`; the latter two hold combinations that training does not."""

    sentences: dict[str, list[Sentence]] = field(repr=False)

    @property
    def train(self) -> list[tuple[str, str]]:
        """The (zh, en) pairs to train on."""
        return self._pairs("train")

    @property
    def dev(self) -> list[tuple[str, str]]:
        """Held-out (zh, en) pairs for validation."""
        return self._pairs("dev")

    @property
    def test(self) -> list[tuple[str, str]]:
        """Held-out (zh, en) pairs for the final score; those the grammar file wants shown come first."""
        return self._pairs("test")

    def _pairs(self, split: str) -> list[tuple[str, str]]:
        return [(sentence.zh, sentence.en) for sentence in self.sentences[split]]


class _Filler(NamedTuple):
    """What stands in a slot: its head word, its text in each language, what it asks of others, and its parts."""

    head: str
    texts: Mapping[Language, str]
    agreement: str | None = None
    parts: tuple[str, ...] = ()


EMPTY = _Filler("", dict.fromkeys(LANGUAGES, ""))


class Grammar:
    """A grammar of two languages that writes the same sentence in both."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.tables = lexicon.tables

    def expand(self, name: str, choose: Choose) -> Iterator[Sentence]:
        """Yield the sentences of a pattern, following at each choice the options that `choose` returns."""
        pattern = self.tables.pattern[name]
        (slot,) = self.lexicon.predicates(pattern)
        needed = {role for role, must in pattern.slots.items() if must and role in ROLES}
        for predicate in choose(self.lexicon.select(slot, pattern.pick.get(slot))):
            frames = [frame for frame in self.tables.frames.get(predicate, []) if needed <= frame.keys()]
            for frame in choose(frames):
                for filled in self._fill(pattern, frame, choose, {slot: self._word(slot, predicate)}):
                    yield self._sentence(name, predicate, filled)

    def find(self, row: str) -> Sentence:
        """Return the pattern and fillers that a row such as `habit bare cat eat bare fish stop` describes.

        Raises:
            DataError: there is no such sentence.
        """
        name, _, rest = row.partition(" ")
        fillers = rest.split()
        self.lexicon.check(name in self.tables.pattern, row, "there is no such pattern to show")

        def choose(options: list[Any]) -> list[Any]:
            return [option for option in options if isinstance(option, str) and option in fillers] or options

        for sentence in self.expand(name, choose):
            if {*fillers} <= {part.partition(":")[2] for part in sentence.parts}:
                return sentence
        raise DataError(f"{row}: the grammar cannot make this sentence to show", file=self.lexicon.file)

    def _word(self, slot: str, name: str) -> _Filler:
        word = self.lexicon.words[name]
        return _Filler(name, {"zh": word.zh, "en": word.en}, word.agreement, (f"{slot}:{name}",))

    def _fill(
        self, rule: Rule, frame: Frame, choose: Choose, filled: Mapping[str, _Filler]
    ) -> Iterator[Mapping[str, _Filler]]:
        """Fill the rule's empty slots one after the other; the frame says what may play a role."""
        slot = next((slot for slot in rule.slots if slot not in filled), None)
        if slot is None:
            yield filled
            return
        for filler in self._fillers(slot, rule, frame, choose, filled):
            yield from self._fill(rule, frame, choose, {**filled, slot: filler})

    def _fillers(
        self, slot: str, rule: Rule, frame: Frame, choose: Choose, filled: Mapping[str, _Filler]
    ) -> Iterator[_Filler]:
        picked = rule.pick.get(slot)
        if slot not in self.tables.word:
            if slot not in frame:
                yield EMPTY
                return
            for name in choose(self.lexicon.shapes(picked or "", frame[slot])):
                yield from self._phrases(slot, name, frame[slot], choose)
        elif rule.head in filled:
            names = self.lexicon.companions(slot, picked, filled[rule.head].head)
            yield from (self._word(slot, name) for name in choose(names))
        else:
            names = self.lexicon.select(slot, picked, frame.get(slot))
            yield from (self._word(slot, name) for name in choose(names))

    def _phrases(self, slot: str, name: str, selector: str, choose: Choose) -> Iterator[_Filler]:
        """The phrases of one shape whose head fits a selector."""
        phrase = self.tables.phrase[name]
        for head in choose(self.lexicon.heads(name, selector)):
            # The head comes first, for the other slots depend on it.
            for filled in self._fill(phrase, {}, choose, {phrase.head: self._word(phrase.head, head)}):
                texts: dict[Language, str] = {lang: self._render(name, phrase, lang, filled) for lang in LANGUAGES}
                names = [name, *(part.partition(":")[2] for filler in filled.values() for part in filler.parts)]
                agreement = phrase.agreement or self.lexicon.words[head].agreement
                yield _Filler(head, texts, agreement, tuple(f"{slot}:{name}" for name in names))

    def _sentence(self, name: str, predicate: str, filled: Mapping[str, _Filler]) -> Sentence:
        pattern = self.tables.pattern[name]
        zh, en = (self._finish(self._render(name, pattern, language, filled), language) for language in LANGUAGES)
        roles = {role: filled[role].head for role in ROLES if role in filled and filled[role].head}
        said = [f"predicate:{predicate}", *(f"{role}:{head}" for role, head in roles.items())]
        parts = (f"pattern:{name}", *(part for filler in filled.values() for part in filler.parts))
        return Sentence(zh, en, name, tuple(said[:3]), parts)

    def _finish(self, text: str, language: Language) -> str:
        for repair in self.tables.repair.get(language, []):
            text = repair.find.sub(repair.write, text)
        return text[:1].upper() + text[1:]

    def _render(self, name: str, rule: Rule, language: Language, filled: Mapping[str, _Filler]) -> str:
        """The rule's template in a language, with its slots written out."""
        return SLOT.sub(lambda match: self._write(name, match, language, filled), getattr(rule, language))

    def _write(self, name: str, match: re.Match[str], language: Language, filled: Mapping[str, _Filler]) -> str:
        filler, other, form = filled[match["slot"]], match["agrees"], match["form"]
        if filler is EMPTY:
            return ""
        if other:
            category = self.lexicon.category[filler.head]
            form = self.tables.agreement.get(filled[other].agreement or "", {}).get(category, "that agrees")
        if not form:
            return filler.texts[language]
        asked = self.tables.agreement.get(filler.agreement or "", {})
        found = asked[form] if form in asked else self.lexicon.words[filler.head].form(form)
        self.lexicon.check(found is not None, filler.head, f"the word has no form {form!r}, which {name!r} asks for")
        return str(found or "")


def load_grammar(path: str | Path | None = None) -> Grammar:
    """Return the grammar in a file; the one that ships with the package if no path is given.

    Raises:
        DataError: the file cannot be read, is not TOML, or an entry does not hold; the entry is named.
    """
    return Grammar(read_lexicon(path))


def generate(grammar: Grammar, seed: int = 1) -> DemoCorpus:
    """Write a corpus: the same one for the same grammar and seed, on any machine.

    Which combinations are held out depends on their names (SHA-256) and on the sentences to show, not on the seed.

    Raises:
        DataError: a sentence has two translations, one to show cannot be made, or there are too few sentences.
    """
    split, file = grammar.tables.split, grammar.lexicon.file
    shown = [grammar.find(row) for row in split.show]
    combinations = {sentence.combination for sentence in shown}

    def is_held_out(sentence: Sentence) -> bool:
        return sentence.combination in combinations or _in_share(sentence.combination, split.percent)

    limit = DRAWS_PER_SENTENCE * (split.train + split.dev + split.test)
    drawn = _distinct(chain(shown, islice(_draws(grammar, seed), limit)), file)
    train: list[Sentence] = []
    held_out: list[Sentence] = []
    while len(train) < split.train and (sentence := next(drawn, None)):
        (held_out if is_held_out(sentence) else train).append(sentence)
    seen = Counter(part for sentence in train for part in sentence.parts)

    def is_familiar(sentence: Sentence) -> bool:
        return all(seen[part] >= split.seen for part in sentence.parts)

    familiar = filter(is_familiar, chain(held_out, filter(is_held_out, drawn)))
    test = list(islice(familiar, split.test))
    corpus = DemoCorpus({"train": train, "dev": list(islice(familiar, split.dev)), "test": test})
    for name, sentences in corpus.sentences.items():
        if len(sentences) < (wanted := getattr(split, name)):
            message, hint = f"the grammar has too few sentences for {name}", "add words, or lower the sizes in [split]"
            raise DataError(message, file=file, expected=wanted, found=len(sentences), hint=hint)
    for row, sentence in zip(split.show, shown, strict=True):
        grammar.lexicon.check(sentence in test, row, "a word of this sentence to show is too rare in training")
    return corpus


def _draws(grammar: Grammar, seed: int) -> Iterator[Sentence]:
    """Random sentences without end: first a pattern by its share, then each choice in it evenly."""
    random = Random(int.from_bytes(sha256(str(seed).encode()).digest(), "big"))
    patterns = [name for name, pattern in grammar.tables.pattern.items() for _ in range(pattern.share)]

    def one(options: list[Any]) -> list[Any]:
        return [options[int(random.random() * len(options))]] if options else []

    while True:
        for name in one(patterns):
            yield from grammar.expand(name, one)


def _distinct(sentences: Iterable[Sentence], file: str) -> Iterator[Sentence]:
    """Each sentence once; a second translation of one is an error."""
    known: dict[tuple[str, str], Sentence] = {}
    for sentence in sentences:
        keys = [("zh", sentence.zh), ("en", sentence.en)]
        twins = [known[key] for key in keys if key in known]
        for twin in twins:
            if twin[:2] != sentence[:2] or twin.combination != sentence.combination:
                found = "; ".join(f"{one.zh} = {one.en} ({one.pattern})" for one in (twin, sentence))
                message, hint = "two sentences look the same in a language", "change the wording of a pattern or a word"
                raise DataError(message, file=file, found=found, hint=hint)
        if not twins:
            known |= dict.fromkeys(keys, sentence)
            yield sentence


def _in_share(combination: tuple[str, ...], percent: int) -> bool:
    """Whether a combination (of two fillers at least) belongs to the share that is held out."""
    digest = sha256(" ".join(combination).encode()).digest()
    return len(combination) > 1 and int.from_bytes(digest[:8], "big") % 100 < percent


def write_corpus(directory: str | Path, corpus: DemoCorpus, source: str = "zh", target: str = "en") -> None:
    """Write `train`, `dev` and `test` as line-aligned UTF-8 files.

    Args:
        directory: where to; made if absent.
        corpus: what to write.
        source: the language of the first files, "zh" or "en", which is also their suffix.
        target: the language of the second.

    Raises:
        DataError: a language is neither "zh" nor "en", or a file of that name says something else.
    """
    for language in (source, target):
        if language not in LANGUAGES:
            raise DataError("the demo has no such language", expected=" or ".join(LANGUAGES), found=language)
    files = {
        Path(directory) / f"{name}.{language}": "".join(f"{getattr(one, language)}\n" for one in sentences).encode()
        for name, sentences in corpus.sentences.items()
        for language in (source, target)
    }
    for path, lines in files.items():
        if path.exists() and path.read_bytes() != lines:
            raise DataError("the corpus would overwrite a file that says something else", file=path)
    Path(directory).mkdir(parents=True, exist_ok=True)
    for path, lines in files.items():
        path.write_bytes(lines)
