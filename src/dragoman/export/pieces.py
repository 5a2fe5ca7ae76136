"""A tokenizer as a SentencePiece model that cuts by itself: for programs that know no other.

A model that was trained here is one already, but for its rule of normalisation, which Python applies: as far as a map
of characters can say the same, it is written into the model. Words and characters become models of SentencePiece's
kinds of these names.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.protobuf import contents, field
from dragoman.text.normalization import Normalization, normalizer
from dragoman.text.tokenizer import Tokenizer

_WORD, _CHARACTER = 3, 4  # of TrainerSpec.model_type
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3  # of SentencePiece.type
_BLANK = "\u2581"
_TABLE = "pieces are looked up by name: the ids of the SentencePiece model are not those of the vocabulary"
_MANY = 0x30000  # above lie private characters, tags and selectors, which no rule writes otherwise


@dataclass(frozen=True)
class Pieces:
    """The vocabulary of a side for another program.

    Attributes:
        names: of each id, all different.
        model: a SentencePiece model that cuts texts into them.
        notes: what it does otherwise than the tokenizer, in words.
    """

    names: tuple[str, ...]
    model: bytes
    notes: tuple[str, ...]


def pieces_of(tokenizer: Tokenizer) -> Pieces:
    """Return a tokenizer as a SentencePiece model, and its vocabulary.

    Raises:
        ConfigError: its texts go through the scripts of Moses, which no SentencePiece model has.
    """
    if tokenizer.stem == "moses":
        expected = "a tokenizer that can be written as a SentencePiece model"
        raise ConfigError("the scripts of Moses cannot be exported", expected=expected, found=f"{tokenizer.stem}.json")
    rule = tokenizer.normalization
    if tokenizer.kind in ("word", "character"):
        return _listed(tokenizer)
    names = tuple(tokenizer.pieces(range(len(tokenizer))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer"
        tokenizer.save(path)
        model = path.read_bytes()
    if tokenizer.stem == "pieces":  # of an imported model: a SentencePiece model, and a table beside it
        return Pieces(names, base64.b64decode(json.loads(model)["sentencepiece"]), (_TABLE,))
    notes = [f"U+2581 ({_BLANK}) in a text becomes a blank"]
    if rule in ("blanks", "nfc", "nfkc"):
        model += field(3, field(2, _character_map(rule)))
        notes.append(f"normalisation ({rule}) is done by a map of characters; outer blanks are not dropped")
    return Pieces(names, model, tuple(notes))


def _listed(tokenizer: Tokenizer) -> Pieces:
    """A vocabulary of words or characters."""
    words, specials = tokenizer.kind == "word", tokenizer.specials
    control = {specials.pad, specials.bos, specials.eos, specials.mask}
    names, entries = [], []
    for i in range(len(tokenizer)):
        kind = _UNKNOWN if i == specials.unk else _CONTROL if i in control else _NORMAL
        name = tokenizer.pieces([i])[0]
        if kind == _NORMAL and words:
            name = _BLANK + name
        elif kind == _NORMAL and name == _BLANK and tokenizer.decode([i]) != " ":
            name = "\u241b"  # U+2581 itself, which SentencePiece has for the blank
        names.append(name)
        entries.append(field(1, field(1, name) + field(2, -float(i)) + field(3, kind)))
    rule = tokenizer.normalization
    # Words are cut at every blank of Unicode, SentencePiece cuts at U+0020.
    needed = "blanks" if words and rule == "none" else rule
    trainer = b"".join(
        [field(3, _WORD if words else _CHARACTER), field(40, specials.unk), field(41, specials.bos),
         field(42, specials.eos), field(43, specials.pad), field(44, "\ufffd"),
         *(field(45 + n, tokenizer.pieces([i])[0])
           for n, i in enumerate((specials.unk, specials.bos, specials.eos, specials.pad)))]
    )  # fmt: skip
    changed = b"" if needed == "none" else field(2, _character_map(needed))
    normalizing = field(1, "dragoman") + changed + field(3, words) + field(4, words) + field(5, True)
    notes = ["neighbouring unknown " + ("words" if words else "characters") + " become one <unk>"]
    return Pieces(tuple(names), b"".join([*entries, field(2, trainer), field(3, normalizing)]), tuple(notes))


@cache
def _character_map(rule: Normalization) -> bytes:
    """A rule as SentencePiece compiles one: by its trainer, from a table of what becomes what."""
    import io

    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rule.tsv"
        table.write_text("".join(f"{_hex(one)}\t{_hex(other)}\n" for one, other in _changes(rule)), encoding="ascii")
        SentencePieceTrainer.train(
            sentence_iterator=iter(["a b"]), model_writer=model, model_type="char", vocab_size=8,
            hard_vocab_limit=False, normalization_rule_tsv=str(table), minloglevel=2,
        )  # fmt: skip
    (normalizing,) = contents(model.getvalue(), 3)
    return next(contents(normalizing, 2))


def _changes(rule: Normalization) -> Iterator[tuple[str, str]]:
    """What a rule makes of characters, and of a letter and its marks, where that is something else."""
    normalized = normalizer(rule)
    for number in range(1, min(_MANY, sys.maxunicode)):
        one = chr(number)
        if 0xD800 <= number < 0xE000 or unicodedata.category(one) in ("Cn", "Co") or one == "\n":
            continue
        # Between letters: what is dropped at the ends of a text is another matter.
        other = normalized(f"x{one}x")[1:-1]
        if other != one and unicodedata.combining(one) == 0:
            yield one, other
        if rule in ("nfc", "nfkc"):
            apart = unicodedata.normalize("NFD", one)
            if len(apart) > 1 and (whole := normalized(f"x{apart}x")[1:-1]) != apart:
                yield apart, whole


def _hex(text: str) -> str:
    return " ".join(f"{ord(one):X}" for one in text)


def cut_alike(pieces: Pieces, tokenizer: Tokenizer, texts: Sequence[str]) -> int:
    """Return for how many texts the SentencePiece model, after the token of a language, gives the tokenizer's ids."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=pieces.model)
    ids, unk = {name: number for number, name in enumerate(pieces.names)}, tokenizer.specials.unk
    begin = [ids[token] for token in getattr(tokenizer, "begin", ())]
    rows = ([*begin, *(ids.get(piece, unk) for piece in processor.encode(text, out_type=str))] for text in texts)
    return sum(row == tokenizer.encode(text) for row, text in zip(rows, texts, strict=True))
