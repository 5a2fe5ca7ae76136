"""Sounds that are written down while they are spoken: what is told of them piece by piece, and who takes no place."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from dragoman.audio.streaming import Pieces
from dragoman.errors import ConfigError, DataError
from dragoman.serving import ServeSettings
from dragoman.studies.transcribing import transcribe_stream
from dragoman.translation import Translator
from served import Served
from small_sounds import RATE, speak, wav_bytes

LIVE = "/v1/transcribe/live"
PIECE = RATE  # bytes: half a second


@pytest.fixture(scope="module")
def client(hearing: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=hearing.address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def spoken() -> np.ndarray:
    """Words, a pause, words, a pause."""
    random = np.random.default_rng(1)
    silence = random.normal(size=RATE) * 0.003
    return np.concatenate([speak(["low", "mid", "high"], random), silence, speak(["top", "low"], random), silence])


def raw(samples: np.ndarray) -> bytes:
    return np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def begun(client: httpx.Client, **how: Any) -> str:
    answer = client.post(LIVE, params={"model": "tones", "rate": RATE, **how})
    assert answer.status_code == 201, answer.text
    return f"{LIVE}/{answer.json()['id']}"


def pieces(data: bytes, size: int = PIECE) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("header", [True, False])
def test_samples_are_the_same_wherever_they_are_cut(header: bool, size: int) -> None:
    samples = np.sin(np.arange(400) / 9) * 0.5
    data = wav_bytes(samples) if header else raw(samples)
    taken = Pieces(RATE)
    found = [block.samples for piece in pieces(data, size) if (block := taken.take(piece)) is not None]
    assert np.allclose(np.concatenate(found), samples, atol=1e-4)


def test_damaged_heads_and_impossible_rates_are_refused() -> None:
    with pytest.raises(ConfigError, match="sample rate"):
        Pieces(5)
    for data in (b"RIFF" + bytes(60), b"RIFF\xff\xff\xff\xffWAVEfmt \xff\xff\xff\x7f" + bytes(60)):
        with pytest.raises(DataError):
            Pieces(RATE).take(data)


def test_words_are_told_as_without_http(client: httpx.Client, listening: ServeSettings, spoken: np.ndarray) -> None:
    translator, cut = Translator.from_pretrained(listening.models[0].path), Pieces(RATE)
    sent = pieces(raw(spoken))
    blocks = [block for piece in sent if (block := cut.take(piece)) is not None]
    wanted = list(transcribe_stream(translator, blocks, options=translator.decoding))
    path, told, growing = begun(client), [], []
    for number, piece in enumerate(sent, 1):
        answer = client.post(path, content=piece, params={"last": "true"} if number == len(sent) else None).json()
        told += answer["utterances"]
        growing += [(answer["stable"], answer["tentative"])] if answer["stable"] or answer["tentative"] else []
    over = [one for one in wanted if one.final and one.stable]
    assert [one["text"] for one in told] == [one.stable for one in over]
    assert [one["start"] for one in told] == pytest.approx([one.start for one in over], abs=1e-3)
    assert growing
    assert answer["text"] == " ".join(one.stable for one in over)
    assert (answer["final"], answer["duration"]) == (True, pytest.approx(len(spoken) / RATE, abs=1e-3))
    assert client.post(path, content=b"").status_code == 404


def test_what_is_wrong_is_told_and_ends_the_sound(client: httpx.Client) -> None:
    for how, status in (({"model": "none"}, 404), ({"rate": 3}, 422), ({"model": "zh-en"}, 422), ({"x": 1}, 422),
                        ({"beam_size": 500}, 413), ({"rate": "fast"}, 422)):  # fmt: skip
        answer = client.post(LIVE, params={"model": "tones", **how})
        assert answer.status_code == status, how
        assert answer.json()["error"]["message"]
    head = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0" + struct.pack("<HHIIHH", 3, 1, RATE, 4 * RATE, 4, 32) + b"data\0\0\0\0"
    path = begun(client)
    answer = client.post(path, content=head + struct.pack("<f", float("nan")) * 100)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "wrong_sound")
    assert "NaN" in answer.json()["error"]["message"]
    assert client.post(path, content=b"").status_code == 404
    assert client.post(f"{LIVE}/made-up", content=b"").status_code == 404


def test_places_are_few_and_come_back(listening: ServeSettings, spoken: np.ndarray) -> None:
    limits = listening.limits.model_copy(update={"live_sounds": 2, "receive_seconds": 1.0, "audio_seconds": 2.0})
    with Served(listening.model_copy(update={"limits": limits})) as served:
        client = served.client
        endless, silent = begun(client), begun(client)
        full = client.post(LIVE, params={"model": "tones"})
        assert (full.status_code, "retry-after" in full.headers) == (503, True)
        for _ in range(5):
            answer = client.post(endless, content=raw(np.resize(spoken, RATE // 2)))
            if answer.status_code != 200:
                break
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "sound_too_long")
        client.post(silent, params={"last": "true"})
        begun(client), begun(client)
        time.sleep(1.5)  # who began these sends nothing
        for _ in range(2):
            begun(client)
