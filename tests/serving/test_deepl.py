"""DeepL's interface, spoken by its official client, and by plain forms as translators' tools send them."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path
from typing import Any

import deepl
import httpx
import pytest

from dragoman import Translator
from dragoman.serving import ServeSettings, new_key
from dragoman.serving.deepl import joined_lines
from dragoman.serving.settings import RequestLimits
from served import Served, limit

CHINESE = "我们每天早上都喝一杯茶。"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client does not try again, nor wait five seconds between two looks at a document."""
    monkeypatch.setattr("deepl.http_client.max_network_retries", 0)
    sleep = time.sleep
    monkeypatch.setattr("deepl.translator.time.sleep", lambda seconds: sleep(min(seconds, 0.05)))


@pytest.fixture
def client(service: Served) -> deepl.DeepLClient:
    return deepl.DeepLClient("any", server_url=service.address)


@pytest.fixture
def http(service: Served) -> httpx.Client:
    return service.client


def expected(model: Path, texts: list[str]) -> list[str]:
    return [one.text for one in Translator.from_pretrained(model, engine="native").translate(texts)]


def zh(**fields: Any) -> dict[str, Any]:
    return {"source_lang": "ZH", "target_lang": "EN-GB"} | fields


def test_a_text_and_a_list(client: deepl.DeepLClient, model: Path) -> None:
    one = client.translate_text("ba ce di", **zh())
    assert (one.text, one.detected_source_lang, one.billed_characters) == (expected(model, ["ba ce di"])[0], "ZH", 8)
    texts = ["ba ce", "", " \n", "di fo gu"]
    found = client.translate_text(texts, **zh())
    assert [one.text for one in found] == [*expected(model, ["ba ce"]), "", " \n", *expected(model, ["di fo gu"])]


def test_the_older_client_class_is_served_too(service: Served, model: Path) -> None:
    found = deepl.Translator("any", server_url=service.address).translate_text("ba ce", **zh())
    assert found.text == expected(model, ["ba ce"])[0]


def test_a_language_is_detected(client: deepl.DeepLClient) -> None:
    assert client.translate_text(CHINESE, target_lang="EN-US").detected_source_lang == "ZH"


def test_languages(client: deepl.DeepLClient) -> None:
    found = {(one.code.upper(), one.name) for one in client.get_source_languages()}
    assert found == {("ZH", "Chinese"), ("EN", "English")}
    targets = client.get_target_languages()
    assert {one.code.upper() for one in targets} == {"EN-GB", "EN-US", "DE", "ZH"}
    assert not any(one.supports_formality for one in targets)
    for one in targets:  # whatever is listed is taken, by the client too
        source = "ZH" if one.code.upper() != "ZH" else "EN"
        assert client.translate_text("ba", source_lang=source, target_lang=one.code).text is not None


def test_usage_without_keys_counts_everyone(client: deepl.DeepLClient) -> None:
    before = client.get_usage().character
    client.translate_text("ba ce di", **zh())
    after = client.get_usage()
    assert after.character.count == before.count + 8
    assert not after.any_limit_reached


def test_xml_keeps_its_tags(client: deepl.DeepLClient) -> None:
    text = 'ba <x id="1"/>ce <g id="2">di fo</g> gu'
    found = client.translate_text(text, tag_handling="xml", **zh()).text
    assert sorted(re.findall("<[^>]+>", found)) == sorted(re.findall("<[^>]+>", text))


def test_what_is_ignored_and_what_splits(client: deepl.DeepLClient, model: Path) -> None:
    text = "<r><p>ba ce</p><keep>di fo</keep><p>gu</p></r>"
    one, other = expected(model, ["ba ce", "gu"])
    for names in (["keep"], "keep,other"):
        found = client.translate_text(text, tag_handling="xml", ignore_tags=names, **zh()).text
        assert found == f"<r><p>{one}</p><keep>di fo</keep><p>{other}</p></r>"
    options = {"tag_handling": "xml", "outline_detection": False}
    found = client.translate_text("<s>ba ce</s><s>gu</s>", splitting_tags="s", **options, **zh()).text
    assert found == f"<s>{one}</s><s>{other}</s>"


def test_a_tag_that_does_not_split(http: httpx.Client, model: Path) -> None:
    body = zh(text=["<p>ba <i>ce</i></p>"], tag_handling="xml")
    whole = http.post("/v2/translate", json=body).json()["translations"][0]["text"]
    assert re.sub("<[^>]+>", "", whole) == expected(model, ["ba ce"])[0]
    apart = http.post("/v2/translate", json=body | {"splitting_tags": ["i"]}).json()["translations"][0]["text"]
    assert re.sub("<[^>]+>", "|", apart).count(expected(model, ["ce"])[0]) >= 1


