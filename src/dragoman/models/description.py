"""What a model directory says of its model, without the weights: `config.json`."""

from __future__ import annotations

from pathlib import Path

from dragoman.config import DecodingConfig, ModelConfig, Section
from dragoman.errors import ConfigError, ModelError
from dragoman.files import make_directory, read_json, write_json

FORMAT = 1
CONFIG, WEIGHTS, DATASTORE = "config.json", "model.safetensors", "datastore.safetensors"


class Languages(Section):
    """What the two sides are, where known: two-letter codes."""

    source: str | None = None
    target: str | None = None


def save_config(
    directory: Path, config: ModelConfig, decoding: DecodingConfig | None = None, languages: Languages | None = None
) -> None:
    """Write `config.json`: the shape of the model, how it decodes unless told otherwise, its languages."""
    make_directory(directory)
    sections = {"model": config, "decoding": decoding or DecodingConfig(), "languages": languages or Languages()}
    tree = {name: section.to_dict(none=False) for name, section in sections.items()}
    write_json(directory / CONFIG, {"format": FORMAT, **tree})


def read_config(directory: Path) -> tuple[ModelConfig, DecodingConfig, Languages]:
    """What `config.json` says.

    Raises:
        ModelError: it is missing, not of a format we know, or does not hold together.
    """
    file = directory / CONFIG
    if not file.exists():
        hint = "a model directory is what `dragoman train --out` made, after its first validation"
        raise ModelError("no model here", file=directory, expected=CONFIG, hint=hint)
    tree = read_json(file)
    if tree.get("format") != FORMAT:
        raise ModelError("unknown format of model", file=file, expected=FORMAT, found=tree.get("format"))
    parts = {name: tree.get(name, {}) for name in ("model", "decoding", "languages")}
    if not all(isinstance(part, dict) for part in parts.values()):
        raise ModelError("not a model's configuration", file=file, expected="objects: model, decoding, languages")
    try:
        return (
            ModelConfig.from_dict(parts["model"]),
            DecodingConfig.from_dict(parts["decoding"]),
            Languages.from_dict(parts["languages"]),
        )
    except ConfigError as error:
        raise ModelError("not a model's configuration", file=file, found=error) from error
