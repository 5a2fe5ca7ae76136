"""What a trace is made of: texts, steps, ranked outputs, positions of the training view, checks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """A text as the model reads or writes it.

    Attributes:
        text: the string.
        pieces: what it is cut into, its frame (`<s>`, `</s>`) included.
        ids: the number of each piece.
    """

    text: str
    pieces: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Sound:
    """How long a sound is on its way into an encoder.

    Attributes:
        seconds: of it.
        sample_rate: samples a second.
        samples: of them.
        frames: of log-mel.
        mels: numbers of a frame.
        positions: vectors that enter the encoder.
        seconds_frame: from one frame to the next.
        seconds_each: from one position to the next.
    """

    seconds: float
    sample_rate: int
    samples: int
    frames: int
    mels: int
    positions: int
    seconds_frame: float
    seconds_each: float


@dataclass(frozen=True)
class Reading:
    """What a head for CTC finds likeliest in a stretch of positions.

    Attributes:
        start: of the stretch, in seconds.
        end: likewise.
        piece: what is said there; empty where nothing is.
        id: of the piece, or of the blank.
        probability: the mean over the stretch.
    """

    start: float
    end: float
    piece: str
    id: int
    probability: float


@dataclass(frozen=True)
class Candidate:
    """A candidate token: a piece that may come next.

    Attributes:
        piece: as it is written.
        id: its number.
        probability: from the softmax, before any rule of the search.
        rank: 1 for the likeliest.
    """

    piece: str
    id: int
    probability: float
    rank: int


@dataclass(frozen=True)
class Neighbour:
    """A piece that followed some of the nearest states of a datastore.

    Attributes:
        piece: as it is written.
        id: its number.
        share: of all the nearest states, of those after which it followed.
        target: the known target to which the nearest of these belongs.
    """

    piece: str
    id: int
    share: float
    target: str


@dataclass(frozen=True)
class Retrieval:
    """What a datastore adds to one step (kNN-MT).

    Attributes:
        weight: of the neighbours; the model's own probabilities have the rest.
        together: the probability of the chosen piece by both.
        neighbours: those with the largest shares, largest first.
    """

    weight: float
    together: float
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True)
class Step:
    """One prediction.

    Attributes:
        number: from 1.
        given: what the model was given: for a decoder all pieces so far, of which only the last is new to it.
        top: the likeliest pieces, likeliest first.
        chosen: what the search took.
        place: of a masked model, the position of the gap that was filled, from 0.
        retrieval: what the model's datastore adds, if it has one.
    """

    number: int
    given: tuple[str, ...]
    top: tuple[Candidate, ...]
    chosen: Candidate
    place: int | None = None
    retrieval: Retrieval | None = None


@dataclass(frozen=True)
class RankedHypothesis:
    """An output that a search finished, or the target that was given, and what it is ranked by.

    Attributes:
        text: the string.
        length: its pieces, and `</s>`.
        log_probability: natural logarithm, from left to right.
        right_to_left: the same by the right-to-left decoder; None where outputs are ranked by one direction.
        alone: the score by the left-to-right direction alone.
        score: what outputs are ranked by.
        found: whether the search finished it.
        wanted: whether it is the target that was given.
    """

    text: str
    length: int
    log_probability: float
    right_to_left: float | None
    alone: float
    score: float
    found: bool = True
    wanted: bool = False


@dataclass(frozen=True)
class Position:
    """One position of the training view.

    Attributes:
        given: the piece at this position of the decoder's input: the target shifted right.
        label: the piece it must predict.
        parallel: the label's probability, from one pass over all positions.
        serial: the same, from one step at a time with a cache.
        rank: place of the label among all entries, 1 for the likeliest.
        likeliest: what the model itself finds likeliest.
    """

    given: str
    label: str
    parallel: float
    serial: float
    rank: int
    likeliest: Candidate


@dataclass(frozen=True)
class Check:
    """Two ways to the same numbers, and how far apart they came out.

    Attributes:
        name: one word or two.
        what: which two ways.
        difference: the largest absolute difference of any number.
        unit: what the numbers are.
        dtype: the type they were computed in.
    """

    name: str
    what: str
    difference: float
    unit: str
    dtype: str
