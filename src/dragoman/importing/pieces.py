"""SentencePiece models of strangers: looked at in a process of their own, which may break without harm."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.importing.vocabularies import Order, words_of
from dragoman.protobuf import contents, fields
from dragoman.text.piece_tokenizer import PieceKind, PieceTokenizer
from dragoman.text.tokenizer import Tokenizer, read_saved
from dragoman.text.vocabulary import Vocabulary

MAX_BYTES = 64 << 20
SECONDS = 20
# Little memory and time; it reads the model from its input and says what kind it is, and in which pieces a probe comes.
_LOOK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from sentencepiece import SentencePieceProcessor
model = SentencePieceProcessor(model_proto=sys.stdin.buffer.read())
pieces_of = [model.id_to_piece(number) for number in range(len(model))]
for text in ("", " ", "a", {probe!r}, {probe!r} * 50):
    pieces = model.encode(text, out_type=str)
    model.decode(pieces)
    if any("\\ud800" <= one <= "\\udfff" for piece in pieces for one in piece):
        raise SystemExit(3)
import json
print(json.dumps(pieces_of))
"""
_PROBE = "A\u0301 caf\u00e9 \u732b\uff0c\u0430\u0431\u0432 123 \ufb01 </s> \U0001f600\t."


class ForeignPieces(NamedTuple):
    """A SentencePiece model that a child process has tried: the model, its kind, and its pieces by its own ids."""

    model: bytes
    kind: PieceKind
    pieces: list[str]


def read_pieces(path: Path) -> ForeignPieces:
    """Return a SentencePiece model, after a child process has tried it.

    Raises:
        DataError: it is missing, too large, none, breaks the library, or is of words or characters.
    """
    model = read_saved(path, MAX_BYTES, "SentencePiece model")
    if not model:
        raise DataError("not a SentencePiece model", file=path, found="an empty file")
    kind = _kind(model)
    if kind is None:
        raise DataError(
            "not a SentencePiece model of a supported kind", file=path, expected="one of kind unigram or BPE"
        )
    look = _LOOK.format(memory=max(1 << 30, 16 * len(model)), seconds=SECONDS, probe=_PROBE)
    command = [sys.executable, "-c", look]
    try:
        done = subprocess.run(command, input=model, capture_output=True, timeout=2 * SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise DataError("the SentencePiece model takes too long to read", file=path) from error
    if done.returncode:
        expected = "one that the library reads and cuts text with"
        raise DataError("not a SentencePiece model", file=path, expected=expected)
    return ForeignPieces(model, kind, json.loads(done.stdout))


def tokenizer_beside(
    directory: Path, names: Sequence[str], order: Order, *, needed: bool = False, ends: bool = True
) -> Tokenizer:
    """Return a tokenizer of a vocabulary: by the first SentencePiece model that is there, or else of words.

    Args:
        directory: where models may lie.
        names: of their files.
        order: the vocabulary.
        needed: whether there must be one.
        ends: whether sources end with `</s>`.

    Raises:
        DataError: as for `read_pieces`.
    """
    path = next((directory / name for name in names if (directory / name).exists()), directory / names[0])
    if needed or path.exists():
        found = read_pieces(path)
        return PieceTokenizer(found.kind, order.tokens, found.model, ends=ends)
    return Vocabulary("word", words_of(order), ends=ends)


def _kind(model: bytes) -> PieceKind | None:
    """What `trainer_spec` (field 2 of the serialised model) says in its field 3; unigram where it says nothing."""
    found = 1
    for trainer in contents(model, 2):
        for number, value in fields(trainer):
            if number == 3 and isinstance(value, int):
                found = value
    kinds: dict[int, PieceKind] = {1: "unigram", 2: "bpe"}
    return kinds.get(found)
