"""The README of an exported directory: what a hub of models reads, what the model is and how the program is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.export.given import Given
from dragoman.files import json_text, write_bytes


def write_card(
    given: Given, directory: Path, *, library: str, tags: Sequence[str], use: str, language: str = "python"
) -> None:
    """Write `README.md`, with the fields of the Hugging Face hub between two lines of dashes at its head.

    Args:
        given: the model.
        directory: where.
        library: which program runs it, as the hub calls it.
        tags: besides `translation`.
        use: a program that translates a line; `{name}` stands for the directory.
        language: what that is written in.
    """
    languages = [one for one in (given.languages.source, given.languages.target) if one]
    head = [
        "---",
        *(["language:", *(f"- {json_text(one)}" for one in dict.fromkeys(languages))] if languages else []),
        f"license: {json_text(given.license_name or 'unknown')}",
        f"library_name: {library}",
        "pipeline_tag: translation",
        "tags:",
        *(f"- {one}" for one in ("translation", "dragoman", *tags)),
        "---",
    ]
    shape, encoder, decoder = given.blueprint.shape, given.blueprint.encoder, given.blueprint.decoder
    assert encoder is not None
    assert decoder is not None
    sides = " to ".join(languages) if len(languages) == 2 else "translation"
    notes = dict.fromkeys((*given.source.notes, *given.target.notes))
    dropped = [f"Left out of the original: {', '.join(given.dropped)}."] if given.dropped else []
    license_note = [] if given.license_name else ["The licence is still to be filled in, in the head of this file."]
    body = [
        f"# {given.name}: {sides}",
        "",
        f"An encoder-decoder Transformer with {len(encoder.layers)} + {len(decoder.layers)} layers, d_model "
        f"{shape.d_model}, {shape.heads} heads and d_ff {shape.d_ff}, trained with Dragoman, exported for {library}.",
        *dropped,
        *license_note,
        "",
        f"```{language}",
        use.replace("{name}", json_text(given.name)),
        "```",
        "",
        "## The tokenizer",
        "",
        "What it does otherwise than the one that the model was trained with:",
        "",
        *(f"- {note}" for note in notes),
        "",
    ]
    write_bytes(directory / "README.md", "\n".join([*head, "", *body]).encode())
