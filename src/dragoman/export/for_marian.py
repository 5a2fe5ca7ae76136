"""A model as a MarianMT directory of transformers, which a hub of models takes as it is.

MarianMT adds sinusoids whose sines stand before their cosines. A model whose sines and cosines alternate becomes one by
a permutation of the columns of everything between its layers: what it computes is the same, in another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.export.card import write_card
from dragoman.export.given import Given, endless, epsilon, projections, refuse
from dragoman.files import json_text, write_bytes
from dragoman.models.blueprint import Layer, Matrix, Norm

NAME = "MarianMT (transformers)"
QUANTIZATIONS = ("float32", "float16")
_EPSILON = 1e-5
_RATES = ("dropout", "attention_dropout", "activation_dropout")
_NAMES = {"relu": "relu", "gelu": "gelu", "silu": "swish"}


def check(given: Given) -> None:
    """Refuse a model that MarianMT cannot hold.

    Raises:
        ConfigError: says what it cannot hold.
    """
    blueprint, shape, reasons = given.blueprint, given.blueprint.shape, []
    assert blueprint.source is not None
    if shape.pre_norm:
        reasons.append("norms before the sublayers (pre-norm)")
    elif any(stack.end for stack in (blueprint.encoder, blueprint.decoder) if stack):
        reasons.append("norms that end the stacks")
    if shape.self_positions or shape.cross_positions:
        reasons.append(f"positions inside attention ({shape.self_positions or shape.cross_positions})")
    elif blueprint.scheme[0] not in ("interleaved", "concatenated"):
        reasons.append(f"positions that are not the paper's sinusoids ({blueprint.scheme[0]})")
    reasons += differences(given)
    hint = "`--to ctranslate2` supports pre-norm, rotary and relative positions; --set model.norm=post trains what fits"
    refuse(given, NAME, reasons, hint)


def differences(given: Given) -> list[str]:
    """Return what neither MarianMT nor its kin in transformers can hold of a model, in words."""
    blueprint, shape, reasons = given.blueprint, given.blueprint.shape, []
    assert blueprint.source is not None
    if shape.d_k != shape.d_v or shape.d_k * shape.heads != shape.d_model:
        reasons.append("heads whose widths do not make up d_model")
    if epsilon(given) != _EPSILON:
        reasons.append(f"norms with another epsilon than {_EPSILON}")
    if blueprint.source.scale != blueprint.target.scale or blueprint.target.scale not in (1.0, shape.d_model**0.5):
        reasons.append("embeddings that are multiplied by something else than the root of d_model")
    return reasons + endless(given)


def write(given: Given, directory: Path, quantization: str = "float32") -> None:
    """Write weights, `config.json`, `generation_config.json`, the tokenizer's files and a model card.

    Raises:
        ConfigError: MarianMT cannot hold the model.
    """
    check(given)
    write_weights(weights(given), directory, quantization)
    write_tokenizer(given, directory)
    write_settings(directory, {"config": config(given, quantization), "generation_config": generation(given)})
    write_card(given, directory, library="transformers", tags=("marian",), use=_USE)


def write_weights(tensors: Mapping[str, Tensor], directory: Path, quantization: str) -> None:
    """Write `model.safetensors`."""
    from safetensors.torch import save

    dtype = getattr(torch, quantization)
    own = {name: one.to(dtype).contiguous().clone() for name, one in tensors.items()}
    write_bytes(directory / "model.safetensors", save(own, {"format": "pt"}))


def write_settings(directory: Path, trees: Mapping[str, Mapping[str, Any]]) -> None:
    """Write JSON files, each by its name without the ending."""
    for name, tree in trees.items():
        write_bytes(directory / f"{name}.json", (json_text(tree, indent=2) + "\n").encode())


def shared(given: Given) -> bool:
    """Return whether both embeddings and the generator are one matrix."""
    tied = given.blueprint.tied
    return len(given.source.names) == len(given.target.names) and {
        "target_embedding.tokens.weight", "generator.weight"
    } <= tied.keys()  # fmt: skip


def order_of(given: Given) -> Int[Tensor, " d_model"]:
    """Return which column of ours each column of MarianMT is: int64 `[d_model]`."""
    columns = torch.arange(given.blueprint.shape.d_model)
    return torch.cat([columns[0::2], columns[1::2]]) if given.blueprint.scheme[0] == "interleaved" else columns


def weights(given: Given) -> Mapping[str, Tensor]:
    """Return all weights by MarianMT's names, those that are tied once; views of ours or reordered copies."""
    blueprint, order = given.blueprint, order_of(given)
    assert blueprint.source is not None
    found: dict[str, Tensor] = {}
    rows = blueprint.source.rows[: len(given.source.names)][:, order]
    if shared(given):
        found["model.shared.weight"] = rows
    else:
        found["model.encoder.embed_tokens.weight"] = rows
        found["model.decoder.embed_tokens.weight"] = blueprint.target.rows[:, order]
        if "generator.weight" not in blueprint.tied:
            found["lm_head.weight"] = blueprint.generator.weight[:, order]
    return {**found, "final_logits_bias": _bias(blueprint.generator)[None], **layers(given, order)}


