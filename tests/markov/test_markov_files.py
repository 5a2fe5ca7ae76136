from __future__ import annotations

import json
import math

import pytest
import torch

from dragoman.errors import ModelError
from dragoman.markov import RUNGS, FirstOrder, SecondOrder, Skips, is_markov, load

VOCAB = 9
SEQUENCES = [[4, 5], [4, 5, 6], [4, 5, 7], [5, 6]]


@pytest.mark.parametrize("rung", RUNGS)
def test_what_was_saved_is_loaded_and_saved_again_alike(rung, tmp_path):
    model = rung.fit(SEQUENCES, VOCAB, k=0.5, backoff=2.0)
    model.save(tmp_path / "a")
    again = load(tmp_path / "a")
    assert type(again) is rung
    assert is_markov(tmp_path / "a")
    assert not is_markov(tmp_path)
    assert torch.equal(again.next([4, 5]), model.next([4, 5]))
    rung.load(tmp_path / "a").save(tmp_path / "b")
    for name in ("markov.json", "markov.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_another_kind_of_model_is_refused(tmp_path):
    FirstOrder.fit([[4]], VOCAB).save(tmp_path)
    with pytest.raises(ModelError, match="another kind"):
        SecondOrder.load(tmp_path)


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(ModelError, match="no Markov model here"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("kind", "third-order"), ("format", 2), ("vocab", "9"), ("vocab", 2), ("k", -1.0), ("bytes", 3), ("sha256", 7)],
)
def test_settings_that_do_not_hold_are_refused(name, value, tmp_path):
    FirstOrder.fit([[4]], VOCAB).save(tmp_path)
    file = tmp_path / "markov.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    with pytest.raises(ModelError):
        load(tmp_path)


def test_damage_is_seen(tmp_path):
    FirstOrder.fit([[4]], VOCAB).save(tmp_path)
    file = tmp_path / "markov.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ModelError, match="damaged"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("pairs.contexts", lambda it: it.flip(0)),
        ("pairs.contexts", lambda it: it + VOCAB**2),
        ("pairs.offsets", lambda it: it + 1),
        ("pairs.offsets", lambda it: it[:-1]),
        ("pairs.words", lambda it: it - VOCAB),
        ("pairs.words", lambda it: it * 0),
        ("first.counts", lambda it: it * 0),
        ("first.counts", lambda it: it.float()),
        ("first.words", lambda it: it[None]),
        ("first.words", None),
        ("mask", lambda it: it * 2),
        ("mask", lambda it: it * math.nan),
        ("mask", lambda it: it[1:]),
        ("mask", None),
    ],
)
def test_tables_that_do_not_hold_are_refused(name, change):
    parts = Skips.fit(SEQUENCES, VOCAB).parts()
    Skips.from_parts(VOCAB, parts, k=0.0, backoff=0.0)
    parts[name] = change(parts[name]) if change else None
    with pytest.raises(ValueError):
        Skips.from_parts(VOCAB, {key: value for key, value in parts.items() if value is not None}, k=0.0, backoff=0.0)
