"""The tokenizers of the two sides of a corpus, trained, saved and loaded together.

What only training needs (`tokenizer_training`), and each kind of tokenizer, is imported when it is first used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.audio.listing import Given, Recording, as_sounds
from dragoman.config import TokenizerConfig
from dragoman.errors import ConfigError, DataError
from dragoman.files import sum_of, unquoted
from dragoman.given import each_text
from dragoman.pace import silent
from dragoman.sequences.source import Source
from dragoman.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from dragoman.audio.front_end import FrontEnd
    from dragoman.text.matching import Matching

MATCHES = "matches.safetensors"
SOUND = "audio.json"
_SHORT = 64  # characters of a token: of longer texts the beginning is tokenised first
_STEMS = (("tokenizer", "model"), ("vocabulary", "json"), ("pieces", "json"), ("moses", "json"))
_CLASSES = {
    "tokenizer": ("sentencepiece_tokenizer", "SentencePieceTokenizer"), "vocabulary": ("vocabulary", "Vocabulary"),
    "pieces": ("piece_tokenizer", "PieceTokenizer"), "moses": ("moses_tokenizer", "MosesTokenizer"),
}  # fmt: skip


@dataclass(frozen=True)
class TokenizerPair:
    """A tokenizer for each side; with a joint vocabulary both are the same object.

    Attributes:
        source: of the text of sources.
        target: of targets.
        matching: finds the fuzzy matches that sources are read with, if they are.
        sound: how sources are heard, if they are sounds; then `source` is `target`.
    """

    source: Tokenizer
    target: Tokenizer
    matching: Matching | None = None
    sound: FrontEnd | None = None

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target and self.sound is None

    @property
    def shares_ids(self) -> bool:
        """Whether an id stands for the same token on both sides, also where each side cuts its texts in its own way."""
        source, target = self.source, self.target
        if self.joint or len(source) != len(target):
            return self.joint
        return source.pieces(range(len(source))) == target.pieces(range(len(target)))

    @property
    def count_of_matches(self) -> int:
        """How many fuzzy matches a source is read with; 0 is none."""
        return 0 if self.matching is None else self.matching.count

    @property
    def source_vocab(self) -> int | None:
        """Number of ids that encoders read, those of fuzzy matches counted; None where they hear sounds."""
        if self.sound is not None:
            return None
        return len(self.source) if self.matching is None else self.matching.vocab

    def check_reads(self) -> None:
        """Refuse a model that listens where texts are to be read.

        Raises:
            ConfigError: it is one.
        """
        if self.sound is not None:
            hint = "`dragoman transcribe MODEL FILES` runs it, `evaluate`, `tune` and `score` take lists of recordings"
            raise ConfigError("the model listens to sounds, and does not read texts", hint=hint)

    def given(self, texts: object, name: str = "texts", first: int = 0) -> Iterator[Any]:
        """Yield what is given as sources, checked, one at a time: strings, or of a model that listens sounds.

        Args:
            texts: gives them one after the other.
            name: what they are called in messages.
            first: number of the first one in a longer series, for messages.

        Raises:
            DataError: they are no series, or one of them is no text, or no sound.
        """
        if self.sound is None:
            return each_text(texts, name, first)
        return as_sounds(texts, name, first)

    def encode_source(self, text: Given, most: int | None = None) -> Source:
        """Return a text as the model reads it, with matches if it has them; or a sound as it hears it.

        Args:
            text: any; of a model that listens a recording, its line in a list, or a waveform.
            most: so many tokens of it are wanted at most; far beyond them the text is not even looked at.

        Raises:
            DataError: a recording cannot be read.
        """
        if self.sound is not None:
            [one] = self.given([text])
            waveform = one.read(self.sound.sample_rate) if isinstance(one, Recording) else one
            return self.sound.source(waveform) if len(waveform) else Source(())
        assert isinstance(text, str)
        ids = self.source.encode(text) if most is None else self._first_ids(text, most)
        return self.source_of(ids) if ids else Source(())

    def _first_ids(self, text: str, most: int) -> list[int]:
        """The ids of a text, or of a beginning of it: with the same first ones, and more than `most` if it has more."""
        size = _SHORT * (most + 1)
        while size < len(text):
            ids = self.source.encode(text[:size])
            if len(ids) > 2 * most + _SHORT:  # those near the cut, half a word or half a letter, are never read
                return ids
            size *= 4  # long words, or characters that normalisation drops
        return self.source.encode(text)

    def source_of(self, ids: Sequence[int]) -> Source:
        """Return the unframed ids of a text as the model reads them."""
        if self.matching is not None:
            return self.matching.source_of(ids)
        return Source(tuple(ids), (), self.source.specials)

    def source_pieces(self, source: Source) -> list[str]:
        """Return a readable piece for each id of a source, matches and what separates them included."""
        if self.sound is not None:
            return self.sound.times(len(source))
        pieces = self.source.pieces if self.matching is None else self.matching.pieces
        return pieces(source.joined)

    def is_like(self, other: TokenizerPair) -> bool:
        """Return whether models can share outputs and sources: the same pieces on either side, and the same matches."""
        return self._facts() == other._facts()

    def _facts(self) -> tuple[object, ...]:
        source, target, matching = self.source, self.target, self.matching
        matches = None if matching is None else (matching.count, matching.sha256)
        rules = source.normalization, target.normalization, source.specials
        return source.pieces(range(len(source))), target.pieces(range(len(target))), rules, matches, self.sound

    def without_matches(self) -> TokenizerPair:
        """Return tokenizers of the texts alone, without fuzzy matches."""
        return TokenizerPair(self.source, self.target, sound=self.sound)

    def with_matches(
        self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]], *, count: int, limit: int
    ) -> TokenizerPair:
        """Return tokenizers whose sources go on with the targets of the pairs most like them (`Matching`).

        Args:
            pairs: source and target ids, unframed.
            count: matches at most.
            limit: ids of a source with its matches at most.
        """
        from dragoman.text.matching import Matching

        matching = Matching.of(self.source, self.target, pairs, count=count, limit=limit)
        return TokenizerPair(self.source, self.target, matching)

    @classmethod
    def train(
        cls,
        pairs: Iterable[Any],
        config: TokenizerConfig,
        *,
        mask: bool = False,
        report: Callable[[str], None] = silent,
    ) -> TokenizerPair:
        """Train tokenizers for a corpus.

        What the config leaves open is chosen from the text (`choices`), each side by itself, and told to `report`.

        Args:
            pairs: a corpus (of `text.Pair`) that can be iterated several times.
            config: kind, size, joint or not, thresholds.
            mask: reserve an id for `<mask>`.
            report: takes a line of plain text about each choice.

        Raises:
            ConfigError: the vocabulary size asked for does not hold the characters, or sides of different kinds were
                to be joined.
            DataError: there is no text.
        """
        from dragoman.text.tokenizer_training import train_sides

        return cls(*train_sides(pairs, config, mask=mask, report=report))

    @classmethod
    def train_one(
        cls,
        lines: Iterable[Any],
        config: TokenizerConfig,
        *,
        mask: bool = False,
        report: Callable[[str], None] = silent,
    ) -> TokenizerPair:
        """Train one tokenizer for the targets, which stands for both sides: for models of one text.

        Arguments and errors are those of `train`; `joint` has no meaning here.
        """
        from dragoman.text.tokenizer_training import train_target

        tokenizer = train_target(lines, config, mask=mask, report=report)
        return cls(tokenizer, tokenizer)

    def save(self, directory: str | Path) -> None:
        """Write `tokenizer.model`, `vocabulary.json`, `pieces.json` or `moses.json`; for two, one of each side's name.

        The pairs that fuzzy matches are taken from stand in `matches.safetensors`; how sounds are heard, in
        `audio.json`.
        """
        folder, own = Path(directory), self.source
        if self.matching is None:
            (folder / MATCHES).unlink(missing_ok=True)
        else:
            self.matching.save(folder / MATCHES)
        if self.sound is None:
            (folder / SOUND).unlink(missing_ok=True)
        else:
            self.sound.save(folder)
        if self.source is self.target:
            own.save(folder / _file_name(own, ""))
        else:
            own.save(folder / _file_name(own, ".source"))
            self.target.save(folder / _file_name(self.target, ".target"))

    @classmethod
    def load(cls, directory: str | Path, sums: Mapping[str, str] | None = None) -> TokenizerPair:
        """Read what `save` wrote.

        Args:
            directory: where it lies.
            sums: by the names of files the SHA-256 that each must have; others are taken as they are.

        Raises:
            DataError: a file is missing, superfluous or damaged.
        """
        folder = Path(directory)
        for name, told in (sums or {}).items():
            path, hint = folder / name, "get the file anew: it belongs to the model"
            with unquoted(path):
                if path.exists() and (found := sum_of(path)) != told:
                    raise DataError("damaged: wrong content", file=path, expected=f"SHA-256 {told}",
                                    found=f"SHA-256 {found}", hint=hint)  # fmt: skip
        joint = _load(folder, "")
        source, target = _load(folder, ".source"), _load(folder, ".target")
        if joint is not None and source is None and target is None:
            return cls._with_saved_matches(folder, joint, joint)
        if joint is None and source is not None and target is not None:
            return cls._with_saved_matches(folder, source, target)
        raise DataError(
            "the directory does not hold one tokenizer for both sides, nor one for each",
            file=folder,
            expected="tokenizer.model or vocabulary.json, or both tokenizer.source.model and tokenizer.target.model",
            found=", ".join(sorted(_present(folder))) or "none",
        )

    @classmethod
    def _with_saved_matches(cls, folder: Path, source: Tokenizer, target: Tokenizer) -> TokenizerPair:
        if os.path.lexists(folder / SOUND):
            from dragoman.audio.front_end import FrontEnd

            with unquoted(folder / SOUND):
                return cls(source, target, sound=FrontEnd.load(folder))
        if not os.path.lexists(folder / MATCHES):
            return cls(source, target)
        from dragoman.text.matching import Matching

        with unquoted(folder / MATCHES):
            return cls(source, target, Matching.load(folder / MATCHES, source, target))


def all_tokenizer_files() -> tuple[str, ...]:
    """Return the names of all files that tokenizers may lie in."""
    return (*(f"{stem}{side}.{end}" for stem, end in _STEMS for side in ("", ".source", ".target")), MATCHES, SOUND)


def _file_name(tokenizer: Tokenizer, side: str) -> str:
    return f"{tokenizer.stem}{side}.{dict(_STEMS)[tokenizer.stem]}"


def tokenizer_files(folder: Path) -> set[str]:
    """Return the names of the files of a directory that hold its tokenizers, and what sources are read with."""
    return _present(folder) | {name for name in (MATCHES, SOUND) if (folder / name).is_file()}


def _present(folder: Path) -> set[str]:
    return {name for name in all_tokenizer_files() if name not in (MATCHES, SOUND) and os.path.lexists(folder / name)}


def _load(folder: Path, side: str) -> Tokenizer | None:
    found = [f"{stem}{side}.{end}" for stem, end in _STEMS if f"{stem}{side}.{end}" in _present(folder)]
    if len(found) > 1:
        raise DataError("two tokenizers for the same side", file=folder, found=" and ".join(found))
    if not found:
        return None
    path = folder / found[0]
    module, name = _CLASSES[found[0].partition(".")[0]]
    with unquoted(path):
        return getattr(import_module(f"dragoman.text.{module}"), name).load(path)
