"""Models for many languages over HTTP: which languages are offered, how each interface asks, what is translated."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import deepl
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

import dragoman
from browsing import watched
from dragoman import Translator
from dragoman.errors import ConfigError
from dragoman.serving import ServeSettings, make_settings
from dragoman.serving.assembly import make_app
from importing_directories import many_languages, marian_mt
from oracle.marian_directory import texts
from served import Served

CODES = ["eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant", "deu_Latn", "ace_Arab", "ace_Latn"]
TAGS = ["en", "fr", "zh-Hans", "zh-Hant", "de", "ace-Arab", "ace-Latn"]
CHINESE = "我们每天早上都喝一杯茶。"
LINES = texts(4, 9)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model like NLLB, and one like a multilingual OPUS-MT that is told its target alone."""
    folder, made = tmp_path_factory.mktemp("imported"), {}
    for name, given in (
        ("many", many_languages(folder / "nllb", CODES)),
        ("opus", marian_mt(folder / "marian", [">>fra<<", ">>cmn_Hans<<", ">>deu<<"])),
    ):
        made[name] = folder / f"runs-{name}"
        dragoman.import_model(folder / ("nllb" if name == "many" else "marian"), made[name], **given)
    return made


def serving(*models: dict[str, Any]) -> ServeSettings:
    return make_settings(
        None, {"models": models, "port": 0, "log": "none", "threads": 1, "engine": "native", "precision": "float32"}
    )


@pytest.fixture(scope="module")
def served(imported: dict[str, Path], model: Path) -> Iterator[Served]:
    models = [
        {"path": imported["many"], "name": "many"}, {"path": imported["opus"], "name": "opus", "source": "it"},
        {"path": model, "name": "en-de", "source": "en", "target": "de"},
    ]  # fmt: skip
    with Served(serving(*models)) as service:
        yield service


@pytest.fixture(scope="module")
def client(served: Served) -> httpx.Client:
    return served.client


@pytest.fixture(scope="module")
def translator(imported: dict[str, Path]) -> Translator:
    return Translator.from_pretrained(imported["many"], engine="native", precision="float32")


