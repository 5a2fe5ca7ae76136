"""SentencePiece (BPE or unigram) that gives back exactly the text it was given, or that text normalised.

Identity normalisation, bytes for unknown characters and no removal of blanks make SentencePiece lossless but for one
character: U+2581, by which it writes the blank. That one is escaped here. How a model normalises stands in it, as the
name of its rule: `nmt_nfkc` is done by SentencePiece, the others of `text.normalization` before it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.files import write_bytes
from dragoman.protobuf import contents, field
from dragoman.text.normalization import NORMALIZATIONS, Normalization, normalizer
from dragoman.text.tokenizer import UNK, UNKNOWN_TEXT, SpecialIds, read_saved, special_tokens

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

MAX_FILE_BYTES = 64 * 2**20
# Specials and the 256 bytes: what every model has before its first character.
BASE_ENTRIES = 4 + 256
_USER_DEFINED = 4  # of SentencePiece.type
# Training sees long lines in parts, so that SentencePiece skips none of them.
_PART = 1000
_PROBE = " \u2581\u732b,\uff0c  \u241b \ufb01 A\u030a</s>\t "
# U+2581 in a text is written ESCAPE + "_"; ESCAPE itself is doubled.
_ESCAPE = "\u241b"
_ESCAPES = str.maketrans({"\u2581": _ESCAPE + "_", _ESCAPE: _ESCAPE * 2})
# Exceptions of a signal, which the library puts into words.
_STOPS = ("KeyboardInterrupt", "StopError")
_ESCAPED = re.compile(f"{_ESCAPE}([_{_ESCAPE}])")


class SentencePieceTokenizer(SpecialIds):
    """A SentencePiece model; `decode(encode(text)) == text` for every text that UTF-8 can spell.

    Args:
        model: the serialised model, as trained here.
        name: what errors call it.

    Raises:
        DataError: it is not a SentencePiece model, or not one with our special ids and lossless settings.
    """

    stem = "tokenizer"

    def __init__(self, model: bytes, *, name: str | Path = "SentencePiece model") -> None:
        from sentencepiece import SentencePieceProcessor

        if not model:  # of which the library would write to standard error
            raise DataError("not a SentencePiece model", file=name, found="an empty file")
        try:
            self._processor: SentencePieceProcessor = SentencePieceProcessor(model_proto=model)
            self._check(model, name)
        except (RuntimeError, UnicodeDecodeError) as error:  # the second one of a piece that is no text
            raise DataError("not a SentencePiece model", file=name) from error
        self._model = model
        self.kind: Literal["bpe", "unigram"] = "bpe" if _is_bpe(self._processor) else "unigram"
        # Between the special ids and the first byte.
        first = len(special_tokens(mask=self.mask is not None))
        self.first_byte: int = self._processor.piece_to_id("<0x00>")
        self._symbols = frozenset((*range(first, self.first_byte), *_added(model, self.first_byte + 256)))

    def _check(self, model: bytes, name: str | Path) -> None:
        rule = _rule_of(model, name)
        super().__init__(mask=self._has_specials(mask=True), normalization=rule)
        if rule == "nmt_nfkc":
            self._normalized = str  # the model does it
        if not self._has_specials(mask=self.mask is not None):
            expected = f"the first ids are {' '.join(special_tokens(mask=False))}"
            raise DataError("the SentencePiece model has other special ids", file=name, expected=expected)
        self.pieces(range(len(self)))  # each is text
        bytes_of = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)]
        probed = _unescaped(normalizer(rule)(_PROBE.translate(_ESCAPES)))
        if not all(self._processor.is_byte(one) for one in bytes_of) or self.decode(self.encode(_PROBE)) != probed:
            raise DataError("the SentencePiece model changes text", file=name, hint="train it with this toolkit")

    @classmethod
    def train(
        cls,
        kind: Literal["bpe", "unigram"],
        texts: Iterable[str],
        *,
        vocab_size: int,
        character_coverage: float = 0.9995,
        mask: bool = False,
        symbols: Sequence[str] = (),
        normalization: Normalization = "none",
    ) -> SentencePieceTokenizer:
        """Learn a model; the same texts give the same bytes.

        Args:
            kind: "bpe" or "unigram".
            texts: lines, consumed once.
            vocab_size: entries wanted, specials and bytes included. A corpus with fewer possible pieces gets a smaller
                model: ask `len()`.
            character_coverage: share of the characters that get entries of their own; rarer ones are spelled in bytes.
            mask: reserve an id for `<mask>`.
            symbols: texts that are one piece each wherever they stand.
            normalization: how texts are written alike before they are cut (`text.normalization`).

        Raises:
            ConfigError: `vocab_size` does not even hold the characters; says what it must be.
            DataError: there is no text.
        """
        from sentencepiece import SentencePieceTrainer

        pad, unk, bos, eos, *more = special_tokens(mask=mask)
        model = io.BytesIO()
        built_in = normalization == "nmt_nfkc"
        parts = _Parts(map(normalizer("none" if built_in else normalization), texts))
        try:
            SentencePieceTrainer.train(
                sentence_iterator=parts, model_writer=model, model_type=kind, vocab_size=vocab_size,
                pad_id=0, unk_id=1, bos_id=2, eos_id=3, pad_piece=pad, unk_piece=unk, bos_piece=bos, eos_piece=eos,
                control_symbols=more, user_defined_symbols=list(symbols), unk_surface=UNKNOWN_TEXT,
                normalization_rule_name="nmt_nfkc" if built_in else "identity", byte_fallback=True,
                remove_extra_whitespaces=built_in, split_digits=True, character_coverage=character_coverage,
                hard_vocab_limit=False, max_sentence_length=16 * _PART,
                num_threads=4,  # not the machine's: unigram sums in this order
                minloglevel=2,
            )  # fmt: skip
        except RuntimeError as error:
            if any(name in str(error) for name in _STOPS):  # Ctrl-C between two lines, put into words by SentencePiece
                raise KeyboardInterrupt from error
            raise (parts.error or _explained(error, vocab_size, parts.count)) from error
        if parts.error is not None:
            raise parts.error
        return cls(model.getvalue() + (b"" if built_in or normalization == "none" else _named(normalization)))

    def _has_specials(self, *, mask: bool) -> bool:
        tokens = special_tokens(mask=mask)
        processor = self._processor
        return len(processor) > len(tokens) and all(
            processor.id_to_piece(i) == token and (processor.is_unknown(i) if i == UNK else processor.is_control(i))
            for i, token in enumerate(tokens)
        )

    def __len__(self) -> int:
        return len(self._processor)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without framing.

        Raises:
            DataError: the text has a lone surrogate, which UTF-8 cannot spell.
        """
        escaped = self._normalized(text).translate(_ESCAPES)
        try:
            return self._processor.encode(escaped.encode("utf-8"))
        except UnicodeEncodeError as error:
            found = f"U+{ord(escaped[error.start]):04X}"
            raise DataError("the text has half of a surrogate pair", expected="text", found=found) from error

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return what `encode` gives for each of some texts, by so many threads."""
        normalized = self._normalized
        try:
            return self._processor.encode(
                [normalized(text).translate(_ESCAPES).encode("utf-8") for text in texts], num_threads=threads
            )
        except UnicodeEncodeError:  # and which text it is
            return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; specials are left out, an unknown reads as U+FFFD."""
        control = self.control
        text = self._processor.decode([int(i) for i in ids if i not in control])
        return _unescaped(text)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id, as SentencePiece writes it: U+2581 for a blank, `<0x0A>` for a byte."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def resampled(self, rows: Sequence[Sequence[int]], *, amount: float, seed: int) -> list[list[int]]:
        """Return the texts of some rows cut anew; in one process the same ids for the same rows, amount and seed.

        Args:
            rows: ids as `encode` gives them.
            amount: of a BPE model the probability with which each merge is left out (BPE-dropout); of a unigram model
                alpha: segmentations are drawn with their probability to the power of this, so less is wilder.
            seed: 32 bits.
        """
        import sentencepiece

        plain = [list(row) for row in rows]
        if not plain:
            return []
        texts = self._processor.decode(plain, num_threads=1)
        sentencepiece.set_random_generator_seed(seed)
        # One thread: several would share out the texts, and with them the draws, by chance.
        drawn = self._processor.encode(texts, enable_sampling=True, alpha=amount, nbest_size=-1, num_threads=1)
        whole = (self._came_back(text, ids) for text, ids in zip(texts, plain, strict=True))
        return [new if fit and self._has_symbols(new, old) else old
                for old, new, fit in zip(plain, drawn, whole, strict=True)]  # fmt: skip

    def _came_back(self, text: str, ids: list[int]) -> bool:
        """Whether this is the text of these ids. A part of a line may begin or end within a word, even a character."""
        if UNKNOWN_TEXT in text:
            return False
        begins = not ids or self._processor.id_to_piece(ids[0]).startswith("\u2581")
        return begins or self._processor.encode(text) == ids

    def _has_symbols(self, drawn: list[int], plain: list[int]) -> bool:
        """Whether the symbols are still whole: unigram sampling cuts them up now and then."""
        counts = (sum(i in self._symbols for i in ids) if self._symbols else 0 for ids in (drawn, plain))
        return next(counts) == next(counts)

    def with_tokens(self, tokens: Sequence[str]) -> SentencePieceTokenizer:
        """Return the same model with tokens after all others, each one piece wherever it stands; no id moves.

        Args:
            tokens: texts, none of which is an entry yet.

        Raises:
            DataError: a token cannot be one: it is empty, has a blank or a line break in it, or changes when texts are
                normalised.
        """
        more = b""
        for token in tokens:
            if not token or token != "".join(token.split()) or self._normalized(token) != token or "\u2581" in token:
                expected = "letters or signs without blanks, as they are written after normalisation"
                raise DataError("this cannot be a token", expected=expected, found=repr(token))
            more += _piece(token.translate(_ESCAPES))
        return type(self)(self._model + more)

    def save(self, path: str | Path) -> None:
        """Write the model file, byte for byte as it was trained or loaded."""
        write_bytes(Path(path), self._model)

    @classmethod
    def load(cls, path: str | Path) -> SentencePieceTokenizer:
        """Read a model file.

        Raises:
            DataError: the file is missing, larger than 64 MiB, not a SentencePiece model, or not one trained here.
        """
        return cls(read_saved(path, MAX_FILE_BYTES, "tokenizer"), name=path)


