"""What every profile does with a state: each entry used once, and all that is wrong with it named at once."""

from __future__ import annotations

import argparse
import re

import numpy as np
import pytest
import safetensors.torch
import test_d2l
import test_jadore
import test_lsdefine
import test_marian
import test_paddle
import test_torch_nn
import torch
from traces import check_searches, steps

from dragoman import profiles
from dragoman.errors import ModelError
from dragoman.nn import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    Generator,
    InputEmbedding,
    PostNorm,
    SinusoidalPositions,
    TokenEmbedding,
    Transformer,
)
from dragoman.profiles import annotated, d2l, jadore, lsdefine, marian, paddle, torch_nn
from dragoman.profiles.weights import Weights


def annotated_state(variant):
    state = annotated.initial_weights(9, 7, 2, 12, 20, variant=variant)
    return state, lambda entries: annotated.load(entries, h=3, variant=variant, max_len=9)


def jadore_state(variant):
    state = jadore.initial_weights(9, 7, 12, 18, 2, 3, 3, 5, variant=variant)
    return state, lambda entries: jadore.load(entries, n_head=3, variant=variant)


def d2l_state(edition):
    state = test_d2l.trained(use_bias=True)
    state = test_d2l.as_paddle(state) if edition == "paddle" else state
    return state, lambda entries: d2l.load(entries, 2, edition=edition, max_len=9)


def torch_nn_state():
    return dict(test_torch_nn.Shape().theirs().state_dict()), lambda entries: torch_nn.load(entries, pad=1, nhead=2)


def marian_state():
    shape = test_marian.Shape()
    kept = re.compile("layers|shared|logits")  # as saved: no tables of positions, and what is tied once
    return {name: tensor for name, tensor in shape.theirs().state_dict().items() if kept.search(name)}, shape.ours


SYSTEMS = {
    "annotated": lambda: annotated_state("repository"),
    "annotated, article": lambda: annotated_state("article"),
    "jadore": lambda: jadore_state("repository"),
    "jadore, article": lambda: jadore_state("article"),
    "jadore, early 2020": lambda: jadore_state("early_2020"),
    "d2l, PyTorch": lambda: d2l_state("pytorch"),
    "d2l, Paddle": lambda: d2l_state("paddle"),
    "torch_nn": torch_nn_state,
    "marian": marian_state,
    "paddle": lambda: (test_paddle.weights(6, 3, 4, 5), lambda entries: paddle.load(entries, 7, 4)),
}
# The first may be absent; the second alone tells the width of what goes out.
SPECIAL = {"final_logits_bias", "W_o.weight"}
systems = pytest.mark.parametrize("system", SYSTEMS)


def one_of_each_kind(state):
    """Names that differ by more than numbers, the first of each kind."""
    kinds = {re.sub(r"\d+", "#", name): name for name in reversed(list(state))}
    return sorted(set(kinds.values()) - SPECIAL)


def complaints(load, state):
    with pytest.raises(ModelError) as caught:
        load(state)
    return re.findall(r"^  (\S+): ", str(caught.value), re.MULTILINE)


@systems
def test_a_missing_entry_is_named_and_nothing_else(system):
    state, load = SYSTEMS[system]()
    load(state)
    for name in one_of_each_kind(state):
        assert complaints(load, {key: value for key, value in state.items() if key != name}) == [name]


@systems
def test_a_misshapen_entry_is_named_and_nothing_else(system):
    state, load = SYSTEMS[system]()
    for number, name in enumerate(one_of_each_kind(state)):
        wrong = np.zeros(()) if number % 2 else np.zeros((2, 3, 4, 5))
        assert complaints(load, state | {name: wrong}) == [name]


@systems
def test_all_that_is_wrong_is_named_at_once(system):
    state, load = SYSTEMS[system]()
    missing, misshapen, *_ = one_of_each_kind(state)
    wrong = state | {misshapen: np.zeros((2, 3, 4)), "stray.weight": np.zeros(2), "settings": argparse.Namespace(d=1)}
    del wrong[missing]
    found = complaints(load, wrong)
    assert sorted(found) == sorted([missing, misshapen, "stray.weight", "settings"])


@systems
def test_what_is_loaded_is_in_evaluation_mode(system):
    state, load = SYSTEMS[system]()
    assert not load(state).training
    assert not any(module.training for module in load(state).modules())


