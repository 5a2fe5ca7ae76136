"""Traces that the inspector of a service keeps for a while, and the models that it looks into."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dragoman.serving.faults import RequestError
from dragoman.serving.registry import Registry

if TYPE_CHECKING:
    from dragoman.inspector import Inspection
    from dragoman.translation import Translator

MOST_TRACES, MOST_BYTES = 16, 256 << 20
MOST_WAITING = 16  # requests for traces that wait for the one that is made


@runtime_checkable
class Subjects(Protocol):
    """Models that are looked into, by name."""

    def described(self) -> list[dict[str, Any]]:
        """Return name, family and languages of each."""
        ...

    def use(self, name: str) -> contextlib.AbstractAsyncContextManager[Translator | Path]:
        """Hold a model until the block is left.

        Raises:
            RequestError: 404, there is none of this name.
        """
        ...


class Served:
    """The models of a service.

    Args:
        registry: which opens and closes them.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def described(self) -> list[dict[str, Any]]:
        """Return name, family and languages of each."""
        return [
            {"name": model.name, "family": "transformer", "source": model.source, "target": model.target,
             "sources": _own(model.sources), "targets": _own(model.targets), "listens": model.listens}
            for model in self._registry.models.values()
        ]  # fmt: skip

    @contextlib.asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Translator | Path]:
        """Hold a model, opened, until the block is left.

        Raises:
            RequestError: 404, there is none of this name; 503, it cannot be opened.
        """
        async with self._registry.use(self._registry.named(name)) as scheduler:
            yield scheduler.translator


class Directories:
    """Models of any family, read from their directories; encoder-decoders stay open.

    Args:
        paths: run or model directories.
        device: where they run.

    Raises:
        ModelError: one holds no model.
    """

    def __init__(self, paths: Sequence[Path], device: str = "auto") -> None:
        self._device = device
        self._paths: dict[str, Path] = {}
        self._opened: dict[str, Translator | Path] = {}
        self._told: list[dict[str, Any]] = []
        self._opening = asyncio.Lock()
        for path in paths:
            name = base = path.resolve().name or "model"
            while name in self._paths:
                name = f"{base}-{len(self._paths) + 1}"
            self._paths[name] = path
            self._told.append({"name": name, **_facts(path)})

    def described(self) -> list[dict[str, Any]]:
        """Return name, family and languages of each."""
        return self._told

    @contextlib.asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Translator | Path]:
        """Hold a model until the block is left.

        Raises:
            RequestError: 404, there is none of this name.
            ModelError: it is damaged.
        """
        if name not in self._paths:
            hint = f"there are {', '.join(self._paths)}"
            raise RequestError(404, "no_model", f"there is no model {name!r}", hint=hint)
        async with self._opening:
            if name not in self._opened:
                self._opened[name] = await asyncio.to_thread(_open, self._paths[name], self._device)
        yield self._opened[name]

    async def open_first(self, seconds: float) -> None:
        """Open the first model after a while, for whoever asks later; what is wrong with it is told then."""
        await asyncio.sleep(seconds)
        with contextlib.suppress(Exception):
            async with self.use(next(iter(self._paths))):
                pass


def _facts(path: Path) -> dict[str, Any]:
    from dragoman.models.description import CONFIG, read_config
    from dragoman.models.language_tokens import spoken_by

    if not (path / CONFIG).exists():
        from dragoman.markov import is_markov

        if is_markov(path):
            return {"family": "markov", "source": None, "target": None, "sources": [], "targets": [], "listens": False}
    config, _, languages = read_config(path)
    source, target = spoken_by(path, config, languages)
    told = {"family": config.family, "source": source.usual, "target": target.usual}
    return {**told, "sources": _own(source.tags), "targets": _own(target.tags), "listens": config.mels is not None}


def _own(tags: Mapping[str, str | None]) -> list[str]:
    """What a model for many languages calls them."""
    return [name for name in tags.values() if name is not None]


def _open(path: Path, device: str) -> Translator | Path:
    from dragoman.inspector.inspecting import opened  # brings PyTorch

    return opened(path, device)


@dataclass(frozen=True)
class Kept:
    """A trace, whose it is, and how much memory is its own."""

    found: Inspection
    owner: str | None
    bytes: int


class Traces:
    """The traces that were asked for last, and the one place where they are made.

    Args:
        seconds: in which one must be made, waiting included.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._place = asyncio.Lock()
        self._waiting = 0

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)

    def get(self, name: str, owner: str | None) -> Inspection:
        """Return a trace.

        Raises:
            RequestError: 404, it is no longer kept, or another caller's.
        """
        kept = self._kept.get(name)
        if kept is None or kept.owner != owner:
            raise RequestError(404, "no_trace", "this trace is not kept any more", hint="ask for it again")
        self._kept.move_to_end(name)
        return kept.found

    def keep(self, found: Inspection, owner: str | None) -> str:
        """Keep a trace, and let those go that were not asked for longest; return its name."""
        name = secrets.token_urlsafe(12)
        self._kept[name] = Kept(found, owner, own_bytes(found))
        while len(self._kept) > 1 and (len(self._kept) > MOST_TRACES or self._bytes() > MOST_BYTES):
            self._kept.popitem(last=False)
        return name

    def _bytes(self) -> int:
        return sum(kept.bytes for kept in self._kept.values())

    async def make(self, hold: Callable[[], contextlib.AbstractAsyncContextManager[Callable[[], Inspection]]]) -> Any:
        """Return what a call makes, on a thread of its own, one at a time.

        Args:
            hold: what is to be held meanwhile, and gives the call.

        Raises:
            RequestError: 503, too many wait already.
            TimeoutError: it took too long; the place is free when the call has ended.
        """
        if self._waiting >= MOST_WAITING:
            raise RequestError(503, "overloaded", "too many traces are asked for", wait=1.0)
        self._waiting += 1
        try:
            async with asyncio.timeout(self._seconds):
                await self._place.acquire()
                task = asyncio.ensure_future(_called(hold))
                task.add_done_callback(self._free)
                return await asyncio.shield(task)  # a thread cannot be stopped: nobody else begins before it ends
        finally:
            self._waiting -= 1

    def _free(self, task: asyncio.Task[Any]) -> None:
        self._place.release()
        if not task.cancelled():
            task.exception()  # whoever asked may be gone


async def _called(hold: Callable[[], contextlib.AbstractAsyncContextManager[Callable[[], Any]]]) -> Any:
    async with hold() as call:
        return await asyncio.to_thread(call)


def own_bytes(found: Inspection) -> int:
    """Return the memory of a trace without the model's parameters, which it shares with the model."""
    shared = found.parameters()
    return 4 * len(found.record["text"]) + sum(
        values.nbytes for name, values in found.arrays.items() if name not in shared
    )
