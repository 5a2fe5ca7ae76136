"""What the rungs of the ladder share: from evidence to probabilities, the next-token protocol, saving and loading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.errors import ConfigError, ModelError
from dragoman.markov.files import SETTINGS, TENSORS, read_model, write_model
from dragoman.markov.framing import BOS, PAD, Sequences
from dragoman.markov.measure import Measure, measure
from dragoman.markov.table import MAX_VOCAB
from dragoman.sequences import SourceBatch

K = 0.001
Model = TypeVar("Model", bound="MarkovModel")


@dataclass(frozen=True)
class History:
    """What decoding carries from step to step: the newest words of each row, as many as the model looks back.

    Attributes:
        ids: those of shorter rows are filled up at their beginning.
        lengths: how many words each row has.
    """

    ids: Int[Tensor, "rows len"]
    lengths: Int[Tensor, " rows"]

    def reorder(self, indices: Int[Tensor, " chosen"]) -> History:
        """Keep the rows at `indices`, in that order; a row may be repeated or left out."""
        return History(self.ids[indices], self.lengths[indices])

    def join(self, other: History) -> History:
        """Append the rows of another history."""
        width = max(self.ids.shape[1], other.ids.shape[1])
        both = [torch.nn.functional.pad(ids, (width - ids.shape[1], 0), value=PAD) for ids in (self.ids, other.ids)]
        return History(torch.cat(both), torch.cat([self.lengths, other.lengths]))


class MarkovModel(ABC):
    """A model that has counted what comes next, and says so.

    From the history, a rung takes *evidence*: a number per word, zero for most. With evidence e(w), the next word is w
    with probability

        (e(w) + k + backoff * lower(w)) / (sum of the same over all words)

    where `lower` is the rung below, which looks back less far. Adding k to each word (all but `<pad>` and `<s>`, which
    never come next) is Lidstone's law; the part of `lower` is a Dirichlet prior (MacKay and Peto 1995, "A hierarchical
    Dirichlet language model"). With k = 0 and backoff = 0 the probabilities are the plain fractions of the evidence,
    and what was never seen is impossible. A history that gives no evidence at all takes that of the rung below.

    Every rung is a next-token model for the searches of `dragoman.search`; it needs no source.

    Args:
        vocab: number of word ids.
        k: how often each word counts as seen besides the evidence.
        backoff: how much of the rung below is mixed in, measured as evidence.

    Raises:
        ConfigError: a setting is out of range.
    """

    kind: ClassVar[str]
    # How many of the newest words evidence can depend on; None is all.
    looks_back: ClassVar[int | None]
    device = torch.device("cpu")

    def __init__(self, vocab: int, *, k: float = K, backoff: float = 0.0) -> None:
        if not BOS + 1 < vocab <= MAX_VOCAB:
            raise ConfigError("no Markov model of this vocabulary", expected=f"4 to {MAX_VOCAB:,} ids", found=vocab)
        for name, value in (("k", k), ("backoff", backoff)):
            if not 0 <= value < float("inf"):
                raise ConfigError(f"{name} is out of range", expected="0 or more, finite", found=value)
        self.vocab, self.k, self.backoff = vocab, float(k), float(backoff)

    @classmethod
    @abstractmethod
    def fit(cls: type[Model], sequences: Sequences, vocab: int, *, k: float = K, backoff: float = 0.0) -> Model:
        """Count sequences of ids, which are unframed: `<s>` and `</s>` are added here.

        Raises:
            DataError: there is no sequence, or an id is outside the vocabulary.
        """

    @property
    @abstractmethod
    def lower(self) -> MarkovModel | None:
        """The rung below, fitted to the same sequences; None at the bottom."""

    @abstractmethod
    def evidence(self, history: Int[Tensor, "rows len"]) -> Float[Tensor, "rows vocab"]:
        """Return what speaks for each next word; `history` begins with `<s>` and may be cut to what the rung sees."""

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers it has learned: a count for each transition that occurred, a weight for each mask."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Return the tensors that a file keeps."""

    @classmethod
    @abstractmethod
    def from_parts(cls: type[Model], vocab: int, parts: Mapping[str, Any], *, k: float, backoff: float) -> Model:
        """Return the model again.

        Raises:
            ValueError: says what does not hold together.
        """

    def probabilities(self, history: Int[Tensor, "rows len"]) -> Float[Tensor, "rows vocab"]:
        """Return the distribution of the next word of each row; arguments as for `evidence`."""
        mass = self._heard(history)
        mass += self._added
        if self.lower is not None and self.backoff:
            mass += self.backoff * self.lower.probabilities(history)
        return mass / mass.sum(-1, keepdim=True)

    @cached_property
    def _added(self) -> Tensor:
        added = torch.full((self.vocab,), self.k, dtype=torch.float64)
        added[[PAD, BOS]] = 0.0
        return added

    def _heard(self, history: Tensor) -> Tensor:
        mass = self.evidence(history)
        silent = mass.sum(-1) == 0
        if self.lower is not None and silent.any():
            mass[silent] = self.lower._heard(history[silent])
        return mass

    def next(self, history: Sequence[int]) -> Float[Tensor, " vocab"]:
        """Return the distribution of the word after an unframed history."""
        return self.probabilities(torch.tensor([[BOS, *history]]))[0]

    def start(self, sources: SourceBatch) -> History:
        """Return the state with nothing seen yet; of the source, only the number of rows counts."""
        count = len(sources)
        return History(torch.empty(count, 0, dtype=torch.long), torch.zeros(count, dtype=torch.long))

    def step(self, state: History, tokens: Int[Tensor, " batch"]) -> tuple[Float[Tensor, "batch vocab"], History]:
        """Return log-probabilities of the word after `tokens`, the newest of each row, and the longer history."""
        ids, lengths = torch.cat([state.ids, tokens[:, None]], dim=1), state.lengths + 1
        if self.looks_back is not None:
            ids, lengths = ids[:, -self.looks_back :], lengths.clamp(max=self.looks_back)
        found = torch.empty(len(ids), self.vocab, dtype=torch.float64)
        for length in lengths.unique().tolist():
            rows = lengths == length
            found[rows] = self.probabilities(ids[rows, -length:])
        return found.log(), History(ids, lengths)

    def log_probability(self, sequence: Sequence[int]) -> float:
        """Return the natural log-probability of an unframed sequence and the `</s>` after it."""
        return measure(self, [sequence]).log_probability

    def perplexity(self, sequences: Sequences) -> float:
        """Return exp of the mean negative log-probability per token, `</s>` counted; infinite for the impossible."""
        return self.measure(sequences).perplexity

    def measure(self, sequences: Sequences) -> Measure:
        """Return the log-probability, correct predictions and tokens of held-out sequences."""
        return measure(self, sequences)

    def save(self, directory: str | Path) -> None:
        """Write `markov.safetensors` and `markov.json`; saving what was loaded gives identical bytes."""
        settings = {"kind": self.kind, "vocab": self.vocab, "k": self.k, "backoff": self.backoff}
        write_model(Path(directory), settings, self.parts())

    @classmethod
    def load(cls: type[Model], directory: str | Path) -> Model:
        """Read what `save` wrote; `dragoman.markov.load` finds the class by itself.

        Raises:
            ModelError: a file is missing or damaged, or holds another kind of model.
        """
        return cls.from_files(Path(directory), *read_model(Path(directory)))

    @classmethod
    def from_files(cls: type[Model], directory: Path, settings: Mapping[str, Any], parts: Mapping[str, Any]) -> Model:
        """Return the model from what its two files say.

        Raises:
            ModelError: they hold another kind of model, or do not hold together.
        """
        file = directory / SETTINGS
        if settings.get("kind") != cls.kind:
            raise ModelError("another kind of Markov model", file=file, expected=cls.kind, found=settings.get("kind"))
        vocab, k, backoff = (settings.get(name) for name in ("vocab", "k", "backoff"))
        if type(vocab) is not int or type(k) is not float or type(backoff) is not float:
            raise ModelError("settings are missing", file=file, expected="vocab, an integer; k and backoff, floats")
        try:
            return cls.from_parts(vocab, parts, k=k, backoff=backoff)
        except ConfigError as error:
            raise ModelError("the settings are out of range", file=file, found=error) from error
        except ValueError as error:
            raise ModelError("not a Markov model", file=directory / TENSORS, found=error) from error
