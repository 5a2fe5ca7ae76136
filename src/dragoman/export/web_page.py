"""A page that translates in a browser with the graphs beside it: HTML, scripts, and the facts that they need.

The runtime, onnxruntime-web, is not ours and not here: `npm install` puts it beside the page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dragoman.export.for_onnx import graph_names
from dragoman.export.given import Given
from dragoman.export.pieces import Pieces
from dragoman.export.tokenizer_json import blank_rules
from dragoman.files import json_text, write_bytes
from dragoman.text.tokenizer import Tokenizer

_PAGE = Path(__file__).parent / "web"
_ROOMS = Path(__file__).parents[1]
# Colours and letters of every page, and what pages that translate look like.
_SHARED = (_ROOMS / "inspector" / "page" / "base.css", _ROOMS / "serving" / "page" / "panes.css")
# What a search in the browser heeds.
_SEARCH = (
    "beam_size", "length_penalty", "length_penalty_formula", "min_length", "max_length", "max_length_factor",
    "max_length_offset", "end_at_limit", "beam_early_stopping", "no_repeat_ngram", "loop_guard",
)  # fmt: skip


def write_page(given: Given, directory: Path, quantization: str) -> None:
    """Write `index.html`, `package.json` and the folder `web` beside graphs and tokenizers that are there already."""
    (directory / "web").mkdir()
    for path in (*_SHARED, *sorted(_PAGE.iterdir())):
        top = path.suffix in (".html", ".json")
        write_bytes((directory if top else directory / "web") / path.name, path.read_bytes())
    write_bytes(
        directory / "web" / "model.json", (json_text(_facts(given, directory, quantization), indent=1) + "\n").encode()
    )


def notes(directory: Path) -> tuple[str, ...]:
    """Return how the page is opened, in words."""
    served = f"python -m http.server --directory {directory}"
    return (f"the web page needs onnxruntime-web: run `npm install` in {directory}, then `{served}`",)


def _facts(given: Given, directory: Path, quantization: str) -> dict[str, Any]:
    shape, decoder, specials = given.blueprint.shape, given.blueprint.decoder, given.tokenizers.target.specials
    assert decoder is not None
    encoder_file, decoder_file = (f"onnx/{name}" for name in graph_names(quantization))
    source = side_facts(given.source, given.tokenizers.source, given.languages.source, "tokenizer.json")
    name = "tokenizer.json" if given.tokenizers.joint else "target/tokenizer.json"
    target = side_facts(given.target, given.tokenizers.target, given.languages.target, name)
    files = (encoder_file, decoder_file, source["file"], target["file"])
    never = [specials.pad, specials.bos, *([] if given.decoding.unknown == "keep" else [specials.unk])]
    return {
        "name": given.name, "encoder": encoder_file, "decoder": decoder_file,
        "bytes": sum((directory / one).stat().st_size for one in files),
        "shape": {"layers": len(decoder.layers), "heads": shape.heads, "key_width": shape.d_k,
                  "value_width": shape.d_v},
        "source": source, "target": target, "longest_source": given.decoding.max_source_length,
        "frame": {"begin": specials.bos, "end": specials.eos, "never": never,
                  "prefix": given.tokenizers.target.encode("")},
        "search": {one: getattr(given.decoding, one) for one in _SEARCH},
    }  # fmt: skip


def side_facts(pieces: Pieces, tokenizer: Tokenizer, language: str | None, file: str) -> dict[str, Any]:
    """Return what `tokenizer.json` does not say of a side; `tokenizer.js` names each part.

    Args:
        pieces: its vocabulary.
        tokenizer: which cuts it here.
        language: of its texts, where known.
        file: the path of its `tokenizer.json`.
    """
    specials, imported = tokenizer.specials, tokenizer.stem == "pieces"
    marks, begin = getattr(tokenizer, "marks", ()), getattr(tokenizer, "begin", ())
    first = [specials.bos] if getattr(tokenizer, "begins", False) else [pieces.names.index(one) for one in begin]
    prefix, squeezed = blank_rules(pieces.model)
    control = (specials.pad, specials.bos, specials.eos, specials.mask)
    return {
        "file": file, "language": language, "kind": tokenizer.kind, "rule": tokenizer.normalization,
        "escaped": not imported, "prefix": prefix, "squeezed": squeezed, "begin": first,
        "marks": list(marks), "specials": {name: getattr(specials, name) for name in ("pad", "unk", "bos", "eos")},
        "hidden": [i for i in control if i is not None] + [pieces.names.index(one) for one in marks],
    }  # fmt: skip
