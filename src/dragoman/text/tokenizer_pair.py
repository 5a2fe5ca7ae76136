"""The tokenizers of the two sides of a corpus, chosen, trained, saved and loaded together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dragoman.config import TokenizerConfig
from dragoman.errors import ConfigError, DataError
from dragoman.text.choices import TextStatistics, choose_joint, choose_kind, choose_vocab_size
from dragoman.text.corpus import Pair
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer
from dragoman.text.tokenizer import Kind, Tokenizer, check_symbols
from dragoman.text.vocabulary import Vocabulary

# SentencePiece holds its training text in memory: of larger corpora it sees an even sample.
MAX_TRAINING_LINES = 1_000_000
_STEMS = (("tokenizer", "model"), ("vocabulary", "json"))


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True)
class TokenizerPair:
    """A tokenizer for each side; with a joint vocabulary both are the same object."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target

    @classmethod
    def train(
        cls,
        pairs: Iterable[Pair],
        config: TokenizerConfig,
        *,
        mask: bool = False,
        report: Callable[[str], None] = _silent,
    ) -> TokenizerPair:
        """Tokenizers for a corpus.

        What the config leaves open is chosen from the text (`choices`), each side by itself, and told to `report`.

        Args:
            pairs: a corpus that can be iterated several times.
            config: kind, size, joint or not, thresholds.
            mask: reserve an id for `<mask>`.
            report: takes a line of plain text about each choice.

        Raises:
            ConfigError: the vocabulary size asked for does not hold the characters, or sides of different kinds were
                to be joined.
            DataError: there is no text.
        """
        sides = TextStatistics(), TextStatistics()
        for pair in pairs:
            sides[0].add(pair.source)
            sides[1].add(pair.target)
        wanted = (config.kind, config.target_kind or config.kind)
        kinds = [choose_kind(side.sample) if k == "auto" else k for k, side in zip(wanted, sides, strict=True)]
        joint = config.joint
        if joint is None:
            joint = kinds[0] == kinds[1] and choose_joint(sides[0].sample, sides[1].sample, kinds[0])
        if joint and kinds[0] != kinds[1]:
            raise ConfigError(
                "one joint vocabulary needs one kind of token",
                found=f"{kinds[0]} for the source, {kinds[1]} for the target",
                hint="set tokenizer.kind, or leave tokenizer.joint unset",
            )
        if joint:
            both = sides[0].merged(sides[1])
            texts = (text for pair in pairs for text in (pair.source, pair.target))
            tokenizer = _train(kinds[0], texts, both, config, mask)
            report(f"tokenizer: one {tokenizer.kind} vocabulary of {len(tokenizer)} entries for both sides")
            return cls(tokenizer, tokenizer)
        source = _train(kinds[0], (pair.source for pair in pairs), sides[0], config, mask)
        target = _train(kinds[1], (pair.target for pair in pairs), sides[1], config, mask)
        report(f"tokenizers: {source.kind} of {len(source)} entries (source), {target.kind} of {len(target)} (target)")
        return cls(source, target)

    @classmethod
    def train_one(
        cls,
        lines: Iterable[Pair],
        config: TokenizerConfig,
        *,
        mask: bool = False,
        report: Callable[[str], None] = _silent,
    ) -> TokenizerPair:
        """One tokenizer for the targets, which stands for both sides: for models of one text.

        Arguments and errors are those of `train`; `joint` has no meaning here.
        """
        statistics = TextStatistics()
        for line in lines:
            statistics.add(line.target)
        wanted = config.target_kind or config.kind
        kind = choose_kind(statistics.sample) if wanted == "auto" else wanted
        tokenizer = _train(kind, (line.target for line in lines), statistics, config, mask)
        report(f"tokenizer: {tokenizer.kind} vocabulary of {len(tokenizer)} entries")
        return cls(tokenizer, tokenizer)

    def save(self, directory: str | Path) -> None:
        """Write `tokenizer.model` or `vocabulary.json`, or for two vocabularies a `.source.` and a `.target.` file."""
        folder = Path(directory)
        if self.joint:
            self.source.save(folder / _file_name(self.source, ""))
        else:
            self.source.save(folder / _file_name(self.source, ".source"))
            self.target.save(folder / _file_name(self.target, ".target"))

    @classmethod
    def load(cls, directory: str | Path) -> TokenizerPair:
        """Read what `save` wrote.

        Raises:
            DataError: a file is missing, superfluous or damaged.
        """
        folder = Path(directory)
        joint = _load(folder, "")
        source, target = _load(folder, ".source"), _load(folder, ".target")
        if joint is not None and source is None and target is None:
            return cls(joint, joint)
        if joint is None and source is not None and target is not None:
            return cls(source, target)
        raise DataError(
            "the directory does not hold one tokenizer for both sides, nor one for each",
            file=folder,
            expected="tokenizer.model or vocabulary.json, or both tokenizer.source.model and tokenizer.target.model",
            found=", ".join(sorted(_present(folder))) or "none",
        )


def _train(
    kind: Kind, texts: Iterable[str], statistics: TextStatistics, config: TokenizerConfig, mask: bool
) -> Tokenizer:
    symbols = config.symbols
    check_symbols(symbols)
    if kind == "character" and symbols:
        hint = "leave tokenizer.symbols out: characters spell a tag too"
        raise ConfigError("a character vocabulary has no longer entries", found=", ".join(symbols), hint=hint)
    if kind in ("word", "character"):
        size = config.vocab_size
        return Vocabulary.train(kind, texts, min_count=config.min_count, size=size, mask=mask, symbols=symbols)
    coverage = config.character_coverage
    size = config.vocab_size or choose_vocab_size(statistics, character_coverage=coverage)
    stride = math.ceil(statistics.lines / MAX_TRAINING_LINES) or 1
    sample = (text for i, text in enumerate(texts) if i % stride == 0)
    return SentencePieceTokenizer.train(
        kind, sample, vocab_size=size, character_coverage=coverage, mask=mask, symbols=symbols
    )


def _file_name(tokenizer: Tokenizer, side: str) -> str:
    return f"vocabulary{side}.json" if tokenizer.kind in ("word", "character") else f"tokenizer{side}.model"


def _present(folder: Path) -> set[str]:
    names = {f"{stem}{side}.{end}" for stem, end in _STEMS for side in ("", ".source", ".target")}
    return {name for name in names if (folder / name).is_file()}


def _load(folder: Path, side: str) -> Tokenizer | None:
    found = [f"{stem}{side}.{end}" for stem, end in _STEMS if f"{stem}{side}.{end}" in _present(folder)]
    if len(found) > 1:
        raise DataError("two tokenizers for the same side", file=folder, found=" and ".join(found))
    if not found:
        return None
    path = folder / found[0]
    return SentencePieceTokenizer.load(path) if path.suffix == ".model" else Vocabulary.load(path)
