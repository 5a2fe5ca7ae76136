"""The models of a service: found by language pair or by name, opened when they are first asked, closed for others."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.archive import ENDING, as_directory
from dragoman.audio.waveform import Waveform
from dragoman.config import Placement
from dragoman.engines.native.model import default_threads
from dragoman.errors import ConfigError, DragomanError
from dragoman.languages import best_match
from dragoman.models.description import WEIGHTS, read_config
from dragoman.models.hub import name_of
from dragoman.models.language_tokens import Spoken, few_of, spoken_by
from dragoman.serving import routes
from dragoman.serving.routes import UNKNOWN, Route
from dragoman.serving.settings import ModelEntry, ServeSettings
from dragoman.translation import Limits, Scheduler, Translator
from dragoman.translation.checks import check_family

if TYPE_CHECKING:
    from dragoman.translation.adapted import Bases


class ServedModel:
    """A model directory, and its translator while that is open.

    Attributes:
        name: what requests call it.
        path: its directory.
        sources: tags of the languages of its sources, with what it calls each if it is told the language.
        targets: the same of its outputs.
        source: language of its sources, unless it is told another.
        target: language of its outputs, likewise.
        listens: whether its sources are sounds, and not texts.
        bytes: of its weights.
        created: when they were written, in seconds since 1970.
        users: requests that hold it now.
        used: when it was last asked, by the monotonic clock.
        scheduler: its searches, while it is open.
    """

    def __init__(self, entry: ModelEntry, name: str, settings: ServeSettings, bases: Callable[[], Bases]) -> None:
        self.name, self.path, self.settings = name, as_directory(entry.path), settings
        config, _, languages = read_config(self.path)
        check_family(self.path, config.family)
        self.adapter, self._bases = entry.adapter, bases
        source, target = spoken_by(self.path, config, languages)
        self.source, self.sources = _served(source, entry.source, "source", self.path)
        self.target, self.targets = _served(target, entry.target, "target", self.path)
        self.listens = config.mels is not None
        weights = (self.path / WEIGHTS).stat()
        self.bytes, self.created = weights.st_size, int(weights.st_mtime)
        self.users, self.used = 0, 0.0
        self.scheduler: Scheduler | None = None
        self._opening: asyncio.Task[Scheduler] | None = None

    @property
    def translator(self) -> Translator | None:
        """What translates, while it is open."""
        return None if self.scheduler is None else self.scheduler.translator

    @property
    def is_many(self) -> bool:
        """Whether it is for more than one pair of languages."""
        return len(self.sources) > 1 or len(self.targets) > 1

    def speaking(self, translator: Translator, source: str, target: str) -> Translator:
        """Return what translates between two of its languages; it shares the weights of its translator."""
        return translator.with_languages(self.sources.get(source), self.targets.get(target))

    async def open(self) -> Scheduler:
        """Return what searches with it, opened if it is not.

        Raises:
            ModelError: it is gone, or damaged.
        """
        if self.scheduler is not None:
            return self.scheduler
        if self._opening is None:
            self._opening = asyncio.create_task(self._opened())
        return await asyncio.shield(self._opening)  # who asked may go away; others wait for it too

    async def _opened(self) -> Scheduler:
        try:
            self.scheduler = await asyncio.to_thread(self._open)
            return self.scheduler
        finally:
            self._opening = None

    def _open(self) -> Scheduler:
        how = self.settings
        placed = Placement(how.device, how.engine, how.precision)
        if self.adapter is None:
            translator = Translator.from_pretrained(
                self.path, device=how.device, engine=how.engine, precision=how.precision
            )
        else:
            translator = self._bases().translator(self.path, self.adapter, placed)
        limits = Limits(calls=4 * how.limits.requests, wait=min(8.0, how.limits.translate_seconds))
        scheduler = Scheduler(translator, limits, how.threads)
        nothing = [" "] if translator.tokenizers.sound is None else _silence()
        scheduler.submit(nothing).future.result()  # whatever is built at the first call
        return scheduler

    def described(self) -> str:
        """Return a line about it for the log."""
        size = f"{self.bytes / 1e6:,.1f} MB of weights" + (", listens" if self.listens else "")
        sides = ((self.source, self.sources), (self.target, self.targets))
        told = " to ".join(code if len(tags) < 2 else f"{len(tags)} languages" for code, tags in sides)
        if self.translator is None:
            return f"{self.name}: {told}, {size}, opened when it is asked for"
        threads = self.settings.threads or default_threads()
        return f"{self.name}: {told}, {size}, {self.translator.engine}, {threads} threads"

    async def close(self, wait: bool = True) -> None:
        """Let its translator go, when the calls that it took on are over, unless `wait` is False."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
        scheduler, self.scheduler = self.scheduler, None  # whoever asks from now on opens it again
        if scheduler is not None:
            await asyncio.to_thread(scheduler.close, wait)