def asked(client: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/translate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"][0]


def test_languages_are_told_by_tags_and_by_what_models_call_them(client: httpx.Client) -> None:
    answer = client.get("/v1/models").json()
    many, opus, one = answer["models"]
    assert many["sources"] == many["targets"]
    assert [(one["language"], one["own"]) for one in many["sources"]] == list(zip(TAGS, CODES, strict=True))
    assert many["sources"][3]["name"] == "Chinese (traditional)"
    assert (many["source"], many["target"]) == ("en", "fr")
    assert {code["language"]: code["own"] for code in opus["targets"]} == {"fr": "fra", "zh": "cmn_Hans", "de": "deu"}
    assert opus["sources"] == [{"language": "it", "name": "Italian", "own": None}]
    assert one["targets"] == [{"language": "de", "name": "German", "own": None}]
    # Not each pair of the model for many, but what is reached through a third language besides.
    pairs = {(pair["source"], pair["target"]): (pair["models"], pair["pivot"]) for pair in answer["pairs"]}
    assert pairs["en", "de"] == (["en-de"], None)
    assert ("fr", "zh-Hant") not in pairs
    assert pairs["it", "en"] == (["opus", "many"], "fr")


@pytest.mark.parametrize(
    ("source", "target"),
    [("en", "zh-Hant"), ("eng", "ZH-TW"), ("fra_Latn", "zho_Hant"), ("EN-GB", "ace_Arab"), ("zh", "fr"), ("de", "en")],
)
def test_outputs_are_those_of_python(client: httpx.Client, translator: Translator, source: str, target: str) -> None:
    found = asked(client, text="\n".join(LINES), source=source, target=target, n_best=2, tokens=True, words=True)
    pair = CODES[TAGS.index(found["source"])], CODES[TAGS.index(found["target"])]
    expected = translator.with_languages(*pair).translate(LINES, n_best=2)
    assert found["models"] == ["many"]
    assert [one["text"] for one in found["segments"]] == [one.text for one in expected]
    for segment, one in zip(found["segments"], expected, strict=True):
        assert segment["score"] == pytest.approx(one.score, abs=1e-5)
        assert (segment["source_tokens"][0], segment["tokens"][0]["text"]) == pair
        spelled = [segment["text"][word["start"] : word["end"]] for word in segment["words"]]
        assert spelled == segment["text"].split()


def test_requests_of_different_languages_are_searched_together(translator: Translator) -> None:
    pairs = [(source, target) for source in CODES for target in CODES if source != target]
    speaking = [translator.with_languages(*pair) for pair in pairs]
    scheduler = translator.scheduler()
    batch, together = scheduler._batches[0], []
    advance = batch.advance

    def counting() -> None:
        together.append((len(batch.tasks), len(batch.searches)))
        advance()

    batch.advance = counting
    gate = threading.Event()
    scheduler._inbox.put(gate.wait)
    calls = [scheduler.submit([LINES[0]], translator=one) for one in speaking]
    gate.set()
    found = [call.future.result()[0] for call in calls]
    scheduler.close()
    assert [one.tokens[0] for one in found] == [target for _, target in pairs]
    assert found == [one.translate([LINES[0]])[0] for one in speaking]
    assert max(tasks for tasks, _ in together) > 1
    assert max(searches for _, searches in together) == 1


def test_a_model_of_one_pair_goes_before_one_of_many(client: httpx.Client) -> None:
    assert asked(client, text="ba ce", source="en", target="de")["models"] == ["en-de"]
    assert asked(client, text="ba ce", source="eng_Latn", target="deu_Latn")["models"] == ["en-de"]
    assert asked(client, text="ba ce", source="en", target="de", model="many")["models"] == ["many"]


def test_a_model_that_is_told_its_target_alone(client: httpx.Client, imported: dict[str, Path]) -> None:
    opus = Translator.from_pretrained(imported["opus"], engine="native", precision="float32")
    for target, own in (("fra", "fra"), ("zh-CN", "cmn_Hans"), ("zh", "cmn_Hans")):
        found = asked(client, text=LINES[0], source="it", target=target, model="opus", tokens=True)
        assert found["segments"][0]["source_tokens"][0] == f">>{own}<<"
        assert found["text"] == opus.translate([LINES[0]], target_language=own)[0].text
    assert "tokens" in asked(client, text=LINES[0], model="opus")["segments"][0]  # as the text has it


def test_streams_alternatives_and_documents_have_the_languages(client: httpx.Client, translator: Translator) -> None:
    pair = {"source": "fr", "target": "zh-Hant"}
    expected = translator.with_languages("fra_Latn", "zho_Hant").translate([LINES[0]])[0].text
    with client.stream("POST", "/v1/translate/stream", json={"text": LINES[0], **pair}) as answer:
        events = [line for line in answer.iter_lines() if line.startswith("data: ")]
    assert json.loads(events[0][6:]) == {**pair, "models": ["many"], "pivot": None}
    assert json.loads(events[-1][6:])["text"] == expected
    told = client.post("/v1/alternatives", json={"text": LINES[0], "prefix": "", **pair})
    assert told.status_code == 200
    made = client.post("/v1/documents", files={"file": ("a.txt", LINES[0].encode())}, data=pair).json()
    place, key = f"/v1/documents/{made['id']}", {"key": made["key"]}
    while (state := client.get(place, params=key).json())["status"] not in ("done", "failed"):
        pass
    assert state["name"] == "a.zh-Hant.txt"
    assert client.get(f"{place}/result", params=key).text == expected


def test_deepl_s_client_is_served(served: Served, translator: Translator) -> None:
    client = deepl.DeepLClient("any", server_url=served.address)
    assert {one.code for one in client.get_source_languages()} == {"EN", "FR", "ZH", "DE", "ACE", "IT"}
    targets = {one.code: one.name for one in client.get_target_languages()}
    assert targets["ZH-HANT"] == "Chinese (traditional)"
    found = client.translate_text(LINES[0], source_lang="FR", target_lang="ZH-HANT")
    assert found.text == translator.with_languages("fra_Latn", "zho_Hant").translate([LINES[0]])[0].text
    with pytest.raises(deepl.DeepLException, match=r"JA is not supported as a target language here.*fr, zh-Hans"):
        client.translate_text("ba", source_lang="FR", target_lang="JA")


def test_libretranslate_s_client_is_served(served: Served, translator: Translator) -> None:
    client = LibreTranslateAPI(served.address)
    told = {one["code"]: one for one in client.languages()}
    assert set(told) == {*TAGS, "it", "zh"}
    assert set(told["fr"]["targets"]) == set(TAGS)
    assert set(told["it"]["targets"]) == {"it", "fr", "zh", "de", "en", "ace-Arab", "ace-Latn"}
    assert told["ace-Arab"]["name"] == "Acehnese (Arabic)"
    expected = translator.with_languages("fra_Latn", "deu_Latn").translate([LINES[0]])[0].text
    assert client.translate(LINES[0], "fr", "de") == expected
    refused = served.client.post("/translate", json={"q": "ba", "source": "fr", "target": "ja"})
    assert (refused.status_code, refused.json()) == (400, {"error": "ja is not supported as a target language here"})
    answer = served.client.post("/translate", json={"q": CHINESE, "source": "auto", "target": "fr"}).json()
    assert answer["detectedLanguage"]["language"] == "zh-Hans"


def test_what_is_detected_is_among_the_languages_of_the_model(client: httpx.Client) -> None:
    assert asked(client, text=CHINESE, source="auto", target="de", model="many")["source"] == "zh-Hans"
    # What is in the wanted language already is taken for the likeliest other one.
    found = asked(client, text="Where is the nearest railway station?", source="auto", target="en", model="many")
    assert found["source"] not in ("en", "ace-Arab")
    assert client.post("/v1/detect", json={"text": CHINESE}).json()["languages"][0]["language"] == "zh-Hans"


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        ({"source": "fr", "target": "ja"}, 400, "no_language", "ja is not supported as a target language"),
        ({"source": "jpn_Jpan", "target": "fr"}, 400, "no_language", "jpn_Jpan is not supported as a source language"),
        ({"source": "fr", "target": "fr"}, 422, "no_pair", "fr to fr cannot be translated here"),
        ({"source": "fr", "target": "it", "model": "many"}, 422, "other_pair", "many does not translate from fr to it"),
    ],
)  # fmt: skip
def test_a_language_that_nobody_has(client: httpx.Client, body: dict, status: int, code: str, words: str) -> None:
    for path in ("/v1/translate", "/v1/translate/stream"):
        answer = client.post(path, json={"text": "ba", **body})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code)
        assert words in error["message"]
        assert "en, fr" in error["hint"] or "the languages of many" in error["hint"]


