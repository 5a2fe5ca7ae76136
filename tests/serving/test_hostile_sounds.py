"""Files that are no sound, or too much of one, over HTTP: told as the caller's fault, in little time and memory."""

from __future__ import annotations

import io
import resource
import struct
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from dragoman.serving import ServeSettings
from served import Served, connected, read_raw
from small_sounds import RATE, TONES, speak, wav_bytes

PATHS = ("/v1/transcribe", "/v1/audio/transcriptions")
GOOD = wav_bytes(speak(["low", "mid"], np.random.default_rng(0)))
HOURS = 10
FIELD = b"--x\r\nContent-Disposition: form-data; name=%s\r\n\r\n"


@pytest.fixture(scope="module")
def client(hearing: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=hearing.address, timeout=60) as client:
        yield client


def written(kind: str, samples: np.ndarray, rate: int, **how: Any) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=kind, **how)
    return out.getvalue()


def wav(
    channels: int = 1, rate: int = RATE, bits: int = 16, size: int | None = None, data: bytes = b"\0" * 4000
) -> bytes:
    """A WAV file of which the header may say what is not so."""
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * block % (1 << 32), block % (1 << 16), bits)
    told = struct.pack("<I", len(data) if size is None else size)
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt \x10\0\0\0" + form + b"data" + told + data


def silence(hours: float, rate: int) -> bytes:
    """Some hours of silence in a file that is small."""
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", rate, 1, format="FLAC", subtype="PCM_16") as file:
        block = np.zeros(1 << 20, np.int16)
        for _ in range(int(hours * 3600 * rate) >> 20):
            file.write(block)
    return out.getvalue()


FILES: dict[str, tuple[bytes, int]] = {
    "empty": (b"", 422),
    "text": (b"low mid high\n" * 300, 422),
    "head alone": (GOOD[:20], 422),
    "truncated": (GOOD[:2000], 422),
    "no samples": (wav(data=b""), 422),
    "no channels": (wav(channels=0), 422),
    "no rate": (wav(rate=0), 422),
    "no bits": (wav(bits=0), 422),
    "odd rate": (wav(rate=(1 << 32) - 1), 422),
    "many channels": (wav(channels=65_535), 422),
    "huge length": (wav(size=0x7FFE_FFFF), 422),
    "NaN": (written("WAV", np.full(RATE, np.nan), RATE, subtype="FLOAT"), 422),
    "infinite": (written("WAV", np.full(RATE, np.inf), RATE, subtype="DOUBLE"), 422),
    "damaged FLAC": (written("FLAC", np.zeros(RATE), RATE)[:60] + b"\xff" * 900, 422),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20, 422),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FILES))
def test_what_is_no_sound_is_told(client: httpx.Client, name: str) -> None:
    data, status = FILES[name]
    for path in PATHS:
        began = time.monotonic()
        answer = client.post(path, files={"file": ("said.wav", data)}, data={"model": "tones"})
        assert answer.status_code == (status if path == PATHS[0] else 400), answer.text
        error = answer.json()["error"]
        assert error["message"]
        assert "/" not in error["message"].replace("1 to 768", "")  # no path of this machine
        assert time.monotonic() - began < 5
        if path != PATHS[0]:
            assert error["param"] == "file"
    raw = client.post(PATHS[0], params={"model": "tones"}, content=data, headers={"content-type": "audio/wav"})
    assert raw.status_code == status


def test_a_service_goes_on_after_all_of_them(client: httpx.Client) -> None:
    answer = client.post(PATHS[0], files={"file": ("said.wav", GOOD)}, data={"model": "tones"})
    assert answer.status_code == 200
    assert answer.json()["segments"]