class _Parts(Iterator[str]):
    """Lines for training: escaped, long ones in parts; remembers what went wrong while they were read."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.error: BaseException | None = None
        self.count = 0
        self._parts = (
            text[start : start + _PART].translate(_ESCAPES) for text in texts for start in range(0, len(text), _PART)
        )

    def __next__(self) -> str:
        try:
            part = next(self._parts)
        except StopIteration:
            raise
        except BaseException as error:  # Ctrl-C too
            # SentencePiece takes any exception for the end of the text.
            self.error = error
            raise StopIteration from error
        self.count += 1
        return part


def _explained(error: RuntimeError, vocab_size: int, parts: int) -> DragomanError:
    if small := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
        return ConfigError(
            f"vocab_size {vocab_size} is too small for the characters of this text",
            expected=f">= {small[1]}",
            hint="raise vocab_size, or lower character_coverage",
        )
    if parts == 0:
        return DataError("there is no text to train a tokenizer on")
    return DataError("SentencePiece cannot be trained on this text", found=error)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: "\u2581" if match[1] == "_" else match[1], text)


def _named(rule: Normalization) -> bytes:
    """What names the rule of a serialised model that it is appended to: protobuf merges it into `normalizer_spec`."""
    return field(3, field(1, rule))


def _piece(text: str) -> bytes:
    """An entry, field 1 of a serialised model, to be appended to it: its text, the score 0, and that users made it."""
    return field(1, field(1, text) + field(2, 0.0) + field(3, _USER_DEFINED))


def _added(model: bytes, first: int) -> list[int]:
    """The ids from `first` on of entries that users made."""
    return [i for i, entry in enumerate(contents(model, 1)) if i >= first and entry.endswith(field(3, _USER_DEFINED))]


def _rule_of(model: bytes, file: str | Path) -> Normalization:
    """The last name of a rule in `normalizer_spec`, field 3 of a serialised model; its own field 1."""
    names = [name for spec in contents(model, 3) for name in contents(spec, 1)]
    rule = names[-1].decode(errors="replace") if names else "identity"
    if rule in ("", "identity"):
        return "none"
    for known in NORMALIZATIONS:
        if rule == known:
            return known
    expected = ", ".join(("identity", *NORMALIZATIONS))
    raise DataError("the SentencePiece model normalises in an unknown way", file=file, expected=expected, found=rule)


def _is_bpe(processor: SentencePieceProcessor) -> bool:
    # BPE numbers its merges 0, -1, -2, ...; unigram has log-probabilities, all below zero.
    first = processor.piece_to_id("<0xFF>") + 1
    return len(processor) <= first or processor.get_score(first) == 0