class Registry:
    """All models of a service.

    Args:
        settings: with the models.
        may_be_empty: whether a service without models is one.

    Attributes:
        models: by name.
        tasks: what is done beside requests.

    Raises:
        ConfigError: there is none, or two have one name.
        ModelError: a directory holds no encoder-decoder.
    """

    def __init__(self, settings: ServeSettings, *, may_be_empty: bool = False) -> None:
        if not settings.models and not may_be_empty:
            raise ConfigError("there is no model to serve", hint="name model directories: dragoman serve runs/demo")
        self.settings = settings
        self.models = self._made()
        self._room, self._reloading = asyncio.Lock(), asyncio.Lock()
        self._retired: list[ServedModel] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self._pairs: tuple[dict[str, ServedModel], list[tuple[str, str, Route]]] | None = None

    @functools.cached_property
    def _bases(self) -> Bases:
        from dragoman.translation.adapted import Bases  # brings PyTorch, which models without adapters do without

        return Bases()

    def _made(self) -> dict[str, ServedModel]:
        made: dict[str, ServedModel] = {}
        for entry in self.settings.models:
            name = entry.name or _free_name(entry.adapter or entry.path, made)
            if name in made:
                raise ConfigError("two models have the same name", found=name, hint="name one of them in --config")
            made[name] = ServedModel(entry, name, self.settings, lambda: self._bases)
        return made

    def pairs(self) -> list[tuple[str, str, Route]]:
        """Return the pairs of languages that can be translated, and how, but for those of models for many languages."""
        if self._pairs is None or self._pairs[0] is not self.models:
            self._pairs = self.models, routes.pairs(self.models)
        return self._pairs[1]

    def many(self) -> list[ServedModel]:
        """Return the models that read texts for many languages."""
        return [model for model in routes.readers(self.models) if model.is_many]

    def sources(self, name: str | None = None) -> list[str]:
        """Return the languages that texts can be translated from, by any model or by one."""
        return routes.languages(self.models, "sources", name)

    def targets(self) -> list[str]:
        """Return the languages that texts can be translated to by one model."""
        return routes.languages(self.models, "targets")

    def named(self, name: str) -> ServedModel:
        """Return a model by its name.

        Raises:
            RequestError: 404, there is none.
        """
        return routes.named(self.models, name)

    def route(self, source: str | None, target: str | None, name: str | None = None) -> Route:
        """Return what translates from one language to another, through a third where no model does both.

        Args:
            source: a code such as `zh`, `zh-CN` or what a model calls it; that of the only model that fits if None.
            target: likewise.
            name: of the model to be used, or None.

        Raises:
            RequestError: there is no such model, it listens to sounds, or several fit where too little was said.
        """
        return routes.route(self.models, source, target, name)

    def listener(self, source: str | None, target: str | None, name: str | None = None) -> ServedModel:
        """Return what writes down sounds of one language in another, or in the same; arguments as for `route`.

        Raises:
            RequestError: there is no such model, it reads texts, or several fit where too little was said.
        """
        return routes.listener(self.models, source, target, name)

    @contextlib.asynccontextmanager
    async def use(self, model: ServedModel) -> AsyncIterator[Scheduler]:
        """Hold a model, opened, until the block is left.

        Raises:
            RequestError: 503, it cannot be opened.
        """
        model = self.models.get(model.name, model)  # it may have been loaded anew meanwhile
        model.users += 1
        model.used = time.monotonic()
        try:
            while (scheduler := model.scheduler) is None:
                async with self._room:
                    await self._make_room(model)
                    await model.open()
            yield scheduler
        finally:
            model.users -= 1
            model.used = time.monotonic()
            if not model.users and self._held() > self._budget:
                self._later(self._trim())

    async def open_all(self) -> None:
        """Open as many models as there is memory for, in their order.

        Raises:
            ModelError: one is damaged.
        """
        left = self._budget
        for model in list(self.models.values()):
            left -= model.bytes
            if left >= 0 or model is next(iter(self.models.values())):
                await model.open()
        log = logging.getLogger("dragoman.serving")
        for model in self.models.values():
            log.info(model.described())
        log.info("%d MB of memory are in use", memory_in_use() // 1_000_000)
        self._later(self._prepare_alignments())

    async def _prepare_alignments(self) -> None:
        """Align a word with each open model, so that whoever first asks for words does not wait for PyTorch."""
        for model in list(self.models.values()):
            if model.scheduler is not None and not model.listens:
                async with self.use(model) as scheduler:
                    await asyncio.wrap_future(scheduler.submit(["."], alignments=True).future)

    @property
    def _budget(self) -> float:
        return float("inf") if self.settings.memory is None else self.settings.memory * 1e6

    def _held(self) -> int:
        return sum(one.bytes for one in self.models.values() if one.scheduler is not None)

    async def _trim(self) -> None:
        async with self._room:
            await self._make_room(None)

    async def _make_room(self, wanted: ServedModel | None) -> None:
        """Close models that nobody uses, the longest idle first, until another has its place; in turns, by `_room`."""
        needed = 0 if wanted is None else wanted.bytes
        while self._held() + needed > self._budget:
            opened = [one for one in self.models.values() if one.scheduler is not None]
            idle = [one for one in opened if not one.users]
            # More than the budget for a while is better than an answer that never comes; one model has always a place.
            if not idle or (wanted is None and len(opened) == 1):
                return
            await min(idle, key=lambda one: one.used).close()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def reload(self) -> list[str]:
        """Open the directories anew; requests that are under way end with the former models. Return their names.

        Raises:
            ModelError: a directory is damaged or gone; then the former models stay.
        """
        async with self._reloading:
            made = await asyncio.to_thread(self._made)
            try:
                for name, model in made.items():
                    if self.models[name].scheduler is not None:
                        await model.open()
            except BaseException:
                self._retire(made)
                raise
            former, self.models = self.models, made
            self._retire(former)
            return list(made)

    def _retire(self, models: dict[str, ServedModel]) -> None:
        self._retired += models.values()
        self._later(self._close_retired())

    async def _close_retired(self) -> None:
        while self._retired:
            for model in [one for one in self._retired if not one.users]:
                self._retired.remove(model)
                await model.close()
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Let all models go; what they took on is given up."""
        for task in list(self.tasks):
            task.cancel()
        for model in (*self.models.values(), *self._retired):
            await model.close(wait=False)


def _served(own: Spoken, asked: str | None, side: str, path: Path) -> tuple[str, dict[str, str | None]]:
    """The usual language of a side of a model and all that are served: one, where the settings name it."""
    known = [tag for tag, name in own.tags.items() if name is not None]
    if asked is None:
        return own.usual or UNKNOWN, own.tags or {UNKNOWN: None}
    tag = best_match(asked, own.tags) if known else asked
    if tag is None:
        message = f"the model has no such {side} language"
        raise ConfigError(message, file=path, expected=few_of(known, asked), found=asked)
    return tag, {tag: own.tags.get(tag)}


def memory_in_use() -> int:
    """Return the bytes of this process that are in memory; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _silence() -> list[Waveform]:
    """What a model that listens is given first: a sound of no length. Refuses to go on where none could be read.

    Raises:
        ConfigError: the package that reads sounds is not installed.
    """
    import torch

    from dragoman.audio.reading import check_installed

    check_installed()
    return [Waveform(torch.zeros(0), 16_000)]


async def try_reload(registry: Registry) -> None:
    """Load anew, and log what came of it."""
    log = logging.getLogger("dragoman.serving")
    try:
        log.warning("loaded anew: %s", ", ".join(await registry.reload()))
    except Exception as error:
        # What nobody foresaw is told with its trace.
        trace = None if isinstance(error, DragomanError) else error
        log.error("not loaded anew, the former models stay: %s", error, exc_info=trace)


def _free_name(path: Path, taken: Iterable[str]) -> str:
    name = name_of(path) or path.resolve().name.removesuffix(ENDING)
    base = re.sub(r"[^\w.-]", "-", name)[:60] or "model"
    names = (f"{base}-{number}" if number > 1 else base for number in count(1))
    return next(name for name in names if name not in taken)