def test_html(client: deepl.DeepLClient, model: Path) -> None:
    found = client.translate_text("<h1>ba ce</h1><script>di</script><p>gu", tag_handling="html", **zh()).text
    one, other = expected(model, ["ba ce", "gu"])
    assert found == f"<h1>{one}</h1><script>di</script><p>{other}"


@pytest.mark.parametrize(
    "text",
    [
        "<p>ba",
        "ba</p>",
        '<!DOCTYPE r [<!ENTITY a "ba"><!ENTITY b "&a;&a;">]><r>&b;</r>',
        '<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><r>&a;</r>',
        "<r>&unknown;</r>",
        "<a b=c>ba</a>",
        "<r" + "<" * 500,
    ],
)
def test_broken_or_hostile_xml_is_refused(http: httpx.Client, text: str) -> None:
    answer = http.post("/v2/translate", json=zh(text=[text], tag_handling="xml"))
    assert answer.status_code == 400
    assert "XML" in answer.json()["message"]


def test_an_ampersand_of_a_tool_is_text(client: deepl.DeepLClient, model: Path) -> None:
    found = client.translate_text("ba & ce &amp; <g>di</g>", tag_handling="xml", **zh()).text
    assert re.sub("<[^>]+>", "", found) == expected(model, ["ba & ce & di"])[0].replace("&", "&amp;")


def test_sentences_are_split_or_not(client: deepl.DeepLClient, model: Path) -> None:
    text = "ba ce. Di fo.\ngu ha"
    one, two, three, line = expected(model, ["ba ce.", "Di fo.", "gu ha", "ba ce. Di fo."])
    both = " ".join(filter(None, (one, two)))
    for way, wanted in (("1", f"{both}\n{three}"), (deepl.SplitSentences.OFF, f"{line}\n{three}")):
        assert client.translate_text(text, split_sentences=way, **zh()).text == wanted
    found = client.translate_text("ba\nce di\n\nfo", split_sentences="nonewlines", **zh()).text
    one, other = expected(model, ["ba ce di", "fo"])
    assert found == f"{one}\n\n{other}"
    found = client.translate_text("<p>ba\nce</p>", split_sentences="nonewlines", tag_handling="xml", **zh()).text
    assert found == f"<p>{expected(model, ['ba ce'])[0]}</p>"


def test_joined_lines_keep_all_but_single_breaks() -> None:
    assert joined_lines("a\nb \r\n c\n\nd\u2028e\n") == "a b c\n\nd e\n"
    assert joined_lines("猫\n吃 鱼\nb\n한국\n어") == "猫吃 鱼 b 한국 어"
    assert joined_lines("") == ""


def test_what_has_no_effect_is_named(http: httpx.Client) -> None:
    body = zh(text=["ba"], context="ce", formality="more", model_type="latency_optimized", preserve_formatting=True)
    answer = http.post("/v2/translate", json=body)
    assert answer.headers["x-ignored-parameters"] == "context, formality, model_type"
    assert answer.json()["translations"][0]["model_type_used"] == "quality_optimized"
    answer = http.post("/v2/translate", json=zh(text=["ba"], formality="default"))
    assert "x-ignored-parameters" not in answer.headers
    assert set(answer.json()["translations"][0]) == {"detected_source_language", "text"}


def test_its_client_may_send_everything(client: deepl.DeepLClient, model: Path) -> None:
    found = client.translate_text(
        "ba ce", context="di", formality="prefer_more", preserve_formatting=True, tag_handling_version="v2",
        model_type="quality_optimized", custom_instructions=["x"], **zh(),
    )  # fmt: skip
    assert found.text == expected(model, ["ba ce"])[0]


def test_there_are_no_glossaries(client: deepl.DeepLClient) -> None:
    assert client.list_glossaries() == []
    assert client.list_multilingual_glossaries() == []
    assert client.get_glossary_languages() == []
    assert client.get_all_style_rules() == []
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary("1")
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.delete_glossary("1")
    with pytest.raises(deepl.DeepLException, match="no glossaries here"):
        client.create_glossary("mine", "ZH", "EN", {"ba": "ce"})
    with pytest.raises(deepl.DeepLException, match="no such glossary"):
        client.translate_text("ba", glossary="1", **zh())
    with pytest.raises(deepl.DeepLException, match="not rephrased"):
        client.rephrase_text("ba")


