"""FSMT of transformers: fairseq's models of WMT 2019, `facebook/wmt19-*`.

Norms stand after the sub-layers, positions are fairseq's, each side has a vocabulary and a table of its own, and
outputs begin with `</s>`. Texts are cut by Moses, then by merges.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, ModelError
from dragoman.files import MAX_SETTINGS_BYTES, read_json
from dragoman.importing.documents import MAX_VOCABULARY_BYTES
from dragoman.importing.facts import Facts
from dragoman.importing.generation import check_never, read_generation
from dragoman.importing.states import read_state
from dragoman.importing.tables import first_of, take_tables
from dragoman.importing.taken import Taken
from dragoman.importing.transformers import STACKS, read_sizes, take_layers
from dragoman.importing.vocabularies import Order, need, tokens_of
from dragoman.importing.weights import Given
from dragoman.text.moses_tokenizer import MosesTokenizer, pair_of
from dragoman.text.tokenizer import SURROGATE, read_saved
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.vocabulary import read_tokens

VOCABULARIES, MERGES = ("vocab-src.json", "vocab-tgt.json"), "merges.txt"
# What the class has where a file says nothing.
_DEFAULTS: dict[str, Any] = {
    "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2, "num_beams": 5,
    "max_length": 200, "scale_embedding": True, "activation_function": "relu",
}  # fmt: skip
# Of a first edition, which read other models too.
_OFF = ("add_bias_logits", "add_final_layer_norm", "normalize_before", "normalize_embedding", "is_decoder")


def is_fsmt(directory: Path) -> bool:
    """Return whether a directory has the files of FSMT."""
    return all((directory / name).exists() for name in ("config.json", *VOCABULARIES))


def take_fsmt(directory: Path, *, unpickle: bool = False) -> Taken:
    """Return an FSMT directory (`FSMTForConditionalGeneration.save_pretrained`) in our terms.

    Args:
        directory: with `config.json`, weights, `vocab-src.json`, `vocab-tgt.json` and `merges.txt`.
        unpickle: whether `pytorch_model.bin` may be read.

    Raises:
        ConfigError: sacremoses, which cuts its texts, is not installed.
        DataError: a vocabulary or the merges cannot be taken.
        ModelError: settings or weights cannot be taken; says which.
    """
    file = directory / "config.json"
    facts = Facts({**_DEFAULTS, **read_json(file, limit=MAX_SETTINGS_BYTES)}, file)
    facts.only("model_type", "fsmt")
    facts.only("pad_token_id", 1)  # positions are counted from it
    for name in _OFF:
        facts.only(name, False)
    facts.skip(("decoder", "static_position_embeddings", "extra_pos_embeddings", "vocab_size"))
    model, sizes = read_sizes(facts)
    rows = [facts.number(f"{side}_vocab_size", 42024, least=5) for side in ("src", "tgt")]
    tied = facts.flag("tie_word_embeddings", False)
    facts.number("max_position_embeddings", 1024, least=2)  # their table grows where that is needed
    languages = _languages(facts)
    generation = read_generation(directory, facts)
    facts.finish()
    if generation.first is not None:
        raise facts.wrong("forced_bos_token_id", "absent", generation.first)
    check_never(generation.never, {generation.pad: "<pad>"}, file)
    merges, lower = _merges(directory / MERGES), _lower(directory)
    orders, sides = [], []
    for name, size, language in zip(VOCABULARIES, rows, languages, strict=True):
        path = directory / name
        tokens = tokens_of(read_tokens(path), path, size)
        if need(tokens, "</s>", path) != generation.end:
            raise ModelError("eos_token_id is not the id of </s>", file=path, expected=generation.end)
        order = Order.of(tokens, size, pad=generation.pad, unk=need(tokens, "<unk>", path), start=generation.start,
                         end=generation.end, file=path)  # fmt: skip
        orders.append(order)
        sides.append(MosesTokenizer(language, order.tokens, merges, lower=lower))
    sides[0].encode("a")  # which tells, before a run is made, that sacremoses is missing
    given = Given(read_state(directory, unpickle=unpickle), directory)
    given.skip(*(f"model.{stack}.embed_positions.weight" for stack in STACKS))
    state = take_layers(given, model, sizes)
    source, target, output = (f"model.{one}.weight" for one in (
        "encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"))  # fmt: skip
    target = first_of(given, target, output, source)
    names = [target] * 3 if tied else [first_of(given, source, target), target, first_of(given, output, target)]
    tables = {name: given.take(name, [size, model["d_model"]])
              for name, size in zip(names, (rows[0], rows[1], rows[1]), strict=True)}  # fmt: skip
    if tied:
        given.skip(source, output)
    given.finish()
    made = take_tables([tables[name] for name in names], None, orders, generation.banned)
    codes = dict(zip(("source", "target"), languages, strict=True))
    return Taken({**model, **made.model, "norm": "post", "positions": "fairseq"}, generation.decoding,
                 TokenizerPair(*sides), {**state, **made.state}, file, codes)  # fmt: skip


def _languages(facts: Facts) -> list[str]:
    found = facts.get("langs")
    if found is None:
        return ["en", "de"]
    two = isinstance(found, list) and len(found) == 2
    if not two or not all(isinstance(one, str) and re.fullmatch("[a-z]{2}", one) for one in found):
        raise facts.wrong("langs", "two languages, such as ['en', 'de']", found)
    return found


def _lower(directory: Path) -> bool:
    file = directory / "tokenizer_config.json"
    if not file.exists():
        return False
    return Facts(read_json(file, limit=MAX_SETTINGS_BYTES), file).flag("do_lower_case", False)


def _merges(path: Path) -> list[tuple[str, str]]:
    data = read_saved(path, MAX_VOCABULARY_BYTES, "list of merges")
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DataError("the merges are not UTF-8", file=path) from error
    pairs = [pair_of(line, path) for line in lines if line.strip()]
    if any(SURROGATE.search(part) for pair in pairs for part in pair):
        raise DataError("a merge is no text", file=path)
    return pairs
