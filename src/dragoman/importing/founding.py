"""Checkpoints of the founding systems, with their vocabularies: run directories that their profiles compute."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.directories import prepared, put
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.importing.documents import MAX_VOCABULARY_BYTES
from dragoman.importing.states import SAFE, read_state
from dragoman.importing.vocabularies import Order, tokens_of, words_of
from dragoman.importing.weights import Given
from dragoman.models.description import load_tokenizers, save_config, save_tokenizers
from dragoman.models.pretrained import load_pretrained, save_weights
from dragoman.models.profiled import NAMES, loaded
from dragoman.nn import PreNorm, Transformer
from dragoman.profiles.torch_nn import Names
from dragoman.text.tokenizer import read_saved
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.vocabulary import Vocabulary, read_tokens


@dataclass(frozen=True)
class System:
    """What an importer has to know of a system besides its profile.

    Attributes:
        mark: a pattern of names that only its states have.
        source: tables whose rows are ids of sources, as patterns.
        target: likewise of targets.
        pads: options that name the id of padding.
        begins: whether sources begin with `<s>`.
    """

    mark: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    pads: tuple[str, ...]
    begins: bool = True


KNOWN = {
    "annotated": System("encoder.layers.*.self_attn.linears.0.weight", ("src_embed.0.*", "source_embedding.0.*"),
                        ("tgt_embed.0.*", "target_embedding.0.*", "generator.proj*"), ("pad",)),
    "jadore": System("encoder.layer_stack.*.slf_attn.w_qs.weight", ("encoder.src_word_emb.weight",),
                     ("decoder.trg_word_emb.weight", "trg_word_prj.weight"), ("src_pad_idx", "trg_pad_idx")),
    "lsdefine": System("*time_distributed*kernel*", (), (), ()),
    "d2l": System("encoder.blks.*.attention.W_q.weight", ("encoder.embedding.weight",),
                  ("decoder.embedding.weight", "decoder.dense.*"), ("src_pad",), begins=False),
    "torch_nn": System("*layers.0.self_attn.in_proj_weight", (), (), ("pad",)),
}  # fmt: skip
# What the systems call the four special tokens, in our order.
_SPECIALS = (
    ("<pad>", "<blank>", "<PAD>"), ("<unk>", "<UNK>"), ("<s>", "<bos>", "<sos>", "<S>"), ("</s>", "<eos>", "</S>"),
)  # fmt: skip
_USUAL, _ROOM = 1024, 50  # tokens of a source at most, and what an output may have more, unless one says otherwise
_PICKLED = ("*.pt", "*.pth", "*.chkpt", "*.params", "*.bin")


def founding_kind(directory: Path) -> str | None:
    """Return which founding system a directory has weights of, by their names; None if of none."""
    files = list(directory.glob("*.safetensors"))
    if len(files) != 1:
        return None
    names = list(read_state(directory, files[0].name))
    return next((kind for kind, one in KNOWN.items() if any(fnmatchcase(name, one.mark) for name in names)), None)


def import_founding(
    directory: Path,
    out: Path,
    system: str,
    *,
    vocabularies: tuple[Path | None, Path | None] = (None, None),
    options: Mapping[str, Any] | None = None,
    unpickle: bool = False,
) -> tuple[int, tuple[str, ...]]:
    """Write a run directory of a founding system's checkpoint, whole or not at all.

    Args:
        directory: with the weights, one safetensors file, or pickled ones.
        out: to make.
        system: one of `SYSTEMS`.
        vocabularies: of sources and of targets: tokens one a line, or JSON; found by their names where None.
        options: of the profile's `load`.
        unpickle: whether pickled weights may be read.

    Returns:
        How many numbers it has, and what its user should know.

    Raises:
        ConfigError: an option is none of the profile's, or one is missing that no weights tell.
        DataError: a vocabulary is missing, or cannot be taken.
        ModelError: the weights are not those of the system.
    """
    known, options = KNOWN[system], dict(options or {})
    given = Given(_state(directory, unpickle=unpickle), directory)
    state = {name: given.take(name, given.shape(name)) for name in given.names}
    if system == "torch_nn":
        known = _named(known, options)
    orders = []
    for side, tables, path in zip(("src", "trg"), (known.source, known.target), vocabularies, strict=True):
        order = _order(path or vocabularies[0] or _found(directory, side))
        for name in [one for one in state if any(fnmatchcase(one, table) for table in tables)]:
            turned = options.get("edition") == "paddle" and name == "decoder.dense.weight"
            state[name] = _rows(state[name], order, name, columns=turned)
        if not tables and order.ids != tuple(range(order.size)):
            expected = "<PAD>, <UNK>, <S> and </S> first, as in its own lists"
            raise DataError(f"a vocabulary of {system} has another order", file=path or directory, expected=expected)
        orders.append(order)
    options |= dict.fromkeys(known.pads, 0)
    model = loaded(system, state, options)
    config = _config(model, [order.size for order in orders])
    source, target = map(words_of, orders)
    pair = TokenizerPair(Vocabulary("word", source, begins=known.begins), Vocabulary("word", target))
    decoding = DecodingConfig.from_dict({"unknown": "keep", "loop_guard": 0, **_limits(model)})
    with prepared(out) as made:
        save_config(made, config, decoding, profile={"system": system, "options": options})
        save_weights(made, state)
        save_tokenizers(made, pair)
        load_tokenizers(made, config)
        load_pretrained(made)
        put(made, out)
    notes = ("texts are cut at blanks: cut them first as those of its training were, as with spaCy",)
    return sum(one.numel() for one in model.parameters()), notes


def _state(directory: Path, *, unpickle: bool) -> dict[str, Tensor]:
    safe = sorted(directory.glob("*.safetensors"))
    pickled = [path for pattern in _PICKLED for path in sorted(directory.glob(pattern))]
    for found in (safe, [] if safe else pickled):
        if len(found) > 1:
            told = ", ".join(path.name for path in found[:4])
            raise ModelError("it is not clear which weights are meant", file=directory, expected="one file", found=told)
    name, other = (found[0].name if found else SAFE for found in (safe, pickled))
    return read_state(directory, name, other, unpickle=unpickle)


def _named(known: System, options: Mapping[str, Any]) -> System:
    """Which tables a model around `torch.nn.Transformer` has, by the names that are given."""
    own = {name.removeprefix(NAMES): value for name, value in options.items() if name.startswith(NAMES)}
    parts = Names.__dataclass_fields__
    if unknown := sorted(own.keys() - parts.keys()):
        raise ConfigError("torch_nn has no such part", expected=", ".join(parts), found=unknown[0])
    names = Names(**own)
    target = dict.fromkeys((names.target_embedding, names.generator, names.generator_bias))
    return System(known.mark, (names.source_embedding,), tuple(one for one in target if one), known.pads)


def _found(directory: Path, side: str) -> Path:
    names = [f"{side}_vocab", "vocab", f"vocab.{side}", f"{side}.vocab"]
    for path in (directory / f"{name}.{end}" for name in names for end in ("json", "txt")):
        if path.exists():
            return path
    hint = "--vocab FILE, tokens one a line in the order of their ids, or JSON"
    raise DataError("a vocabulary is missing", file=directory, expected=f"{side}_vocab.txt", hint=hint)


def _order(path: Path) -> Order:
    data = read_saved(path, MAX_VOCABULARY_BYTES, "vocabulary")
    start = data.lstrip()[:1]
    if start == b"{":
        tokens = tokens_of(read_tokens(path), path)
    else:
        tokens = tokens_of({token: place for place, token in enumerate(_listed(data, path, start == b"["))}, path)
    if sorted(tokens) != list(range(len(tokens))):
        raise DataError("ids are missing in the vocabulary", file=path, expected=f"0 to {len(tokens) - 1}")
    by_name = {token: number for number, token in tokens.items()}
    ids = []
    for names in _SPECIALS:
        there = [by_name[name] for name in names if name in by_name]
        if not there:
            raise DataError("the vocabulary lacks a special token", file=path, expected=" or ".join(names))
        ids.append(there[0])
    return Order.of(tokens, len(tokens), pad=ids[0], unk=ids[1], start=ids[2], end=ids[3], file=path)


def _listed(data: bytes, path: Path, is_json: bool) -> Sequence[str]:
    try:
        text = data.decode("utf-8")
        found = json.loads(text) if is_json else text.rstrip("\n").split("\n")
    except (ValueError, RecursionError) as error:
        raise DataError("the vocabulary is not UTF-8, or not JSON", file=path) from error
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found) or len({*found}) < len(found):
        raise DataError("the vocabulary is no list of distinct tokens", file=path)
    return found


def _rows(tensor: Tensor, order: Order, name: str, *, columns: bool) -> Tensor:
    """A table, or the offsets of a generator, in our order; `columns` where its matrices are `[in, out]`."""
    columns = columns and tensor.dim() == 2
    if tensor.shape[int(columns)] != order.size:
        found = f"{order.size} tokens, {name} {list(tensor.shape)}"
        raise DataError("the vocabulary does not fit the weights", expected="a token for each row", found=found)
    return order.rows(tensor.t()).t().contiguous() if columns else order.rows(tensor)


def _config(model: Transformer, sizes: Sequence[int]) -> ModelConfig:
    """What is told of the shape of a model."""
    layers: Any = model.encoder.layers
    attention = layers[0].self_attention
    d_model, heads = attention.d_model, attention.num_heads
    tree = {
        "family": "transformer", "source_vocab": sizes[0], "target_vocab": sizes[1], "d_model": d_model,
        "num_heads": heads, "num_encoder_layers": len(layers), "num_decoder_layers": len(model.decoder.layers),
        "d_ff": layers[0].feed_forward.inner.out_features, "tie_embeddings": "none",
        "norm": "pre" if isinstance(layers[0].self_attention_residual, PreNorm) else "post",
    }  # fmt: skip
    own = {name: getattr(attention, name) for name in ("d_k", "d_v") if getattr(attention, name) * heads != d_model}
    return ModelConfig.from_dict(tree | own)


def _limits(model: Transformer) -> dict[str, int]:
    """How long texts may be, where a table of positions has an end: its rows but for the frame and what pads it."""
    rows = [tensor.shape[0] for name, tensor in model.named_buffers()
            if name.rpartition(".")[2] in ("rows", "table") and tensor.dim() == 2]  # fmt: skip
    if not rows:
        return {}
    most = max(1, min(rows) - 6)
    found = {"max_source_length": min(most, _USUAL)}
    # Where sources alone keep their outputs within the table, nothing else is needed.
    return found if most >= _USUAL + _ROOM else {"max_length": most, **found}


def option(text: str) -> tuple[str, Any]:
    """Return an option of a profile from `name=value`; values are JSON, or else texts.

    Raises:
        ConfigError: there is no name.
    """
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_.]+", name):
        raise ConfigError("not an option", expected="name=value, such as h=8", found=text)
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value
