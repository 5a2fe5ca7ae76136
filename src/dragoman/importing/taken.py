"""What an importer has found, and how it becomes a run directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.directories import prepared, put
from dragoman.errors import ConfigError, ModelError
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
    """Write a run directory, whole or not at all; that `out` is free has been checked.

    Raises:
        ModelError: weights do not fit the settings.
        SaveError: a file cannot be written.
    """
    try:
        config = ModelConfig.from_dict(dict(taken.model))
        decoding = DecodingConfig.from_dict(dict(taken.decoding))
    except ConfigError as error:
        raise ModelError("no model can be built from these settings", file=taken.file, found=error) from error
    state = _fitting(taken, config)
    with prepared(out) as made:
        save_config(made, config, decoding, Languages.from_dict(dict(taken.languages)))
        save_weights(made, state)
        save_tokenizers(made, taken.tokenizers)
        load_tokenizers(made, config)
        put(made, out)


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
        raise ModelError("a weight does not belong to the model", file=taken.file, found=next(iter(left)))
    return found
