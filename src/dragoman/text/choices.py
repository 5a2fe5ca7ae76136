"""Choices made from the corpus when the user made none: kind of tokenizer, size of vocabulary, one or two of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dragoman.text.normalization import Normalization, normalizer, plain_blanks
from dragoman.text.sentencepiece_tokenizer import BASE_ENTRIES
from dragoman.text.tokenizer import Kind, Tokenizer

MAX_SYMBOLS = 200
MAX_VOCAB = 32_000
# Measured: English with German or French 0.33, with Czech 0.20, with Chinese 0.002.
TRIGRAM_OVERLAP = 1 / 7
WORD_OVERLAP = 1 / 2
# A word vocabulary of more entries is one of text. CMUdict has 43, SIGMORPHON's fifteen languages 390, captions 3,665.
MOST_SYMBOLS = 1000
# Of the pairs most like a source, where they help: measured with 54,000 and 110,583; to search among more takes long.
MATCHES, FEWEST_TO_MATCH, MOST_TO_MATCH = 2, 50_000, 200_000
_SAMPLE = 20_000
_PIECES = ("bpe", "unigram")


# Of the targets, a rule that nobody asked for may change so many: outputs are to look like them.
CHANGED_TARGETS = 0.01


@dataclass
class RuleEffects:
    """How many lines of one side each rule of normalisation would change, filled by `add`."""

    lines: int = 0
    changed: Counter[Normalization] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Count one line."""
        self.lines += 1
        rules: tuple[Normalization, ...] = ("blanks", "nfc", "nfkc")
        if text.isascii():  # for which all rules are one
            self.changed.update(rules if plain_blanks(text) != text else ())
        else:
            self.changed.update(rule for rule in rules if normalizer(rule)(text) != text)

    def safe_rule(self) -> Normalization:
        """Return the strongest rule for targets that changes hardly one."""
        rules: tuple[Normalization, ...] = ("nfc", "blanks")
        return next((one for one in rules if self.changed[one] <= CHANGED_TARGETS * self.lines), "none")


def choose_rules(
    kinds: Sequence[Kind], source: RuleEffects, target: RuleEffects, *, joint: bool
) -> tuple[Normalization, Normalization]:
    """Return how sources and targets are written alike: nfkc and the safe rule of targets; lists of symbols not at all.

    Measured (`recipes/normalize.py`): clean sources are translated as well, dirty ones as well as clean ones. One
    vocabulary has one rule, that of the targets.
    """
    rules = ("nfkc", target.safe_rule())
    if joint:
        rules = (target.safe_rule(),) * 2
    return (
        rules[0] if kinds[0] in _PIECES and source.lines else "none",
        rules[1] if kinds[1] in _PIECES and target.lines else "none",
    )


@dataclass
class TextStatistics:
    """Counts of one side of a corpus, filled by `add`: characters, and an evenly spread sample of lines."""

    lines: int = 0
    characters: int = 0
    alphabet: Counter[str] = field(default_factory=Counter)
    sample: list[str] = field(default_factory=list)
    _stride: int = 1

    def add(self, text: str) -> None:
        """Count one line."""
        if self.lines % self._stride == 0:
            self.sample.append(text)
            if len(self.sample) >= 2 * _SAMPLE:
                # Every second line goes, and from here on only every second one comes.
                self.sample = self.sample[::2]
                self._stride *= 2
        self.lines += 1
        self.characters += len(text)
        self.alphabet.update(text)

    def merged(self, other: TextStatistics) -> TextStatistics:
        """Return the counts of both texts together."""
        return TextStatistics(
            self.lines + other.lines,
            self.characters + other.characters,
            self.alphabet + other.alphabet,
            self.sample + other.sample,
        )


