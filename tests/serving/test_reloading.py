"""Models that are opened anew, closed for others or gone from the disk: no request is lost, and all are right."""

from __future__ import annotations

import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from dragoman import Translator
from dragoman.runs import pack
from dragoman.serving import ServeSettings, make_settings, new_key
from served import Process, Served, until


def expected(model: Path, text: str) -> str:
    return Translator.from_pretrained(model, engine="native").translate([text])[0].text


def served_with(paths: list[Path], **more: object) -> ServeSettings:
    models = [{"path": path, "name": path.name, "source": "zh", "target": "en"} for path in paths]
    return make_settings(None, {"models": models, "port": 0, "log": "none", "engine": "native", "threads": 1, **more})


@pytest.fixture
def copies(model: Path, tmp_path: Path) -> list[Path]:
    return [Path(shutil.copytree(model, tmp_path / name)) for name in ("one", "two")]


def test_no_request_is_lost_while_models_are_opened_anew(copies: list[Path], tmp_path: Path) -> None:
    key = new_key(tmp_path / "keys.toml", "boss", admin=True)
    header = {"authorization": f"Bearer {key}"}
    over, statuses = threading.Event(), []
    with Served(served_with(copies, keys=tmp_path / "keys.toml")) as served:
        right = expected(copies[0], "ba ce")

        def ask() -> None:
            with httpx.Client(base_url=served.address, headers=header, timeout=60) as client:
                while not over.is_set():
                    answer = client.post("/v1/translate", json={"text": "ba ce", "model": "one"})
                    assert answer.status_code == 200, answer.text
                    statuses.append(answer.json()["translations"][0]["text"] == right)

        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask) for _ in range(3)]
            try:
                for _ in range(10):
                    answer = served.client.post("/v1/reload", headers=header, timeout=60)
                    assert answer.json() == {"models": ["one", "two"]}
            finally:
                over.set()
            for one in asking:
                one.result()
        assert statuses
        assert all(statuses)
        registry = served.guard.context.service.registry
        until(lambda: not registry._retired, 10)

        (copies[1] / "model.safetensors").write_bytes(b"damaged")
        before = threading.active_count()
        former = served.schedulers()
        assert served.client.post("/v1/reload", headers=header).status_code == 503
        assert served.schedulers() == former
        until(lambda: threading.active_count() <= before + 1, 10)  # what was opened for nothing is closed
        answer = served.client.post("/v1/translate", json={"text": "ba ce", "model": "two"}, headers=header)
        assert answer.status_code == 200


def test_models_share_the_memory_and_the_answers_are_right(copies: list[Path]) -> None:
    size = (copies[0] / "model.safetensors").stat().st_size
    for path in copies:  # so that a whole MB is room for one, and not for two
        with (path / "model.safetensors").open("rb") as stream:
            assert len(stream.read()) == size
    with Served(served_with(copies, memory=1)) as served:
        registry = served.guard.context.service.registry
        for model in registry.models.values():
            model.bytes = 600_000
        right = expected(copies[0], "ba ce")

        def ask(number: int) -> None:
            body = {"text": "ba ce", "model": ("one", "two")[number % 2]}
            answer = httpx.post(f"{served.address}/v1/translate", json=body, timeout=60)
            assert answer.status_code == 200, answer.text
            assert answer.json()["translations"][0]["text"] == right

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(ask, range(60)))
        until(lambda: len(served.schedulers()) == 1, 10)

        closed = next(name for name, model in registry.models.items() if model.scheduler is None)
        shutil.rmtree(registry.models[closed].path)
        answer = served.client.post("/v1/translate", json={"text": "ba", "model": closed})
        assert answer.status_code == 503
        assert str(registry.models[closed].path) not in answer.text
        other = next(name for name in registry.models if name != closed)
        assert served.client.post("/v1/translate", json={"text": "ba", "model": other}).status_code == 200


def test_a_signal_opens_models_anew_and_a_damaged_one_changes_nothing(copies: list[Path], tmp_path: Path) -> None:
    with Process(copies[0], "--port", 0, "--log", "none", "--engine", "native", cwd=tmp_path) as served:
        assert served.process.stderr is not None

        def said_after_hangup() -> str:
            served.process.send_signal(signal.SIGHUP)
            return next(line for line in served.process.stderr if "loaded anew" in line)

        def translated() -> int:
            body = {"text": "ba ce", "model": copies[0].name}
            return httpx.post(f"{served.address}/v1/translate", json=body, timeout=60).status_code

        assert said_after_hangup() == f"loaded anew: {copies[0].name}\n"
        assert translated() == 200
        (copies[0] / "config.json").write_text("{", encoding="utf-8")
        assert "not loaded anew, the former models stay" in said_after_hangup()
        assert translated() == 200


def test_a_packed_model_is_served_by_its_name(model: Path, tmp_path: Path) -> None:
    packed = pack(model, tmp_path / "zh-en.dragoman").directory
    entry = {"path": packed, "source": "zh", "target": "en"}
    with Served(make_settings(None, {"models": [entry], "port": 0, "log": "none", "threads": 1})) as served:
        answer = served.client.post("/v1/translate", json={"text": "ba ce", "model": "zh-en"})
        assert (
            answer.json()["translations"][0]["text"] == Translator.from_pretrained(model).translate(["ba ce"])[0].text
        )
