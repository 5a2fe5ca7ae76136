"""The inspector behind HTTP: its page, traces, their arrays, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from dragoman.inspector import Inspection
from dragoman.inspector import inspect as look
from dragoman.inspector.question import SYSTEMS
from dragoman.serving import traces
from dragoman.serving.faults import RequestError
from dragoman.serving.traces import MOST_TRACES, Traces, own_bytes
from served import Served

TRACE = "/inspect/api/trace"


def told(data: bytes) -> dict[str, str]:
    """What stands in the head of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size])["__metadata__"]


def ask(service: Served, **body: object) -> tuple[str, dict[str, Any], dict[str, Any]]:
    answer = service.client.post(TRACE, json={"text": "猫吃鱼。", "model": "zh-en", **body})
    assert answer.status_code == 200, answer.text
    head = told(answer.content)
    return head["id"], json.loads(head["record"]), load(answer.content)


def test_the_page_and_its_files(service: Served) -> None:
    answer = service.client.get("/inspect", follow_redirects=True)
    assert (answer.status_code, answer.url.path) == (200, "/inspect/")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert service.client.get("/inspect/base.css").text == service.client.get("/static/base.css").text
    assert service.client.get("/inspect/main.js").headers["content-type"].startswith("text/javascript")
    for name in ("nothing.js", "..%2Foffline.py", "schema"):
        assert service.client.get(f"/inspect/{name}").status_code == 404
    about = service.client.get("/inspect/api").json()
    assert [model["name"] for model in about["models"]] == ["zh-en", "en-de", "en-zh"]
    assert about["limits"]["pieces"] == 256
    assert tuple(about["systems"]) == SYSTEMS


def test_a_trace_is_that_of_python(service: Served, model: Path) -> None:
    off = "decoder.layers.0.cross_attention:0"
    name, record, arrays = ask(service, heads_off=[off], beam_size=3, against="greedy")
    expected = look(model, "猫吃鱼。", heads_off=[(off[:-2], 0)], beam_size=3, against="greedy")
    assert record["output"] == expected.record["output"]
    assert record["against"]["output"] == expected.record["against"]["output"]
    assert sorted(arrays) == sorted(expected.names(1))
    assert np.abs(arrays["memory"] - expected.arrays["memory"]).max() < 1e-5
    wanted = ["generator", "encoder.layers.0.self_attention.query"]
    some = load(service.client.get(f"{TRACE}/{name}/arrays", params={"names": ",".join(wanted)}).content)
    assert sorted(some) == sorted(wanted)
    every = load(service.client.get(f"{TRACE}/{name}/arrays", params={"level": 2}).content)
    assert sorted(every) == sorted(expected.names(2))
    assert service.client.get(f"{TRACE}/{name}").json() == record
    [first] = record["output"]["pieces"][:1]
    _, forced, _ = ask(service, prefix_ids=[first["id"]], views=False)
    assert forced["what_if"]["prefix"] == [first["id"]]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"text": " "}, 422, "nothing to explain"),
        ({"text": "猫" * 10_001}, 413, "characters"),
        ({"text": "猫 " * 2_000}, 422, "256 pieces"),
        ({"text": "猫", "beside": "猫 " * 5_000}, 413, "characters"),
        ({"text": "猫", "beam_size": 17}, 413, "hypotheses"),
        ({"text": "猫", "model": "none"}, 404, "no model"),
        ({"text": "猫", "against": "none"}, 404, "no model"),
        ({"text": "猫", "convention": "none"}, 422, "no such system"),
        ({"text": "猫", "heads_off": ["decoder:1"]}, 422, "no such head"),
        ({"text": "猫", "heads_off": ["decoder"]}, 422, "heads_off"),
        ({"text": "猫", "prefix_ids": [1 << 30]}, 422, "not in the vocabulary"),
        ({"text": "猫", "prefix_ids": ["x"] * 100_000}, 422, "prefix_ids"),
        ({"text": "猫", "max_length": 257}, 422, "max_length"),
        ({"text": 3}, 422, "text"),
        ({"text": "猫", "else": 1}, 422, "else"),
    ],
)
def test_what_is_refused(service: Served, body: dict[str, object], status: int, words: str) -> None:
    began = time.monotonic()
    answer = service.client.post(TRACE, json={"model": "zh-en", **body})
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert time.monotonic() - began < 10


def test_what_is_not_kept(service: Served) -> None:
    assert service.client.get(f"{TRACE}/nothing").status_code == 404
    name, _, _ = ask(service, views=False)
    answer = service.client.get(f"{TRACE}/{name}/arrays", params={"names": "nothing"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "no_array")


@pytest.fixture(scope="module")
def found(model: Path) -> Inspection:
    return look(model, "猫", views=False)


def test_the_traces_asked_for_last_are_kept(found: Inspection, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Traces(1.0)
    first = kept.keep(found, "anna")
    second = kept.keep(found, None)
    assert kept.get(first, "anna") is found
    for owner in ("ben", None):
        with pytest.raises(RequestError, match="not kept"):
            kept.get(first, owner)
    for _ in range(MOST_TRACES - 1):
        kept.keep(found, None)
    assert len(kept) == MOST_TRACES
    kept.get(first, "anna")  # it was asked for after the second, which has gone
    with pytest.raises(RequestError, match="not kept"):
        kept.get(second, None)
    monkeypatch.setattr(traces, "MOST_BYTES", 3 * own_bytes(found))
    kept.keep(found, None)
    assert len(kept) == 3
    large = replace(found, arrays={**found.arrays, "more": np.zeros(own_bytes(found), np.float32)})
    assert kept.get(kept.keep(large, None), None) is large  # alone, but answered
    assert len(kept) == 1


def test_traces_are_made_one_after_another_in_bounded_time(found: Inspection) -> None:
    under_way = most = 0
    release = threading.Event()

    def slow() -> Inspection:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        release.wait(5)
        under_way -= 1
        return found

    @contextlib.asynccontextmanager
    async def hold() -> AsyncIterator[Callable[[], Inspection]]:
        yield slow

    async def all_at_once() -> None:
        kept = Traces(0.2)
        results = await asyncio.gather(*(kept.make(hold) for _ in range(20)), return_exceptions=True)
        kinds = [type(result) for result in results]
        assert kinds.count(RequestError) == 4
        assert kinds.count(TimeoutError) == 16
        release.set()
        assert await Traces(5.0).make(hold) is found
        await asyncio.sleep(0.05)
        assert await kept.make(hold) is found  # the place is free again

    asyncio.run(all_at_once())
    assert most <= 2  # the second one is of other traces