def test_documents(client: deepl.DeepLClient, model: Path, tmp_path: Path) -> None:
    one, other = expected(model, ["ba ce", "di fo"])
    source, target = tmp_path / "notes.txt", tmp_path / "notes.en.txt"
    source.write_bytes(b"ba ce\n\ndi fo\r\n")
    status = client.translate_document_from_filepath(source, target, **zh())
    assert status.done
    assert status.billed_characters == 14
    assert target.read_bytes().decode() == f"{one}\n\n{other}\r\n"

    handle = client.translate_document_upload(b"ba ce", filename="a.md", **zh())
    client.translate_document_wait_until_done(handle)
    kept = io.BytesIO()
    client.translate_document_download(handle, kept)
    assert kept.getvalue().decode() == one
    with pytest.raises(deepl.DeepLException, match="no such document"):  # it is fetched once
        client.translate_document_get_status(handle)


def test_a_document_that_is_not_translated_yet(service: Served, client: deepl.DeepLClient) -> None:
    handle = client.translate_document_upload(b"ba ce\n" * 50, filename="a.txt", **zh())
    document = service.guard.context.documents.get(handle.document_id, handle.document_key)
    if document.status != "done":
        with pytest.raises(deepl.DocumentNotReadyException):
            client.translate_document_download(handle)
    assert client.translate_document_wait_until_done(handle).done
    wrong = deepl.DocumentHandle(handle.document_id, "0" * 64)
    with pytest.raises(deepl.DeepLException, match="no such document"):
        client.translate_document_get_status(wrong)
    service.guard.context.documents.remove(document)


@pytest.mark.parametrize(
    ("name", "data", "fields", "words"),
    [
        ("a.pdf", b"x", {}, "pdf"),
        ("a", b"x", {}, "suffix"),
        ("a.txt", b"\xff\xfe", {}, "UTF-8"),
        ("a.txt", b"x", {"output_format": "docx"}, "keep their format"),
        ("a.txt", b"x", {"glossary": "1"}, "no such glossary"),
        ("a.txt", b"x", {"target_lang": "FR"}, "FR is not supported"),
    ],
)
def test_documents_that_are_refused(
    client: deepl.DeepLClient, name: str, data: bytes, fields: dict, words: str
) -> None:
    with pytest.raises(deepl.DeepLException, match=words) as told:
        client.translate_document_upload(data, filename=name, **(zh() | fields))
    assert told.value.http_status_code in (400, 404)


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_forms_of_tools(http: httpx.Client, model: Path) -> None:
    """Repeated texts, numbers for switches, tags with commas, empty fields, a key among the fields."""
    content = (
        "auth_key=any&text=ba+ce&text=%3Cg%3Edi%3C%2Fg%3E&source_lang=zh&target_lang=en&tag_handling=xml&formality="
        "&split_sentences=0&preserve_formatting=1&outline_detection=0&ignore_tags=x%2C+g&show_billed_characters=1"
    )
    answer = http.post("/v2/translate", content=content, headers=FORM).json()["translations"]
    assert [one["text"] for one in answer] == [expected(model, ["ba ce"])[0], "<g>di</g>"]
    assert [one["billed_characters"] for one in answer] == [5, 9]


def test_a_multipart_form_and_an_address(http: httpx.Client, model: Path) -> None:
    (wanted,) = expected(model, ["ba ce"])
    parts = [(name, (None, str(value))) for name, value in zh(text="ba ce").items()]
    assert http.post("/v2/translate", files=parts).json()["translations"][0]["text"] == wanted
    asked = zh(text="ba ce", tag_handling="xml", split_sentences="1", auth_key="any")
    assert http.get("/v2/translate", params=asked).json()["translations"][0]["text"] == wanted
    both = http.post("/v2/translate", params={"auth_key": "any"}, json=zh(text="ba ce", split_sentences=1))
    assert both.json()["translations"][0]["text"] == wanted


