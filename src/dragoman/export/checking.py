"""What the other program makes of an exported model, compared with what the model gives here."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dragoman.config import DecodingConfig, Placement
from dragoman.engines import choose_engine
from dragoman.errors import DataError
from dragoman.evaluation import score
from dragoman.export.given import Given
from dragoman.export.pieces import Pieces, cut_alike
from dragoman.search.dispatch import search
from dragoman.search.request import NEVER, SearchRequest
from dragoman.sequences.source import Source
from dragoman.text.lines import read_texts
from dragoman.translation import Translator

LINES = 200
_TOGETHER = 16  # sources of a batch here
_RANDOM = 12  # tokens of a random source at most
# Where a run keeps its held-out pairs, and a target beside each source.
_HELD_OUT = (("data/dev.source.txt", "data/dev.target.txt"), ("dev.source.txt", "dev.target.txt"))


@runtime_checkable
class Peer(Protocol):
    """A program that runs what was exported."""

    name: str

    def greedy(self, source: Sequence[str], limit: int, begin: Sequence[str] = ()) -> list[str]:
        """Return the tokens of an output, without those that frame it.

        Args:
            source: tokens, unframed.
            limit: tokens of the output at most.
            begin: tokens that it must begin with.
        """
        ...


@runtime_checkable
class Cutter(Protocol):
    """A peer that has a tokenizer of its own."""

    def cut(self, text: str) -> list[str]:
        """Return the tokens of a text, unframed."""
        ...


@dataclass(frozen=True)
class CheckLines:
    """What both programs translate.

    Attributes:
        sources: as the model reads them here.
        texts: of the sources; None where they are random tokens.
        references: of the texts, where there are any.
        origin: where they come from, in words.
    """

    sources: list[Source]
    texts: list[str] | None
    references: list[str] | None
    origin: str


@dataclass(frozen=True)
class Check:
    """How an exported model compares with the model here, both searching greedily.

    Attributes:
        peer: the program that ran it.
        lines: how many were translated.
        equal: of these, how many outputs have the same tokens.
        cut_alike: how many texts the exported tokenizer cuts as here; None where the sources were random tokens.
        origin: where the lines come from.
        first: the number of the first line that differs, counted from 1, and both outputs.
    """

    peer: str
    lines: int
    equal: int
    cut_alike: int | None
    origin: str
    first: tuple[int, str, str] | None

    def told(self) -> Iterator[str]:
        """Yield what the check found, as lines of text."""
        same = "all the same" if self.equal == self.lines else f"{self.lines - self.equal} differ"
        yield f"{self.peer} on {self.lines} {self.origin}: outputs {same}, token by token"
        if self.cut_alike is not None and self.cut_alike < self.lines:
            yield f"{self.lines - self.cut_alike} of the lines are cut otherwise by the exported tokenizer"
        if self.first is not None:
            number, ours, theirs = self.first
            yield f"line {number} here:  {ours}"
            yield f"line {number} there: {theirs}"


@dataclass(frozen=True)
class Loss:
    """What a model gives without what was dropped, on lines where it was measured.

    Attributes:
        dropped: what was.
        lines: how many were translated with and without it, as the model searches by itself.
        changed: how many come out otherwise.
        scores: metric -> its value with and without, where there are references.
    """

    dropped: tuple[str, ...]
    lines: int
    changed: int
    scores: dict[str, tuple[float, float]]

    def told(self) -> Iterator[str]:
        """Yield what was lost, as lines of text."""
        yield f"without {' and '.join(self.dropped)} {self.changed} of {self.lines} lines come out otherwise"
        for name, (before, after) in self.scores.items():
            yield f"{name}: {before:.2f} with, {after:.2f} without"


def check_lines(given: Given, file: str | Path | None = None) -> CheckLines:
    """Return 200 lines to compare programs by: of a file, of the run's own held-out pairs, or else random tokens.

    Raises:
        DataError: the file cannot be read or has no text.
    """
    texts, references, origin = _texts(given, file)
    if texts is None:
        draw, vocab, specials = random.Random(1), len(given.tokenizers.source), given.tokenizers.source.specials
        free = [i for i in range(vocab) if i not in specials.ids]
        begin = _ids(given.source, given.begin[0])
        rows = ((*begin, *draw.choices(free, k=draw.randint(1, _RANDOM))) for _ in range(LINES))
        return CheckLines([Source(row, (), specials) for row in rows], None, None, origin)
    most = given.decoding.max_source_length - 1
    sources = [given.tokenizers.encode_source(text).cut(most) for text in texts]
    return CheckLines(sources, texts, references, origin)


def _texts(given: Given, file: str | Path | None) -> tuple[list[str] | None, list[str] | None, str]:
    if file is not None:
        found = [text for text in read_texts(Path(file)) if text.strip()][:LINES]
        if not found:
            raise DataError("there is no line to check the export with", file=file)
        return found, None, f"lines of {file}"
    for name, other in _HELD_OUT:
        paths = given.directory / name, given.directory / other
        if all(path.is_file() for path in paths):
            pairs = zip(read_texts(paths[0]), read_texts(paths[1]), strict=False)
            kept = [(text, target) for text, target in pairs if text.strip()][:LINES]
            if kept:
                return [text for text, _ in kept], [target for _, target in kept], "held-out lines"
    return None, None, "rows of random tokens"


def compare(given: Given, peer: Peer, lines: CheckLines) -> Check:
    """Return how what a peer finds compares with what is found here."""
    ours = _searched(given, lines.sources)
    source, target = given.source.names, given.target.names
    theirs = [
        peer.greedy([source[i] for i in one.ids], _limit(given, one), given.begin[1]) if one.ids else []
        for one in lines.sources
    ]
    rows = [([target[i] for i in row], other) for row, other in zip(ours, theirs, strict=True)]
    differing = [(i + 1, " ".join(a), " ".join(b)) for i, (a, b) in enumerate(rows) if a != b]
    cut = None if lines.texts is None else _cut_alike(given, peer, lines.texts)
    return Check(peer.name, len(rows), len(rows) - len(differing), cut, lines.origin,
                 differing[0] if differing else None)  # fmt: skip


def _cut_alike(given: Given, peer: Peer, texts: Sequence[str]) -> int:
    """How many texts are cut as here: by the peer's own tokenizer if it has one, else by the exported model."""
    tokenizer = given.tokenizers.source
    if not isinstance(peer, Cutter):
        return cut_alike(given.source, tokenizer, texts)
    return sum(peer.cut(text) == [given.source.names[i] for i in tokenizer.encode(text)] for text in texts)


