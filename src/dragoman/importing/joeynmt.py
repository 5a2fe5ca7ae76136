"""JoeyNMT 2: a directory with `config.yaml`, a checkpoint, and vocabularies; its Transformer is built as ours is.

Norms stand where `layer_norm` says, add 1e-6 to the variance, and end the stacks where they stand before the
sub-layers; positions are the paper's; the four special tokens come first in each vocabulary. The checkpoint is
pickled: its tensors are read in a process of their own, or lie as `model.safetensors` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.errors import DataError, ModelError
from dragoman.importing.documents import MAX_VOCABULARY_BYTES, read_yaml
from dragoman.importing.facts import Facts
from dragoman.importing.pieces import read_pieces
from dragoman.importing.states import SAFE, read_state
from dragoman.importing.tables import first_of, take_tables
from dragoman.importing.taken import Taken
from dragoman.importing.vocabularies import Order, need, tokens_of, words_of
from dragoman.importing.weights import Given, Names, Sizes, take_stack
from dragoman.text.piece_tokenizer import PieceTokenizer
from dragoman.text.tokenizer import Tokenizer, read_saved
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.vocabulary import Vocabulary

CONFIG = "config.yaml"
_STACKS = ("encoder", "decoder")
_SPECIALS = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
_IDLE = "initializer init_gain init_weight bias_initializer embed_initializer embed_init_gain embed_init_weight "
_OF_RECURRENT = "freeze rnn_type bidirectional attention hidden_dropout input_feeding init_hidden activation"


def is_joey(directory: Path) -> bool:
    """Return whether a directory has the files of JoeyNMT."""
    return (directory / CONFIG).exists() and any(directory.glob("*vocab*.txt"))


def take_joey(directory: Path, *, unpickle: bool = False) -> Taken:
    """Return a directory of JoeyNMT in our terms.

    Raises:
        DataError: a vocabulary or a SentencePiece model cannot be taken.
        ModelError: settings or weights cannot be taken; says which.
    """
    file = directory / CONFIG
    tree = read_yaml(file)
    model = _section(tree, "model", file)
    data, testing = (_section(tree, name, file, needed=False) for name in ("data", "testing"))
    encoder, decoder = (Facts(_section(model, stack, file), file) for stack in _STACKS)
    d_model = encoder.number("hidden_size", least=2)
    found, sizes = _sizes(encoder, decoder, d_model)
    for key in model.keys() - {"encoder", "decoder", "tied_embeddings", "tied_softmax", *_IDLE.split()}:
        raise ModelError("a setting is not known", file=file, found=f"model.{key}")
    orders, tokenizers, notes = _tokenizers(directory, data, _section(tree, "special_symbols", file, needed=False))
    given = Given(read_state(directory, pickled=_checkpoint(directory), unpickle=unpickle), directory)
    state: dict[str, Tensor] = {}
    for stack, size in zip(_STACKS, sizes, strict=True):
        end = f"{stack}.layer_norm" if found["norm"] == "pre" else None
        state |= take_stack(given, stack, f"{stack}.layers.{{}}", _names(stack), size, end=end)
    given.skip("encoder.pe.pe", "decoder.pe.pe", "decoder.trg_mask")
    source, target = "src_embed.lut.weight", first_of(given, "trg_embed.lut.weight", "src_embed.lut.weight")
    output = first_of(given, "decoder.output_layer.weight", target)
    tables = {name: given.take(name, [order.size, d_model])
              for name, order in ((source, orders[0]), (target, orders[1]), (output, orders[1]))}  # fmt: skip
    given.finish()
    made = take_tables([tables[source], tables[target], tables[output]], None, orders)
    return Taken({**found, **made.model}, _search(testing, file), tokenizers, {**state, **made.state}, file,
                 notes=tuple(notes))  # fmt: skip


def _section(tree: Mapping[str, Any], name: str, file: Path, *, needed: bool = True) -> dict[str, Any]:
    found = tree.get(name)
    if found is None and not needed:
        return {}
    if not isinstance(found, dict):
        raise ModelError("a section of the settings is missing", file=file, expected=name, found=type(found).__name__)
    return {str(key): value for key, value in found.items()}


def _sizes(encoder: Facts, decoder: Facts, d_model: int) -> tuple[dict[str, Any], list[Sizes]]:
    layers, norms, heads, inner, scales = [], [], [], [], []
    for facts in (encoder, decoder):
        facts.only("type", "transformer")
        facts.only("alpha", 1.0, 1)
        if facts.number("hidden_size", d_model) != d_model:
            raise facts.wrong("hidden_size", f"one width, {d_model}", facts.get("hidden_size"))
        embeddings = Facts(facts.get("embeddings") or {}, facts.file)
        if embeddings.number("embedding_dim", d_model) != d_model:
            raise facts.wrong("embedding_dim", f"hidden_size, {d_model}", embeddings.get("embedding_dim"))
        scales.append(embeddings.flag("scale", False))
        embeddings.skip(("dropout", "freeze", "load_pretrained", "type"))
        embeddings.finish()
        layers.append(facts.number("num_layers", 8, least=1, most=1000))
        heads.append(facts.number("num_heads", 4, least=1))
        inner.append(facts.number("ff_size", 2048, least=1))
        norms.append(facts.choice("layer_norm", {"pre": "pre", "post": "post"}, ""))
        facts.skip(_OF_RECURRENT.split())
    for name, values in (("num_heads", heads), ("ff_size", inner), ("layer_norm", norms), ("scale", scales)):
        if values[0] != values[1]:
            raise decoder.wrong(name, f"that of the encoder, {values[0]!r}: both stacks are alike here", values[1])
    if d_model % 2 or d_model % heads[0]:
        raise encoder.wrong("num_heads", f"a divisor of the even hidden_size, {d_model}", heads[0])
    model = {
        "family": "transformer", "d_model": d_model, "num_heads": heads[0], "d_ff": inner[0], "norm": norms[0],
        "num_encoder_layers": layers[0], "num_decoder_layers": layers[1], "norm_eps": 1e-6, "activation": "relu",
        "positions": "interleaved", "scale_embeddings": scales[0], "bias": True,
        "dropout": min(encoder.rate("dropout", 0.1), 0.99),
    }  # fmt: skip
    decoder.skip(["dropout"])
    encoder.finish()
    decoder.finish()
    return model, [Sizes(count, d_model, inner[0]) for count in layers]


def _names(stack: str) -> Names:
    parts = ("q_layer", "k_layer", "v_layer", "output_layer")
    encodes = stack == "encoder"
    own, norm = ("src_src_att", "layer_norm") if encodes else ("trg_trg_att", "x_layer_norm")
    return Names(
        [f".{own}.{part}" for part in parts], [f".src_trg_att.{part}" for part in parts],
        ".feed_forward.pwff_layer.0", ".feed_forward.pwff_layer.3",
        (f".{norm}", ".dec_layer_norm", ".feed_forward.layer_norm"),
    )  # fmt: skip


def _checkpoint(directory: Path) -> str:
    """The name of the best checkpoint, or of the only one."""
    found = [path.name for path in sorted(directory.glob("*.ckpt"))]
    for name in ("best.ckpt", "latest.ckpt"):
        if name in found:
            return name
    if len(found) > 1:
        raise ModelError("it is not clear which checkpoint is meant", file=directory, expected=f"{SAFE}, or best.ckpt",
                         found=", ".join(found[:4]))  # fmt: skip
    return found[0] if found else "best.ckpt"


def _tokenizers(
    directory: Path, data: Mapping[str, Any], symbols: Mapping[str, Any]
) -> tuple[list[Order], TokenizerPair, list[str]]:
    file, orders, sides, notes = directory / CONFIG, [], [], []
    names = Facts(symbols, file)
    special = {name: names.text(name, token) or token for name, token in _SPECIALS.items()}
    if symbols.get("lang_tags"):
        raise names.wrong("lang_tags", "none", symbols["lang_tags"])
    for side, key in (("src", "source"), ("trg", "target")):
        path = _first(directory, side)
        tokens = tokens_of(_lines(path), path)
        ids = [need(tokens, special[name], path) for name in ("pad_token", "unk_token", "bos_token", "eos_token")]
        order = Order.of(tokens, len(tokens), pad=ids[0], unk=ids[1], start=ids[2], end=ids[3], file=path)
        made, told = _tokenizer(directory, Facts(_section(data, side, file, needed=False), file), order)
        orders.append(order)
        sides.append(made)
        notes += [f"{key}: {one}" for one in told]
    return orders, TokenizerPair(sides[0], sides[1]), notes


def _first(directory: Path, side: str) -> Path:
    for name in (f"{side}_vocab.txt", "vocab.txt", f"vocab.{side}.txt", f"{side}.vocab.txt"):
        if (directory / name).exists():
            return directory / name
    raise ModelError("a vocabulary is missing", file=directory, expected=f"{side}_vocab.txt")


def _lines(path: Path) -> dict[str, int]:
    data = read_saved(path, MAX_VOCABULARY_BYTES, "vocabulary")
    try:
        lines = data.decode("utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError("the vocabulary is not UTF-8", file=path) from error
    found = {line: number for number, line in enumerate(lines)}
    if len(found) < len(lines):
        raise DataError("the vocabulary names a token twice", file=path)
    return found


def _tokenizer(directory: Path, facts: Facts, order: Order) -> tuple[Tokenizer, list[str]]:
    """The tokenizer of a side, and what has to be done to texts before it."""
    level = facts.choice("level", {"word": "word", "bpe": "bpe", "char": "char"}, "word")
    settings = Facts(facts.get("tokenizer_cfg") or {}, facts.file)
    kind = facts.text("tokenizer_type")
    told = [f"lower-case the texts, as {facts.file.name} asks for"] if facts.flag("lowercase", False) else []
    if settings.text("pretokenizer", "none") not in ("none", None):
        told.append(f"texts go through the {settings.text('pretokenizer')} tokenizer first, which is not here")
    if level == "bpe" and kind in (None, "sentencepiece"):
        path = directory / Path(settings.text("model_file") or "sp.model").name  # beside the checkpoint, nowhere else
        found = read_pieces(path)
        return PieceTokenizer(found.kind, order.tokens, found.model), told
    if level == "bpe":
        told.append("texts are to be cut by subword-nmt first, and outputs joined: pieces end with @@")
    if level == "char":
        return Vocabulary("character", [" " if one == "\u2581" else one for one in order.tokens]), told
    return Vocabulary("word", words_of(order)), told


def _search(testing: Mapping[str, Any], file: Path) -> dict[str, Any]:
    facts = Facts(testing, file)
    alpha = facts.rate("beam_alpha", 1.0, least=-1.0, most=50.0)
    found = {
        "beam_size": facts.number("beam_size", 1, least=1, most=1024), "length_penalty": max(alpha, 0.0),
        "length_penalty_formula": "gnmt", "unknown": "keep" if testing.get("generate_unk") is True else "forbid",
    }  # fmt: skip
    longest = facts.number("max_output_length", -1, least=-1)
    return found | ({"max_length": longest} if longest > 0 else {})
