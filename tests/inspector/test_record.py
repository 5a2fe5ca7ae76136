"""Records of models of any shape hold together, fit their schema, and say what translating says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dragoman
from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError, DataError
from dragoman.inspector.conventions import CONVENTIONS, differences
from dragoman.inspector.inspecting import inspect
from dragoman.inspector.record import Inspection, schema
from dragoman.markov import FirstOrder
from dragoman.memory import make_datastore
from dragoman.nn import MultiHeadAttention, Transformer
from dragoman.translation import Translator
from end_to_end import small
from inspection.systems import SYSTEMS, founding_system
from inspector.records import check, nodes_of, validator

TEXT, TARGET = "ba ce di fo gu", "ri pa ne mu"
LONG = "ba ce di fo gu ha ki lo mu"

shapes = st.fixed_dictionaries(
    {
        "norm": st.sampled_from(["pre", "post"]),
        "positions": st.sampled_from(["interleaved", "concatenated", "rotary", "rotary-cross", "relative", "alibi"]),
        "tie_embeddings": st.sampled_from(["none", "decoder", "all"]),
        "num_heads": st.sampled_from([1, 2, 4]),
        "num_encoder_layers": st.integers(1, 2),
        "num_decoder_layers": st.integers(1, 2),
        "bias": st.booleans(),
        "generator_bias": st.booleans(),
    }
)
penalties = st.sampled_from([(0.0, "gnmt"), (1.0, "gnmt"), (0.6, "power"), (0.4, "reward")])
few = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def translator(seed: int = 1, **sizes: object) -> Translator:
    """In float32, in which sums of stages are exact."""
    made = small.translator(small.word_pair(), seed, **sizes)
    models = [model.float() for model in made.transformers]
    right_to_left = bool(sizes.get("right_to_left"))
    decoding = DecodingConfig(max_length=8)
    return Translator(models, made.tokenizers, decoding, engine="module", right_to_left=right_to_left)


@few
@given(shape=shapes, seed=st.integers(0, 50), size=st.integers(1, 5), penalty=penalties, given_target=st.booleans())
def test_any_encoder_decoder(
    shape: dict[str, Any], seed: int, size: int, penalty: tuple[float, str], given_target: bool
) -> None:
    model = translator(seed, **shape)
    alpha, formula = penalty
    options: dict[str, Any] = {"beam_size": size}
    if size > 1:
        options |= {"length_penalty": alpha, "length_penalty_formula": formula}
    found = inspect(model, TEXT, TARGET if given_target else None, **options)
    check(found)
    expected = model.translate([TEXT], n_best=size, **options)[0].alternatives
    final = found.record["beam"]["final"]
    assert [one["text"] for one in final] == [one.text for one in expected]
    assert [one["score"] for one in final] == pytest.approx([one.score for one in expected], abs=1e-4)
    [greedy] = model.translate([TEXT], beam_size=1)
    assert model.tokenizers.target.decode(found.record["beam"]["greedy"]) == greedy.text
    for view in found.record["views"]:
        assert all(one["largest"] < 1e-3 for one in view["differences"].values())
    assert found.record["model"]["positions"] == shape["positions"].removesuffix("-cross")
    assert found.record["model"]["norm"] == shape["norm"]


def test_steps_with_a_cache_are_rows_of_the_pass_over_all_positions() -> None:
    found = inspect(translator(3), TEXT)
    arrays = found.arrays
    for view in found.record["views"]:
        t = view["t"]
        assert view["cached"] == {"queries": 1, "keys": t}
        assert view["prefix"] == {"queries": t, "keys": t}
        query = arrays[f"steps.{t}.decoder.layers.0.self_attention.query"]
        weights = arrays[f"steps.{t}.decoder.layers.0.self_attention.weights"]
        keys = arrays[f"steps.{t}.decoder.layers.0.self_attention.key"]
        assert (query.shape[2], weights.shape[2:], keys.shape[2]) == (1, (1, t), t)
        whole = arrays["decoder.layers.0.self_attention.weights"]
        assert np.abs(weights[:, :, 0] - whole[:, :, t - 1, :t]).max() < 1e-5
        assert (whole[:, :, t - 1, t:] == 0).all()
        prefix = arrays[f"steps.{t}.prefix.decoder.layers.0.self_attention.weights"]
        assert np.abs(prefix - whole[:, :, :t, :t]).max() < 1e-5


@pytest.mark.parametrize("decoder", ["shared", "own"])
def test_both_directions(decoder: str) -> None:
    model = translator(5, right_to_left=True, right_to_left_decoder=decoder)
    found = inspect(model, TEXT, TARGET, beam_size=4)
    check(found)
    expected = model.translate([TEXT], beam_size=4, n_best=4)[0].alternatives
    final = found.record["beam"]["final"]
    assert [one["text"] for one in final] == [one.text for one in expected]
    assert [one["right_to_left"] for one in final] == pytest.approx([one.right_to_left for one in expected], abs=1e-4)
    assert found.record["search"]["right_to_left_share"] == 0.5


def test_a_datastore(tmp_path: Path) -> None:
    tokenizers = small.word_pair()
    made = small.model(small.shape(tokenizers))
    assert isinstance(made, Transformer)
    small.save(tmp_path / "model", made.float(), small.shape(tokenizers), tokenizers, DecodingConfig(max_length=12))
    rows = [tokenizers.source.encode(text) for text in small.sentences(12, longest=6)]
    make_datastore(made, [(row, row[::-1]) for row in rows], tmp_path / "model").save(tmp_path / "model")
    found = inspect(tmp_path / "model", TEXT, beam_size=3)
    check(found)
    [expected] = Translator.from_pretrained(tmp_path / "model", engine="module").translate([TEXT], beam_size=3)
    assert found.record["output"]["text"] == expected.text
    for step, event in zip(found.record["steps"], best_path(found), strict=True):
        assert math.log(step["retrieval"]["together"]) == pytest.approx(event["log_probability"], abs=1e-3)


def best_path(found: Inspection) -> list[dict[str, Any]]:
    """The candidates that the output runs through."""
    events = {(event["parent"], event["token"]): event for event in found.record["beam"]["events"]}
    path, parent = [], None
    for token in [*found.record["beam"]["final"][0]["ids"], 3]:
        path.append(events[parent, token])
        parent = path[-1]["id"]
    return path


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_founding_systems_have_records_too(system: str) -> None:
    torch.manual_seed(2)
    found = inspect(Translator([founding_system(system)], small.word_pair()), TEXT, TARGET, beam_size=2, max_length=5)
    check(found)
    assert len(found.record["model"]["attentions"]) == 3


def test_a_causal_model(tmp_path: Path) -> None:
    found = inspect(small.saved(tmp_path / "model", small.word_pair(), "causal"), "ba ce", beam_size=3)
    check(found)
    assert found.record["source"] is None
    assert found.record["prompt"] == 2
    assert {node["stack"] for node in nodes_of(found).values()} <= {"decoder", ""}


@pytest.mark.parametrize("text", ["ba <mask> ce <mask>", "ba ce"])
def test_a_masked_model(tmp_path: Path, text: str) -> None:
    found = inspect(small.masked(tmp_path / "model"), text)
    check(found)
    assert len(found.record["steps"]) == text.count("<mask>")
    assert found.record["beam"] is None


def test_a_markov_model(tmp_path: Path) -> None:
    pair = small.word_pair()
    rows = [pair.target.encode(text) for text in small.sentences(40)]
    FirstOrder.fit(rows, len(pair.target)).save(tmp_path)
    pair.save(tmp_path)
    found = inspect(tmp_path, "ba", beam_size=3)
    check(found)
    assert found.record["model"]["family"] == "markov"
    assert found.record["graph"]["nodes"] == []
    with pytest.raises(ConfigError, match="neither heads nor masks"):
        inspect(tmp_path, "ba", causal_mask=False)


def test_embeddings_have_neighbours_and_places() -> None:
    model = translator(2, tie_embeddings="all")
    found = inspect(model, TEXT)
    told = found.record["embeddings"]["source"]
    assert told["array"] == found.record["embeddings"]["target"]["array"]
    table = found.arrays[told["array"]].astype(np.float64)
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    for one in told["pieces"]:
        cosines = unit @ unit[one["id"]]
        cosines[one["id"]] = -2
        best = np.sort(cosines)[::-1][:8]
        assert [value for _, _, value in one["nearest"]] == pytest.approx(best, abs=1e-4)
        assert [cosines[other] for other, _, _ in one["nearest"]] == pytest.approx(best, abs=1e-4)
    centred = table - table.mean(0)
    spread = np.linalg.svd(centred, compute_uv=False) ** 2
    assert told["explained"] == pytest.approx(spread[:2].sum() / spread.sum(), abs=1e-4)
    places = np.array([[x, y] for _, _, x, y in told["map"]])
    rows = centred[[token for token, *_ in told["map"]]]
    assert (np.linalg.norm(places, axis=1) <= np.linalg.norm(rows, axis=1) + 1e-6).all()
    assert {token for token, *_ in told["map"]} >= {piece["id"] for piece in found.record["source"]["pieces"]}


def test_heads_switched_off_give_nothing_and_others_do_not_notice() -> None:
    model = translator(2)
    before, name = inspect(model, TEXT), "encoder.layers.0.self_attention"
    found = inspect(model, TEXT, heads_off=[(name, 1)])
    check(found)
    assert (found.arrays[f"{name}.mixed"][:, 1] == 0).all()
    assert (found.arrays[f"{name}.mixed"][:, 0] == before.arrays[f"{name}.mixed"][:, 0]).all()
    assert np.abs(found.arrays["memory"] - before.arrays["memory"]).max() > 1e-3
    again = inspect(model, TEXT)
    assert all((again.arrays[key] == before.arrays[key]).all() for key in before.arrays)
    assert not any(part._forward_pre_hooks for one in model.transformers for part in one.modules())
    assert not any(part._observers for part in model.transformers[0].modules() if isinstance(part, MultiHeadAttention))
    with pytest.raises(ConfigError, match="no such head"):
        inspect(model, TEXT, heads_off=[(name, 2)])


def test_without_the_causal_mask_a_step_is_no_row_of_the_pass() -> None:
    model = translator(2)
    found = inspect(model, TEXT, causal_mask=False)
    check(found)
    first = found.record["views"][0]["differences"]
    assert first["cached_parallel"]["largest"] > 1e-2
    node = nodes_of(found)["decoder.layers.0.self_attention.mask"]
    assert (node["causal"], node["removed"]) == (False, ["causal"])
    assert found.arrays["decoder.layers.0.self_attention.mask"].all()


def test_padding_is_hidden_unless_its_mask_is_taken_away() -> None:
    model = translator(2)
    alone, beside = inspect(model, TEXT), inspect(model, TEXT, beside=LONG)
    check(beside)
    padded = beside.record["source"]["padding"]
    assert padded == 4
    length = len(alone.record["source"]["pieces"])
    assert beside.record["symbols"]["src"] == length + padded
    assert np.abs(beside.arrays["memory"][:, :length] - alone.arrays["memory"]).max() < 1e-4
    assert beside.record["output"] == alone.record["output"]
    assert nodes_of(beside)["encoder.layers.0.self_attention.mask"]["padding"] == [6, 7, 8, 9]
    assert beside.record["notes"] == []
    assert "no padding" in inspect(model, TEXT, beside="ba").record["notes"][0]
    without = inspect(model, TEXT, beside=LONG, padding_mask=False)
    check(without)
    assert np.abs(without.arrays["memory"][:, :length] - alone.arrays["memory"]).max() > 1e-2
    assert nodes_of(without)["encoder.layers.0.self_attention.mask"]["removed"] == ["padding"]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("system", CONVENTIONS)
def test_the_same_weights_by_the_conventions_of_other_systems(system: str, norm: str) -> None:
    model = translator(2, norm=norm)
    plain, found = inspect(model, TEXT, TARGET), inspect(model, TEXT, TARGET, convention=system)
    check(found)
    wanted = CONVENTIONS[system]
    assert found.record["model"]["norm"] == ("post" if wanted.post else "pre")
    apart = [one.stage for one in differences(plain, found)]
    assert ("source_embedding.tokens" in apart) != wanted.scaled
    assert ("source_embedding.position_rows" in apart) == (wanted.layout != "interleaved" or wanted.first != 0)
    first = apart[0] if apart else ""
    if system == "lsdefine":
        assert first == "source_embedding.tokens"
    elif system == "marian":
        assert first == "source_embedding.position_rows"
    elif system == "annotated" and norm == "pre":
        assert first == "encoder.layers.0.self_attention_residual.norm"
    assert not list(differences(plain, plain))
    assert not list(differences(plain, inspect(model, TEXT, TARGET)))
    with pytest.raises(ConfigError, match="no such system"):
        inspect(model, TEXT, convention="nobody's")


def test_a_forced_prefix_is_kept() -> None:
    model = translator(4)
    by_text = inspect(model, TEXT, prefix="mu ne", beam_size=3)
    check(by_text)
    ids = model.tokenizers.target.encode("mu ne")
    by_ids = inspect(model, TEXT, prefix=ids, beam_size=3)
    assert by_ids.record == by_text.record
    assert all(one["ids"][:2] == ids for one in by_text.record["beam"]["final"])
    assert [step["forced"] for step in by_text.record["steps"]][:3] == [True, True, False]
    [expected] = model.translate([TEXT], prefixes=["mu ne"], beam_size=3)
    assert by_text.record["output"]["text"] == expected.text
    with pytest.raises(ConfigError, match="not in the vocabulary"):
        inspect(model, TEXT, prefix=[999])


def test_a_target_is_judged() -> None:
    model = translator(5)
    [best] = model.translate([TEXT], beam_size=4)
    found = inspect(model, TEXT, best.text, beam_size=4)
    assert found.record["verdict"]["kind"] == "none"
    assert all(step["reference"]["id"] == step["writes"]["id"] for step in found.record["steps"])
    kinds = {beam: inspect(model, TEXT, "ba ba ba", beam_size=beam).record["verdict"]["kind"] for beam in (1, 4)}
    assert kinds == {1: "open", 4: "model error"}
    found = inspect(model, TEXT, "ba ba ba", beam_size=4)
    steps = found.record["reference"]["steps"]
    total = sum(step["log_probability"] for step in steps)
    [scored] = model.score([TEXT], ["ba ba ba"])
    assert total == pytest.approx(scored.log_probability, abs=1e-4)


def test_it_is_saved_and_read_again(tmp_path: Path) -> None:
    found = inspect(translator(1), TEXT)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for place, told in (("mine", "has other things"), ("trace.json", "two files")):
        with pytest.raises(ConfigError, match=told):
            found.save(tmp_path / place)
    again = Inspection.load(found.save(tmp_path / "trace"))
    assert found.save(tmp_path / "trace") == tmp_path / "trace", "a record takes the place of another"
    assert again.record == json.loads(found.json())
    assert again.arrays.keys() == found.arrays.keys()
    assert all((again.arrays[name] == values).all() for name, values in found.arrays.items())
    some = found.names(1)[:3]
    assert len(found.safetensors(some)) < len(found.safetensors())
    with pytest.raises(DataError, match="no such array"):
        found.safetensors(["nothing"])
    assert "Inspection(" in repr(found)
    assert found._repr_html_().startswith(("<table", "<iframe"))


def test_the_schema_refuses_what_it_does_not_know() -> None:
    record = json.loads(inspect(translator(1), TEXT).json())
    assert validator().is_valid(record)
    record["beam"]["events"][0]["fate"] = "lost"
    assert not validator().is_valid(record)
    assert schema()["properties"]["format"] == {"const": 1}


def test_it_is_a_public_name() -> None:
    assert dragoman.inspect is inspect
