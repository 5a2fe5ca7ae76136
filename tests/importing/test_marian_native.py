"""Marian's own archives: the same as the profile of Marian makes of the same weights, and refusals by name."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import dragoman
from dragoman import Translator
from dragoman.errors import ModelError
from dragoman.importing.marian import SETTINGS
from dragoman.models import load_pretrained
from dragoman.profiles import marian
from importing_directories import MAKERS
from oracle.marian_directory import texts
from oracle.marian_native import make_native


def as_transformers(file: Path) -> dict[str, torch.Tensor]:
    """The weights of an archive under the names of transformers, with a row of zeros for `<pad>`."""
    found: dict[str, torch.Tensor] = {}
    parts = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
    kinds = {"self": "self_attn", "context": "encoder_attn"}
    with np.load(file) as arrays:
        for name in arrays.files:
            array = torch.from_numpy(arrays[name])
            if name == "Wemb":
                found["model.shared.weight"] = torch.cat([array, torch.zeros(1, array.shape[1])])
            elif name == "decoder_ff_logit_out_b":
                found["final_logits_bias"] = torch.cat([array, torch.zeros(1, 1)], dim=1)
            elif name != SETTINGS:
                stack, layer, kind, *rest = name.split("_")
                start, own = f"model.{stack}.layers.{int(layer[1:]) - 1}", "_".join(rest)
                end = "bias" if own.startswith("b") or own.endswith("bias") else "weight"
                if "ln" in own:
                    place = "final_layer_norm" if kind == "ffn" else f"{kinds[kind]}_layer_norm"
                else:
                    place = f"fc{own[1]}" if kind == "ffn" else f"{kinds[kind]}.{parts[own[1]]}"
                found[f"{start}.{place}.{end}"] = array[0] if array.shape[0] == 1 else array.T.contiguous()
    return found


@pytest.mark.parametrize("activation", ["swish", "relu"])
def test_it_computes_what_marian_does(activation: str, tmp_path: Path) -> None:
    make_native(tmp_path / "theirs", 3, activation=activation)
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    state = as_transformers(tmp_path / "theirs" / "model.npz")
    pad = len(state["model.shared.weight"]) - 1
    theirs = marian.load(state, pad_token_id=pad, encoder_attention_heads=2, decoder_attention_heads=2,
                         activation_function=activation, scale_embedding=True, positions="marian",
                         layer_norm_eps=1e-6)  # fmt: skip
    ours, tokenizers = (
        load_pretrained(tmp_path / "ours").model,
        Translator.from_pretrained(tmp_path / "ours").tokenizers,
    )
    back = [pad, 1, pad, 0, *range(2, pad)]  # of our ids
    for line in texts(6, 2):
        read, wrote = tokenizers.encode_source(line).framed, tokenizers.target.encode(line)
        with torch.no_grad():
            found = ours(torch.tensor([read]), torch.tensor([[2, *wrote]]))[0]
            decoder = torch.tensor([[pad, *(back[one] for one in wrote)]])
            expected = theirs(torch.tensor([[back[one] for one in read]]), decoder)[0]
        assert (found[:, 3:] - expected[:, back[3:]]).abs().max() <= 1e-5
        assert torch.all(found.softmax(-1)[:, [0, 2]] == 0)


def test_an_output_has_at_most_three_tokens_for_one_of_the_source(tmp_path: Path) -> None:
    MAKERS["marian"](tmp_path / "theirs")
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    translator = Translator.from_pretrained(tmp_path / "ours")
    for line in texts(8, 4):
        read = len(translator.tokenizers.encode_source(line).framed)
        (found,) = translator.translate([line])
        assert len(found.tokens) <= 3 * read
        assert math.isfinite(found.score)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [("autoreg: self-attention", "autoreg: rnn", "transformer-decoder-autoreg"),
     ('preprocess: ""', "preprocess: n", "transformer-preprocess"),
     ("lemma-dim-emb: 0", "lemma-dim-emb: 4", "lemma-dim-emb"),
     ("skip: false", "skip: false\nmoe-experts: 4", "moe-experts"),
     ("type: transformer\n", "type: s2s\n", "type")],
)  # fmt: skip
def test_other_models_of_marian_are_refused_by_name(old: str, new: str, told: str, tmp_path: Path) -> None:
    make_native(tmp_path / "theirs", changes={old: new})
    with pytest.raises(ModelError, match=told):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")


def test_joeynmt_translates_words(tmp_path: Path) -> None:
    MAKERS["joeynmt"](tmp_path / "theirs")
    made = dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    assert made.kind == "joeynmt"
    translator = Translator.from_pretrained(tmp_path / "ours")
    assert translator.tokenizers.source.decode(translator.tokenizers.source.encode("w1 w7")) == "w1 w7"
    assert set(translator.translate(["w3 w4"], max_length=5)[0].text.split()) <= {f"w{number}" for number in range(20)}
