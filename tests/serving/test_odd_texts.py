"""Whatever a text is made of, it is text: outputs are valid, and those of `Translator.translate`."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.text.sentences import split_text
from served import Served

ODD = [
    "caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9"), "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\u202eab\u202c", "\u200fba\u200e", "a\0b", "\0", "\ue000\uf8ff\U0010fffd", ">>en<< ba", ">>xx<<", "</s>",
    "ba </s> ce", "<pad>", "<unk>", "<s> ba", "<mask>", "\u2581ba", "@@", "ba\ufeff", "\ufffe\uffff", "\U0010ffff",
    "\x7f\x1b[31m", "&lt;b&gt;", "\u0301", "1" * 99,
]  # fmt: skip
CONTROL = ("</s>", "<pad>", "<s>", "<mask>")


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.from_pretrained(model, engine="native")


def told(service: Served, text: str, **more: object) -> dict:
    body = {"text": text, "source": "zh", "target": "en", "tokens": True, **more}
    answer = service.client.post("/v1/translate", json=body)
    assert answer.status_code == 200, answer.text
    answer.content.decode("utf-8")
    return answer.json()["translations"][0]


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_odd_texts_are_translated_as_they_are(service: Served, translator: Translator, text: str) -> None:
    found = told(service, text, split_sentences=False)
    (expected,) = translator.translate([text.strip()])
    assert [one["text"] for one in found["segments"]] == [expected.text]
    assert found["text"].strip() == expected.text.strip()
    assert found["unknown"] == expected.unknown
    tokens = [token["text"] for token in found["segments"][0]["tokens"]]
    assert not any(token in CONTROL for token in tokens)
    assert found["segments"][0]["source_tokens"] == list(expected.source_tokens)
    libre = service.client.post("/translate", json={"q": text, "source": "zh", "target": "en"})
    assert libre.status_code == 200


@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00", r"\udc00\ud800", r"ba\uD83D ce", r"\ud83d\ud83d\ude00"])
def test_half_characters_become_the_replacement(service: Served, translator: Translator, escape: str) -> None:
    whole = json.loads(f'"{escape}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    for path, body in (
        ("/v1/translate", '{"text": "%s", "source": "zh", "target": "en"}'),
        ("/translate", '{"q": "%s", "source": "zh", "target": "en"}'),
    ):
        data = (body % escape).encode()
        answer = service.client.post(path, content=data, headers={"content-type": "application/json"})
        assert answer.status_code == 200
        text = answer.json()["translatedText"] if path == "/translate" else answer.json()["translations"][0]["text"]
        assert text == translator.translate([whole])[0].text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", r'{"q": "ba", "source": "\ud800", "target": "en"}'),
        ("/translate", r'{"q": "ba", "source": "zh", "target": "\udfff"}'),
        ("/translate", r'{"q": "ba", "source": "zh", "target": "en", "format": "\ud800"}'),
        ("/v1/translate", r'{"text": "ba", "source": "\ud800"}'),
        ("/v1/translate", r'{"text": "ba", "model": "\ud800"}'),
        ("/v1/translate", r'{"text": "ba", "\ud800": 1}'),
        ("/v1/translate", r'{"text": "ba", "format": "\ud800"}'),
        ("/v1/alternatives", r'{"text": "ba", "prefix": "\ud800", "source": "zh", "target": "en"}'),
        ("/v1/detect", r'{"text": "\ud800"}'),
        ("/v1/detect", '{"text": "\udc80"}'),
    ],
)
def test_half_characters_harm_nowhere(service: Served, path: str, body: str) -> None:
    data = body.encode("utf-8", "surrogateescape")
    answer = service.client.post(path, content=data, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 404, 422)
    answer.json()


sentences = st.lists(st.sampled_from(["ba", "ce", "di", "fo", "xx", "猫", "é"]), min_size=1, max_size=9).map(" ".join)


@settings(max_examples=40)
@given(text=st.one_of(st.text(max_size=30), sentences))
def test_what_is_served_is_what_the_translator_gives(service: Served, translator: Translator, text: str) -> None:
    found = told(service, text)
    segments = split_text(text, "zh")
    expected = [one.text for one in translator.translate([segment.text for segment in segments])]
    assert [one["text"] for one in found["segments"]] == expected
    if len(segments) == 1:
        assert found["text"] == segments[0].before + expected[0] + segments[0].after