def layers(given: Given, order: Int[Tensor, " d_model"]) -> dict[str, Tensor]:
    """Return the weights of all layers, and of the norms that end the stacks, as transformers names them.

    Args:
        given: the model.
        order: which column of ours each of theirs is.
    """
    found: dict[str, Tensor] = {}
    for name, stack in (("encoder", given.blueprint.encoder), ("decoder", given.blueprint.decoder)):
        assert stack is not None
        for number, layer in enumerate(stack.layers):
            found |= _layer(f"model.{name}.layers.{number}", layer, given, order)
        if stack.end is not None:
            found |= _norm(f"model.{name}.layer_norm", stack.end, order)
    return found


def _layer(name: str, layer: Layer[Tensor], given: Given, order: Tensor) -> dict[str, Tensor]:
    shape, found = given.blueprint.shape, {}
    norms = {"self_attn_layer_norm": layer.self_attention_norm, "final_layer_norm": layer.feed_forward_norm}
    attentions = {"self_attn": layer.self_attention}
    if layer.cross_attention is not None and layer.cross_attention_norm is not None:
        norms["encoder_attn_layer_norm"] = layer.cross_attention_norm
        attentions["encoder_attn"] = layer.cross_attention
    for part, attention in attentions.items():
        for letter, matrix in zip("qkv", projections(attention, shape.heads * shape.d_k), strict=True):
            found |= _matrix(f"{name}.{part}.{letter}_proj", matrix, inner=order)
        found |= _matrix(f"{name}.{part}.out_proj", attention.output, outer=order)
    found |= _matrix(f"{name}.fc1", layer.inner, inner=order) | _matrix(f"{name}.fc2", layer.outer, outer=order)
    for part, norm in norms.items():
        found |= _norm(f"{name}.{part}", norm, order)
    return found


def _matrix(
    name: str, matrix: Matrix[Tensor], inner: Tensor | None = None, outer: Tensor | None = None
) -> dict[str, Tensor]:
    weight, bias = matrix.weight, _bias(matrix)
    if inner is not None:
        weight = weight[:, inner]
    if outer is not None:
        weight, bias = weight[outer], bias[outer]
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def _bias(matrix: Matrix[Tensor]) -> Tensor:
    return torch.zeros(len(matrix.weight), dtype=matrix.weight.dtype) if matrix.bias is None else matrix.bias


def _norm(name: str, norm: Norm[Tensor], order: Tensor) -> dict[str, Tensor]:
    weight = torch.ones(len(order)) if norm.weight is None else norm.weight
    bias = torch.zeros(len(order)) if norm.bias is None else norm.bias
    return {f"{name}.weight": weight[order], f"{name}.bias": bias[order]}


