"""Two systems side by side: equal where they are the same, the first stage where they part, int8 as in the engines."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.inspector import differences, inspect, offline_page
from dragoman.inspector.record import Inspection
from dragoman.translation import Translator
from end_to_end import small
from inspector.records import validator

TEXT, TARGET = "ba ce di fo gu", "ri pa ne mu"


@pytest.fixture(scope="module")
def model() -> Translator:
    made = small.translator(small.word_pair(), 1, num_encoder_layers=1, num_decoder_layers=1)
    models = [one.float() for one in made.transformers]
    return Translator(models, made.tokenizers, DecodingConfig(max_length=8), engine="module")


@pytest.fixture(scope="module")
def usual(model: Translator) -> Inspection:
    return inspect(model, TEXT, beam_size=3, views=False)


def against(model: Translator, other: str | Translator, **how: Any) -> dict[str, Any]:
    found = inspect(model, TEXT, beam_size=3, against=other, views=False, **how)
    assert not [error.message for error in validator().iter_errors(json.loads(found.json()))]
    return found.record["against"]


def test_greedy_search_is_the_same_model(model: Translator) -> None:
    told = against(model, "greedy")
    assert told["output"] == inspect(model, TEXT, beam_size=1, views=False).record["output"]
    assert told["first"] is None
    assert max(stage["largest"] for stage in told["stages"]) < 1e-5
    step = told["apart"]
    rows = [(row["one"], row["other"]) for row in told["steps"]]
    assert all(one == other for one, other in rows[: step - 1 if step else None])
    assert step is None or rows[step - 1][0] != rows[step - 1][1]


def test_int8_is_what_the_engines_compute(model: Translator, usual: Inspection) -> None:
    told = against(model, "int8")
    first = next(stage for stage in told["stages"] if stage["stage"] == told["first"])
    assert first["stage"] == "encoder.layers.0.self_attention.query"
    forced = inspect(model, TEXT, [piece["id"] for piece in usual.record["output"]["pieces"][:-1]], precision="int8")
    place = tuple(first["place"])
    assert first["one"] == pytest.approx(float(usual.arrays[first["stage"]][place]))
    assert first["other"] == pytest.approx(float(forced.arrays[first["stage"]][place]))
    assert first["largest"] == pytest.approx(abs(first["one"] - first["other"]))
    engine = Translator(
        model.transformers, model.tokenizers, model.decoding, engine="packed", precision="int8"
    )  # fmt: skip
    text = inspect(model, TEXT, TARGET, precision="int8", views=False)
    sums = sum(step["log_probability"] for step in text.record["reference"]["steps"])
    assert sums == pytest.approx(engine.score([TEXT], [TARGET])[0].log_probability, abs=1e-3)


def test_conventions_part_where_their_stages_do(model: Translator, usual: Inspection) -> None:
    told = against(model, "marian")
    ids = [piece["id"] for piece in usual.record["output"]["pieces"][:-1]]
    same, other = (inspect(model, TEXT, ids, convention=name, views=False) for name in (None, "marian"))
    expected = {each.stage: each.largest for each in differences(same, other)}
    found = {stage["stage"]: stage["largest"] for stage in told["stages"] if stage["largest"] >= 1e-5}
    assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-5)
    assert told["first"] == "source_embedding.position_rows"
    assert all(name.endswith(".norm") for name in told["only_one"])
    assert all(name.endswith(".sum") for name in told["only_other"])


def test_another_model_with_other_words_has_no_common_places(model: Translator) -> None:
    other = small.translator(small.word_pair("ba", "xi", "yo"), 2)
    told = against(model, other)
    assert not told["same_input"]
    assert told["stages"] == []
    assert len(told["steps"]) >= len(told["output"]["pieces"])


def test_a_target_is_a_text_or_ids(model: Translator) -> None:
    ids = model.tokenizers.target.encode(TARGET)
    one, other = inspect(model, TEXT, TARGET, views=False), inspect(model, TEXT, ids, views=False)
    assert json.loads(one.json()) == json.loads(other.json())
    with pytest.raises(ConfigError, match="not in the vocabulary"):
        inspect(model, TEXT, [1 << 20])
    with pytest.raises(ConfigError, match="no such precision"):
        inspect(model, TEXT, precision="int4")


def test_a_page_offers_changes(model: Translator) -> None:
    found = inspect(model, TEXT, beam_size=3, presets=True)
    assert list(found.presets) == ["greedy", "causal", "head", "beside", "padding"]
    causal = found.presets["causal"]
    assert causal.record["what_if"]["causal_mask"] is False
    assert np.array_equal(causal.arrays["memory"], found.arrays["memory"])
    assert found.presets["beside"].record["source"]["padding"] > 0
    page = offline_page(found)
    assert page.count("data-preset=") == len(found.presets)
    assert "data-preset" not in offline_page(inspect(model, TEXT, views=False))
