"""A model as an M2M100 directory of transformers, the form of NLLB: norms before the sublayers, fairseq's sinusoids.

One table serves both sides and makes the logits, without offsets. Outputs begin with `</s>` there, in a model that was
imported, and then with the token of their language. Where training moved our `<s>` away from `</s>`, whose copy it was,
it becomes a row of its own, with which outputs begin: nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dragoman.export.card import write_card
from dragoman.export.for_marian import differences, layers, shared, sizes, write_settings, write_weights
from dragoman.export.given import Given, refuse
from dragoman.export.pieces import Pieces
from dragoman.export.tokenizer_json import tokenizer_json
from dragoman.files import json_text, write_bytes
from dragoman.models.blueprint import NO_LOGIT
from dragoman.sequences.source import Specials

NAME = "M2M100, the form of NLLB (transformers),"
QUANTIZATIONS = ("float32", "float16")
PIECES = "sentencepiece.bpe.model"
_BOS, _PAD, _EOS, _UNK = range(4)
_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")  # these ids there
_OTHER_START = "<s>*"  # their `<s>` in a vocabulary whose outputs begin with something else


class Layout(NamedTuple):
    """The vocabulary in the order of M2M100.

    Attributes:
        ids: ours, by theirs.
        start: theirs that outputs begin with.
        names: by theirs, without a start that has a row of its own.
        languages: the tokens of languages, in their order.
        pieces: how many ids come before those of languages.
    """

    ids: tuple[int, ...]
    start: int
    names: tuple[str, ...]
    languages: tuple[str, ...]
    pieces: int


def layout_of(given: Given) -> Layout:
    """Return the vocabulary in the order of M2M100: special tokens, pieces, languages, and what else no text gives."""
    names, specials = given.target.names, given.tokenizers.target.specials
    marks = getattr(given.tokenizers.target, "marks", ())
    languages = tuple(one for one in marks if one[0] not in "<>")
    first = names.index(_OTHER_START) if _OTHER_START in marks else specials.bos
    number = {name: place for place, name in enumerate(names)}
    hidden = {number[mark] for mark in marks}
    pieces = [one for one in range(len(names)) if one not in {*specials.ids, *hidden, first}]
    told = [number[one] for one in languages]
    others = sorted(hidden - {first, *told})
    ids = [first, specials.pad, specials.eos, specials.unk, *pieces, *told, *others]
    found = (*_SPECIALS, *(names[one] for one in ids[len(_SPECIALS) :]))
    start = 0
    if first != specials.bos:
        rows = given.blueprint.target.rows
        start = _EOS
        if not torch.equal(rows[specials.bos], rows[specials.eos]):
            start = len(ids)
            ids.append(specials.bos)
    return Layout(tuple(ids), start, found, languages, len(_SPECIALS) + len(pieces))


def check(given: Given) -> None:
    """Refuse a model that M2M100 cannot hold.

    Raises:
        ConfigError: says what it cannot hold.
    """
    blueprint, shape, reasons = given.blueprint, given.blueprint.shape, []
    if not shape.pre_norm:
        reasons.append("norms after the sublayers (post-norm)")
    elif not all(stack.end for stack in (blueprint.encoder, blueprint.decoder) if stack):
        reasons.append("stacks that no norm ends")
    if shape.self_positions or shape.cross_positions:
        reasons.append(f"positions inside attention ({shape.self_positions or shape.cross_positions})")
    elif blueprint.scheme[0] != "fairseq":
        reasons.append(f"positions that are not fairseq's sinusoids ({blueprint.scheme[0]})")
    reasons += differences(given)
    if not (given.tokenizers.joint or given.tokenizers.shares_ids):
        reasons.append("a vocabulary for each side")
    elif not shared(given):
        reasons.append("embeddings and a generator that are not one table (tie_embeddings is not all)")
    bias = blueprint.generator.bias
    moved = 0 if bias is None else int(((bias != 0) & (bias != NO_LOGIT)).sum())
    hint = "`--to ctranslate2` and `--to onnx` hold other models"
    if moved:
        assert bias is not None
        reasons.append(f"offsets of the logits (generator.bias: {moved} of {len(bias)} are not zero)")
        hint += '; trained with LoRA, or with training.freeze = ["generator.bias"], an imported model keeps its zeros'
    refuse(given, NAME, reasons, hint)


def write(given: Given, directory: Path, quantization: str = "float32") -> None:
    """Write weights, `config.json`, `generation_config.json`, the tokenizer's files and a model card.

    Raises:
        ConfigError: M2M100 cannot hold the model.
    """
    check(given)
    layout = layout_of(given)
    write_weights(weights(given, layout), directory, quantization)
    write_tokenizer(given, layout, directory)
    trees = {"config": config(given, layout, quantization), "generation_config": generation(given, layout)}
    write_settings(directory, trees)
    write_card(given, directory, library="transformers", tags=("m2m_100",), use=_USE)


def weights(given: Given, layout: Layout) -> Mapping[str, Tensor]:
    """Return all weights by M2M100's names, those that are tied once."""
    columns = torch.arange(given.blueprint.shape.d_model)
    rows = given.blueprint.target.rows[torch.tensor(layout.ids)]
    return {"model.shared.weight": rows, **layers(given, columns)}


