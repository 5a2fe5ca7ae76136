"""Marian's own directories: `model.npz`, the settings inside it, and vocabularies; OPUS-MT as its makers publish it.

Norms stand after the sub-layers, add 1e-6 to the variance and end no stack; positions are tensor2tensor's; the first
input of the decoder is a vector of zeros, so that a row of zeros is added to the tables for it. Of decoders only
self-attention is taken: not the recurrent ones (SSRU) of the models for browsers, nor their files of bytes (`.bin`).
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.files import opened
from dragoman.importing.documents import MAX_VOCABULARY_BYTES, parse_yaml, read_yaml
from dragoman.importing.facts import Facts
from dragoman.importing.pieces import read_pieces
from dragoman.importing.tables import first_of, take_tables
from dragoman.importing.taken import Taken
from dragoman.importing.vocabularies import Order, need, tokens_of
from dragoman.importing.weights import Given, Names, Sizes, take_stack
from dragoman.models.stored import MAX_TENSORS
from dragoman.text.piece_tokenizer import PieceTokenizer
from dragoman.text.tokenizer_pair import TokenizerPair

SETTINGS = "special:model.yml"
ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "gelu"}
_STACKS = ("encoder", "decoder")
_DECODERS = ("decoder.yml", "model.npz.decoder.yml")
# Of training, or of what is written about it; none changes what a trained model computes.
_IDLE = (
    "version enc-cell enc-cell-depth enc-type dec-cell dec-cell-base-depth dec-cell-high-depth bert-class-symbol "
    "bert-mask-symbol bert-masking-fraction bert-sep-symbol bert-train-type-embeddings bert-type-vocab-size dim-rnn "
    "char-highway char-stride char-conv-filters-num char-conv-filters-widths dim-pooler right-left lemma-dependency "
    "transformer-aan-activation transformer-aan-depth transformer-aan-nogate transformer-dim-aan "
    "transformer-depth-scaling transformer-guided-alignment-layer input-types ulr ulr-dim-emb ulr-dropout "
    "ulr-softmax-temperature ulr-keys-vectors ulr-query-vectors ulr-trainable-transformation layer-normalization skip "
    "factors-combine factors-dim-emb comet-final-sigmoid comet-mix comet-mix-norm comet-mix-transformation "
    "comet-dropout comet-pooler-ffn comet-stop-grad dim-vocabs-factors tsv-fields usegelu output-approx-knn "
    "original-type transformer-pool no-spm-decode embedding-normalization"
)


def is_native(directory: Path) -> bool:
    """Return whether a directory has a model of Marian."""
    return any(directory.glob("*.npz"))


def take_native(directory: Path) -> Taken:
    """Return a directory of Marian in our terms.

    Raises:
        DataError: a vocabulary or a SentencePiece model cannot be taken.
        ModelError: settings or weights cannot be taken; says which.
    """
    models = sorted(directory.glob("*.npz"))
    if len(models) != 1:
        found = ", ".join(path.name for path in models[:4])
        raise ModelError("one model is needed", file=directory, expected="one .npz", found=found or "none")
    file = models[0]
    arrays = _arrays(file)
    facts = Facts(parse_yaml(_settings(arrays, file), file), file)
    model, sizes, vocabularies = _sizes(facts)
    facts.finish()
    given = Given(arrays, file)
    orders, tokenizers = _tokenizers(directory, vocabularies)
    names = _names()
    state: dict[str, Tensor] = {}
    for stack, size in zip(_STACKS, sizes, strict=True):
        state |= take_stack(_Numbered(given), stack, f"{stack}_l{{}}_", names, size)
    given.skip("decoder_c_tt", "decoder_c_tt_scale")
    tables, bias = _tables(given, vocabularies, sizes[0].d_model)
    given.finish()
    made = take_tables(tables, bias, orders)
    return Taken({**model, **made.model}, _search(directory), tokenizers, {**state, **made.state}, file)


class _Numbered(Given):
    """Layers count from 1 there, names are joined by `_`, and vectors are matrices of one row."""

    def __init__(self, given: Given) -> None:
        self.__dict__ = given.__dict__

    def take(self, name: str, shape: Any, *, transpose: bool = False) -> Tensor:
        """See `Given.take`."""
        head, _, rest = name.partition("_l")
        number, _, own = rest.partition("_")
        name = f"{head}_l{int(number) + 1}_{own}"
        return super().take(name, [1, *shape])[0] if len(shape) == 1 else super().take(name, shape, transpose=transpose)

    def __contains__(self, name: str) -> bool:
        return True


def _names() -> Names:
    """The two suffixes of a map stand in the middle of its names there."""
    return Names(
        [f"self_{{}}{one}" for one in ("q", "k", "v", "o")],
        [f"context_{{}}{one}" for one in ("q", "k", "v", "o")],
        "ffn_{}1", "ffn_{}2", ("self_Wo_ln", "context_Wo_ln", "ffn_ffn_ln"), ("W", "b"), ("_scale", "_bias"),
        transpose=True,
    )  # fmt: skip


def _arrays(file: Path) -> dict[str, Tensor]:
    """The arrays of an .npz: nothing pickled, and no more numbers than the file has bytes for."""
    with opened(file) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                entries = archive.infolist()
                size = sum(entry.compress_size for entry in entries) + (1 << 20)
                if len(entries) > MAX_TENSORS or sum(entry.file_size for entry in entries) > 16 * size:
                    raise ModelError("the archive declares contents that are too large", file=file)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as found:
                return {name: torch.from_numpy(np.array(found[name])) for name in found.files}
        except (ValueError, OSError, zipfile.BadZipFile, KeyError, TypeError, EOFError, NotImplementedError,
                RuntimeError, SyntaxError, OverflowError) as error:  # fmt: skip
            told = str(error).partition("\n")[0]
            raise ModelError("not an archive of arrays", file=file, found=told) from error


def _settings(arrays: dict[str, Tensor], file: Path) -> bytes:
    found = arrays.pop(SETTINGS, None)
    if found is None or found.dtype not in (torch.int8, torch.uint8):
        raise ModelError("the archive has no settings of Marian", file=file, expected=SETTINGS)
    return found.numpy().tobytes().partition(b"\0")[0]


def _sizes(facts: Facts) -> tuple[dict[str, Any], tuple[Sizes, Sizes], tuple[int, int]]:
    """What the settings say: by our names, of both stacks, and rows of both vocabularies."""
    for name, values in (
        ("type", ("transformer",)), ("transformer-decoder-autoreg", ("self-attention",)),
        ("transformer-preprocess", ("",)), ("transformer-postprocess", ("dan",)),
        ("transformer-postprocess-emb", ("d", "")), ("transformer-postprocess-top", ("",)),
        ("transformer-ffn-depth", (2,)), ("transformer-decoder-ffn-depth", (0, 2)),
        ("transformer-train-position-embeddings", (False,)), ("transformer-train-positions", (False,)),
        ("transformer-no-projection", (False,)), ("transformer-no-bias", (False,)),
        ("transformer-no-affine", (False,)), ("transformer-rnn-projection", (False,)),
        ("transformer-tied-layers", ([],)), ("transformer-disable-position-embeddings", (False,)),
        ("lemma-dim-emb", (0,)), ("tied-embeddings", (True, False)), ("tied-embeddings-all", (True, False)),
        ("tied-embeddings-src", (True, False)), ("output-omit-bias", (False, True)),
        ("no-spm-encode", (False,)), ("transformer-decoder-dim-ffn", (0,)),
    ):  # fmt: skip
        facts.only(name, *values)
    facts.skip(_IDLE.split())
    d_model, heads = facts.number("dim-emb", least=4), facts.number("transformer-heads", 8, least=1)
    d_ff = facts.number("transformer-dim-ffn", 2048, least=1)
    layers = [facts.number(f"{stack}-depth", 6, least=1, most=1000) for stack in ("enc", "dec")]
    rows = facts.get("dim-vocabs")
    if not (isinstance(rows, list) and len(rows) == 2 and all(type(one) is int and one > 2 for one in rows)):
        raise facts.wrong("dim-vocabs", "the sizes of two vocabularies", rows)
    if d_model % 2 or d_model % heads:
        raise facts.wrong("dim-emb", f"an even width that transformer-heads, {heads}, divides", d_model)
    model = {
        "family": "transformer", "d_model": d_model, "num_heads": heads, "d_ff": d_ff, "norm": "post",
        "num_encoder_layers": layers[0], "num_decoder_layers": layers[1], "norm_eps": 1e-6, "positions": "marian",
        "activation": facts.choice("transformer-ffn-activation", ACTIVATIONS, "swish"), "bias": True, "dropout": 0.1,
    }  # fmt: skip
    return model, (Sizes(layers[0], d_model, d_ff), Sizes(layers[1], d_model, d_ff)), (rows[0], rows[1])


def _tables(given: Given, rows: tuple[int, int], d_model: int) -> tuple[list[Tensor], Tensor | None]:
    """Both embeddings and the generator, each with a row of zeros for what begins outputs and fills up."""
    shared = "Wemb"
    source = first_of(given, "encoder_Wemb", shared)
    target = first_of(given, "decoder_Wemb", shared)
    tables = {
        name: _with_zeros(given.take(name, [size, d_model])) for name, size in zip((source, target), rows, strict=True)
    }
    untied = "decoder_ff_logit_out_W"
    generator = tables[target]
    if untied in given:
        generator = _with_zeros(given.take(untied, [rows[1], d_model], transpose=True))
    bias = None
    if "decoder_ff_logit_out_b" in given:
        bias = torch.cat([given.take("decoder_ff_logit_out_b", [1, rows[1]])[0], torch.zeros(1)])
    return [tables[source], tables[target], generator], bias


def _with_zeros(table: Tensor) -> Tensor:
    return torch.cat([table, table.new_zeros(1, table.shape[1])])


def _tokenizers(directory: Path, rows: tuple[int, int]) -> tuple[tuple[Order, Order], TokenizerPair]:
    """Vocabularies as SentencePiece models, or as tables of pieces beside such models."""
    spm = _both(directory, "*.spm", "source.spm", "target.spm")
    tables = _both(directory, "*vocab.yml") if any(directory.glob("*vocab.yml")) else None
    orders, sides = [], []
    for number, path in enumerate(spm):
        found = read_pieces(path)
        tokens = dict(enumerate(found.pieces)) if tables is None else _table(tables[number], rows[number])
        size, where = rows[number], path if tables is None else tables[number]
        if max(tokens) >= size:
            raise ModelError("the vocabulary is larger than the model's", file=where, expected=size, found=len(tokens))
        # The row of zeros after the last one.
        order = Order.of(tokens, size + 1, pad=size, unk=need(tokens, "<unk>", where), start=size,
                         end=need(tokens, "</s>", where), file=where, silent=True)  # fmt: skip
        orders.append(order)
        marks = [one for one in order.tokens if one.startswith(">>") and one.endswith("<<")]
        sides.append(PieceTokenizer(found.kind, order.tokens, found.model, marks=marks))
    return (orders[0], orders[1]), TokenizerPair(*sides)


def _both(directory: Path, pattern: str, *names: str) -> list[Path]:
    """The file of each side: those of some names, or those of a pattern, where one may be for both."""
    if names and all((directory / name).exists() for name in names):
        return [directory / name for name in names]
    found = sorted(directory.glob(pattern))
    if not 1 <= len(found) <= 2:
        expected = f"one file {pattern} for both sides, or two"
        raise ModelError("the vocabularies are not clear", file=directory, expected=expected, found=len(found))
    return found * 2 if len(found) == 1 else found


def _table(path: Path, size: int) -> dict[int, str]:
    return tokens_of(read_yaml(path, limit=MAX_VOCABULARY_BYTES), path, size)


def _search(directory: Path) -> dict[str, Any]:
    """What `decoder.yml` says of the search."""
    file = next((directory / name for name in _DECODERS if (directory / name).exists()), None)
    tree: Mapping[str, Any] = {} if file is None else read_yaml(file)
    facts = Facts(tree, file or directory)
    factor = facts.rate("max-length-factor", 3.0, least=0.1, most=1000.0)
    return {
        # Of a source with its </s>; what reaches it ends without one.
        "max_length_factor": factor,
        "max_length_offset": int(factor),
        "end_at_limit": "none",
        "loop_guard": 0,
        "beam_size": facts.number("beam-size", 6, least=1, most=1024),
        "length_penalty": facts.rate("normalize", 1.0, most=50.0) if type(tree.get("normalize")) is not bool else 1.0,
        "length_penalty_formula": "power",
        "unknown": "keep" if tree.get("allow-unk") is True else "forbid",
    }
