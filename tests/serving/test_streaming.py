"""Streams: what is told to be sure stays, and in the end all is as without a stream."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from served import Served, slowed

PAIR = {"source": "zh", "target": "en"}
sentence = st.lists(st.sampled_from(["ba", "ce", "di", "fo", "gu.", "猫。"]), min_size=1, max_size=8).map(" ".join)
texts = st.lists(st.one_of(sentence, st.just(""), st.text(max_size=8)), min_size=1, max_size=4).map("\n".join)
greedy = st.fixed_dictionaries({"beam_size": st.just(1)}, optional={"split_sentences": st.booleans()})
beam = st.fixed_dictionaries({"beam_size": st.integers(2, 5)}, optional={"length_penalty": st.floats(0, 2)})
drawn = st.fixed_dictionaries(
    {"sampling": st.just(True), "seed": st.integers(0, 1000), "temperature": st.floats(0.5, 2)}
)


def events(text: str) -> list[tuple[str, dict]]:
    blocks = [block.split("\n", 1) for block in text.split("\n\n") if block and not block.startswith(":")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


@settings(max_examples=60)
@given(text=texts, how=st.one_of(greedy, beam, drawn))
def test_what_is_sure_stays_and_the_end_is_that_of_a_plain_request(service: Served, text: str, how: dict) -> None:
    body = {"text": text, **PAIR, **how}
    told = events(service.client.post("/v1/translate/stream", json=body).text)
    answer = service.client.post("/v1/translate", json=body)
    assert answer.status_code == 200, answer.text
    plain = answer.json()["translations"][0]
    assert [told[0][0], told[-1][0]] == ["start", "result"]
    assert told[-1][1]["text"] == plain["text"]
    assert [one["text"] for one in told[-1][1]["segments"]] == [one["text"] for one in plain["segments"]]
    sure = [data["stable"] for name, data in told if name == "progress"]
    for earlier, later in itertools.pairwise([*sure, plain["text"]]):
        assert later.startswith(earlier)


def test_the_seed_decides_whatever_else_goes_on(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    slowed(monkeypatch, 0.002)

    def ask(seed: int) -> str:
        body = {"text": "ba ce di fo gu", "sampling": True, "temperature": 1.5, "seed": seed, **PAIR}
        return service.client.post("/v1/translate", json=body).json()["translations"][0]["text"]

    alone = [ask(seed) for seed in range(8)]
    assert len(set(alone)) > 1
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, [*range(8)] * 4)) == alone * 4
