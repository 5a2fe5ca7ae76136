"""Sockeye 3: a directory with `config`, `params.best`, `vocab.src.0.json` and `vocab.trg.0.json`.

Norms stand before the sub-layers and end the stacks, or after them and end none; of the positions all sines come before
all cosines; the four special tokens come first in each vocabulary, in our order. The matrices of keys and of values are
one, with the rows of each head in turn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.errors import DataError, ModelError
from dragoman.importing.documents import read_yaml
from dragoman.importing.facts import Facts
from dragoman.importing.pieces import tokenizer_beside
from dragoman.importing.states import read_state
from dragoman.importing.tables import take_tables
from dragoman.importing.taken import Taken
from dragoman.importing.vocabularies import Order, need, tokens_of
from dragoman.importing.weights import Given, Names, Sizes, take_stack
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.vocabulary import read_tokens

CONFIG, PARAMETERS = "config", "params.best"
_VOCABULARIES = {"source": "vocab.src.0.json", "target": "vocab.trg.0.json"}
_STACKS = ("encoder", "decoder")
_CLASSES = ("ModelConfig", "DataConfig", "DataStatistics", "EmbeddingConfig", "TransformerConfig", "LengthRatioConfig",
            "FactorConfig")  # fmt: skip
_TAGS = (*(f"!{name}" for name in _CLASSES), "tag:yaml.org,2002:python/tuple")
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish1": "silu"}
# What is done before and after a sub-layer, dropout aside: n is a norm, r adds what came in.
_NORMS = {("n", "r"): "pre", ("", "rn"): "post"}
_DEVIATIONS = 2  # of the length ratio, which an output may exceed its mean by
_NOTE = "the length that it predicts is left out: only a brevity penalty asks for it, which is not here"


def is_sockeye(directory: Path) -> bool:
    """Return whether a directory has the files of Sockeye."""
    return all((directory / name).exists() for name in (CONFIG, _VOCABULARIES["source"]))


def take_sockeye(directory: Path, *, unpickle: bool = False) -> Taken:
    """Return a directory of Sockeye in our terms.

    Raises:
        DataError: a vocabulary or a SentencePiece model cannot be taken.
        ModelError: settings or weights cannot be taken; says which.
    """
    file = directory / CONFIG
    facts = Facts(read_yaml(file, tags=_TAGS), file)
    model, sizes = _sizes(*(Facts(_section(facts, f"config_{stack}"), file) for stack in _STACKS))
    d_model, heads, norm = model["d_model"], model["num_heads"], model["norm"]
    rows = [facts.number(f"vocab_{side}_size", least=5) for side in _VOCABULARIES]
    for side, size in zip(_VOCABULARIES, rows, strict=True):
        _check_embedding(Facts(_section(facts, f"config_embed_{side}"), file), size, d_model)
    facts.only("lhuc", False)
    facts.only("neural_vocab_selection")
    facts.only("dtype", "float32", "float16", "bfloat16")
    facts.skip(("weight_tying_type", "neural_vocab_selection_block_loss"))
    predicts = facts.get("config_length_task") is not None
    search = _search(Facts(_section(facts, "config_data"), file))
    facts.finish()
    orders, tokenizers = _tokenizers(directory, rows)
    given = Given(_apart(read_state(directory, pickled=PARAMETERS, unpickle=unpickle), heads), directory)
    state: dict[str, Tensor] = {}
    for stack, size in zip(_STACKS, sizes, strict=True):
        end = f"{stack}.final_process.layer_norm" if norm == "pre" else None
        state |= take_stack(given, stack, f"{stack}.layers.{{}}", _names(stack, norm), size, end=end)
        given.skip(f"{stack}.pos_embedding.weight")
    given.skip(*(name for name in given.names if "traced" in name or (predicts and name.startswith("length_ratio."))))
    names = [*(f"embedding_{side}.embedding.weight" for side in _VOCABULARIES), "output_layer.weight"]
    tables = [given.take(name, [size, d_model]) for name, size in zip(names, (*rows, rows[1]), strict=True)]
    bias = given.take("output_layer.bias", [rows[1]])
    given.finish()
    made = take_tables(tables, bias, orders)
    return Taken({**model, **made.model}, search, tokenizers, {**state, **made.state}, file,
                 notes=(_NOTE,) if predicts else ())  # fmt: skip


def _section(facts: Facts, name: str) -> Mapping[str, Any]:
    found = facts.get(name)
    if not isinstance(found, dict):
        raise ModelError("a section of the settings is missing", file=facts.file, expected=name,
                         found=type(found).__name__)  # fmt: skip
    return {str(key): value for key, value in found.items()}


def _sizes(encoder: Facts, decoder: Facts) -> tuple[dict[str, Any], list[Sizes]]:
    made = []
    for facts in (encoder, decoder):
        d_model = facts.number("model_size", least=4)
        for name, values in (
            ("positional_embedding_type", ("fixed",)), ("decoder_type", ("transformer",)), ("use_lhuc", (False,)),
            ("use_glu", (False,)), ("block_prepended_cross_attention", (False,)), ("depth_key_value", (d_model,)),
        ):  # fmt: skip
            facts.only(name, *values)
        before, after = (
            (facts.text(f"{one}_sequence") or "").replace("d", "") for one in ("preprocess", "postprocess")
        )
        if (before, after) not in _NORMS:
            expected = "n with dr, or nothing with drn"
            raise facts.wrong("preprocess_sequence", expected, f"{before!r} with {after!r}")
        layers = facts.number("num_layers", least=1, most=1000)
        facts.skip(("max_seq_len_source", "max_seq_len_target"))
        made.append((layers, {
            "family": "transformer", "d_model": d_model, "num_heads": facts.number("attention_heads", least=1),
            "d_ff": facts.number("feed_forward_num_hidden", least=1), "norm": _NORMS[before, after], "norm_eps": 1e-6,
            "activation": facts.choice("act_type", _ACTIVATIONS, ""), "positions": "concatenated", "bias": False,
            "scale_embeddings": True, "dropout": min(facts.rate("dropout_prepost", 0.1), 0.99),
            "attention_dropout": min(facts.rate("dropout_attention", 0.1), 0.99),
            "activation_dropout": min(facts.rate("dropout_act", 0.1), 0.99),
        }))  # fmt: skip
        facts.finish()
    (layers, model), (others, other) = made
    for name in model.keys() - {"dropout", "attention_dropout", "activation_dropout"}:
        if model[name] != other[name]:
            raise decoder.wrong(f"{name} of the decoder", f"the encoder's, {model[name]!r}: both stacks are alike here",
                                other[name])  # fmt: skip
    if model["d_model"] % 2 or model["d_model"] % model["num_heads"]:
        raise encoder.wrong("attention_heads", f"a divisor of an even width, {model['d_model']}", model["num_heads"])
    sizes = [Sizes(count, model["d_model"], model["d_ff"], bias=False) for count in (layers, others)]
    return {**model, "num_encoder_layers": layers, "num_decoder_layers": others}, sizes


def _check_embedding(facts: Facts, rows: int, d_model: int) -> None:
    facts.only("vocab_size", rows)
    facts.only("num_embed", d_model)
    facts.only("num_factors", 1)
    facts.only("factor_configs", [])
    facts.skip(("dropout", "allow_sparse_grad"))
    facts.finish()


def _names(stack: str, norm: str) -> Names:
    place = "pre" if norm == "pre" else "post"
    own, attention = ("self_attention",) * 2 if stack == "encoder" else ("autoregr_layer",) * 2
    norms = tuple(f".{place}_{one}.layer_norm" for one in (own, "enc_attention", "ff"))
    parts = ("ff_q", "ff_k", "ff_v", "ff_out")
    return Names([f".{attention}.{part}" for part in parts], [f".enc_attention.{part}" for part in parts],
                 ".ff.ff1", ".ff.ff2", (norms[0], norms[1], norms[2]))  # fmt: skip


def _apart(state: Mapping[str, Tensor], heads: int) -> dict[str, Tensor]:
    """The same tensors, those of queries, keys and values apart; what has another shape is left, and told later."""
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        place, _, own = name.rpartition(".ff_")
        parts = {"in.weight": "qkv", "kv.weight": "kv"}.get(own, "")
        if not parts or tensor.dim() != 2 or len(tensor) != len(parts) * tensor.shape[1] or tensor.shape[1] % heads:
            found[name] = tensor
            continue
        query, both = tensor.split([len(tensor) - 2 * tensor.shape[1], 2 * tensor.shape[1]])
        keys, values = both.unflatten(0, (heads, 2, -1)).transpose(0, 1).flatten(1, 2)  # each head has both in turn
        found |= {f"{place}.ff_k.weight": keys, f"{place}.ff_v.weight": values}
        found |= {f"{place}.ff_q.weight": query} if parts == "qkv" else {}
    return found


def _tokenizers(directory: Path, rows: list[int]) -> tuple[list[Order], TokenizerPair]:
    orders, sides = [], []
    for name, size in zip(_VOCABULARIES.values(), rows, strict=True):
        path = directory / name
        tokens = tokens_of(read_tokens(path), path, size)
        if len(tokens) != size:
            raise DataError("the vocabulary has another size than the model's", file=path, expected=size,
                            found=len(tokens))  # fmt: skip
        pad, unk, start, end = (need(tokens, one, path) for one in ("<pad>", "<unk>", "<s>", "</s>"))
        order = Order.of(tokens, size, pad=pad, unk=unk, start=start, end=end, file=path)
        models = [f"{name.split('.')[1]}.model", "sentencepiece.model"]
        orders.append(order)
        sides.append(tokenizer_beside(directory, models, order))
    return orders, TokenizerPair(sides[0], sides[1])


def _search(data: Facts) -> dict[str, Any]:
    """How `sockeye-translate` searches unless it is told otherwise."""
    statistics = Facts(_section(data, "data_statistics"), data.file)
    mean, deviation = (statistics.rate(f"length_ratio_{one}", 1.0, most=1e3) for one in ("mean", "std"))
    factor = max(mean + _DEVIATIONS * deviation, 0.1)
    for side in _VOCABULARIES:
        data.only(f"num_{side}_factors", 1)
    longest = data.number("max_seq_len_source", least=2)
    data.skip(("max_seq_len_target", "eop_id"))
    data.finish()
    return {
        "beam_size": 5, "length_penalty": 1.0, "length_penalty_formula": "power",
        # Theirs is of a source with its </s> and an output with its own.
        "max_length_factor": min(factor, 1000.0), "max_length_offset": math.ceil(factor) - 1,
        "max_source_length": longest - 1, "loop_guard": 0, "unknown": "keep",
    }  # fmt: skip
