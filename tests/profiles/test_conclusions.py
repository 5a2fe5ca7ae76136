"""What a refused state most likely is, in the first line; heads that no weights tell are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
import test_annotated
import test_d2l
import test_jadore
import test_lsdefine
import torch
from torch import nn

from dragoman.errors import ConfigError, ModelError
from dragoman.profiles import annotated, d2l, jadore, lsdefine, marian, paddle, torch_nn

STATES = {
    "annotated": lambda: (
        test_annotated.trained(**test_annotated.SMALL, variant="repository"),
        annotated.load,
        {"h": 3},
    ),
    "jadore": lambda: (test_jadore.trained(**test_jadore.SMALL), jadore.load, {"n_head": 3}),
    "d2l": lambda: (test_d2l.trained(), d2l.load, {"num_heads": 2}),
}


def first_line(load, state, **options):
    with pytest.raises(ModelError) as caught:
        load(state, **options)
    lines = str(caught.value).splitlines()
    assert len(lines) <= 10
    return lines[0]


@pytest.mark.parametrize("name", STATES)
def test_wrappings_are_recognised(name):
    state, load, options = STATES[name]()
    load(state, **options)
    assert "this is a whole checkpoint: pass its 'model'" in first_line(load, {"model": state, "epoch": 3}, **options)
    wrapped = {f"module.{key}": value for key, value in state.items()}
    assert "names start with module." in first_line(load, wrapped, **options)


@pytest.mark.parametrize(
    ("load", "options"),
    [(annotated.load, {"h": 3}), (jadore.load, {"n_head": 3}), (d2l.load, {}), (lsdefine.load, {}),
     (torch_nn.load, {"pad": 1}), (marian.load, {"pad_token_id": 1}), (paddle.load, {"query_size": 3, "head_num": 1}),
     (paddle.load_single, {"query_size": 3})],
)  # fmt: skip
def test_a_path_is_recognised(load, options):
    for path in ("model.safetensors", Path("x/y.h5"), b"raw"):
        assert "a path was given" in first_line(load, path, **options)
    if load is not lsdefine.load:
        assert "a module was given" in first_line(load, nn.Linear(2, 2), **options)


def test_other_options_are_tried():
    theirs = test_lsdefine.oracle()
    with pytest.raises(ModelError, match="try mode=0"):
        lsdefine.load(theirs.state, 2, mode=1)
    state = test_d2l.trained()
    transposed = {key: value.T if value.ndim == 2 and "embedding" not in key else value for key, value in state.items()}
    assert "shapes are transposed: try edition='paddle'" in first_line(d2l.load, transposed, num_heads=2)
    state = test_jadore.trained(**test_jadore.SMALL)
    assert "try variant='repository'" in first_line(jadore.load, state, n_head=3, variant="article")


def test_heads_that_no_weights_tell_are_asked_for():
    for name in STATES:
        state, load, _ = STATES[name]()
        with pytest.raises(ConfigError, match="do not tell how many heads"):
            load(state)
    with pytest.raises(ConfigError, match="do not tell how many heads"):
        lsdefine.load(test_lsdefine.oracle().state)


def test_a_bare_transformer_needs_no_tables():
    torch.manual_seed(0)
    theirs = nn.Transformer(12, 2, 2, 1, 20, 0.0, batch_first=True).double().eval()
    with pytest.raises(ModelError, match="load_stacks"):
        torch_nn.load(theirs.state_dict(), pad=1, nhead=2)
    encoder, decoder = torch_nn.load_stacks(theirs.state_dict(), nhead=2, dtype=torch.float64)
    source, target = torch.randn(2, 5, 12).double(), torch.randn(2, 4, 12).double()
    future = nn.Transformer.generate_square_subsequent_mask(4).double()
    expected = theirs(source, target, tgt_mask=future)
    everything, causal = torch.ones(2, 1, 1, 5, dtype=torch.bool), torch.ones(4, 4, dtype=torch.bool).tril()
    memory = encoder(source, everything)
    found = decoder(target, causal, memory, everything)
    assert (found - expected).abs().max() <= 1e-12


def test_bleu_of_the_book():
    assert d2l.bleu("a b c", "a b c", 2) == 1.0
    assert d2l.bleu("a b", "a b c d", 2) == pytest.approx(2.718281828 ** (1 - 4 / 2))
    assert d2l.bleu("a x c", "a b c", 1) == pytest.approx((2 / 3) ** 0.5)
    assert d2l.bleu("a a", "a b", 1) == pytest.approx(0.5**0.5)
    assert d2l.bleu("", "a", 2) == 0.0


@pytest.mark.parametrize("edition", ["pytorch", "paddle"])
def test_attention_of_the_book_alone(edition):
    torch.manual_seed(1)
    state = {f"W_{part}.weight": torch.randn(8, 8).double() for part in "qkvo"}
    turned = {key: value.T.clone() for key, value in state.items()} if edition == "paddle" else state
    attention = d2l.load_attention(turned, 2, edition=edition, dtype=torch.float64)
    query, key = (torch.randn(1, n, 8).double() for n in (3, 5))
    heads = [(x @ state[f"W_{part}.weight"].T).view(1, -1, 2, 4).transpose(1, 2)
             for x, part in zip((query, key, key), "qkv", strict=True)]  # fmt: skip
    weights = (heads[0] @ heads[1].transpose(-1, -2) / 2).softmax(-1)
    expected = (weights @ heads[2]).transpose(1, 2).reshape(1, 3, 8) @ state["W_o.weight"].T
    assert (attention(query, key) - expected).abs().max() <= 1e-12