@pytest.mark.parametrize("rate", [1_000, 11_025, 44_099, 96_000, 767_999])
def test_every_rate_takes_little(client: httpx.Client, rate: int) -> None:
    sound = 0.3 * np.sin(np.arange(rate) * 2 * np.pi * 200 / rate)
    began = time.monotonic()
    answer = client.post(PATHS[0], files={"file": ("a.flac", wav_bytes(sound, rate))}, data={"model": "tones"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["duration"] == pytest.approx(1, abs=0.01)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", ["FLAC", "headless FLAC"])
def test_hours_of_silence_are_refused_before_they_take_memory(client: httpx.Client, kind: str) -> None:
    data = silence(HOURS, 1_000)  # 144 MB of samples
    assert len(data) < 1 << 20
    if kind == "headless FLAC":  # one that does not know its length: STREAMINFO's 36 bits of it are zero
        data = data[:21] + bytes([data[21] & 0xF0, 0, 0, 0, 0]) + data[26:]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    for path in PATHS:
        answer = client.post(path, files={"file": ("a.flac", data)}, data={"model": "tones"})
        assert answer.status_code == 413, answer.text
        assert "600 s at most" in answer.json()["error"]["message"]
    assert time.monotonic() - began < 10
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 100 << 20


@pytest.fixture(scope="module")
def strict(listening: ServeSettings) -> Iterator[Served]:
    """A service with limits that are soon reached."""
    limits = listening.limits.model_copy(update={"audio_bytes": 20_000, "audio_seconds": 1.0, "receive_seconds": 1.0})
    with Served(listening.model_copy(update={"limits": limits, "models": listening.models[:1]})) as served:
        yield served


def test_limits_hold_to_one(strict: Served) -> None:
    for size, status in ((RATE, 200), (RATE + 1, 413)):
        data = wav_bytes(np.zeros(size))
        assert strict.client.post(PATHS[0], files={"file": ("a.wav", data)}).status_code == status
    for size in (20_000, 90_000):
        answer = strict.client.post(PATHS[0], content=b"x" * size, headers={"content-type": "audio/wav"})
        assert answer.status_code == (413 if size > 20_000 + (1 << 16) else 422)
    answer = strict.client.post(PATHS[1], files={"file": ("a.wav", b"x" * 90_000)}, data={"model": "tones"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "invalid_request_error")
    told = strict.client.get("/v1/models").json()["limits"]
    assert (told["audio_bytes"], told["audio_seconds"]) == (20_000, 1.0)
    high = wav_bytes(np.zeros(72_000), 96_000)  # 0.75 s: more than is taken of so high a rate
    assert strict.client.post(PATHS[0], files={"file": ("a.wav", high)}).status_code == 413


@pytest.mark.parametrize(
    ("kind", "body", "statuses"),
    [
        ("multipart/form-data", b"", (400, 400)),
        ("multipart/form-data; boundary=x", b"--x\r\n" * 200, (400, 400)),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"a: " + b"b" * 15_000 + b"\r\n\r\n\r\n--x--\r\n", (400, 400)),
        ("multipart/form-data; boundary=x", FIELD % b"file" + b"RIFF\r\n--x--\r\n", (422, 400)),
        ("multipart/form-data; boundary=x", (FIELD % b"a" + b"1\r\n") * 1500 + b"--x--\r\n", (400, 400)),
        ("application/json", b'{"file": "a.wav"}', (415, 400)),
        ("text/plain", GOOD, (415, 400)),
        ("", GOOD, (415, 400)),
    ],
)  # fmt: skip
def test_forms_that_are_none(strict: Served, kind: str, body: bytes, statuses: tuple[int, int]) -> None:
    for path, status in zip(PATHS, statuses, strict=True):
        answer = strict.client.post(path, content=body, headers={"content-type": kind} if kind else {})
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]["message"]


def test_too_large_a_recording_is_refused_before_it_has_come(strict: Served) -> None:
    for path in PATHS:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: audio/wav\r\n".encode()
        with connected(strict.address) as sock:
            sock.sendall(head + b"content-length: 5000000000\r\n\r\nRIFF")
            sock.settimeout(0.8)
            assert sock.recv(100).startswith(b"HTTP/1.1 413 ")
        with connected(strict.address) as sock:
            sock.sendall(head + b"x: " + b"a" * 70_000 + b"\r\n\r\n")
            assert read_raw(sock).status == 431


def test_many_at_once_are_bounded_by_the_bytes_of_all(
    listening: ServeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held of recordings, coming in or waiting, has a limit; the rest is told to come back."""
    import asyncio

    from dragoman.audio import reading

    limits = listening.limits.model_copy(
        update={"requests": 2, "body_bytes": 10_000, "document_bytes": 10_000, "audio_bytes": 30_000}
    )
    opened = reading._opened

    def slowly(source: Any, file: str) -> Any:
        time.sleep(0.5)
        return opened(source, file)

    monkeypatch.setattr(reading, "_opened", slowly)
    settings = listening.model_copy(update={"limits": limits, "models": listening.models[:1]})
    data = wav_bytes(speak([*TONES] * 2, np.random.default_rng(0)))
    assert 15_000 < len(data) < 30_000

    async def ask(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post(PATHS[0], files={"file": ("a.wav", data)})

    async def all_of_them(address: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            return list(await asyncio.gather(*(ask(client) for _ in range(6))))

    with Served(settings) as served:
        answers = asyncio.run(all_of_them(served.address))
        assert {answer.status_code for answer in answers} == {200, 503}
        assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 503)
        assert served.guard._held == 0