def choose_kind(texts: Sequence[str]) -> Literal["word", "bpe"]:
    """Return "word" if the lines are symbols from a small closed set with blanks between, else "bpe".

    Closed means: at most 200 symbols, each seen five times on average, and every second line brings hardly one that
    the others do not have (at most one token in 250; every second line, because word lists are often sorted). Symbols
    means: more than one to a line on average, and no sentence punctuation stuck to them, so a small corpus of plain
    sentences stays with subwords.
    """
    lines = [text.split() for text in texts]
    tokens = sum(map(len, lines))
    known = {token for line in lines[::2] for token in line}
    others = Counter(token for line in lines[1::2] for token in line)
    symbols = known | others.keys()
    fresh = sum(count for token, count in others.items() if token not in known)
    closed = len(symbols) <= MAX_SYMBOLS and tokens >= 5 * len(symbols) and 250 * fresh <= others.total()
    stuck = sum(1 for line in lines if line and len(line[-1]) > 1 and line[-1][-1] in ".,;:!?。，！？।؟…")
    several = tokens > len([line for line in lines if line])
    return "word" if closed and several and 100 * stuck <= len(lines) else "bpe"


def choose_vocab_size(statistics: TextStatistics, *, character_coverage: float = 0.9995) -> int:
    """Return the size of a subword vocabulary: room for every character, then merges as the square root of the text.

    size = 260 + alphabet + 4 x sqrt(characters), at most 32,000 (more only where the alphabet itself needs it), where
    alphabet is the number of distinct characters that make up `character_coverage` of the text. So 29,000 captions of
    60 characters get about 5,700 entries for one side and 8,000 for two sides together; 1,000 short lines about 1,000.
    """
    alphabet = _covering(statistics.alphabet, character_coverage)
    # SentencePiece counts blanks and line starts its own way: a few entries to spare.
    least = BASE_ENTRIES + alphabet + 16
    return max(least, min(MAX_VOCAB, least + round(4 * math.sqrt(statistics.characters))))


def _covering(alphabet: Counter[str], coverage: float) -> int:
    wanted, covered = coverage * alphabet.total(), 0
    for rank, (_, count) in enumerate(alphabet.most_common()):
        if covered >= wanted:
            return rank
        covered += count
    return len(alphabet)


def is_of_symbols(tokenizer: Tokenizer) -> bool:
    """Return whether lines are sequences of symbols from a closed set, such as sounds or actions, not text."""
    return tokenizer.kind == "word" and len(tokenizer) <= MOST_SYMBOLS


def choose_matches(source: Tokenizer, target: Tokenizer, pairs: int) -> int:
    """Return with how many similar training pairs a source is read: 2 of 50,000 to 200,000 pairs of symbols; else 0.

    Such as letters and sounds: words are spoken by analogy with words like them. To captions and to sentences of
    Tatoeba matches gave nothing.
    """
    sorts = source is not target and is_of_symbols(source) and is_of_symbols(target)
    return MATCHES if sorts and FEWEST_TO_MATCH <= pairs <= MOST_TO_MATCH else 0


def choose_joint(source_texts: Iterable[str], target_texts: Iterable[str], kind: Kind = "bpe") -> bool:
    """Return whether one vocabulary suits both sides, by the probability mass that they share.

    Subwords and characters: trigrams of characters, a seventh or more, as in two languages of one script. Words: the
    words themselves, a half or more: words shared by chance (letters and the sounds they stand for) do not help.
    """
    if kind == "word":
        return overlap(map(_words, source_texts), map(_words, target_texts)) >= WORD_OVERLAP
    return overlap(map(_trigrams, source_texts), map(_trigrams, target_texts)) >= TRIGRAM_OVERLAP


def overlap(source: Iterable[Sequence[str]], target: Iterable[Sequence[str]]) -> float:
    """Return the shared probability mass of two streams of units, 0 (nothing in common) to 1 (the same)."""
    left = Counter(unit for units in source for unit in units)
    right = Counter(unit for units in target for unit in units)
    totals = max(left.total(), 1), max(right.total(), 1)
    return sum((min(count / totals[0], right[unit] / totals[1]) for unit, count in left.items()), 0.0)


def _words(text: str) -> list[str]:
    return text.split()


def _trigrams(text: str) -> list[str]:
    padded = f" {text.strip()} ".casefold()
    return [padded[i : i + 3] for i in range(len(padded) - 2)]
