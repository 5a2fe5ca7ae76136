"""LibreTranslate's interface, spoken by its own client and by hand."""

from __future__ import annotations

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from dragoman import Translator
from served import Served


@pytest.fixture
def client(service: Served) -> httpx.Client:
    return service.client


def expected(model, texts: list[str]) -> list[str]:
    return [one.text for one in Translator.from_pretrained(model, engine="native").translate(texts)]


def test_its_own_client_is_served(service: Served, model) -> None:
    client = LibreTranslateAPI(service.address)
    assert client.translate("ba ce di", "zh", "en") == expected(model, ["ba ce di"])[0]
    assert {one["code"] for one in client.languages()} == {"zh", "en", "de"}
    assert client.detect("我们每天早上都喝一杯茶。")[0]["language"] == "zh"


@pytest.mark.parametrize("how", ["json", "data"])
def test_json_and_forms_are_taken(client: httpx.Client, model, how: str) -> None:
    body = {"q": "ba ce", "source": "zh", "target": "en", "format": "text"}
    answer = client.post("/translate", **{how: body})
    assert answer.json() == {"translatedText": expected(model, ["ba ce"])[0]}


def test_text_of_a_form_that_was_not_encoded_is_utf8(client: httpx.Client) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    raw = client.post("/translate", content="q=猫 ba&source=zh&target=en".encode(), headers=form)
    assert raw.json() == client.post("/translate", data={"q": "猫 ba", "source": "zh", "target": "en"}).json()


def test_a_list_gives_a_list(client: httpx.Client, model) -> None:
    texts = ["ba ce", "", "di fo gu"]
    answer = client.post("/translate", json={"q": texts, "source": "zh", "target": "en"})
    assert answer.json() == {"translatedText": expected(model, texts)}


def test_a_language_is_detected(client: httpx.Client) -> None:
    answer = client.post("/translate", json={"q": "我们每天早上都喝一杯茶。", "source": "auto", "target": "en"}).json()
    assert answer["detectedLanguage"]["language"] == "zh"
    assert 50 < answer["detectedLanguage"]["confidence"] <= 100


def test_alternatives_are_other_outputs(client: httpx.Client) -> None:
    body = {"q": "ba ce di", "source": "zh", "target": "en", "alternatives": 3}
    answer = client.post("/translate", json=body).json()
    assert 1 <= len(answer["alternatives"]) <= 3
    assert answer["translatedText"] not in answer["alternatives"]


def test_a_third_language_is_gone_through(client: httpx.Client, model) -> None:
    answer = client.post("/translate", json={"q": "ba ce di", "source": "zh", "target": "de"}).json()
    assert answer["translatedText"] == expected(model, expected(model, ["ba ce di"]))[0]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"source": "zh", "target": "en"}, 400, "missing q parameter"),
        ({"q": "ba", "target": "en"}, 400, "missing source parameter"),
        ({"q": "ba", "source": "zh"}, 400, "missing target parameter"),
        ({"q": "ba", "source": "xx", "target": "en"}, 400, "xx is not supported"),
        ({"q": "ba", "source": "zh", "target": "xx"}, 400, "xx is not supported"),
        ({"q": "ba", "source": "de", "target": "en"}, 400, "de is not supported"),
        ({"q": "ba", "source": "zh", "target": "en", "format": "pdf"}, 400, "pdf format is not supported"),
        ({"q": "ba" * 6000, "source": "zh", "target": "en"}, 400, "exceeds text limit (10000)"),
        ({"q": "ba", "source": "zh", "target": "en", "alternatives": 10_000}, 400, "alternatives"),
        ({"q": 3, "source": "zh", "target": "en"}, 400, "q"),
    ],
)
def test_mistakes_are_told_in_its_shape(client: httpx.Client, body: dict, status: int, words: str) -> None:
    answer = client.post("/translate", json=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]


def test_a_document_is_translated_and_fetched(client: httpx.Client, model) -> None:
    files = {"file": ("notes.txt", b"ba ce\n\ndi fo\r\n")}
    answer = client.post("/translate_file", files=files, data={"source": "zh", "target": "en"})
    url = answer.json()["translatedFileUrl"]
    found = httpx.get(url)
    one, other = expected(model, ["ba ce", "di fo"])
    assert found.content.decode() == f"{one}\n\n{other}\r\n"
    assert 'filename="notes.en.txt"' in found.headers["content-disposition"]
    assert httpx.get(url[:-1] + ("0" if url[-1] != "0" else "1")).status_code == 400


def test_what_pages_ask(client: httpx.Client) -> None:
    told = client.get("/frontend/settings").json()
    assert told["charLimit"] == 10_000
    assert told["keyRequired"] is False
    assert client.get("/health").json() == {"status": "ok"}
    assert "/translate" in client.get("/spec").json()["paths"]
    assert client.post("/suggest").status_code == 403
