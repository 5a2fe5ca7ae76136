"""What an importer has found, and how it becomes a run directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.errors import ConfigError, ModelError
from dragoman.files import make_directory, remove, temporary_sibling, written_as
from dragoman.models.blueprint import places
from dragoman.models.description import Languages, load_tokenizers, save_config, save_tokenizers
from dragoman.models.draft import blueprint_of
from dragoman.models.pretrained import save_weights
from dragoman.text.tokenizer_pair import TokenizerPair


@dataclass(frozen=True)
class Taken:
    """A model of another system in our terms.

    Attributes:
        model: by the names of `ModelConfig`, vocabulary sizes included.
        decoding: by the names of `DecodingConfig`.
        tokenizers: of both sides.
        state: weights by our names; tied ones may be left out.
        languages: of both sides, where known.
        file: that the settings came from, for messages.
        notes: what the user should know, each a sentence.
    """

    model: Mapping[str, Any]
    decoding: Mapping[str, Any]
    tokenizers: TokenizerPair
    state: Mapping[str, Tensor]
    file: Path
    languages: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def write_run(taken: Taken, out: Path) -> None:
    """Write a run directory, whole or not at all.

    Raises:
        ConfigError: `out` is there already.
        ModelError: weights do not fit the settings.
        SaveError: a file cannot be written.
    """
    if os.path.lexists(out) and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError("the directory to make is there already", file=out, hint="give another one (--out)")
    try:
        config = ModelConfig.from_dict(dict(taken.model))
        decoding = DecodingConfig.from_dict(dict(taken.decoding))
    except ConfigError as error:
        raise ModelError("these settings make no model", file=taken.file, found=error) from error
    state = _fitting(taken, config)
    make_directory(out.absolute().parent)
    temporary = temporary_sibling(out.absolute())
    with suppress(FileNotFoundError):
        remove(temporary)  # of a process of the same number that was killed
    try:
        with written_as(temporary, out):
            temporary.mkdir()
            save_config(temporary, config, decoding, Languages.from_dict(dict(taken.languages)))
            save_weights(temporary, state)
            save_tokenizers(temporary, taken.tokenizers)
            load_tokenizers(temporary, config)
        with suppress(FileNotFoundError):
            out.rmdir()  # empty, or it was refused
        os.rename(temporary, out)
    finally:
        with suppress(FileNotFoundError):
            remove(temporary)


def _fitting(taken: Taken, config: ModelConfig) -> dict[str, Tensor]:
    """The weights by the names of the blueprint, tied ones too, each of the shape of its place."""
    blueprint, left = blueprint_of(config), dict(taken.state)
    found: dict[str, Tensor] = {}
    for place in places(blueprint):
        tied = blueprint.tied.get(place.name)
        tensor = found[tied] if tied is not None else left.get(place.name)
        left.pop(place.name, None)
        if tensor is None or tuple(tensor.shape) != place.shape:
            what = "nothing" if tensor is None else list(tensor.shape)
            raise ModelError("the weights do not fit the settings", file=taken.file,
                             expected=f"{place.name} {list(place.shape)}", found=what)  # fmt: skip
        found[place.name] = tensor
    if left:
        raise ModelError("a weight has no place in the model", file=taken.file, found=next(iter(left)))
    return found
