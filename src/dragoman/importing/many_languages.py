"""M2M100 and NLLB, as transformers saves them: models for many languages; a run directory has two by default.

Norms stand before the sub-layers and end each stack; positions are fairseq's; a source begins with the token of its
language, an output with that of its own, which is forced. Both share one table, and one SentencePiece model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError, ModelError
from dragoman.files import MAX_SETTINGS_BYTES, read_json
from dragoman.importing.facts import Facts
from dragoman.importing.generation import check_never, read_generation
from dragoman.importing.pieces import read_pieces
from dragoman.importing.states import read_state
from dragoman.importing.tables import first_of, take_tables
from dragoman.importing.taken import Taken
from dragoman.importing.transformers import STACKS, read_sizes, take_layers
from dragoman.importing.vocabularies import Order, need, tokens_of
from dragoman.importing.weights import Given
from dragoman.models.language_tokens import few_of
from dragoman.text.piece_tokenizer import PieceTokenizer
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.vocabulary import read_tokens

PIECES = "sentencepiece.bpe.model"
# Where the tokens of languages are listed, in the order of their ids.
_LISTS = ("special_tokens_map.json", "tokenizer_config.json")
_KEYS = ("additional_special_tokens", "extra_special_tokens")
_BEFORE = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3 there
# What the class has where a file says nothing.
_DEFAULTS: dict[str, Any] = {
    "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "vocab_size": 128112, "scale_embedding": True,
    "activation_function": "relu", "attention_dropout": 0.1,
}  # fmt: skip


def is_many(directory: Path) -> bool:
    """Return whether a directory has the files of M2M100 or NLLB."""
    return all((directory / name).exists() for name in ("config.json", PIECES))


def take_many(directory: Path, source_language: str | None, target_language: str | None, *, unpickle: bool) -> Taken:
    """Return an M2M100 or NLLB directory in our terms, for one pair of its languages.

    Args:
        directory: with `config.json`, weights and `sentencepiece.bpe.model`; M2M100 also has `vocab.json`.
        source_language: as the model names it: `en` or `eng_Latn`.
        target_language: likewise.
        unpickle: whether `pytorch_model.bin` may be read.

    Raises:
        ConfigError: a language is missing or is not one of the model's.
        DataError: the vocabulary or the SentencePiece model cannot be taken.
        ModelError: settings or weights cannot be taken; says which.
    """
    file = directory / "config.json"
    facts = Facts({**_DEFAULTS, **read_json(file, limit=MAX_SETTINGS_BYTES)}, file)
    facts.only("model_type", "m2m_100")
    facts.only("pad_token_id", 1)  # positions are counted from it
    facts.only("is_decoder", False)
    facts.only("tie_word_embeddings", True)
    model, sizes = read_sizes(facts)
    rows = facts.number("vocab_size", least=5)
    positions = facts.number("max_position_embeddings", 1024, least=2)
    generation = read_generation(directory, facts)
    facts.finish()
    found = read_pieces(directory / PIECES)
    languages = _languages(directory)
    tokens = _tokens(directory, found.pieces, languages, rows)
    order = Order.of(tokens, rows, pad=generation.pad, unk=need(tokens, "<unk>", file), start=generation.start,
                     end=generation.end, file=file)  # fmt: skip
    check_never(generation.never, {generation.pad: "<pad>"}, file)
    hidden = [one for one in order.tokens if one in languages or one.startswith(("<s>*", "<mask>", "<unused "))]
    sides = []
    for side, code in (("source", source_language), ("target", target_language)):
        begin = _token_of(code, side, languages, directory)
        sides.append(PieceTokenizer(found.kind, order.tokens, found.model, marks=hidden, begin=[begin]))
    if generation.first is not None and tokens.get(generation.first) != sides[1].begin[0]:
        generation = generation._replace(first=None)  # of another language than the one asked for
    given = Given(read_state(directory, unpickle=unpickle), directory)
    given.skip(*(f"model.{stack}.embed_positions.{name}" for stack in STACKS for name in ("weights", "weight")))
    model |= {"norm": "pre", "positions": "fairseq"}
    state = take_layers(given, model, sizes)
    shared = first_of(given, "model.shared.weight", "model.encoder.embed_tokens.weight", "lm_head.weight")
    table = given.take(shared, [rows, sizes[0].d_model])
    given.skip("lm_head.weight", "model.shared.weight", *(f"model.{stack}.embed_tokens.weight" for stack in STACKS))
    given.finish()
    tables = take_tables([table] * 3, None, (order, order), generation.banned)
    decoding = {**generation.decoding, "max_source_length": positions - 2}
    return Taken(
        {**model, **tables.model}, decoding, TokenizerPair(sides[0], sides[1]), {**state, **tables.state}, file
    )


def _languages(directory: Path) -> list[str]:
    for name in _LISTS:
        if (directory / name).exists():
            tree = read_json(directory / name, limit=MAX_SETTINGS_BYTES)
            for key in _KEYS:
                found = tree.get(key)
                if isinstance(found, list) and found and all(isinstance(one, str) and one for one in found):
                    return [one for one in dict.fromkeys(found) if one != "<mask>"]
    expected = "a list of tokens under additional_special_tokens in special_tokens_map.json"
    raise ModelError("the languages of the model are not named", file=directory, expected=expected)


def _tokens(directory: Path, pieces: list[str], languages: list[str], rows: int) -> dict[int, str]:
    """M2M100 has ids by piece in a file, NLLB those of SentencePiece plus one; languages follow."""
    file = directory / "vocab.json"
    if file.exists():
        tokens = tokens_of(read_tokens(file), file, rows)
    else:
        tokens = dict(enumerate((*_BEFORE, *pieces[3:])))
    first = len(tokens)
    tokens |= {first + number: token for number, token in enumerate(languages)}
    if not file.exists():
        tokens[first + len(languages)] = "<mask>"
    distinct = len(set(tokens.values()))
    if max(tokens) >= rows or distinct < len(tokens):
        expected, told = f"at most {rows} tokens, each once", f"{len(tokens)}, {distinct} of them distinct"
        raise ModelError("the tokens do not fit the model", file=directory, expected=expected, found=told)
    return tokens


def _token_of(code: str | None, side: str, languages: list[str], directory: Path) -> str:
    if code is None:
        hint = f"--{side}-language, such as {languages[0].strip('_')}"
        raise ConfigError(f"the model is for many languages: the {side} language is needed", file=directory, hint=hint)
    found = next((one for one in languages if code in (one, one.strip("_"))), None)
    if found is None:
        known = few_of([one.strip("_") for one in languages], code)
        raise ConfigError(f"the model has no such {side} language", file=directory, expected=known, found=code)
    return found
