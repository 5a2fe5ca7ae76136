"""A directory of a model whose weights are bytes: a quarter of the size, and opened sooner."""

from __future__ import annotations

from pathlib import Path

from dragoman.archive import as_directory
from dragoman.directories import check_new, prepared, put
from dragoman.errors import ModelError
from dragoman.language.loading import family_of
from dragoman.models.description import WEIGHTS, check_ours
from dragoman.models.quantised import as_bytes
from dragoman.models.tensors import read_tensors, write_tensors
from dragoman.runs.bundling import Bundle, copy_files, given_away, try_model


def quantize(model: str | Path, out: str | Path) -> Bundle:
    """Copy what running a model needs into a directory of its own with every matrix as bytes, and run it there once.

    Each row of a matrix has a factor of its own, as in the engines that compute in int8. Every verb takes the
    directory; what computes in float32 computes with bytes times factors.

    Args:
        model: a run or model directory.
        out: the directory to make.

    Raises:
        ConfigError: `out` is there already.
        ModelError: there is no model, it is damaged, has numbers that are not finite, or counts in place of weights.
        SaveError: a file cannot be written.
    """
    source, out = as_directory(Path(model)), Path(out)
    check_new(out)
    names = given_away(source)
    if family_of(source) == "Markov":
        raise ModelError("a Markov model has counts, which cannot be quantised", file=source)
    check_ours(source, "quantized")
    weights = as_bytes(read_tensors(source / WEIGHTS))
    with prepared(out) as made:
        copy_files(source, [name for name in names if name != WEIGHTS], made)
        write_tensors(made / WEIGHTS, weights)
        try_model(made)
        put(made, out)
    return Bundle(out, {name: (out / name).stat().st_size for name in names})
