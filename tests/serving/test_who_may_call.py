"""Which hosts, pages and content types are taken, and from where a service may be reached."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dragoman.errors import ConfigError
from dragoman.serving import ServeSettings, make_settings, run
from served import Served, ask_raw

BODY = {"text": "ba", "source": "zh", "target": "en"}
PAGE = "https://example.org"


@pytest.fixture(scope="module")
def open_to_pages(settings: ServeSettings) -> Iterator[Served]:
    with Served(settings.model_copy(update={"origins": (PAGE,), "hosts": ("Translate.example",)})) as served:
        yield served


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:80", 200), ("127.0.0.1:5000", 200), ("127.9.9.9", 200), ("[::1]:5000", 200),
        ("a.localhost", 200), ("evil.example", 421), ("localhost.evil.example", 421), ("192.168.1.5", 421), ("", 421),
        ("[::1", 421), ("[::1]evil", 421), ("[", 421), ("localhost@evil.example", 421), ("evil@localhost", 421),
        ("localhost/evil", 421), ("localhost#evil", 421), ("localhost:80:80", 421), ("localhost:x", 421),
        ("\\localhost", 421), ("local host", 421), ("0.0.0.0", 421), ("translate.example", 421),
    ],
)  # fmt: skip
def test_only_names_of_this_machine_are_answered(service: Served, host: str, status: int) -> None:
    answer = ask_raw(service.address, f"GET /livez HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    assert answer.status == status
    if status == 421:
        assert json.loads(answer.body)["error"]["code"] == "wrong_host"


@pytest.mark.parametrize(
    "hosts", ["", "host: localhost\r\nhost: evil.example\r\n", "host: evil.example\r\nhost: localhost\r\n"]
)
def test_a_request_has_one_host(service: Served, hosts: str) -> None:
    for version in ("1.0", "1.1"):
        data = f"GET /livez HTTP/{version}\r\n{hosts}connection: close\r\n\r\n".encode()
        assert ask_raw(service.address, data).status == 421


def test_a_host_that_settings_name_is_answered(open_to_pages: Served) -> None:
    assert open_to_pages.client.get("/livez", headers={"host": "translate.EXAMPLE:443"}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", PAGE])
def test_pages_of_others_may_not_call(service: Served, origin: str) -> None:
    before = service.calls()
    for path in ("/v1/translate", "/translate"):
        answer = service.client.post(path, json=BODY | {"q": "ba"}, headers={"origin": origin})
        assert answer.status_code == 403
        assert not any(name.startswith("access-control") for name in answer.headers)
    preflight = service.client.options("/v1/translate", headers={"origin": origin})
    assert preflight.status_code == 403
    assert service.calls() == before


def test_its_own_page_may_call(service: Served) -> None:
    answer = service.client.post("/v1/translate", json=BODY, headers={"origin": service.address})
    assert answer.status_code == 200
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_pages_that_settings_name_may_call(open_to_pages: Served) -> None:
    client = open_to_pages.client
    asked = {
        "origin": PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,authorization",
    }
    preflight = client.options("/v1/translate", headers=asked)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert {"content-type", "authorization"} <= set(
        preflight.headers["access-control-allow-headers"].lower().split(", ")
    )
    assert "access-control-allow-credentials" not in preflight.headers
    for body, status in ((BODY, 200), (BODY | {"text": "a" * 20_000}, 413), ({}, 422)):
        answer = client.post("/v1/translate", json=body, headers={"origin": PAGE})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == PAGE
    streamed = client.post("/v1/translate/stream", json=BODY, headers={"origin": PAGE})
    assert streamed.headers["access-control-allow-origin"] == PAGE
    other = client.post("/v1/translate", json=BODY, headers={"origin": "https://evil.example"})
    assert other.status_code == 403
    assert "access-control-allow-origin" not in other.headers
    refused = client.options("/v1/translate", headers=asked | {"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "image/png"]
)
def test_own_bodies_are_json(service: Served, kind: str) -> None:
    """What a page of another site may send without being asked for leave is not taken."""
    for path in ("/v1/translate", "/v1/translate/stream", "/v1/alternatives", "/v1/detect"):
        answer = service.client.post(path, content=json.dumps(BODY), headers={"content-type": kind})
        assert answer.status_code == 415
        assert answer.json()["error"]["code"] == "content_type"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_others_are_let_in_by_keys_only(model: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="whoever reaches this address"):
        run([model], make_settings(None, {"host": host, "port": 0}))


def test_methods_that_are_not_there_are_told(service: Served) -> None:
    answer = service.client.get("/v1/translate")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json()["error"]["code"] == "http"


def test_a_wrong_key_costs_no_search(model: Path, settings: ServeSettings, tmp_path: Path) -> None:
    from dragoman.serving import new_key

    key = new_key(tmp_path / "keys.toml", "one")
    with Served(settings.model_copy(update={"keys": tmp_path / "keys.toml"})) as served:
        before = served.calls()
        for header, status in (
            ({}, 401),
            ({"authorization": "Bearer dgm_no"}, 403),
            ({"authorization": "Basic x"}, 401),
        ):
            answer = served.client.post("/v1/translate", json=BODY, headers=header)
            assert answer.status_code == status
        assert served.client.post("/v1/reload", headers={"authorization": f"Bearer {key}"}).status_code == 403
        assert served.calls() == before
        answer: httpx.Response = served.client.post(
            "/v1/translate", json=BODY, headers={"authorization": f"Bearer {key}"}
        )
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ({"port": 99_999}, "port: expected at most 65,535 (found 99999)"),
        ({"port": "x"}, "port: expected a whole number (found 'x')"),
        ({"memory": -1}, "memory: expected at least 1 (found -1)"),
        ({"log": "loud"}, "log: expected 'json', 'text' or 'none' (found 'loud')"),
        ({"prot": 1}, "prot: there is no such setting; did you mean 'port'?"),
        ({"limits": {"receive_seconds": 0}}, "limits.receive_seconds: expected more than 0 (found 0)"),
        ({"limits": {"drain_seconds": float("nan")}}, "limits.drain_seconds: expected at most 86,400 (found nan)"),
        ({"limits": 3}, "limits: expected a table (found 3)"),
        ({"models": [{"name": "a b"}]}, "models.0.path: must be given"),
        ({"models": [{"name": "a b"}]}, "models.0.name: expected text that matches "),
    ],
)
def test_settings_that_do_not_do_are_told_as_others_are(tree: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_settings(None, tree)
    assert f"\n  {told}" in str(refused.value)
    assert "Input should" not in str(refused.value)


def test_all_that_is_wrong_with_settings_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"port(.|\n)*threads(.|\n)*limits.texts"):
        make_settings(None, {"threads": 0, "port": -1, "limits": {"texts": "many"}})
