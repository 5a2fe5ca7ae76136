"""A directory of MarianMT as Marian's own archive, for pymarian to translate with the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

_KINDS = {"self_attn": "self", "encoder_attn": "context"}
_SETTINGS = {
    "type": "transformer", "transformer-ffn-depth": 2, "transformer-preprocess": '""', "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d", "transformer-decoder-autoreg": "self-attention",
    "transformer-train-position-embeddings": "false", "transformer-no-projection": "false",
    "transformer-tied-layers": "[]", "transformer-dim-aan": 2048, "lemma-dim-emb": 0, "tied-embeddings": "false",
    "tied-embeddings-all": "true", "tied-embeddings-src": "false", "layer-normalization": "false", "skip": "false",
    "right-left": "false", "version": "v1.12.42 0000000 2024-01-01 00:00:00 +0000",
}  # fmt: skip


def write_archive(theirs: Path, folder: Path) -> None:
    """Write `model.npz` and `vocab.yml` of a directory that transformers saved, of one vocabulary."""
    folder.mkdir()
    config = json.loads((theirs / "config.json").read_text())
    found = load_file(theirs / "model.safetensors")
    table = found["model.shared.weight"][:-1]  # without <pad>, which Marian does not have
    arrays: dict[str, Any] = {"Wemb": table, "decoder_ff_logit_out_b": found["final_logits_bias"][:, :-1]}
    for name, array in found.items():
        if ".layers." in name:
            arrays[_name_of(name)] = array[None] if array.ndim == 1 else np.ascontiguousarray(array.T)
    settings = {
        **_SETTINGS, "dim-emb": config["d_model"], "dim-vocabs": [len(table)] * 2,
        "enc-depth": config["encoder_layers"], "dec-depth": config["decoder_layers"],
        "transformer-heads": config["encoder_attention_heads"], "transformer-dim-ffn": config["encoder_ffn_dim"],
        "transformer-ffn-activation": config["activation_function"],
    }  # fmt: skip
    text = "".join(f"{name}: {value}\n" for name, value in settings.items())
    arrays["special:model.yml"] = np.frombuffer(text.encode() + b"\0", dtype=np.int8)
    np.savez(folder / "model.npz", **arrays)
    names = json.loads((theirs / "vocab.json").read_text())
    lines = (f"{json.dumps(name)}: {number}\n" for name, number in names.items() if number < len(table))
    (folder / "vocab.yml").write_text("".join(lines))


def _name_of(name: str) -> str:
    """The name of a layer's array: `model.decoder.layers.0.fc1.bias` is `decoder_l1_ffn_b1`."""
    _, stack, _, layer, part, *rest = name.split(".")
    kind = "W" if rest[-1] == "weight" else "b"
    norm = f"ln_{'scale' if kind == 'W' else 'bias'}"
    start = f"{stack}_l{int(layer) + 1}"
    if part.startswith("fc"):
        return f"{start}_ffn_{kind}{part[-1]}"
    if part == "final_layer_norm":
        return f"{start}_ffn_ffn_{norm}"
    if part.endswith("_layer_norm"):
        return f"{start}_{_KINDS[part.removesuffix('_layer_norm')]}_Wo_{norm}"
    return f"{start}_{_KINDS[part]}_{kind}{rest[0][0]}"
