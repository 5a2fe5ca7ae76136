"""Recordings over HTTP, by the own interface and by OpenAI's: what is answered, and what is refused in which words."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from threading import Thread
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from dragoman.audio import Waveform, read_audio
from dragoman.serving import ServeSettings, new_key
from dragoman.studies.transcribing import transcribe
from dragoman.translation import Translator
from served import Served, limit, slowed
from small_sounds import RATE, TONES, speak, wav_bytes

OPENAI, OWN = "/v1/audio/transcriptions", "/v1/transcribe"
FORMATS = ("json", "text", "srt", "verbose_json", "vtt")


def said(*groups: str, pause: float = 0.0) -> bytes:
    """A recording of words, with pauses between groups of them."""
    random = np.random.default_rng(1)
    parts = []
    for group in groups:
        parts += [speak(group.split(), random), random.normal(size=int(pause * RATE)) * 0.003]
    return wav_bytes(np.concatenate(parts))


@pytest.fixture(scope="module")
def client(hearing: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=hearing.address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def translator(listening: ServeSettings) -> Translator:
    return Translator.from_pretrained(listening.models[0].path)


@pytest.fixture(scope="module")
def long() -> bytes:
    """Three parts of a recording that is too long for one."""
    return said(*["low mid high top " * 12] * 3, pause=8.0)


def sent(client: httpx.Client, path: str, data: bytes, **fields: Any) -> httpx.Response:
    return client.post(path, files={"file": ("said.wav", data)}, data=fields)


def test_a_recording_is_written_down_as_without_http(client: httpx.Client, translator: Translator, long: bytes) -> None:
    wanted = transcribe(translator, read_audio(long, sample_rate=RATE), words=True)
    answer = sent(client, OWN, long, model="tones", words="true", n_best=2, tokens=True).json()
    assert len(answer["segments"]) == len(wanted) == 3
    assert answer["text"] == " ".join(part.text for part in wanted)
    assert (answer["source"], answer["target"], answer["model"]) == ("en", "en", "tones")
    assert answer["duration"] == pytest.approx(read_audio(long).seconds, abs=1e-3)
    for told, part in zip(answer["segments"], wanted, strict=True):
        assert (told["start"], told["end"]) == pytest.approx((part.start, part.end), abs=1e-3)
        assert told["text"] == part.text == told["alternatives"][0]["text"]
        assert [word["text"] for word in told["words"]] == [word.text for word in part.words]
        assert [word["start"] for word in told["words"]] == pytest.approx([word.start for word in part.words], abs=1e-3)
        assert len(told["alternatives"]) == 2
        assert told["alternatives"][0]["score"] == told["score"] >= told["alternatives"][1]["score"]
        assert " ".join(token["text"] for token in told["tokens"]) == part.text


def test_a_file_alone_is_taken_with_its_fields_in_the_address(client: httpx.Client) -> None:
    data = said("low mid")
    wanted = sent(client, OWN, data, model="tones", beam_size=1).json()
    for kind in ("audio/wav", "audio/x-wav; codecs=1", "application/octet-stream"):
        headers = {"content-type": kind}
        found = client.post(OWN, params={"model": "tones", "beam_size": 1}, content=data, headers=headers).json()
        assert found | {"seconds": 0} == wanted | {"seconds": 0}


def test_of_silence_nothing_is_written(client: httpx.Client) -> None:
    for level in (0.0, 0.01):
        data = wav_bytes(np.random.default_rng(0).normal(size=2 * RATE) * level)
        assert sent(client, OWN, data, model="tones").json()["segments"] == []
        for form in FORMATS:
            answer = sent(client, OPENAI, data, model="tones", response_format=form)
            assert answer.status_code == 200
            assert "NaN" not in answer.text
        assert answer.text == "WEBVTT\n\n"


def test_openai_shapes(client: httpx.Client, long: bytes) -> None:
    """The fields of each format as OpenAI's reference has them."""
    own = sent(client, OWN, long, model="tones", words=True).json()
    of = {form: sent(client, OPENAI, long, model="tones", response_format=form) for form in FORMATS}
    assert of["json"].json() == {
        "text": own["text"],
        "usage": {"type": "duration", "seconds": -(-own["duration"] // 1)},
    }
    assert of["text"].text == own["text"] + "\n"
    assert of["text"].headers["content-type"].startswith("text/plain")
    verbose = of["verbose_json"].json()
    assert set(verbose) == {"task", "language", "duration", "text", "segments", "usage"}
    assert (verbose["task"], verbose["language"], verbose["text"]) == ("transcribe", "english", own["text"])
    names = [
        "id",
        "seek",
        "start",
        "end",
        "text",
        "tokens",
        "temperature",
        "avg_logprob",
        "compression_ratio",
        "no_speech_prob",
    ]
    for number, (told, segment) in enumerate(zip(verbose["segments"], own["segments"], strict=True)):
        assert list(told) == names
        assert (told["id"], told["start"], told["text"]) == (number, segment["start"], segment["text"])
        assert all(isinstance(token, int) for token in told["tokens"])
        assert len(told["tokens"]) == len(told["text"].split())
        assert told["avg_logprob"] < 0 < told["compression_ratio"]
    asked = {"response_format": "verbose_json", "timestamp_granularities[]": ["word"]}
    words = sent(client, OPENAI, long, model="tones", **asked).json()
    assert "segments" not in words
    assert [(word["word"], word["start"], word["end"]) for word in words["words"]] == [
        (word["text"], word["start"], word["end"]) for segment in own["segments"] for word in segment["words"]
    ]
    asked["timestamp_granularities[]"] = ["word", "segment"]
    assert {"words", "segments"} <= set(sent(client, OPENAI, long, model="tones", **asked).json())
    time_of = r"(\d\d:\d\d:\d\d[,.]\d{3})"
    assert of["vtt"].text.startswith("WEBVTT\n\n00:00:0")
    for form, point in (("srt", ","), ("vtt", ".")):
        cues = re.findall(rf"{time_of} --> {time_of}\n(.+)\n\n", of[form].text)
        assert [text for _, _, text in cues] == [segment["text"] for segment in own["segments"]]
        for (start, end, _), segment in zip(cues, own["segments"], strict=True):
            for clock, seconds in ((start, segment["start"]), (end, segment["end"])):
                assert clock[8] == point
                assert sum(
                    map(float.__mul__, (3600.0, 60.0, 1.0), map(float, clock.replace(",", ".").split(":")))
                ) == pytest.approx(seconds, abs=2e-3)
    assert [line for line in of["srt"].text.splitlines() if line.isdigit()] == ["1", "2", "3"]


def test_what_has_no_effect_is_named_and_what_has_one_has_it(client: httpx.Client) -> None:
    data = said("low mid high", "top low mid")
    plain = sent(client, OPENAI, data, model="tones")
    assert "x-ignored-parameters" not in plain.headers
    also = sent(client, OPENAI, data, model="tones", prompt="Speak.", temperature="0", stream="false", language="en",
                **{"include[]": ["logprobs"]})  # fmt: skip
    assert also.headers["x-ignored-parameters"] == "prompt, include"
    assert also.json() == plain.json()
    told = sent(client, OPENAI, data, model="tones", temperature=0.9, response_format="verbose_json").json()
    assert {segment["temperature"] for segment in told["segments"]} == {0.9}


@pytest.mark.parametrize(
    ("fields", "status", "param", "words"),
    [
        ({}, 400, "model", "model: Field required"),
        ({"model": "none"}, 404, "model", "there is no model 'none' (there are tones, plain, zh-en)"),
        ({"model": "zh-en"}, 400, "model",
         "zh-en reads texts, and does not listen to sounds (to sounds listen: tones, plain)"),
        ({"model": "tones", "language": "fr"}, 400, "language", "tones transcribes from en to en"),
        ({"model": "tones", "language": "?"}, 400, "language", "language: "),
        ({"model": "tones", "response_format": "diarized_json"}, 400, "response_format", "'json', 'text', 'srt'"),
        ({"model": "tones", "temperature": "2"}, 400, "temperature", "less than or equal to 1"),
        ({"model": "tones", "stream": "true"}, 400, "stream", "answers come in one piece"),
        ({"model": "tones", "timestamp_granularities[]": "word"}, 400, "timestamp_granularities", "verbose_json"),
        ({"model": "plain", "timestamp_granularities[]": "word", "response_format": "verbose_json"}, 400, None,
         "does not know when its words are said"),
        ({"model": "tones", "timestamp_granularities[]": "day", "response_format": "verbose_json"}, 400,
         "timestamp_granularities[].0", "'word' or 'segment'"),
    ],
)  # fmt: skip
def test_mistakes_are_told_as_openai_tells_them(
    client: httpx.Client, fields: dict, status: int, param: str | None, words: str
) -> None:
    answer = sent(client, OPENAI, said("low"), **fields)
    error = answer.json()["error"]
    assert answer.status_code == status
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert words in error["message"]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({}, 422, "2 models fit"),
        ({"source": "fr"}, 422, "fr cannot be transcribed here"),
        ({"model": "none"}, 404, "there is no model 'none'"),
        ({"model": "zh-en"}, 422, "zh-en reads texts, and does not listen to sounds"),
        ({"model": "plain", "words": "true"}, 422, "does not know when its words are said"),
        ({"model": "tones", "n_best": "5", "beam_size": "2"}, 422, "n_best 5 is more than beam_size 2"),
        ({"model": "tones", "beam_size": "17"}, 413, "17"),
        ({"model": "tones", "beam_size": "many"}, 422, "beam_size: "),
        ({"model": "tones", "beem_size": "4"}, 422, "beem_size"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_shape(client: httpx.Client, fields: dict, status: int, words: str) -> None:
    answer = sent(client, OWN, said("low"), **fields)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    raw = client.post(OWN, params=fields, content=said("low"), headers={"content-type": "audio/wav"})
    assert (raw.status_code, raw.json()) == (status, answer.json())


def test_each_model_says_what_it_reads(client: httpx.Client) -> None:
    told = client.get("/v1/models").json()
    assert {one["name"]: one["reads"] for one in told["models"]} == {
        "tones": "sound",
        "plain": "sound",
        "zh-en": "text",
    }
    assert [(one["source"], one["target"]) for one in told["pairs"]] == [("zh", "en")]
    assert told["object"] == "list"
    assert [one["id"] for one in told["data"]] == ["tones", "plain", "zh-en"]
    assert {one["object"] for one in told["data"]} == {"model"}
    assert all(0 < one["created"] <= time.time() + 60 for one in told["data"])


def test_texts_are_for_models_that_read_them(client: httpx.Client) -> None:
    """Where languages are left out, models that listen are not meant."""
    assert client.post("/v1/translate", json={"text": "ba"}).json()["translations"][0]["models"] == ["zh-en"]
    assert client.post("/v1/detect", json={"text": "ba"}).json()["languages"] == [{"language": "zh", "confidence": 1.0}]
    assert [one["code"] for one in client.get("/languages").json()] == ["zh", "en"]
    for path in ("/v1/translate", "/v1/translate/stream", "/v1/alternatives"):
        answer = client.post(path, json={"text": "ba", "model": "tones"})
        assert answer.status_code == 422
        assert answer.json()["error"]["message"] == "tones listens to sounds, and does not read texts"
    answer = client.post("/v1/documents", files={"file": ("a.txt", b"ba")}, data={"model": "tones"})
    assert answer.status_code == 422


def test_services_of_one_kind_tell_what_they_do_not_do(listening: ServeSettings, service: Served) -> None:
    with Served(listening.model_copy(update={"models": listening.models[:1]})) as served:
        answer = served.client.post("/v1/translate", json={"text": "ba"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "listens")
        for path in ("/languages", "/frontend/settings", "/v2/languages", "/v1/models", "/readyz"):
            assert served.client.get(path).status_code == 200
        assert served.client.post("/v1/detect", json={"text": "ba"}).json() == {"languages": []}
        answer = served.client.post("/translate", json={"q": "ba", "source": "auto", "target": "en"})
        assert answer.status_code == 400
        assert sent(served.client, OWN, said("low")).status_code == 200  # the only one is meant
    for path, status in ((OWN, 422), (OPENAI, 400)):
        answer = sent(service.client, path, said("low"), **({"model": "zh-en"} if path == OPENAI else {}))
        assert answer.status_code == status
        assert "not listen to sounds" in answer.json()["error"]["message"]


def test_seconds_and_characters_are_counted(listening: ServeSettings, tmp_path) -> None:
    keys = tmp_path / "keys.toml"
    ann, bob = (new_key(keys, name) for name in ("ann", "bob"))
    limit(keys, "bob", "characters_per_day = 20")
    with Served(listening.model_copy(update={"keys": keys})) as served:
        data = said("low mid high top low")
        seconds = read_audio(data).seconds
        assert 20 < 30 * seconds < 40
        for path in (OWN, OPENAI):
            answer = sent(served.client, path, data, model="tones")
            assert answer.status_code == 401
            served.client.headers["Authorization"] = "Bearer wrong"
            answer = sent(served.client, path, data, model="tones")
            assert answer.status_code == (401 if path == OPENAI else 403)
            served.client.headers["Authorization"] = f"Bearer {ann}"
            assert sent(served.client, path, data, model="tones").status_code == 200
            del served.client.headers["Authorization"]
        assert answer.json()["error"]["code"] == "invalid_api_key"
        served.client.headers["Authorization"] = f"Bearer {bob}"
        assert sent(served.client, OWN, data, model="tones").status_code == 200
        answer = sent(served.client, OPENAI, data, model="tones")
        assert (answer.status_code, answer.json()["error"]["type"]) == (429, "insufficient_quota")
        counts = served.client.get("/metrics").text
        found = re.search(r'dragoman_sound_seconds_total\{model="tones"\} (\S+)', counts)
        assert found is not None
        assert float(found[1]) == pytest.approx(3 * seconds)
        assert 'dragoman_requests_total{interface="openai",status="200"} 1.0' in counts


def test_recordings_share_searches_and_do_not_keep_others_waiting(
    hearing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is decoded and searched, the loop answers others at once."""
    data = said("low mid high", "top low mid")
    alone = sent(hearing.client, OWN, data, model="tones", beam_size=3).json()["segments"]
    slowed(monkeypatch, 0.02)
    monkeypatch.setattr("dragoman.audio.reading._checked", slow_block)
    found: list[Any] = []

    def ask() -> None:
        with httpx.Client(base_url=hearing.address, timeout=60) as client:
            found.append(sent(client, OWN, data, model="tones", beam_size=3).json()["segments"])

    askers = [Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    slowest = 0.0
    while any(asker.is_alive() for asker in askers):
        began = time.monotonic()
        assert hearing.client.get("/livez").status_code == 200
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.02)
    for asker in askers:
        asker.join()
    assert slowest < 0.5
    assert [[part["text"] for part in one] for one in found] == 4 * [[part["text"] for part in alone]]


def slow_block(block: np.ndarray, file: str, start: float) -> np.ndarray:
    time.sleep(1)
    return block[:, 0]


def test_a_reader_who_has_gone_frees_its_place(hearing: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch, 0.2)
    before = sum(one.counts.cancelled for one in hearing.schedulers())
    with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=hearing.address, timeout=0.8) as client:
        sent(client, OWN, said("low mid " * 6), model="tones", beam_size=8)
    hearing.calls()
    assert sum(one.counts.cancelled for one in hearing.schedulers()) == before + 1


def test_requests_that_join_midway_get_what_they_get_alone(listening: ServeSettings) -> None:
    """What a scheduler searches together does not change what a recording gets."""
    translator = Translator.from_pretrained(listening.models[0].path, precision="float32")
    random = np.random.default_rng(3)
    sounds = [
        Waveform(torch.tensor(speak([list(TONES)[draw] for draw in random.integers(0, 4, size)], random)).float(), RATE)
        for size in (1, 5, 2, 7, 3)
    ]
    alone = [translator.translate([sound])[0] for sound in sounds]
    scheduler = translator.scheduler()
    calls = []
    for sound in sounds:
        calls.append(scheduler.submit([sound]))
        time.sleep(0.003)
    for call, wanted in zip(calls, alone, strict=True):
        (found,) = call.future.result()
        assert found.text == wanted.text
        assert found.score == pytest.approx(wanted.score, abs=1e-4)
    scheduler.close()


def test_the_description_has_the_forms(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    own, openai = (paths[path]["post"] for path in (OWN, OPENAI))
    form = openai["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert form["required"] == ["file", "model"]
    assert {"file", "model", "language", "prompt", "response_format", "temperature", "stream"} <= set(
        form["properties"]
    )
    assert {"multipart/form-data", "audio/wav"} <= set(own["requestBody"]["content"])
    assert {"model", "words"} <= {one["name"] for one in own["parameters"]}
    for described, path in ((own, OWN), (openai, OPENAI)):
        example = described["responses"]["200"]["content"]["application/json"]["example"]
        assert set(example) == set(sent(client, path, said("low"), model="tones").json())
