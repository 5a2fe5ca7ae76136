"""A SentencePiece model as a `tokenizer.json`, which the tokenizers of transformers.js and of Rust read."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from dragoman.export.pieces import Pieces
from dragoman.files import json_text
from dragoman.protobuf import contents, fields
from dragoman.sequences.source import Specials
from dragoman.text.tokenizer import Tokenizer

_BLANK = "\u2581"
_NEVER = -1e4  # the score of what no text is cut into


def tokenizer_json(
    pieces: Pieces,
    tokenizer: Tokenizer,
    specials: Specials | None = None,
    marks: Sequence[str] = (),
    begin: Sequence[str] = (),
) -> str:
    """Return `tokenizer.json` of a side.

    Args:
        pieces: the vocabulary, in the order that the ids have there.
        tokenizer: of the side.
        specials: the special ids there; those of the tokenizer if None.
        marks: tokens that no text gives.
        begin: those of them that each text begins with.
    """
    specials, names = specials or tokenizer.specials, pieces.names
    maps = [one for spec in contents(pieces.model, 3) for one in contents(spec, 2)]
    words, characters = tokenizer.kind == "word", tokenizer.kind == "character"
    steps: list[dict[str, Any]] = []
    if maps and maps[-1]:
        coded = base64.b64encode(maps[-1]).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": coded})
    if words or blank_rules(pieces.model)[1]:
        steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    control = {i for i in (specials.pad, specials.unk, specials.bos, specials.eos, specials.mask) if i is not None}
    control |= {names.index(mark) for mark in marks}
    added = [
        {"id": i, "content": names[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for i in sorted(control)
    ]  # fmt: skip
    scheme = "never" if characters else "always"
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": _BLANK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    ]  # fmt: skip
    if not characters:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    end = names[specials.eos]
    first = [{"SpecialToken": {"id": mark, "type_id": 0}} for mark in begin]
    framing = {mark: {"id": mark, "ids": [names.index(mark)], "tokens": [mark]} for mark in (end, *begin)}
    tree = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": steps} if steps else None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": _BLANK, "prepend_scheme": scheme, "split": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [*first, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}],
            "pair": [*first, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}},
                     {"SpecialToken": {"id": end, "type_id": 0}}],
            "special_tokens": framing,
        },
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": _model(pieces, tokenizer, specials.unk),
    }  # fmt: skip
    return json_text(tree)


def blank_rules(model: bytes) -> tuple[bool, bool]:
    """Return whether a SentencePiece model puts a blank before a text, and drops outer and double ones.

    It does both unless it says otherwise.
    """
    rules = {3: 1, 4: 1} | {number: value for spec in contents(model, 3) for number, value in fields(spec)}
    return bool(rules[3]), bool(rules[4])


def _model(pieces: Pieces, tokenizer: Tokenizer, unk: int) -> dict[str, Any]:
    from sentencepiece import SentencePieceProcessor

    names = pieces.names
    if tokenizer.kind == "word":
        return {"type": "WordLevel", "vocab": {name: i for i, name in enumerate(names)}, "unk_token": names[unk]}
    processor = SentencePieceProcessor(model_proto=pieces.model)
    own = [processor.piece_to_id(name) for name in names]  # an imported vocabulary has other ids than its model
    there = [processor.id_to_piece(number) == name for number, name in zip(own, names, strict=True)]
    scores = [processor.get_score(number) if cut else _NEVER for number, cut in zip(own, there, strict=True)]
    if tokenizer.kind == "unigram":
        listed = [[name, one] for name, one in zip(names, scores, strict=True)]
        bytes_too = any(processor.is_byte(number) for number in own)
        return {"type": "Unigram", "unk_id": unk, "vocab": listed, "byte_fallback": bytes_too}
    ids = {name: i for i, name in enumerate(names)}
    plain = [i for i, number in enumerate(own) if there[i] and not (processor.is_control(number)
             or processor.is_unknown(number) or processor.is_byte(number))]  # fmt: skip
    merges = [
        (-scores[i], ids[names[i][:cut]], ids[names[i][cut:]], names[i][:cut], names[i][cut:])
        for i in plain
        for cut in range(1, len(names[i]))
        if names[i][:cut] in ids and names[i][cut:] in ids
    ]
    return {
        "type": "BPE", "dropout": None, "unk_token": names[unk], "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": tokenizer.kind == "bpe", "ignore_merges": False,
        "vocab": ids, "merges": [[left, right] for *_, left, right in sorted(merges)],
    }  # fmt: skip
