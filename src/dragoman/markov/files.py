"""A Markov model as a directory: `markov.safetensors`, then `markov.json`, which vouches for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Shaped
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.files import (
    MAX_SETTINGS_BYTES,
    check_filled,
    make_directory,
    opened,
    read_json,
    sealed,
    unsealed,
    verify_file,
    write_bytes,
    write_json,
)

FORMAT = 1
SETTINGS, TENSORS = "markov.json", "markov.safetensors"
SEAL = "settings_sha256"
MOST_WORDS = 2_000_000


def write_model(directory: Path, settings: Mapping[str, Any], tensors: Mapping[str, Shaped[Tensor, "..."]]) -> None:
    """Write both files, the settings last: what they vouch for is then there."""
    data = save({name: tensor.contiguous() for name, tensor in sorted(tensors.items())})
    make_directory(directory)
    write_bytes(directory / TENSORS, data)
    proof = {"format": FORMAT, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    write_json(directory / SETTINGS, sealed({**settings, **proof}, SEAL))


def read_model(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings and the tensors by name.

    Raises:
        ModelError: a file is missing, damaged, or not of a format we know.
    """
    file = directory / SETTINGS
    if not file.exists():
        raise ModelError("no Markov model here", file=directory, expected=SETTINGS)
    settings = unsealed(read_json(file, limit=MAX_SETTINGS_BYTES), file, SEAL)
    if settings.get("format") != FORMAT:
        raise ModelError("unknown format of Markov model", file=file, expected=FORMAT, found=settings.get("format"))
    vocab = settings.get("vocab")
    if type(vocab) is int and vocab > MOST_WORDS:  # beyond, numbers of pairs of words have more than 64 bits
        raise ModelError("the vocabulary is too large", file=file, expected=f"at most {MOST_WORDS}", found=vocab)
    check_filled(directory / TENSORS)
    verify_file(directory / TENSORS, settings.get("bytes", -1), str(settings.get("sha256")))
    with opened(directory / TENSORS) as stream:
        data = stream.read()
    try:
        return settings, load(data)
    except (SafetensorError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise ModelError("not a valid safetensors file", file=directory / TENSORS, found=error) from error
