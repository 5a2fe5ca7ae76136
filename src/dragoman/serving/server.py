"""Runs the service: one process, uvicorn beneath, deadlines for what comes in, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.errors import ConfigError
from dragoman.serving.guard import Guard
from dragoman.serving.registry import try_reload
from dragoman.serving.settings import ServeSettings

LONGEST_HEAD = 1 << 16  # bytes before a body
BACKLOG = 2048
STALLED = 30.0  # seconds in which a caller reads nothing of an answer until it is given up
LINGER = 1.0  # seconds in which what is still sent is read, so that a refusal is not lost by a reset
AFTER = 0.5  # seconds in which those who come late are told so, before nobody answers any more


class _Protocol(HttpToolsProtocol):
    """HTTP with a deadline for the head of a request, a limit of its length, and an end for who does not read answers.

    Bodies have their limits in the guard.
    """

    _deadline: Any = None  # the loop's handles; those of uvloop are of no common class, nor are its transports
    _reader: Any = None
    _head = _left = 0
    _is_refused = False
    seconds = 10.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._watch_reader(False)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self.cycle is None or self.cycle.response_complete:
            self._await_head()
        if self._deadline is not None:
            self._head += len(data)
        super().data_received(data)
        if self._deadline is not None and self._head > LONGEST_HEAD:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._refuse("431 Request Header Fields Too Large", "too_long", "the head of the request is too long")

    def send_400_response(self, msg: str) -> None:
        self._refuse("400 Bad Request", "no_http", "this is no request of HTTP/1.1")

    def _refuse(self, status: str, code: str, message: str) -> None:
        self._stop_waiting()
        if self._is_refused:
            return
        self._is_refused = True
        if self.cycle is None or self.cycle.response_complete:  # else another answer is on its way
            body = json.dumps({"error": {"code": code, "message": message}})
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            self.transport.write(f"{head}connection: close\r\n\r\n{body}".encode())
        self.loop.call_later(LINGER, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._left = self.transport.get_write_buffer_size()
        self._watch_reader(True)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch_reader(False)

    def _watch_reader(self, on: bool) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._reader = self.loop.call_later(STALLED, self._check_reader) if on else None

    def _check_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        if left >= self._left:
            self.transport.abort()
        else:
            self._left = left
            self._watch_reader(True)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > LONGEST_HEAD:
            self._refuse_head()
        else:
            super().on_headers_complete()

    def _await_head(self) -> None:
        if self._deadline is None:
            self._head = 0
            self._deadline = self.loop.call_later(self.seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """Uvicorn's server; ends by our rules: first refuse, then finish what was taken on, then close."""

    def __init__(self, config: uvicorn.Config, guard: Guard, on_ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._guard, self._on_ready = guard, on_ready
        self._ending: asyncio.Task[None] | None = None
        self._reloading: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handled = {signal.SIGTERM: self._end, signal.SIGINT: self._end, signal.SIGHUP: self._reload}
        try:
            for number, act in handled.items():
                loop.add_signal_handler(number, act)
        except (RuntimeError, ValueError):  # not in the main thread: whoever runs us there ends us
            handled = {}
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: Any = None) -> None:  # type: ignore[override]
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    def end_from_elsewhere(self) -> None:
        """Finish as after SIGTERM; may be called from another thread."""
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self._ending is not None:  # asked twice: at once
            self.force_exit = self.should_exit = True
            return
        self._guard.is_draining = True
        self._ending = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        seconds = self._guard.settings.limits.drain_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.sleep(AFTER)
                while self._guard.under_way or self._guard.context.documents.under_way:
                    await asyncio.sleep(0.02)
        self.should_exit = True

    def _reload(self) -> None:
        registry = self._guard.context.service.registry
        self._reloading = asyncio.get_running_loop().create_task(try_reload(registry))


def run_server(guard: Guard, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends at once.

    Args:
        guard: the application.
        on_ready: is told the address as soon as requests are taken.

    Raises:
        ConfigError: the address cannot be listened on, or is no loopback one while no keys are demanded.
    """
    settings = guard.settings
    check_exposure(settings)
    _log_to_stderr()
    config = make_config(guard)
    server = guard.server = _Server(config, guard, on_ready or _print_ready)
    sock = _bound(settings)
    try:
        server.run(sockets=[sock])
    finally:
        sock.close()


def make_config(guard: Guard) -> uvicorn.Config:
    """Return how uvicorn runs an application of ours."""
    limits = guard.settings.limits
    protocol = type("Protocol", (_Protocol,), {"seconds": limits.receive_seconds})
    return uvicorn.Config(
        guard, http=protocol, ws="none", lifespan="on", log_config=None, access_log=False, backlog=BACKLOG,
        timeout_keep_alive=int(max(1, limits.keep_alive_seconds)), timeout_graceful_shutdown=2, server_header=False,
        proxy_headers=False, workers=1,
    )  # fmt: skip


def check_exposure(settings: ServeSettings) -> None:
    """Refuse to be reached by others without keys.

    Raises:
        ConfigError: the address is no loopback one, and there is no file of keys.
    """
    if settings.is_loopback or settings.keys is not None:
        return
    raise ConfigError(
        "whoever reaches this address could use the service", found=f"host {settings.host} without keys",
        expected="keys, or a loopback address",
        hint="make a key: dragoman serve --new-key NAME --keys keys.toml; then serve with --keys keys.toml",
    )  # fmt: skip


def _bound(settings: ServeSettings) -> Any:
    import socket

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host.strip("[]"), settings.port))
    except OSError as error:
        sock.close()
        hint = "take another one: --port 0 takes any that is free"
        found = f"{settings.host} port {settings.port}: {error.strerror or error}"
        raise ConfigError("the address cannot be listened on", found=found, hint=hint) from error
    return sock


def _log_to_stderr() -> None:
    log = logging.getLogger("dragoman.serving")
    if not log.handlers:
        log.addHandler(logging.StreamHandler(sys.stderr))
        log.setLevel(logging.INFO)
        log.propagate = False


def _print_ready(address: str) -> None:
    print(f"listening on {address}", file=sys.stderr, flush=True)