def config(given: Given, layout: Layout, dtype: str = "float32") -> dict[str, Any]:
    """Return M2M100's `config.json`."""
    return {
        "architectures": ["M2M100ForConditionalGeneration"], "model_type": "m2m_100", **sizes(given, dtype),
        "vocab_size": len(layout.ids), "max_position_embeddings": given.decoding.max_source_length + 2,
        "tie_word_embeddings": True, "pad_token_id": _PAD, "eos_token_id": _EOS,
        "bos_token_id": _BOS, "decoder_start_token_id": layout.start,
    }  # fmt: skip


def generation(given: Given, layout: Layout) -> dict[str, Any]:
    """Return what is searched with unless told otherwise, `generation_config.json`."""
    options, bias, specials = given.decoding, given.blueprint.generator.bias, given.tokenizers.target.specials
    never = [specials.pad, specials.bos, *([specials.unk] if options.unknown == "forbid" else [])]
    out = set() if bias is None else {one for one in layout.ids if bias[one] == NO_LOGIT}
    banned = [place for place, one in enumerate(layout.ids) if one in out or one in never]
    ends = options.end_at_limit == "free"
    longest = min(512, given.longest) if options.max_length is None else options.max_length + 1 + ends
    ranking = {"length_penalty": options.length_penalty, "early_stopping": options.beam_early_stopping}
    first = [layout.names.index(one) for one in given.begin[1]]
    return {
        "bad_words_ids": [[one] for one in banned], **({"renormalize_logits": True} if out & set(layout.ids) else {}),
        "bos_token_id": _BOS, "pad_token_id": _PAD, "eos_token_id": _EOS,
        "decoder_start_token_id": layout.start, **({"forced_bos_token_id": first[0]} if first else {}),
        **({"forced_eos_token_id": _EOS} if ends else {}), "max_length": longest,
        "num_beams": options.beam_size, **(ranking if options.beam_size > 1 else {}),
    }  # fmt: skip


def write_tokenizer(given: Given, layout: Layout, directory: Path) -> None:
    """Write `sentencepiece.bpe.model`, and what transformers reads beside it.

    A model whose languages are written `__en__` has the tokenizer of M2M100, which looks pieces up in `vocab.json`; one
    with other languages that of NLLB, and one without languages a plain one, both with a `tokenizer.json`.
    """
    write_bytes(directory / PIECES, given.source.model)
    told: dict[str, Any] = {"model_max_length": given.decoding.max_source_length}
    told |= dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), _SPECIALS, strict=True))
    listed = {"additional_special_tokens": list(layout.languages)}
    if layout.languages:
        codes = [one.strip("_") for side in given.begin for one in side]
        told |= dict(zip(("src_lang", "tgt_lang"), codes, strict=False))
        write_settings(
            directory, {"special_tokens_map": {**listed, **{k: told[k] for k in told if k.endswith("_token")}}}
        )
    is_m2m = bool(layout.languages) and all(one.startswith("__") for one in layout.languages)
    kind = "M2M100Tokenizer" if is_m2m else "NllbTokenizer" if layout.languages else "PreTrainedTokenizerFast"
    write_settings(directory, {"tokenizer_config": {"tokenizer_class": kind, **told}})
    if is_m2m:
        ids = {name: place for place, name in enumerate(layout.names[: layout.pieces])}
        write_bytes(directory / "vocab.json", json_text(ids, indent=0).encode())
        return
    pieces = Pieces(layout.names, given.source.model, ())
    marks = layout.names[layout.pieces :]
    tree = tokenizer_json(pieces, given.tokenizers.source, Specials(_PAD, _UNK, _BOS, _EOS), marks, given.begin[0])
    write_bytes(directory / "tokenizer.json", tree.encode())


_USE = """from transformers import AutoTokenizer, AutoModelForSeq2SeqLM

tokenizer = AutoTokenizer.from_pretrained({name})
model = AutoModelForSeq2SeqLM.from_pretrained({name})
found = model.generate(**tokenizer(["..."], return_tensors="pt", padding=True))
print(tokenizer.batch_decode(found, skip_special_tokens=True))"""
