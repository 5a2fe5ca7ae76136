"""Keys of callers: made by the command, kept as hashes, limited by the minute and by the day."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result
from typer.testing import CliRunner

from dragoman.cli import make_app
from dragoman.errors import ConfigError
from dragoman.serving import ServeSettings, new_key, start
from dragoman.serving.faults import RequestError
from dragoman.serving.keys import Keys, hash_of, read_keys
from served import Served, limit

NOW = 1_000_000_000.0
BODY = {"text": "ba ce", "source": "zh", "target": "en"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that keys know; no minute or day ends by itself."""
    now = [NOW]
    monkeypatch.setattr("dragoman.serving.keys.time.time", lambda: now[0])
    return now


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    file = tmp_path_factory.mktemp("keys") / "keys.toml"
    return file, {"bob": new_key(file, "bob"), "chief": new_key(file, "chief", admin=True)}


@pytest.fixture(scope="module")
def locked(settings: ServeSettings, made: tuple[Path, dict[str, str]]) -> Iterator[Served]:
    with Served(settings.model_copy(update={"keys": made[0]})) as served:
        yield served


def bearer(key: str, scheme: str = "Bearer") -> dict[str, str]:
    return {"Authorization": f"{scheme} {key}"}


def test_the_command_makes_a_key_and_keeps_its_hash(tmp_path: Path) -> None:
    def serve(*arguments: str) -> Result:
        return CliRunner().invoke(make_app(), ["serve", *arguments])

    file = tmp_path / "keys.toml"
    key = serve("--new-key", "bob", "--keys", str(file)).stdout.strip()
    (row,) = read_keys(file)
    assert (row.name, row.sha256, row.admin) == ("bob", hash_of(key), False)
    assert key not in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert serve("--new-key", "chief", "--admin", "--keys", str(file)).exit_code == 0
    assert [one.admin for one in read_keys(file)] == [False, True]
    assert isinstance(serve("--new-key", "bob", "--keys", str(file)).exception, ConfigError)
    assert isinstance(serve("--new-key", "eve").exception, ConfigError)
    assert len(read_keys(file)) == 2


def test_what_was_set_by_hand_stays(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    new_key(file, "bob")
    limit(file, "bob", "requests_per_minute = 3")
    new_key(file, "eve")
    assert [one.requests_per_minute for one in read_keys(file)] == [3, None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("key = 3", "nothing else"),
        ("other = 3", "nothing else"),
        ("[[key]]\nname = 'a'\nsha256 = 'x'", "sha256"),
        (f"[[key]]\nname = 'a'\nsha256 = '{'0' * 64}'\nrate = 3", "rate"),
        (f"[[key]]\nname = 'a'\nsha256 = '{'0' * 64}'\n" * 2, "same name"),
        ("[[key", "TOML"),
    ],
)
def test_a_file_that_is_no_list_of_keys(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        Keys(file)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), (bearer("wrong"), 403), ({"Authorization": "Basic x"}, 401), ({"Authorization": "Bearer"}, 401)],
)
def test_a_key_that_is_missing_or_wrong(locked: Served, headers: dict[str, str], status: int) -> None:
    answer = locked.client.post("/v1/translate", json=BODY, headers=headers)
    assert answer.status_code == status
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_a_key_opens_every_interface_its_own_way(locked: Served, made: tuple[Path, dict[str, str]]) -> None:
    client, key = locked.client, made[1]["bob"]
    libre: dict[str, Any] = {"q": "ba ce", "source": "zh", "target": "en"}
    assert client.post("/translate", json=libre).status_code == 400
    text = client.post("/translate", json=libre | {"api_key": key}).json()["translatedText"]
    own = client.post("/v1/translate", json=BODY, headers=bearer(key)).json()
    assert own["translations"][0]["text"] == text
    form = {"text": "ba ce", "source_lang": "ZH", "target_lang": "EN-GB"}
    for how in ({"headers": bearer(key, "DeepL-Auth-Key")}, {"headers": bearer(key)}, {"params": {"auth_key": key}}):
        answer = client.post("/v2/translate", data=form, **how)
        assert answer.json()["translations"][0]["text"] == text
    assert client.get("/livez").status_code == 200


def test_only_an_admin_reloads(locked: Served, made: tuple[Path, dict[str, str]]) -> None:
    def ask(headers: dict[str, str]) -> httpx.Response:
        return locked.client.post("/v1/reload", headers=headers)

    assert (ask({}).status_code, ask(bearer(made[1]["bob"])).status_code) == (401, 403)
    assert ask(bearer(made[1]["chief"])).json() == {"models": ["zh-en", "en-de", "en-zh"]}


def test_nobody_reloads_without_keys(service: Served) -> None:
    assert service.client.post("/v1/reload").status_code == 403


def test_requests_of_a_minute(tmp_path: Path, clock: list[float]) -> None:
    file = tmp_path / "keys.toml"
    key = new_key(file, "bob")
    limit(file, "bob", "requests_per_minute = 2")
    keys = Keys(file)
    for _ in range(2):
        keys.find(key)
    with pytest.raises(RequestError) as told:
        keys.find(key)
    assert (told.value.status, told.value.code) == (429, "too_many_requests")
    wait = int(told.value.headers["Retry-After"])
    assert 1 <= wait <= 60
    clock[0] += wait
    keys.find(key)


def test_characters_of_a_day(tmp_path: Path, clock: list[float]) -> None:
    file = tmp_path / "keys.toml"
    given = new_key(file, "bob")
    limit(file, "bob", "characters_per_day = 10")
    keys = Keys(file)
    key = keys.find(given)
    keys.spend(key, 8)
    with pytest.raises(RequestError) as told:
        keys.spend(key, 3)
    assert (told.value.status, told.value.code) == (429, "quota_exceeded")
    assert keys.used(key) == (8, 10)  # what was refused is not counted
    keys.spend(key, 2)
    clock[0] += int(told.value.headers["Retry-After"])
    assert keys.used(key) == (0, 10)
    keys.spend(key, 10)


def test_limits_over_http(settings: ServeSettings, tmp_path: Path, clock: list[float]) -> None:
    file = tmp_path / "keys.toml"
    keys = {name: new_key(file, name) for name in ("poor", "slow")}
    limit(file, "poor", "characters_per_day = 8")
    limit(file, "slow", "requests_per_minute = 1")
    with Served(settings.model_copy(update={"keys": file})) as served:
        for name, code in (("poor", "quota_exceeded"), ("slow", "too_many_requests")):
            first, second = (served.client.post("/v1/translate", json=BODY, headers=bearer(keys[name])) for _ in "ab")
            assert first.status_code == 200
            assert (second.status_code, second.json()["error"]["code"]) == (429, code)
            assert int(second.headers["retry-after"]) >= 1


def test_what_would_do_nothing_is_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    for arguments, told in ((["--admin"], "--admin"), (["--new-key", "bob", "--keys", str(keys), "x"], "--new-key")):
        found = CliRunner().invoke(make_app(), ["serve", *arguments])
        assert (found.exit_code, told in found.output) == (2, True)
    assert not keys.exists()


def test_a_file_of_settings_counts_in_python_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('port = 8123\nhost = "::1"\n', encoding="utf-8")
    seen = []
    monkeypatch.setattr(start, "run", lambda models, settings, on_ready: seen.append((settings.host, settings.port)))
    start.serve("runs/x", config=file)
    start.serve("runs/x", config=file, port=9000)
    assert seen == [("::1", 8123), ("::1", 9000)]
