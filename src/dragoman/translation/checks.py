"""What is refused before anything is translated: texts that are no texts, prefixes that cannot be written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.given import as_texts
from dragoman.text.tokenizer import Tokenizer


def check_family(directory: Path, family: str) -> None:
    """Refuse a model that reads no source.

    Raises:
        ModelError: it is no encoder-decoder.
    """
    if family != "transformer":
        hint = "`dragoman complete` and `dragoman score --text` run it"
        raise ModelError("only an encoder-decoder translates", file=directory, found=family, hint=hint)


def check_texts(texts: Sequence[str]) -> None:
    """Refuse what is not a list of texts of one line each.

    Raises:
        DataError: one text was given in place of a list, or a text has a line break in it.
    """
    texts = as_texts(texts)
    for number, text in enumerate(texts):
        if isinstance(text, str) and "\n" in text:
            hint, found = "split it into sentences, or put a blank for each \\n", repr(text[:80])
            raise DataError(f"text {number} has more than one line", expected="a sentence", found=found, hint=hint)


def prefix_ids(target: Tokenizer, prefix: str) -> list[int]:
    """Return the ids of a prefix; an unknown word among them would be written as a replacement character.

    Raises:
        ConfigError: there is one.
    """
    marked = getattr(target, "begin", ())  # which every output of such a model has
    ids = target.encode(prefix) if prefix or marked else []
    if target.unk in ids:
        parts = prefix.split() if target.kind == "word" else list(prefix)
        unknown = parts[ids.index(target.unk)] if len(parts) == len(ids) else prefix
        raise ConfigError(
            "the target vocabulary lacks what a prefix says",
            expected="known words or characters",
            found=f"{unknown!r} in {prefix!r}",
        )
    return ids