def config(given: Given, dtype: str = "float32") -> dict[str, Any]:
    """Return MarianMT's `config.json`."""
    specials = given.tokenizers.target.specials
    return {
        "architectures": ["MarianMTModel"], "model_type": "marian", **sizes(given, dtype),
        "vocab_size": len(given.source.names),
        "decoder_vocab_size": len(given.target.names), "max_position_embeddings": given.longest,
        "share_encoder_decoder_embeddings": shared(given),
        "tie_word_embeddings": "generator.weight" in given.blueprint.tied,
        "pad_token_id": specials.pad, "eos_token_id": specials.eos, "bos_token_id": specials.bos,
        "decoder_start_token_id": specials.bos, "forced_eos_token_id": specials.eos,
    }  # fmt: skip


def sizes(given: Given, dtype: str) -> dict[str, Any]:
    """Return what `config.json` says of the layers, of any model of this kind."""
    blueprint, shape = given.blueprint, given.blueprint.shape
    assert blueprint.encoder is not None
    assert blueprint.decoder is not None
    sides = {
        f"{side}_{name}": value
        for side, stack in (("encoder", blueprint.encoder), ("decoder", blueprint.decoder))
        for name, value in
        (("layers", len(stack.layers)), ("attention_heads", shape.heads), ("ffn_dim", shape.d_ff), ("layerdrop", 0.0))
    }  # fmt: skip
    rates = {name: getattr(given.config, name) or 0.0 for name in _RATES}
    return {
        "is_encoder_decoder": True, **sides, "activation_function": _NAMES[shape.activation], **rates,
        "d_model": shape.d_model, "scale_embedding": blueprint.target.scale != 1.0, "dtype": dtype, "use_cache": True,
        "num_hidden_layers": len(blueprint.encoder.layers),
    }  # fmt: skip


def generation(given: Given) -> dict[str, Any]:
    """Return what is searched with unless told otherwise, `generation_config.json`."""
    specials, options = given.tokenizers.target.specials, given.decoding
    never = (specials.pad, specials.bos, specials.unk)
    ranking = {"length_penalty": options.length_penalty} if options.beam_size > 1 else {}
    begin = [given.target.names.index(one) for one in given.begin[1]]
    first = {"forced_bos_token_id": begin[0]} if begin else {}
    return {
        "bad_words_ids": [[one] for one in never], **first, "bos_token_id": specials.bos, "pad_token_id": specials.pad,
        "decoder_start_token_id": specials.bos, "eos_token_id": specials.eos, "forced_eos_token_id": specials.eos,
        "max_length": min(512, given.longest), "num_beams": options.beam_size, **ranking,
    }  # fmt: skip


def write_tokenizer(given: Given, directory: Path) -> None:
    """Write `source.spm`, `target.spm`, the vocabularies and `tokenizer_config.json`."""
    source, target = given.source, given.target
    separate = not given.tokenizers.joint
    write_bytes(directory / "source.spm", source.model)
    write_bytes(directory / "target.spm", target.model)
    for name, pieces in (("vocab", source), ("target_vocab", target)):
        if name == "vocab" or separate:
            ids = {piece: number for number, piece in enumerate(pieces.names)}
            write_bytes(directory / f"{name}.json", json_text(ids, indent=0).encode())
    specials, languages = given.tokenizers.target.specials, given.languages
    told = {
        "tokenizer_class": "MarianTokenizer", "model_max_length": given.decoding.max_source_length,
        "source_lang": languages.source, "target_lang": languages.target, "separate_vocabs": separate,
        **{f"{name}_token": target.names[getattr(specials, name)] for name in ("unk", "eos", "pad")},
        "clean_up_tokenization_spaces": False,
    }  # fmt: skip
    kept = {name: value for name, value in told.items() if value is not None}
    write_bytes(directory / "tokenizer_config.json", (json_text(kept, indent=2) + "\n").encode())


_USE = """from transformers import AutoTokenizer, AutoModelForSeq2SeqLM

tokenizer = AutoTokenizer.from_pretrained({name})
model = AutoModelForSeq2SeqLM.from_pretrained({name})
found = model.generate(**tokenizer(["..."], return_tensors="pt", padding=True))
print(tokenizer.batch_decode(found, skip_special_tokens=True))"""
