"""MarianMT of Hugging Face transformers, and what its kin there share with it.

Norms stand after the sub-layers; of the positions all sines come before all cosines; outputs begin with `<pad>`.
What would compute something else is refused by its name: other values of the settings below, and any that is not known.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.errors import ConfigError, ModelError
from dragoman.files import MAX_SETTINGS_BYTES, read_json
from dragoman.importing.facts import Facts
from dragoman.importing.generation import Generation, check_never, read_generation
from dragoman.importing.pieces import read_pieces
from dragoman.importing.states import read_state
from dragoman.importing.tables import first_of, take_tables
from dragoman.importing.taken import Taken
from dragoman.importing.vocabularies import Order, need, tokens_of
from dragoman.importing.weights import Given, Names, Sizes, take_stack
from dragoman.models.language_tokens import few_of
from dragoman.text.piece_tokenizer import PieceTokenizer
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.vocabulary import read_tokens

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
STACKS = ("encoder", "decoder")
_TAG = re.compile(">>[^<>]+<<")


def take_marian(directory: Path, *, target_language: str | None = None, unpickle: bool = False) -> Taken:
    """Return a MarianMT directory (`MarianMTModel.save_pretrained`) in our terms.

    Args:
        directory: with `config.json`, weights, `source.spm`, `target.spm` and `vocab.json`.
        target_language: of a model for several, as its tags have it: `fra` for `>>fra<<`.
        unpickle: whether `pytorch_model.bin` may be read.

    Raises:
        ConfigError: the language is not one of the model's.
        DataError: a vocabulary or a SentencePiece model cannot be taken.
        ModelError: settings or weights cannot be taken; says which.
    """
    file = directory / "config.json"
    facts = Facts(read_json(file, limit=MAX_SETTINGS_BYTES), file)
    model, sizes = read_sizes(facts)
    for name in ("add_bias_logits", "add_final_layer_norm", "normalize_before", "normalize_embedding", "is_decoder"):
        facts.only(name, False)
    facts.only("static_position_embeddings", True)
    facts.skip(("extra_pos_embeddings", "share_encoder_decoder_embeddings", "tie_word_embeddings"))
    rows = facts.number("vocab_size", least=4)
    target_rows = facts.number("decoder_vocab_size", rows, least=4)
    positions = facts.number("max_position_embeddings", 1024, least=2)
    generation = read_generation(directory, facts, positions)
    facts.finish()
    orders, tokenizers = _marian_tokenizers(directory, generation, (rows, target_rows), target_language)
    given = Given(read_state(directory, unpickle=unpickle), directory)
    given.skip(*(f"model.{stack}.embed_positions.weight" for stack in STACKS))
    state = take_layers(given, model, sizes)
    shared = "model.shared.weight"
    own = [f"model.{stack}.embed_tokens.weight" for stack in STACKS]
    names = [first_of(given, own[0], shared), first_of(given, own[1], shared)]
    names.append(first_of(given, "lm_head.weight", names[1]))
    if own[0] in given and own[1] in given:
        given.skip(shared)  # nothing reads it then
    taken = {name: given.take(name, [size, model["d_model"]])
             for name, size in zip(names, (rows, target_rows, target_rows), strict=True)}  # fmt: skip
    bias = None
    if "final_logits_bias" in given:
        bias = given.take("final_logits_bias", [1, target_rows])[0]
    given.finish()
    tables = take_tables([taken[name] for name in names], bias, orders, generation.banned)
    return Taken(
        {**model, **tables.model, "norm": "post", "positions": "concatenated"},
        {**generation.decoding, "max_source_length": positions - 1},
        tokenizers, {**state, **tables.state}, file, _languages(directory),
    )  # fmt: skip


def _layer_names() -> Names:
    """How these models name what is in a layer."""
    projections = ("q_proj", "k_proj", "v_proj", "out_proj")
    return Names(
        [f".self_attn.{one}" for one in projections],
        [f".encoder_attn.{one}" for one in projections],
        ".fc1",
        ".fc2",
        (".self_attn_layer_norm", ".encoder_attn_layer_norm", ".final_layer_norm"),
    )


def read_sizes(facts: Facts) -> tuple[dict[str, Any], tuple[Sizes, Sizes]]:
    """Return what a configuration of this kind says of the layers: by our names, and the sizes of both stacks.

    Raises:
        ModelError: a setting cannot be taken, or the stacks differ in heads or inner width.
    """
    d_model = facts.number("d_model", 1024, least=1)
    layers = [facts.number(f"{stack}_layers", 12, least=1, most=1000) for stack in STACKS]
    heads, d_ff = _of_both(facts, "attention_heads", 16), _of_both(facts, "ffn_dim", 4096)
    if d_model % heads:
        raise facts.wrong("encoder_attention_heads", f"a divisor of d_model, {d_model}", heads)
    model = {
        "family": "transformer", "d_model": d_model, "num_heads": heads, "d_ff": d_ff,
        "num_encoder_layers": layers[0], "num_decoder_layers": layers[1], "norm_eps": 1e-5, "bias": True,
        "activation": facts.choice("activation_function", ACTIVATIONS, "gelu"),
        "scale_embeddings": facts.flag("scale_embedding", False),
        **{name: _dropout(facts, name) for name in ("dropout", "attention_dropout", "activation_dropout")},
    }  # fmt: skip
    return model, (Sizes(layers[0], d_model, d_ff), Sizes(layers[1], d_model, d_ff))


def _of_both(facts: Facts, name: str, default: int) -> int:
    """A setting that is alike in both stacks here."""
    encoder, decoder = (facts.number(f"{stack}_{name}", default, least=1) for stack in STACKS)
    if encoder != decoder:
        raise facts.wrong(f"decoder_{name}", f"encoder_{name}, {encoder}: both stacks are alike here", decoder)
    return encoder


def _dropout(facts: Facts, name: str) -> float:
    return min(facts.rate(name, 0.1 if name == "dropout" else 0.0), 0.99)


def take_layers(given: Given, model: dict[str, Any], sizes: tuple[Sizes, Sizes]) -> dict[str, Tensor]:
    """Return the layers of both stacks under our names."""
    found: dict[str, Tensor] = {}
    for stack, size in zip(STACKS, sizes, strict=True):
        end = f"model.{stack}.layer_norm" if model.get("norm") == "pre" else None
        found |= take_stack(given, stack, f"model.{stack}.layers.{{}}", _layer_names(), size, end=end)
    return found


def _marian_tokenizers(
    directory: Path, generation: Generation, rows: tuple[int, int], target_language: str | None
) -> tuple[tuple[Order, Order], TokenizerPair]:
    file, other = directory / "vocab.json", directory / "target_vocab.json"
    source = tokens_of(read_tokens(file), file, rows[0])
    separate = other.exists()
    target = tokens_of(read_tokens(other), other, rows[1]) if separate else source
    ends = [need(one, "</s>", path) for one, path in ((source, file), (target, other if separate else file))]
    if ends[1] != generation.end:
        raise ModelError("eos_token_id is not the id of </s>", file=file, expected=ends[1], found=generation.end)
    check_never(generation.never, {generation.pad: "<pad>", generation.start: "<s>"}, directory / "config.json")
    orders = (
        Order.of(source, rows[0], pad=generation.pad, unk=need(source, "<unk>", file), start=generation.start,
                 end=ends[0], file=file),
        Order.of(target, rows[1], pad=generation.pad, unk=need(target, "<unk>", other if separate else file),
                 start=generation.start, end=ends[1], file=file),
    )  # fmt: skip
    marks = [] if separate else [one for one in orders[0].tokens if _TAG.fullmatch(one)]
    begin = []
    if target_language is not None:
        begin = [f">>{target_language.strip('<>')}<<"]
        if begin[0] not in marks:
            known = few_of([mark[2:-2] for mark in marks], begin[0][2:]) or "no tags: it writes one language"
            raise ConfigError("the model has no such target language", file=file, expected=known, found=target_language)
    made = []
    for side, order in zip(("source", "target"), orders, strict=True):
        found = read_pieces(directory / f"{side}.spm")
        first = begin if side == "source" else []
        made.append(PieceTokenizer(found.kind, order.tokens, found.model, marks=marks, begin=first))
    return orders, TokenizerPair(made[0], made[1])


def _languages(directory: Path) -> dict[str, str]:
    """The two-letter codes that `tokenizer_config.json` names, if it does."""
    file = directory / "tokenizer_config.json"
    if not file.exists():
        return {}
    tree = read_json(file, limit=MAX_SETTINGS_BYTES)
    codes = {side: tree.get(f"{side}_lang") for side in ("source", "target")}
    return {side: code for side, code in codes.items() if isinstance(code, str) and re.fullmatch("[a-z]{2}", code)}


def is_marian(directory: Path) -> bool:
    """Return whether a directory has the files of a MarianMT."""
    return all((directory / name).exists() for name in ("config.json", "source.spm", "target.spm", "vocab.json"))
