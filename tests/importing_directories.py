"""A small directory of each kind that can be imported, and the languages that its import is given."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from dragoman.profiles import annotated
from oracle import opennmt, sockeye
from oracle.marian_directory import pieces_of, sentencepiece_model
from oracle.marian_native import make_native

D_MODEL, D_FF, LAYERS = 8, 12, 1


def _drawn(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}


def _layers(*, ends: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the layers of transformers."""
    found: dict[str, tuple[int, ...]] = {}
    for stack, kinds in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        for layer in range(LAYERS):
            start = f"model.{stack}.layers.{layer}"
            maps = {f"{kind}.{one}_proj": (D_MODEL, D_MODEL) for kind in kinds for one in ("q", "k", "v", "out")}
            for name, shape in {**maps, "fc1": (D_FF, D_MODEL), "fc2": (D_MODEL, D_FF)}.items():
                found |= {f"{start}.{name}.weight": shape, f"{start}.{name}.bias": shape[:1]}
            for norm in (*(f"{kind}_layer_norm" for kind in kinds), "final_layer_norm"):
                found |= {f"{start}.{norm}.{one}": (D_MODEL,) for one in ("weight", "bias")}
        if ends:
            found |= {f"model.{stack}.layer_norm.{one}": (D_MODEL,) for one in ("weight", "bias")}
    return found


def _config(model_type: str, rows: int, **more: object) -> dict[str, object]:
    sizes = {f"{stack}_{name}": value for stack in ("encoder", "decoder")
             for name, value in (("layers", LAYERS), ("attention_heads", 2), ("ffn_dim", D_FF))}  # fmt: skip
    return {"model_type": model_type, "vocab_size": rows, "d_model": D_MODEL, "activation_function": "relu",
            "scale_embedding": True, "max_length": 20, "num_beams": 2, **sizes, **more}  # fmt: skip


def _marian_mt(folder: Path) -> dict[str, str]:
    return marian_mt(folder, [])


def marian_mt(folder: Path, tags: list[str]) -> dict[str, str]:
    """A MarianMT directory that is told what to write by these tags, as `>>fra<<`; an import is told nothing."""
    folder.mkdir()
    spm = sentencepiece_model(0, 50)
    pieces = [*pieces_of(spm), *tags]
    random.Random(0).shuffle(pieces)
    tokens = ["</s>", "<unk>", *pieces, "<pad>"]
    pad = len(tokens) - 1
    config = _config("marian", len(tokens), pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0,
                     forced_eos_token_id=0, bad_words_ids=[[pad]])  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(spm)
    shapes = {**_layers(ends=False), "model.shared.weight": (len(tokens), D_MODEL),
              "final_logits_bias": (1, len(tokens))}  # fmt: skip
    save_file(_drawn(shapes), folder / "model.safetensors")
    return {}


def _m2m100(folder: Path) -> dict[str, str]:
    return many_languages(folder, ["eng_Latn", "fra_Latn"])


def many_languages(folder: Path, codes: list[str]) -> dict[str, str]:
    """An M2M100 or NLLB directory of these languages, in which an import has the first two."""
    folder.mkdir()
    spm = sentencepiece_model(0, 50)
    rows = 4 + len(pieces_of(spm)) + len(codes) + 1
    config = _config("m2m_100", rows, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, bos_token_id=0)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": codes}))
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    save_file(_drawn({**_layers(ends=True), "model.shared.weight": (rows, D_MODEL)}), folder / "model.safetensors")
    return {"source_language": codes[0].strip("_"), "target_language": codes[1].strip("_")}


