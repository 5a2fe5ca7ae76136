"""Documents that are uploaded, translated beside all other requests, and kept for a while to be fetched."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal, TypeVar

from dragoman.jobs import Job
from dragoman.serving.faults import RequestError, as_request_error
from dragoman.serving.service import Service
from dragoman.serving.settings import ServeSettings

SUFFIXES = (".txt", ".text", ".md")
LINES_AT_ONCE = 32
LONGEST_NAME = 100
T = TypeVar("T")
Status = Literal["waiting", "translating", "done", "failed"]


@dataclass
class Document:
    """A document on its way.

    Attributes:
        id: names it.
        key: must be shown by who asks for it.
        name: of the file that comes out.
        text: what is to be translated; let go when that is done.
        characters: of it.
        status: what becomes of it.
        done: lines that are translated.
        total: lines that there are.
        result: the translated file.
        error: what went wrong.
        begun: when it was first worked on, by the monotonic clock.
        until: when it is forgotten, by the monotonic clock.
    """

    id: str
    key: str
    name: str
    text: str
    characters: int
    status: Status = "waiting"
    done: int = 0
    total: int = 0
    result: bytes = b""
    error: RequestError | None = None
    begun: float = 0.0
    until: float = 0.0
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    async def wait(self) -> None:
        """Return when it is translated, or failed."""
        if self.task is not None:
            await asyncio.wait([self.task])

    @property
    def seconds_left(self) -> int | None:
        """Until it is translated, by how long its lines took so far; None where nobody knows."""
        if self.status != "translating" or not self.done:
            return None
        return max(1, round((time.monotonic() - self.begun) / self.done * (self.total - self.done)))

    def to_dict(self) -> dict[str, object]:
        """Return what the own interface tells of it."""
        error = None if self.error is None else self.error.message
        told: dict[str, object] = {
            "status": self.status,
            "done": self.done,
            "total": self.total,
            "name": self.name,
            "error": error,
        }
        return told | {"characters": self.characters}


class Documents:
    """The documents of a service.

    Args:
        service: what translates.
        settings: the limits.
    """

    def __init__(self, service: Service, settings: ServeSettings) -> None:
        self._service, self._limits = service, settings.limits
        self._all: dict[str, Document] = {}
        self._one_at_a_time = asyncio.Semaphore(2)

    @property
    def under_way(self) -> int:
        """Documents that are not translated yet."""
        return sum(one.status in ("waiting", "translating") for one in self._all.values())

    def add(self, name: str, data: bytes, job: Job) -> Document:
        """Take a document, begin to translate it, and return it.

        Args:
            name: of the file.
            data: what is in it.
            job: without texts; how they are to be translated.

        Raises:
            RequestError: it is too long, no text, or there is no place for it.
        """
        self._forget()
        if len(data) > self._limits.document_bytes:
            message = f"{len(data):,} bytes, more than {self._limits.document_bytes:,}"
            raise RequestError(413, "too_much", message)
        suffix = PurePath(name).suffix.lower()
        if suffix not in SUFFIXES:
            told = ", ".join(SUFFIXES)
            raise RequestError(
                415, "format", f"documents of the format {suffix or 'of no suffix'} are not read", hint=f"send {told}"
            )
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RequestError(422, "not_utf8", f"the document is not UTF-8 (byte {error.start})") from None
        self._make_room()
        if len(self._all) >= self._limits.documents:
            raise RequestError(503, "overloaded", "too many documents are kept already", wait=60.0)
        route = self._service.routes(replace(job, texts=[text[:2_000]]))[0][0]
        stem = PurePath(name).stem[:LONGEST_NAME]
        document = Document(
            secrets.token_hex(16), secrets.token_hex(32), f"{stem}.{route.target}{suffix}", text, len(text),
            until=time.monotonic() + 60 * self._limits.document_minutes,
        )  # fmt: skip
        self._all[document.id] = document
        job = replace(job, source=route.source, target=route.target)
        document.task = asyncio.create_task(self._run(document, job))
        return document

    def get(self, name: str, key: str) -> Document:
        """Return a document.

        Raises:
            RequestError: 404, there is none of this name and key.
        """
        self._forget()
        document = self._all.get(name)
        if document is None or not hmac.compare_digest(document.key.encode(), key.encode("utf-8", "replace")):
            raise RequestError(404, "no_document", "there is no such document", hint="it may have been deleted")
        return document

    def remove(self, document: Document) -> None:
        """Drop a document, and stop translating it."""
        self._all.pop(document.id, None)
        if document.task is not None:
            document.task.cancel()

    async def close(self, seconds: float) -> None:
        """Give documents that are under way so many seconds, then forget all."""
        tasks = [one.task for one in self._all.values() if one.task is not None and not one.task.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for document in list(self._all.values()):
            self.remove(document)

    def _make_room(self) -> None:
        """Drop the oldest documents that are translated, where there are as many as may be kept."""
        over = [one for one in self._all.values() if one.status in ("done", "failed")]
        for document in over[: max(0, len(self._all) + 1 - self._limits.documents)]:
            self.remove(document)

    def _forget(self) -> None:
        now = time.monotonic()
        for document in [one for one in self._all.values() if one.until < now and one.status in ("done", "failed")]:
            self.remove(document)

    async def _run(self, document: Document, job: Job) -> None:
        try:
            async with self._one_at_a_time:
                document.status, document.begun = "translating", time.monotonic()
                document.result = (await self._translated(document, job)).encode("utf-8")
                document.status = "done"
        except Exception as error:
            document.status, document.error = "failed", as_request_error(error)
        finally:
            document.text = ""

    async def _translated(self, document: Document, job: Job) -> str:
        lines = document.text.splitlines(keepends=True)
        document.total = len(lines)
        outputs = []
        for start, size in _portions(lines, self._limits.characters // 2, min(LINES_AT_ONCE, self._limits.texts)):
            some = lines[start : start + size]
            for line in some:
                if len(line) > self._limits.characters:
                    message = f"a line of {len(line):,} characters, more than {self._limits.characters:,}"
                    raise RequestError(413, "too_much", message)
            found = await _patiently(lambda some=some: self._service.translate(replace(job, texts=some)))
            outputs += [one.text for one in found]
            document.done = start + size
        return "".join(outputs)


async def _patiently(work: Callable[[], Awaitable[T]], tries: int = 20) -> T:
    """Do work again where there was too much to do for a while."""
    for _ in range(tries):
        try:
            return await work()
        except Exception as error:
            told = as_request_error(error)
            if told.status != 503 or told.wait is None:
                raise
            await asyncio.sleep(min(told.wait, 10))
    return await work()


def _portions(lines: list[str], characters: int, most: int) -> list[tuple[int, int]]:
    """Where portions of lines begin and how many lines they have: within both limits, but one at least."""
    portions, start, length = [], 0, 0
    for number, line in enumerate(lines):
        if number > start and (length + len(line) > characters or number - start >= most):
            portions.append((start, number - start))
            start, length = number, 0
        length += len(line)
    if start < len(lines):
        portions.append((start, len(lines) - start))
    return portions
