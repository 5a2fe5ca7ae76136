"""Adapters merged into their base for good: a model directory like any other."""

from __future__ import annotations

import os
from pathlib import Path

from dragoman.archive import as_directory
from dragoman.config import SETTINGS_FILE
from dragoman.data.preparing import PREPARED
from dragoman.errors import ConfigError, ModelError
from dragoman.models import load_pretrained
from dragoman.models.adapters import Adapter, load_adapter
from dragoman.models.description import load_tokenizers, save_tokenizers
from dragoman.models.pretrained import WEIGHTS, save_config, save_weights
from dragoman.runs.checkpoint import CHECKPOINTS


def merge(adapter: str | Path, out: str | Path, base: str | Path | None = None) -> Path:
    """Write a model directory with an adapter merged into its base: W + (alpha / rank) · B · A.

    Args:
        adapter: an adapter directory, or the run that trained it.
        out: the model directory to make.
        base: where its base is now, a directory or a packed model; None: where it was when the adapter was trained.

    Returns:
        The directory.

    Raises:
        ConfigError: something is there already.
        ModelError: there is no adapter, or the base is gone or another one.
    """
    loaded = load_adapter(adapter)
    if base is None and not (Path(loaded.base) / WEIGHTS).exists():
        hint = "say where it is now (--base)"
        raise ModelError("the base of the adapter is not there", file=loaded.base, hint=hint)
    return merge_loaded(loaded, as_directory(Path(base or loaded.base)), Path(out))


def merge_loaded(adapter: Adapter, base: Path, out: Path) -> Path:
    """Write a model directory of a base and an adapter; errors as for `merge`."""
    check_free(out)
    adapter.check_base(base)
    pretrained = load_pretrained(base)
    tokenizers = load_tokenizers(base, pretrained.config)
    adapter.apply(pretrained.model)
    save_config(out, pretrained.config, pretrained.decoding, pretrained.languages)
    save_tokenizers(out, tokenizers)
    save_weights(out, pretrained.model)
    return out


def check_free(out: Path, what: str = "the merged model") -> None:
    """Refuse a directory that holds a model or a run.

    Raises:
        ConfigError: it does.
    """
    if out.is_file() or any(os.path.lexists(out / name) for name in (SETTINGS_FILE, CHECKPOINTS, WEIGHTS, PREPARED)):
        raise ConfigError(f"{what} would overwrite what is there", file=out, hint="give another directory")
