"""Callers who leave take their work with them, a search that breaks heals, and nobody else notices either."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from dragoman import Translator
from dragoman.search.continuous import ContinuousSearch
from dragoman.serving import ServeSettings
from dragoman.translation.running_batch import RunningBatch
from served import Served, slowed, until

PAIR = {"source": "zh", "target": "en"}
LONG = " ".join(["ba ce di fo gu ha ki"] * 12)


@pytest.fixture(scope="module")
def own(settings: ServeSettings) -> Iterator[Served]:
    """A service with one model, whose faults are nobody else's."""
    with Served(settings.model_copy(update={"models": settings.models[:1]})) as served:
        yield served


def expected(model: Path, texts: list[str]) -> list[str]:
    return [one.text for one in Translator.from_pretrained(model, engine="native").translate(texts)]


@pytest.mark.parametrize("path", ["/v1/translate", "/v1/translate/stream", "/translate", "/translate_file"])
def test_who_leaves_stops_its_work(own: Served, model: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch, 0.05)
    (scheduler,) = own.schedulers()
    texts = [f"ba ce {word}" for word in ("di", "fo", "gu")]

    async def leave() -> list[str]:
        async with httpx.AsyncClient(base_url=own.address, timeout=60) as client:
            if path == "/translate_file":
                asked = client.post(path, files={"file": ("a.txt", LONG.encode())}, data=PAIR)
            else:
                asked = client.post(path, json={"q" if path == "/translate" else "text": LONG, **PAIR})
            leaving = [asyncio.create_task(asked)]
            await asyncio.to_thread(until, lambda: scheduler.searched)
            staying = [asyncio.create_task(client.post("/v1/translate", json={"text": one, **PAIR})) for one in texts]
            await asyncio.to_thread(until, lambda: scheduler.searched == 4)
            before = scheduler.counts.cancelled
            leaving[0].cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await leaving[0]
            took = await asyncio.to_thread(until, lambda: scheduler.counts.cancelled > before, 5)
            assert took < 1.0
            answers = await asyncio.gather(*staying)
            return [one.json()["translations"][0]["text"] for one in answers]

    assert asyncio.run(leave()) == expected(model, texts)
    until(lambda: not scheduler.searched and not scheduler.waiting[0], 2)
    until(lambda: not own.guard.under_way, 2)
    assert not own.guard.context.documents.under_way


def test_many_leave_at_once(own: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch, 0.1)
    (scheduler,) = own.schedulers()
    monkeypatch.setattr(scheduler, "limits", replace(scheduler.limits, wait=600.0))
    calls, finished = scheduler.counts.calls, scheduler.counts.sentences

    async def leave() -> None:
        limits = httpx.Limits(max_connections=60)
        async with httpx.AsyncClient(base_url=own.address, timeout=60, limits=limits) as client:
            asked = [client.post("/v1/translate", json={"text": LONG, **PAIR}) for _ in range(20)]
            tasks = [asyncio.create_task(one) for one in asked]
            await asyncio.to_thread(until, lambda: scheduler.counts.calls == calls + 20, 10)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(leave())
    until(lambda: scheduler.waiting == (0, 0) and not scheduler.searched, 5)
    assert scheduler.counts.sentences - finished < 20
    until(lambda: not own.guard.under_way, 2)
    assert own.client.post("/v1/translate", json={"text": "ba", **PAIR}).status_code == 200


@pytest.mark.parametrize("fault", [ValueError("a secret"), MemoryError(), SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("path", ["/v1/translate", "/v1/translate/stream"])
def test_a_search_that_breaks_heals(
    own: Served, model: Path, fault: BaseException, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scheduler,) = own.schedulers()
    advance, faults = RunningBatch.advance, [fault]

    def break_once(batch: RunningBatch) -> None:
        advance(batch)
        if faults and batch.tasks:
            raise faults.pop()

    monkeypatch.setattr(RunningBatch, "advance", break_once)
    answer = own.client.post(path, json={"text": LONG, **PAIR})
    if path.endswith("stream") and answer.status_code == 200:  # it had begun
        assert answer.text.rstrip().rpartition("\n\n")[2].startswith("event: error\n"), answer.text
        assert "a secret" not in answer.text
    else:
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["error"]["code"] == "failed"
        assert "Traceback" not in answer.text
    assert not faults
    again = own.client.post("/v1/translate", json={"text": "ba ce", **PAIR})
    assert again.json()["translations"][0]["text"] == expected(model, ["ba ce"])[0]
    assert own.client.get("/readyz").status_code == 200
    assert scheduler.counts.healed


def test_a_search_that_cannot_begin_fails_alone(own: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    (scheduler,) = own.schedulers()

    def broken(*_: object) -> ContinuousSearch:
        raise RuntimeError("no search today")

    monkeypatch.setattr(scheduler, "_open", broken)
    for batch in scheduler._batches:
        monkeypatch.setattr(batch, "open", broken)
    assert own.client.post("/v1/translate", json={"text": "ba", **PAIR}).status_code == 503
    monkeypatch.undo()
    assert own.client.post("/v1/translate", json={"text": "ba", **PAIR}).status_code == 200


@pytest.mark.parametrize("fault", [ValueError("a fault"), SystemExit(3)])
def test_what_breaks_before_or_after_a_search_fails_alone(
    own: Served, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.translation import scheduler as module
    from dragoman.translation.call import Call

    def broken(*_: object, **__: object) -> None:
        raise fault

    for owner, name in ((module, "Task"), (Call, "translations")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            for words in (False, True):
                answer = own.client.post("/v1/translate", json={"text": "ba", "words": words, **PAIR}, timeout=5)
                assert answer.status_code == 503, (name, words)
    assert own.client.post("/v1/translate", json={"text": "ba", "words": True, **PAIR}).status_code == 200
