"""Signals: the first asks to stop, the second ends at once."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

import forked
from dragoman.training.signals import StopSignals


def start_loop(obedient: bool) -> tuple[int, int]:
    """A child that works in a loop under `StopSignals`: its process id, and a pipe that tells what it does."""
    read, write = os.pipe()

    def work() -> None:
        with StopSignals() as stop:
            os.write(write, b"w")
            while stop.received is None:
                time.sleep(0.001)
            os.write(write, b"s")
            while not obedient:
                signal.pause()
            os._exit(stop.exit_status)

    pid = forked.start(work)
    os.close(write)
    assert os.read(read, 1) == b"w"
    return pid, read


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_first_signal_asks(number: int, status: int) -> None:
    pid, pipe = start_loop(obedient=True)
    os.kill(pid, number)
    assert forked.finish(pid) == status
    assert os.read(pipe, 1) == b"s"
    os.close(pipe)


@pytest.mark.parametrize(("first", "second", "status"), [(15, 15, 143), (15, 2, 130), (2, 15, 143)])
def test_the_second_signal_ends_at_once(first: int, second: int, status: int) -> None:
    pid, pipe = start_loop(obedient=False)
    os.kill(pid, first)
    assert os.read(pipe, 1) == b"s"
    os.kill(pid, second)
    assert forked.finish(pid) == status
    os.close(pipe)


def test_handlers_come_back() -> None:
    seen: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with StopSignals() as stop:
            assert (stop.received, stop.exit_status) == (None, 0)
            signal.raise_signal(signal.SIGTERM)
            assert (stop.received, stop.exit_status, seen) == (signal.SIGTERM, 143, [])
        signal.raise_signal(signal.SIGTERM)
        assert seen == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGINT) is interrupt
    finally:
        signal.signal(signal.SIGTERM, former)


def test_handlers_come_back_after_an_error() -> None:
    former = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), StopSignals():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGTERM) is former


def test_a_handler_from_outside_python_becomes_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    really = signal.signal
    formers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(signal, "signal", lambda number, handler: really(number, handler) and None)
    try:
        with StopSignals():
            pass
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        for number, handler in formers.items():
            really(number, handler)


def test_in_another_thread_it_does_nothing() -> None:
    former = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def work() -> None:
        with StopSignals() as stop:
            seen.append(signal.getsignal(signal.SIGTERM))
            seen.append(stop.received)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [former, None]