def test_the_settings_restrict_the_languages(imported: dict[str, Path]) -> None:
    entry = {"path": imported["many"], "source": "zho_Hant", "target": "fr"}
    guard = make_app((), serving(entry))
    [one] = guard.context.service.registry.models.values()
    assert (one.sources, one.targets, one.is_many) == ({"zh-Hant": "zho_Hant"}, {"fr": "fra_Latn"}, False)
    assert "zh-Hant to fr" in one.described()
    with pytest.raises(ConfigError, match=r"no such target language(.|\n)*en, fr, zh-Hans"):
        make_app((), serving({"path": imported["many"], "target": "ja"}))
    with pytest.raises(ConfigError, match="expected text that matches"):
        serving({"path": imported["many"], "target": "<fr>"})


def test_the_inspector_is_asked_for_them_in_its_page(browser: Any, served: Served) -> None:
    from playwright.sync_api import expect

    offered = {one["name"]: one for one in served.client.get("/inspect/api").json()["models"]}
    assert offered["many"]["sources"] == offered["many"]["targets"] == CODES
    assert offered["en-de"]["targets"] == []
    wrong = served.client.post("/inspect/api/trace", json={"text": LINES[0], "model": "en-de", "target_language": "x"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "wrong_value")
    with watched(browser, f"{served.address}/inspect/#{urlencode({'model': 'many', 'text': LINES[0]})}") as page:
        pieces = page.locator("#strip ol >> nth=1 >> b").first
        expect(pieces).to_have_text("fra_Latn")
        page.select_option("#ask-to", "zho_Hant")
        expect(pieces).to_have_text("zho_Hant")
        page.select_option("#ask-from", "deu_Latn")
        expect(page.locator("#strip ol >> nth=0 >> b").first).to_have_text("deu_Latn")
        page.get_by_role("button", name="into zho_Hant").click()
        expect(pieces).to_have_text("fra_Latn")