def _ids(pieces: Pieces, tokens: Sequence[str]) -> tuple[int, ...]:
    return tuple(pieces.names.index(token) for token in tokens)


def _limit(given: Given, source: Source) -> int:
    return given.decoding.output_limit(len(source))


def _searched(given: Given, sources: Sequence[Source]) -> list[tuple[int, ...]]:
    """The output of greedy search in float32, for each source."""
    engine, _ = choose_engine(given.model, Placement(precision="float32"))
    options = DecodingConfig(beam_size=1, length_penalty=0.0, loop_guard=0)
    unknown, begin = given.tokenizers.target.specials.unk, _ids(given.target, given.begin[1])
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found: dict[int, tuple[int, ...]] = {}
    for start in range(0, len(order), _TOGETHER):
        rows = [i for i in order[start : start + _TOGETHER] if sources[i].ids]
        requests = [
            SearchRequest(sources[i], options, begin, never=(*NEVER, unknown), limit=_limit(given, sources[i]))
            for i in rows
        ]
        for i, hypotheses in zip(rows, search(engine, requests) if rows else [], strict=True):
            found[i] = hypotheses[0].tokens
    return [found.get(i, ()) for i in range(len(sources))]


def loss_of(given: Given, lines: CheckLines) -> Loss | None:
    """Return what dropping changed, by translating with and without; None where nothing was, or there are no texts."""
    if not given.dropped or lines.texts is None:
        return None
    whole = Translator.from_pretrained(given.directory, precision="float32")
    changes: dict[str, Any] = {"right_to_left_weight": None, "knn_weight": None}
    less = Translator([given.model], given.tokenizers, given.decoding.replace(changes), precision="float32")
    outputs = [[one.text for one in translator.translate(lines.texts)] for translator in (whole, less)]
    changed = sum(a != b for a, b in zip(*outputs, strict=True))
    scores: dict[str, tuple[float, float]] = {}
    if lines.references is not None:
        before, after = (score(one, lines.references, bootstrap=0) for one in outputs)
        scores = {a.label: (a.value, b.value) for a, b in zip(before, after, strict=True)}
    return Loss(given.dropped, len(lines.texts), changed, scores)
