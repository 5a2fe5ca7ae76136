"""What runs a translator's models: the packed weights by themselves as far as they go, PyTorch beyond that."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dragoman.config import DecodingConfig
from dragoman.engines.forking import OneAtATime
from dragoman.engines.native.model import default_threads
from dragoman.engines.native.searching import NativeSearcher
from dragoman.search.continuous import ContinuousSearch
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.request import SearchRequest
from dragoman.sequences.source import Source
from dragoman.sequences.target import Direction

if TYPE_CHECKING:
    import torch

    from dragoman.nn import Transformer
    from dragoman.translation.torch_backend import TorchBackend


class Backend:
    """Requests in, hypotheses out, for one model or several. PyTorch is loaded when something first needs it.

    Args:
        load: makes the `TorchBackend` of the same models.
        whole: what answers searches by itself until then, if anything does.
        reason: why it does, in words.
        learned_right_to_left: whether all models learned targets right to left too.
    """

    def __init__(
        self,
        load: Callable[[], TorchBackend],
        *,
        whole: NativeSearcher | None = None,
        reason: str = "",
        learned_right_to_left: bool = False,
    ) -> None:
        self._load, self._loaded = load, None
        self._whole, self._reason = whole, reason
        self._loading = OneAtATime()
        self.learned_right_to_left = learned_right_to_left

    _loaded: TorchBackend | None

    @property
    def torch(self) -> TorchBackend:
        """The models run through PyTorch, loaded when they are first needed."""
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = self._load()
        return self._loaded

    @property
    def whole(self) -> NativeSearcher | None:
        """What answers searches by itself, if anything does."""
        return self._whole if self._whole is not None else self.torch.whole

    @property
    def name(self) -> str:
        """The engine and its precision, as `native in int8`; of the first model, if there are several."""
        return self.torch.name if self._whole is None else self._whole.name

    @property
    def reason(self) -> str:
        """Why that engine was chosen, in words."""
        return self.torch.reason if self._whole is None else self._reason

    @property
    def has_datastore(self) -> bool:
        """Whether a model has one."""
        return self._whole is None and any(self.torch.datastores)

    @property
    def has_heads(self) -> bool:
        """Whether all models read tokens off frames too."""
        return self._whole is None and self.torch.has_heads

    @property
    def models(self) -> list[Transformer]:
        """The encoder-decoders."""
        return self.torch.models

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.torch.device

    def workers(self, batches: int, options: DecodingConfig) -> tuple[int, int | None]:
        """Return how many of so many batches are best searched side by side, and how many threads each then has.

        Where batches are enough, each on a thread of its own is faster than all threads on each in turn.
        """
        threads = 1 if options.sampling or self.whole is None else default_threads()
        return (threads, 1) if batches >= 2 * threads > 2 else (1, None)

    def search(self, requests: Sequence[SearchRequest], threads: int | None = None) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request, best first.

        Args:
            requests: a batch, all with the same options.
            threads: at most so many work on it, where the engine can be told; all there are if None.

        Raises:
            ModelError: the model gives NaN, or zero probability to every output of a request.
        """
        if requests and not requests[0].options.sampling and self.whole is not None:
            return self.whole.search(requests, threads)
        return self.torch.search(requests)

    def force(
        self,
        sources: Sequence[Source],
        outputs: Sequence[Sequence[Sequence[int]]],
        options: DecodingConfig,
        direction: Direction = Direction.LEFT_TO_RIGHT,
        threads: int | None = None,
    ) -> list[list[list[float]]]:
        """Return what a search adds up for given outputs: log-probabilities of their tokens and of their ends.

        Args:
            sources: what is read.
            outputs: some of each source, unframed, from left to right.
            options: whether datastores have weight; they hold what was read from left to right.
            direction: in which outputs are scored; values come in the same order.
            threads: as for `search`.

        Raises:
            ModelError: the model gives NaN.
        """
        if self.whole is not None:
            return self.whole.force(sources, outputs, direction, threads, options.ctc_weight)
        return self.torch.force(sources, outputs, options, direction)

    def align(
        self, sources: Sequence[Source], found: Sequence[Sequence[Hypothesis]]
    ) -> list[list[list[tuple[int, int]]]]:
        """Return which source token each token of each hypothesis looked at most."""
        return self.torch.align(sources, found)

    def continuous(
        self, options: DecodingConfig, direction: Direction, threads: int | None = None
    ) -> tuple[Hashable, Callable[[], ContinuousSearch]]:
        """Return what opens a search that requests with such options may join, and a key: equal keys, one search.

        Args:
            options: of a request.
            direction: in which its outputs are written.
            threads: at most so many work on a step, where the engine can be told; all there are if None.
        """
        if self.whole is not None and not options.sampling:
            return direction, partial(self.whole.continuous, direction, threads)
        return self.torch.continuous(options, direction)