def _fsmt(folder: Path) -> dict[str, str]:
    folder.mkdir()
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *"abcde", *(f"{one}</w>" for one in "abcde"), "ab", "cd</w>"]
    sizes = {"src_vocab_size": len(tokens), "tgt_vocab_size": len(tokens)}
    config = _config("fsmt", len(tokens), pad_token_id=1, eos_token_id=2, langs=["en", "de"], **sizes)
    (folder / "config.json").write_text(json.dumps(config))
    for side in ("src", "tgt"):
        (folder / f"vocab-{side}.json").write_text(json.dumps({token: place for place, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("a b 12\nc d</w> 7\n")
    tables = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    shapes = {f"model.{name}.weight": (len(tokens), D_MODEL) for name in tables}
    save_file(_drawn({**_layers(ends=False), **shapes}), folder / "model.safetensors")
    return {}


def _native(folder: Path) -> dict[str, str]:
    make_native(folder, d_model=D_MODEL, layers=LAYERS, d_ff=D_FF)
    (folder / "decoder.yml").write_text("beam-size: 6\nnormalize: 1\nvocabs:\n  - vocab.spm\n  - vocab.spm\n")
    return {}


JOEY = """\
name: small
data:
    src: {{lang: en, level: word}}
    trg: {{lang: de, level: word}}
testing: {{beam_size: 5, beam_alpha: 1.0}}
model:
    tied_embeddings: false
    encoder: {stack}
    decoder: {stack}
"""


def joey_shapes(vocab: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of JoeyNMT, norms before the sub-layers."""
    found: dict[str, tuple[int, ...]] = {"decoder.output_layer.weight": (vocab, D_MODEL)}
    found |= {f"{side}_embed.lut.weight": (vocab, D_MODEL) for side in ("src", "trg")}
    decoder = "decoder", ["trg_trg_att", "src_trg_att"], ["x_layer_norm", "dec_layer_norm"]
    for stack, kinds, norms in (("encoder", ["src_src_att"], ["layer_norm"]), decoder):
        for layer in range(LAYERS):
            start = f"{stack}.layers.{layer}"
            maps = {f"{kind}.{one}_layer": (D_MODEL, D_MODEL) for kind in kinds for one in "kvq"}
            maps |= {f"{kind}.output_layer": (D_MODEL, D_MODEL) for kind in kinds}
            maps |= {"feed_forward.pwff_layer.0": (D_FF, D_MODEL), "feed_forward.pwff_layer.3": (D_MODEL, D_FF)}
            for name, shape in maps.items():
                found |= {f"{start}.{name}.weight": shape, f"{start}.{name}.bias": shape[:1]}
            for norm in (*norms, "feed_forward.layer_norm"):
                found |= {f"{start}.{norm}.{one}": (D_MODEL,) for one in ("weight", "bias")}
        found |= {f"{stack}.layer_norm.{one}": (D_MODEL,) for one in ("weight", "bias")}
    return found


def _joey(folder: Path) -> dict[str, str]:
    folder.mkdir()
    tokens = ["<unk>", "<pad>", "<s>", "</s>", *(f"w{number}" for number in range(20))]
    for side in ("src", "trg"):
        (folder / f"{side}_vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    stack = (f"{{type: transformer, hidden_size: {D_MODEL}, ff_size: {D_FF}, num_layers: {LAYERS}, num_heads: 2, "
             f"layer_norm: pre, embeddings: {{embedding_dim: {D_MODEL}, scale: true}}}}")  # fmt: skip
    (folder / "config.yaml").write_text(JOEY.format(stack=stack))
    save_file(_drawn(joey_shapes(len(tokens))), folder / "model.safetensors")
    return {}


def _opennmt(folder: Path) -> dict[str, str]:
    opt = opennmt.options(enc_layers=LAYERS, hidden_size=D_MODEL, word_vec_size=D_MODEL, transformer_ff=D_FF)
    words = [f"w{number}" for number in range(9)]
    vocab = {"src": ["<unk>", "<blank>", *words], "tgt": ["<unk>", "<blank>", "<s>", "</s>", *words]}
    opennmt.save(folder, opt, vocab, opennmt.random_state(opt, (len(words) + 2, len(words) + 4), 0))
    return {}


def _sockeye(folder: Path) -> dict[str, str]:
    made = sockeye.options(width=D_MODEL, inner=D_FF, layers=(LAYERS, LAYERS))
    sockeye.save(folder, made, sockeye.random_state(made, 0))
    return {}


def _annotated(folder: Path) -> dict[str, Any]:
    folder.mkdir()
    tokens = ["<s>", "</s>", "<blank>", "<unk>", *(f"w{number}" for number in range(9))]
    (folder / "src_vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (folder / "trg_vocab.json").write_text(json.dumps(tokens))
    torch.manual_seed(0)
    state = annotated.initial_weights(len(tokens), len(tokens), LAYERS, D_MODEL, D_FF)
    save_file({name: tensor.detach().clone() for name, tensor in state.items()}, folder / "weights.safetensors")
    return {"options": {"h": 2}}


MAKERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "marian-mt": _marian_mt, "m2m100": _m2m100, "fsmt": _fsmt, "marian": _native, "joeynmt": _joey,
    "annotated": _annotated, "opennmt": _opennmt, "sockeye": _sockeye,
}  # fmt: skip