def test_what_is_built_is_in_training_mode():
    small = {"d_model": 8, "pad_token_id": 8, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    fresh = [
        annotated.build(9, 7, 1, 12, 20, 3),
        jadore.build(9, 9, 1, 1, 12, 12, 18, 1, 3, 3, 5),
        d2l.build(9, 7, 8, 6, 2, 1),
        lsdefine.build(9, 7, 9, 8, 6, 2, 1),
        torch_nn.build(9, 7, pad=1, d_model=8, nhead=2, dim_feedforward=12),
        marian.build(vocab_size=9, encoder_layers=1, decoder_layers=1, **small),
        paddle.build(4, 6, 3, 5, 2),
    ]
    assert all(model.training for model in fresh)
    assert not lsdefine.load(test_lsdefine.oracle().state, 2).training


def test_another_system_is_told():
    state, _ = jadore_state("repository")
    with pytest.raises(ModelError, match=r"not the weights of The Annotated Transformer(.|\n)*decoder.layer_norm"):
        annotated.load(state, h=3)
    with pytest.raises(ModelError, match=r"found: *nothing"):
        annotated.load({}, h=3)


def test_arrays_of_any_kind_are_read():
    order = np.arange(6.0).reshape(2, 3)
    frozen = order.copy()
    frozen.flags.writeable = False
    kinds = {"turned": order[::-1], "by column": np.asfortranarray(order), "frozen": frozen, "half": order.astype("f2")}
    weights = Weights({**kinds, "whole": torch.arange(6).view(2, 3)}, "nobody", torch.float64)
    for name, array in {**kinds, "whole": order}.items():
        assert np.array_equal(weights.take(name, (2, 3)).numpy(), array)
    weights.finish()


def test_an_entry_used_twice_is_named():
    weights = Weights({"a": np.zeros(2)}, "nobody")
    weights.take("a", (2,))
    weights.take("a", (2,))
    with pytest.raises(ModelError, match="a: used twice"):
        weights.finish()


# The commands that make safetensors


def checkpoint_of(name, folder):
    """Saves what such a system saves, under the name in its command; gives the arguments of the command."""
    if name == "annotated":
        torch.save(annotated_state("repository")[0], folder / "multi30k_model_final.pt")  # noqa: TID251
    elif name == "jadore":
        state = test_jadore.trained(tied=False, **test_jadore.SMALL)
        state["trg_word_prj.weight"] = state["decoder.trg_word_emb.weight"]
        whole = {"epoch": 3, "settings": argparse.Namespace(n_head=3), "model": state}
        torch.save(whole, folder / "model.chkpt")  # noqa: TID251
    elif name == "torch_nn":
        torch.save(torch_nn_state()[0], folder / "model.pt")  # noqa: TID251
    elif name == "d2l":
        state = {key: torch.from_numpy(array) for key, array in test_d2l.trained().items()}
        torch.save(state, folder / "IN.params")  # noqa: TID251
    else:
        test_marian.Shape(dtype=torch.float32).theirs().save_pretrained(folder / "DIRECTORY")


LOADS = {
    "annotated": ("annotated.safetensors", lambda state: annotated.load(state, h=3)),
    "jadore": ("jadore.safetensors", lambda state: jadore.load(state, n_head=3)),
    "torch_nn": ("model.safetensors", lambda state: torch_nn.load(state, pad=1, nhead=2)),
    "d2l": ("OUT.safetensors", lambda state: d2l.load(state, 2)),
    "marian": ("NEW/model.safetensors", lambda state: test_marian.Shape(dtype=torch.float32).ours(state)),
}


@pytest.mark.parametrize("name", LOADS)
def test_the_command_in_the_docstring_makes_what_is_loaded(name, tmp_path, monkeypatch):
    file, load = LOADS[name]
    checkpoint_of(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["-c", "IN.params", "OUT.safetensors"])
    commands = re.findall(r'python -c "(.*?)"', getattr(profiles, name).__doc__, re.DOTALL)
    exec(compile(commands[0], name, "exec"), {})
    assert not load(safetensors.torch.load_file(tmp_path / file)).training


@pytest.mark.parametrize("name", ["d2l", "lsdefine", "paddle"])
def test_commands_that_need_other_libraries_are_python(name):
    commands = re.findall(r'python -c "(.*?)"', getattr(profiles, name).__doc__, re.DOTALL)
    compile(commands[-1], name, "exec")
    assert "save_file" in commands[-1]


# The article on attention in Paddle has no model: its attention in one of ours


def test_attention_of_the_paddle_article_translates_through_the_cached_search():
    torch.manual_seed(1)

    def attention():
        return paddle.to_block(paddle.build(9, 12, 5, 12, 3, dtype=torch.float64))

    def layer(kind, *more):
        return kind(attention(), FeedForward(12, 20), lambda: PostNorm(12), *more)

    def embedding():
        return InputEmbedding(TokenEmbedding(15, 12), SinusoidalPositions(12))

    encoder = Encoder([layer(EncoderLayer) for _ in range(2)])
    decoder = Decoder([layer(DecoderLayer, attention()) for _ in range(2)])
    model = Transformer(embedding(), embedding(), encoder, decoder, Generator(12, 15), pad=0).double().eval()
    source, target = torch.randint(4, 15, (3, 6)), torch.randint(4, 15, (3, 5))
    source[1, 3:] = 0
    with torch.no_grad():
        assert (steps(model, source, target) - model(source, target)).abs().max() <= 1e-10
    check_searches(model, [torch.randint(4, 15, (length,)) for length in (6, 2, 4)], bos=2, eos=3, pad=0)
