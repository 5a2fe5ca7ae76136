"""What stands before the application: hosts, origins, sizes, deadlines, load, and callers who have gone."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.middleware.cors import CORSMiddleware

from dragoman.serving.context import NOTES, Context, Notes
from dragoman.serving.errors import answer_of, interface_of
from dragoman.serving.faults import RequestError, as_request_error
from dragoman.serving.settings import is_loopback

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
ALWAYS = ("/livez", "/readyz", "/health", "/metrics")  # answered however much there is to do
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s@/?#\\:\[\]]+))(?::\d{0,5})?", re.IGNORECASE)
DOCUMENTS = ("/translate_file", "/v1/documents", "/v2/document")
SOUNDS = ("/v1/transcribe", "/v1/audio/transcriptions")
FORM = 1 << 16  # bytes of a form besides its file
METHODS = ("GET", "POST", "DELETE")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class Guard:
    """An ASGI application around another, which it protects.

    Args:
        app: the application.
        context: of the service.

    Attributes:
        is_draining: nothing new is taken on any more.
        under_way: requests that are answered now, without those about the service's own state.
        server: what runs it, where `run_server` does.
    """

    server: Any = None

    def __init__(self, app: App, context: Context) -> None:
        self.app, self.context = app, context
        self.settings, self.metrics = context.settings, context.metrics
        self.is_draining = False
        self.under_way = 0
        self._busy = 0  # those of them that have come in whole
        self._held = 0  # bytes of bodies that are coming in, or whose answers are made
        self._hosts = {name.lower() for name in (*self.settings.hosts, self.settings.host)}
        self._origins = {origin.lower().rstrip("/") for origin in self.settings.origins}
        self._log = logging.getLogger("dragoman.serving.requests")
        self._entrance: App = self._answer
        if self._origins:
            self._entrance = CORSMiddleware(
                self._answer, allow_origins=sorted(self._origins), allow_methods=METHODS,
                allow_headers=("Authorization", "Content-Type"), expose_headers=("Retry-After",), max_age=600,
            )  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; named by ASGI."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] != "http":
            await self.app(scope, receive, send)
        else:
            await self._entrance(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, started = scope["path"], time.perf_counter()
        counted = path not in ALWAYS
        scope[NOTES] = notes = Notes()
        reply = _Reply(send, lambda: self.is_draining)
        self.metrics.begin()
        rest: Receive | None = receive  # of the body, as long as that was not read whole
        try:
            self._check(scope)
            self.under_way += counted
            try:
                body = await self._body(scope, receive)
                rest = None
                await self._run(scope, body, receive, reply, counted)
            finally:
                self.under_way -= counted
        except Exception as error:
            told = as_request_error(error)  # logs what nobody foresaw
            if not reply.status:
                await self._refuse(scope, reply, told, rest)
        finally:
            seconds = time.perf_counter() - started
            self.metrics.end(interface_of(path), reply.status or 499, seconds)
            self._tell(scope, notes, reply.status or 499, seconds)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        host = hosts[0] if len(hosts) == 1 else ""  # of two, others may take the other one
        if not self._is_host(host):
            hint = "name it in the settings of the service: hosts"
            raise RequestError(421, "wrong_host", "this host is not served here", hint=hint)
        origin = headers.get(b"origin")
        if origin is not None and not self._is_origin(origin.decode("latin-1"), host):
            raise RequestError(403, "wrong_origin", "pages of this origin may not call the service")
        if self.is_draining and scope["path"] not in ("/livez", "/metrics"):
            raise RequestError(503, "ending", "the service is ending", wait=5.0)

    def _is_host(self, host: str) -> bool:
        found = HOST.fullmatch(host)
        if found is None:
            return False
        name = (found[1] or found[2]).lower()
        if "*" in self._hosts or name in self._hosts or is_loopback(name):
            return True
        # A page of another site can reach us by a name of its own, but not by an address.
        with contextlib.suppress(ValueError):
            return not self.settings.is_loopback and ipaddress.ip_address(name) is not None
        return False

    def _is_origin(self, origin: str, host: str) -> bool:
        origin = origin.lower()
        own = (f"http://{host}".lower(), f"https://{host}".lower())
        return origin in own or origin in self._origins or "*" in self._origins

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """What was sent, read whole within the limits of size and time."""
        limits = self.settings.limits
        path, largest = scope["path"], max(limits.document_bytes, limits.audio_bytes)
        most = limits.document_bytes if path in DOCUMENTS else limits.audio_bytes if path in SOUNDS else 0
        most = most + FORM if most else limits.body_bytes
        too_long = RequestError(413, "too_much", f"the body has more than {most:,} bytes")
        told = dict(scope["headers"]).get(b"content-length", b"")
        if told.isdigit() and int(told) > most:
            raise too_long
        # Files leave half of the room to texts.
        most_held = limits.requests * limits.body_bytes // (1 if most == limits.body_bytes else 2) + largest
        parts, size = [], 0
        try:
            async with asyncio.timeout(limits.receive_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(400, "gone", "the request broke off")
                    part = message.get("body", b"")
                    size += len(part)
                    self._held += len(part)
                    if size > most:
                        raise too_long
                    if self._held > most_held:
                        raise _overloaded()
                    parts.append(part)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            message = f"the request did not come in within {limits.receive_seconds:g} seconds"
            raise RequestError(408, "too_slow", message) from None
        finally:
            self._held -= size

    async def _run(self, scope: Scope, body: bytes, receive: Receive, reply: _Reply, counted: bool) -> None:
        """Let the application answer; if the caller goes away meanwhile, its work ends."""
        if counted and self._busy >= self.settings.limits.requests:  # who sends slowly takes no place from others
            raise _overloaded()
        gone, given = asyncio.Event(), False

        async def feed() -> Message:
            nonlocal given
            if not given:
                given = True
                return {"type": "http.request", "body": body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        self._busy += counted
        self._held += len(body)
        work = asyncio.ensure_future(self.app(scope, feed, reply))
        watcher = asyncio.ensure_future(watch())
        try:
            await asyncio.wait({work, watcher}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not reply.is_over:
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
            else:
                await work
        finally:
            self._busy -= counted
            self._held -= len(body)
            watcher.cancel()
            work.cancel()

    async def _refuse(self, scope: Scope, reply: _Reply, error: RequestError, rest: Receive | None) -> None:
        status, body = answer_of(scope["path"], error)
        data = json.dumps(body, ensure_ascii=False).encode("utf-8")
        headers = [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        if rest is not None or error.code == "ending":
            headers.append((b"connection", b"close"))
        with contextlib.suppress(OSError):
            await reply({"type": "http.response.start", "status": status, "headers": headers})
            await reply({"type": "http.response.body", "body": data, "more_body": rest is not None})
            if rest is not None:
                if status != 408:
                    await self._discard(rest)
                await reply({"type": "http.response.body", "body": b""})

    async def _discard(self, receive: Receive) -> None:
        """Read what is still sent: to close before that would reset the connection, and the answer might be lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.limits.receive_seconds):
                while (await receive()).get("more_body"):
                    pass

    def _tell(self, scope: Scope, notes: Notes, status: int, seconds: float) -> None:
        style = self.settings.log
        if style == "none" or scope["path"] in ALWAYS:
            return
        told: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "milliseconds": round(1000 * seconds, 1),
            "characters": notes.characters,
            "sound_seconds": round(notes.sound, 2),
            "models": notes.models,
            "key": notes.key,
        }
        if self.settings.log_texts:
            told |= {"texts": list(notes.texts), "outputs": notes.outputs}
        if style == "json":
            self._log.info(json.dumps(told, ensure_ascii=False))
            return
        size = f"{notes.characters} characters" if notes.characters else ""
        size = f"{notes.sound:.1f} s of sound" if notes.sound else size
        rest = [size, notes.models or "", notes.key or ""]
        texts = [json.dumps(told[name], ensure_ascii=False) for name in ("texts", "outputs") if name in told]
        line = f"{told['time']} {told['method']} {json.dumps(told['path'])[1:-1]} {status} {told['milliseconds']} ms"
        self._log.info(" ".join([line, *filter(None, rest), *texts]))


def _overloaded() -> RequestError:
    return RequestError(503, "overloaded", "too many requests are under way", wait=1.0)


class _Reply:
    """What is sent, with the headers that every answer has; remembers the status."""

    def __init__(self, send: Send, is_ending: Callable[[], bool]) -> None:
        self._send, self._is_ending = send, is_ending
        self.status, self.is_over = 0, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), *HEADERS]
            if self._is_ending() and not any(name == b"connection" for name, _ in headers):
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        self.is_over = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)
