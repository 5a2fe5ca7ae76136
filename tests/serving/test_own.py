"""The own interface: what it tells of outputs, and the output as it grows."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest

from dragoman import Translator
from dragoman.serving import ServeSettings
from served import Served


@pytest.fixture
def client(service: Served) -> httpx.Client:
    return service.client


def translated(client: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/translate", json={"source": "zh", "target": "en"} | body)
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["translations"]
    return found


def events(client: httpx.Client, **body: Any) -> list[tuple[str, Any]]:
    with client.stream("POST", "/v1/translate/stream", json={"source": "zh", "target": "en"} | body) as answer:
        parts = "".join(answer.iter_text()).split("\n\n")
    lines = [part.split("\n") for part in parts if part and not part.startswith(":")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in lines]


def test_models_and_pairs_are_told(client: httpx.Client) -> None:
    told = client.get("/v1/models").json()
    assert {model["name"] for model in told["models"]} == {"zh-en", "en-de", "en-zh"}
    pairs = {(pair["source"], pair["target"]): pair["pivot"] for pair in told["pairs"]}
    assert pairs == {("zh", "en"): None, ("en", "de"): None, ("en", "zh"): None, ("zh", "de"): "en"}


def test_an_output_is_that_of_python_with_all_that_is_known_of_it(client: httpx.Client, model) -> None:
    (expected,) = Translator.from_pretrained(model, engine="native").translate(["ba ce di"], n_best=3)
    (segment,) = translated(client, text="ba ce di", n_best=3, tokens=True)["segments"]
    assert [one["text"] for one in segment["alternatives"]] == [one.text for one in expected.alternatives]
    assert segment["score"] == pytest.approx(expected.score, abs=1e-5)
    assert [token["text"] for token in segment["tokens"]] == list(expected.tokens)
    assert segment["source_tokens"] == list(expected.source_tokens)


def test_white_space_around_sentences_is_kept(client: httpx.Client) -> None:
    found = translated(client, text="  ba ce\n\n\tdi fo  ")
    one, other = (segment["text"] for segment in found["segments"])
    assert found["text"] == f"  {one}\n\n\t{other}  "


def test_words_stand_in_the_output_and_look_at_the_source(client: httpx.Client) -> None:
    (segment,) = translated(client, text="ba ce di fo", words=True)["segments"]
    spelled = [segment["text"][word["start"] : word["end"]] for word in segment["words"]]
    assert spelled == segment["text"].split()
    for word in segment["words"]:
        assert 0 <= word["probability"] <= 1
        assert all(0 <= start < end <= len("ba ce di fo") for start, end in word["sources"])


def test_an_output_begins_as_it_must(client: httpx.Client) -> None:
    assert translated(client, text="ba ce di", prefixes=["mu gu"])["text"].startswith("mu gu")


def test_alternatives_are_different_words_after_the_beginning(client: httpx.Client) -> None:
    body = {"text": "ba ce di", "source": "zh", "target": "en", "prefix": "mu ", "count": 4}
    found = client.post("/v1/alternatives", json=body).json()["alternatives"]
    words = [one["word"] for one in found]
    assert len(set(words)) == len(words) <= 4
    for one in found:
        assert one["text"].startswith(f"mu {one['word']}")
        assert 0 <= one["probability"] <= 1
        assert math.isfinite(one["score"])


def test_draws_depend_on_their_seed_alone(client: httpx.Client) -> None:
    drawn = {"text": "ba ce di fo gu", "sampling": True, "seed": 5, "temperature": 2.0}
    assert translated(client, **drawn)["text"] == translated(client, **drawn)["text"]
    many = {translated(client, **drawn | {"seed": seed})["text"] for seed in range(8)}
    assert len(many) > 1


def test_markup_keeps_its_tags(client: httpx.Client) -> None:
    found = translated(client, text="<p>ba <b>ce</b> di</p><p>&amp; fo</p>", format="html")["text"]
    assert found.count("<p>") == found.count("</p>") == 2
    assert found.count("<b>") == found.count("</b>") == 1


def test_what_grows_ends_as_the_whole(client: httpx.Client) -> None:
    text = "ba ce di fo gu. ha ki lo mu ne\n\nba ba"
    found = events(client, text=text)
    assert found[0] == ("start", {"source": "zh", "target": "en", "models": ["zh-en"], "pivot": None})
    assert found[-1][0] == "result"
    assert found[-1][1]["text"] == translated(client, text=text)["text"]
    stable = ""
    for name, data in found[1:-1]:
        assert name == "progress"
        assert data["stable"].startswith(stable)
        stable = data["stable"]
    assert found[-1][1]["text"].startswith(stable)


def test_a_third_language_is_told(client: httpx.Client) -> None:
    assert translated(client, text="ba ce", target="de")["pivot"] == "en"
    assert [name for name, _ in events(client, text="ba ce", target="de")] == ["start", "result"]


def test_several_texts_come_back_in_their_order(client: httpx.Client, model) -> None:
    texts = ["ba", "", "ce di\nfo", " "]
    answer = client.post("/v1/translate", json={"texts": texts, "source": "zh", "target": "en"}).json()
    single = [translated(client, text=text)["text"] for text in texts]
    assert [one["text"] for one in answer["translations"]] == single
    assert single[1] == ""


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 422, "either text or texts is needed"),
        ({"text": "a", "texts": ["a"]}, 422, "either text or texts is needed"),
        ({"text": "a", "target": "xx"}, 400, "xx is not supported as a target language here"),
        ({"text": "a", "source": "en", "target": "en"}, 422, "en to en cannot be translated here"),
        ({"text": "a", "model": "none"}, 404, "there is no model 'none'"),
        ({"text": "a", "model": "en-de"}, 422, "en-de translates from en to de"),
        ({"text": "a", "beem_size": 4}, 422, "beem_size"),
        ({"text": "a", "beam_size": 17}, 413, "17 beam_size, more than 16"),
        ({"text": "a", "n_best": 5, "beam_size": 2}, 422, "n_best 5 is more than beam_size 2"),
        ({"text": "a", "temperature": 2.0}, 422, "temperature"),
        ({"text": "a", "prefixes": []}, 422, "1 texts, but 0 prefixes"),
        ({"text": "a" * 10_001}, 413, "10,001 characters, more than 10,000"),
        ({"texts": ["a"] * 129}, 413, "129 texts, more than 128"),
    ],
)
def test_mistakes_are_told_in_one_shape(client: httpx.Client, body: dict, status: int, words: str) -> None:
    for path in ("/v1/translate", "/v1/translate/stream"):
        if path.endswith("stream") and "texts" in body:
            continue
        answer = client.post(path, json={"source": "zh", "target": "en"} | body)
        error = answer.json()["error"]
        assert answer.status_code == status
        assert words in error["message"]


def test_what_is_no_json_is_told(client: httpx.Client) -> None:
    answer = client.post("/v1/translate", content=b"{", headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "not_json")
    answer = client.post("/v1/translate", data={"text": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "content_type")


def test_counts_and_states_are_told(client: httpx.Client) -> None:
    translated(client, text="ba ce")
    told = client.get("/metrics").text
    assert 'dragoman_model_sentences_total{model="zh-en"}' in told
    assert 'dragoman_requests_total{interface="v1",status="200"}' in told
    assert client.get("/livez").json() == client.get("/readyz").json() == {"status": "ok"}


def test_documents_are_translated(client: httpx.Client) -> None:
    files = {"file": ("a.txt", b"ba ce\n")}
    made = client.post("/v1/documents", files=files, data={"source": "zh", "target": "en"})
    assert made.status_code == 202
    place = f"/v1/documents/{made.json()['id']}"
    key = {"key": made.json()["key"]}
    for _ in range(1000):
        if (state := client.get(place, params=key).json())["status"] == "done":
            break
    assert state["done"] == state["total"] == 1
    assert client.get(f"{place}/result", params=key).text == translated(client, text="ba ce")["text"] + "\n"
    assert client.get(place, params={"key": "x"}).status_code == 404


def test_old_documents_make_room_for_new_ones(settings: ServeSettings) -> None:
    limits = settings.limits.model_copy(update={"documents": 2})
    with Served(settings.model_copy(update={"limits": limits})) as served:
        made = [
            served.client.post(
                "/translate_file", files={"file": ("a.txt", b"ba")}, data={"source": "zh", "target": "en"}
            )
            for _ in range(4)
        ]
    assert [one.status_code for one in made] == [200] * 4