def test_languages_and_usage_however_they_are_asked(http: httpx.Client) -> None:
    targets = http.get("/v2/languages", params={"type": "target"}).json()
    assert http.post("/v2/languages", data={"type": "target", "auth_key": "any"}).json() == targets
    assert http.get("/v2/languages").json() != targets
    assert http.get("/v2/languages", params={"type": "other"}).status_code == 400
    assert set(http.post("/v2/usage", data={"auth_key": "any"}).json()) == {"character_count", "character_limit"}
    assert http.post("/v2/usage").status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({}, 400, "text"),
        ({"text": []}, 400, "text"),
        ({"text": ["ba"] * 51}, 400, "text"),
        ({"text": [3]}, 400, "text"),
        ({"text": {"a": "b"}}, 400, "text"),
        ({"text": ["ba" * 6000]}, 413, "characters"),
        ({"text": ["ba"], "target_lang": None}, 400, "target_lang"),
        ({"text": ["ba"], "target_lang": "XX"}, 400, "XX is not supported"),
        ({"text": ["ba"], "target_lang": "en; drop"}, 400, "target_lang"),
        ({"text": ["ba"], "source_lang": "FR"}, 400, "FR is not supported"),
        ({"text": ["ba"], "tag_handling": "rtf"}, 400, "tag_handling"),
        ({"text": ["ba"], "split_sentences": "2"}, 400, "split_sentences"),
        ({"text": ["ba"], "ignore_tags": [1]}, 400, "ignore_tags"),
        ({"text": ["ba"], "style_id": "1"}, 404, "style rule"),
        ({"text": ["ba"], "translation_memory_id": "1"}, 404, "translation memory"),
    ],
)
def test_mistakes_are_told_in_its_shape(http: httpx.Client, fields: dict, status: int, words: str) -> None:
    answer = http.post("/v2/translate", json=zh() | fields)
    assert answer.status_code == status
    assert set(answer.json()) <= {"message", "detail"}
    assert words in answer.json()["message"]


def test_fifty_texts_are_taken(client: deepl.DeepLClient, model: Path) -> None:
    found = client.translate_text(["ba ce"] * 50, **zh())
    assert {one.text for one in found} == set(expected(model, ["ba ce"]))
    assert len(found) == 50


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [(b"{", "application/json", 400), (b"[]", "application/json", 400), (b"x", "text/plain", 400)],
)
def test_bodies_that_are_none(http: httpx.Client, content: bytes, kind: str, status: int) -> None:
    answer = http.post("/v2/translate", content=content, headers={"content-type": kind})
    assert answer.status_code == status
    assert "message" in answer.json()


@pytest.mark.parametrize("path", ["/v2/nothing", "/v3/nothing", "/v2/document/1"])
def test_what_is_not_there_is_told_in_its_shape(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 404
    assert "message" in answer.json()


def test_keys_become_its_exceptions(settings: ServeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys.toml"
    keys = {name: new_key(file, name) for name in ("poor", "slow")}
    limit(file, "poor", "characters_per_day = 10")
    limit(file, "slow", "requests_per_minute = 2")
    monkeypatch.setattr("dragoman.serving.keys.time.time", lambda: 1_000_000_000.0)  # no minute or day ends meanwhile
    with Served(settings.model_copy(update={"keys": file})) as served:
        with pytest.raises(deepl.AuthorizationException):
            deepl.DeepLClient("wrong", server_url=served.address).get_usage()
        assert served.client.get("/v2/usage").status_code == 403
        assert served.client.get("/v2/glossaries").status_code == 403
        assert served.client.post("/v2/usage", data={"auth_key": keys["poor"]}).json()["character_limit"] == 10

        poor = deepl.DeepLClient(keys["poor"], server_url=served.address)
        poor.translate_text("ba ce di", **zh())
        assert (poor.get_usage().character.count, poor.get_usage().character.limit) == (8, 10)
        with pytest.raises(deepl.QuotaExceededException):
            poor.translate_text("fo gu", **zh())
        with pytest.raises(deepl.QuotaExceededException):
            poor.translate_document_upload(b"fo gu", filename="a.txt", **zh())
        assert served.guard.context.documents.under_way == 0
        poor.translate_text("ba", **zh())
        assert poor.get_usage().any_limit_reached

        slow = deepl.DeepLClient(keys["slow"], server_url=served.address)
        slow.translate_text("ba", **zh())
        slow.get_usage()
        with pytest.raises(deepl.TooManyRequestsException):
            slow.translate_text("ba", **zh())


def test_a_busy_service_is_told_as_such(settings: ServeSettings) -> None:
    limits = RequestLimits(translate_seconds=1e-6)
    with Served(settings.model_copy(update={"limits": limits})) as served:
        client = deepl.DeepLClient("any", server_url=served.address)
        with pytest.raises(deepl.DeepLException, match="Service unavailable") as told:
            client.translate_text("ba ce", **zh())
        assert told.value.should_retry
