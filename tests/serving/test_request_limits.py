"""What is too large, too many or too deep is refused at once, and no search is begun for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.serving import ServeSettings
from served import Served, ask_raw, connected, read_raw, until

HEAD = b"POST /v1/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
LIMITS = {"characters": 60, "texts": 3, "beam_size": 3, "body_bytes": 1_000, "document_bytes": 200}
DRAWN = {"sampling": True}
PAIR = {"source": "zh", "target": "en"}


@pytest.fixture(scope="module")
def strict(settings: ServeSettings) -> Iterator[Served]:
    """A service with limits that are soon reached."""
    limits = settings.limits.model_copy(update=LIMITS | {"receive_seconds": 1.0})
    with Served(settings.model_copy(update={"limits": limits})) as served:
        yield served


def padded(size: int) -> bytes:
    """A request's body of so many bytes."""
    return json.dumps({"text": "ba", **PAIR}).encode().ljust(size)


@pytest.mark.parametrize(
    ("path", "within", "beyond", "refusal"),
    [
        ("/v1/translate", {"texts": ["ba"] * 3}, {"texts": ["ba"] * 4}, 413),
        ("/v1/translate", {"texts": ["a"] * 3}, {"texts": [""] * 90}, 413),
        ("/v1/translate", {"text": "a" * 60}, {"text": "a" * 61}, 413),
        ("/v1/translate", {"text": "\U0001f408" * 60}, {"text": "\U0001f408" * 61}, 413),
        ("/v1/translate", {"texts": ["a" * 30] * 2}, {"texts": ["a" * 30, "a" * 31]}, 413),
        ("/v1/translate", {"text": "ba", "prefixes": ["ba"]}, {"text": "ba", "prefixes": ["ba " * 20]}, 413),
        ("/v1/translate", {"text": "ba", "beam_size": 3}, {"text": "ba", "beam_size": 4}, 413),
        ("/v1/translate", {"text": "ba", "n_best": 3, "beam_size": 3}, {"text": "ba", "n_best": 4}, 413),
        ("/v1/translate", {"text": "ba"}, {"text": "ba", "n_best": 3, "beam_size": 2}, 422),
        ("/v1/translate", {"text": "ba", "n_best": 3} | DRAWN, {"text": "ba", "n_best": 4} | DRAWN, 413),
        ("/v1/translate", {"text": "ba", "prefixes": [""]}, {"text": "ba", "prefixes": []}, 422),
        ("/v1/translate", {"texts": ["ba"]}, {"texts": [1] * 200}, 422),
        ("/v1/translate/stream", {"text": "a" * 60}, {"text": "a" * 61}, 413),
        ("/v1/translate/stream", {"text": "ba", "beam_size": 3}, {"text": "ba", "beam_size": 4}, 413),
        ("/v1/translate/stream", {"texts": ["ba"]}, {"texts": ["ba", "ba"]}, 422),
        ("/v1/alternatives", {"text": "a" * 60}, {"text": "a" * 61}, 413),
        ("/v1/alternatives", {"text": "ba", "count": 16}, {"text": "ba", "count": 17}, 422),
        ("/translate", {"q": ["ba"] * 3}, {"q": ["ba"] * 4}, 400),
        ("/translate", {"q": "a" * 60}, {"q": "a" * 61}, 400),
        ("/translate", {"q": "ba", "alternatives": 2}, {"q": "ba", "alternatives": 3}, 400),
    ],
)  # fmt: skip
def test_each_limit_holds_to_one(strict: Served, path: str, within: dict, beyond: dict, refusal: int) -> None:
    answer = strict.client.post(path, json=within | PAIR)
    assert answer.status_code == 200, answer.text
    assert "event: error" not in answer.text
    before = strict.calls()
    answer = strict.client.post(path, json=beyond | PAIR)
    assert answer.status_code == refusal, answer.text
    assert "error" in answer.json()
    assert strict.calls() == before


@pytest.mark.parametrize("length", [{}, {"transfer-encoding": "chunked"}], ids=["told", "chunked"])
def test_a_body_is_of_so_many_bytes(strict: Served, length: dict[str, str]) -> None:
    def body(size: int) -> Any:
        data = padded(size)
        return iter([data[:400], data[400:]]) if length else data

    headers = {"content-type": "application/json"} | length
    assert strict.client.post("/v1/translate", content=body(1_000), headers=headers).status_code == 200
    before = strict.calls()
    answer = strict.client.post("/v1/translate", content=body(1_001), headers=headers)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert strict.calls() == before


def test_a_document_is_of_so_many_bytes(strict: Served) -> None:
    def sent(size: int) -> int:
        files = {"file": ("a.txt", b"ba \n" * (size // 4) + b"a" * (size % 4))}
        return strict.client.post("/v1/documents", files=files, data=PAIR).status_code

    assert sent(200) == 202
    until(lambda: not strict.guard.context.documents.under_way)
    before = strict.calls()
    assert sent(201) == 413
    assert strict.calls() == before


@pytest.mark.parametrize(
    "told",
    [b"content-length: 5000000000\r\n\r\n{", b"transfer-encoding: chunked\r\n\r\n400\r\n" + b"{" * 1024 + b"\r\n"],
)
def test_more_than_that_is_refused_before_it_has_come(strict: Served, told: bytes) -> None:
    with connected(strict.address) as sock:
        sock.sendall(HEAD + told)
        sock.settimeout(0.8)  # it is given a second to send the rest
        assert sock.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_refusal_reaches_who_sends_on(strict: Served) -> None:
    """To close a connection on which something is still coming would reset it, and the answer might be lost."""
    for _ in range(20):
        with connected(strict.address) as sock:
            sock.sendall(HEAD + b"content-length: 3000000\r\n\r\n" + b" " * 3_000_000)
            assert read_raw(sock).status == 413


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000, b'{"text":' * 50_000, b'{"text": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"a":' * 900 + b"1" + b"}" * 900,
    ],
    ids=["lists", "objects", "value", "unknown"],
)  # fmt: skip
def test_depth_is_refused(service: Served, body: bytes) -> None:
    before = service.calls()
    answer = service.client.post("/v1/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "error" in answer.json()
    assert service.calls() == before


def test_a_head_is_of_so_many_bytes(strict: Served) -> None:
    answer = ask_raw(strict.address, b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 70_000 + b"\r\n\r\n")
    assert answer.status == 431
    many = b"".join(b"x-%d: a\r\n" % number for number in range(20_000))
    answer = ask_raw(strict.address, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + many)
    assert answer.status == 431
    assert json.loads(answer.body)["error"]["code"] == "too_long"


def test_what_is_no_http_is_told_so(strict: Served) -> None:
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"nonsense\r\n\r\n",
    ):
        answer = ask_raw(strict.address, data)
        assert answer.status == 400
        assert json.loads(answer.body)["error"]["code"] == "no_http"
