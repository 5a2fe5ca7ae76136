"""What a model directory says of its model, without the weights: `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.config import DecodingConfig, ModelConfig, Section
from dragoman.config.section import setting
from dragoman.errors import ConfigError, ModelError
from dragoman.files import MAX_SETTINGS_BYTES, make_directory, read_json, sealed, sum_of, unquoted, unsealed, write_json
from dragoman.text.tokenizer_pair import MATCHES, SOUND, TokenizerPair, all_tokenizer_files

FORMAT = 1
NEAR = 5  # models that a message names
CONFIG, WEIGHTS, DATASTORE = "config.json", "model.safetensors", "datastore.safetensors"
FILES, SUM, PROFILE = "files", "sha256", "profile"
_KEYS = {"format", "model", "decoding", "languages", PROFILE, FILES, SUM}


class Languages(Section, section="languages"):
    """What the two sides are, where known: two-letter codes."""

    source: str | None = setting(default=None, description="Two-letter code of the source language.")
    target: str | None = setting(default=None, description="Two-letter code of the target language.")


def save_config(
    directory: Path,
    config: ModelConfig,
    decoding: DecodingConfig | None = None,
    languages: Languages | None = None,
    profile: Mapping[str, Any] | None = None,
) -> None:
    """Write `config.json`: the shape of the model, how it decodes unless told otherwise, its languages.

    Args:
        directory: where it goes.
        config: the shape.
        decoding: the search.
        languages: of both sides.
        profile: that computes the model, if it is one of a founding system (`models.profiled`).
    """
    make_directory(directory)
    sections = {"model": config, "decoding": decoding or DecodingConfig(), "languages": languages or Languages()}
    tree = {name: section.to_dict(none=False) for name, section in sections.items()}
    _write(directory, {"format": FORMAT, **tree, **({} if profile is None else {PROFILE: dict(profile)})}, {})


def replace_decoding(directory: Path, decoding: DecodingConfig) -> None:
    """Write another search into `config.json`; all else stays.

    Raises:
        ModelError: it is missing or damaged.
    """
    tree = {**_sound(directory), "decoding": decoding.to_dict(none=False)}
    _write(directory, tree, tree.get(FILES, {}))


def vouch_for_tokenizers(directory: Path) -> None:
    """Let `config.json` say what the tokenizers beside it are, so that `load_tokenizers` notices when one is damaged.

    For those who have just written them. `save_config` forgets it; tokenizers that are not named are taken as they are.
    """
    names = [name for name in all_tokenizer_files() if (directory / name).is_file()]
    _write(directory, _sound(directory), {name: sum_of(directory / name) for name in names})


def save_tokenizers(directory: Path, tokenizers: TokenizerPair) -> None:
    """Write tokenizers beside `config.json`, which says from then on what they are."""
    tokenizers.save(directory)
    vouch_for_tokenizers(directory)


def _write(directory: Path, tree: dict[str, Any], files: dict[str, str]) -> None:
    """`config.json` with the sums of other files, and over all of this its own."""
    body = {name: value for name, value in tree.items() if name not in (FILES, SUM)} | ({FILES: files} if files else {})
    write_json(directory / CONFIG, sealed(body, SUM))


def file_sums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 that `config.json` tells of other files; none where it cannot be read."""
    try:
        return _sound(directory).get(FILES, {})
    except ModelError:
        return {}


def read_profile(directory: Path) -> object:
    """Return what `config.json` says of the profile that computes a model, as it stands; None if it is one of ours.

    Raises:
        ModelError: it is missing, not of a format we know, or damaged.
    """
    return _sound(directory).get(PROFILE)


def check_ours(directory: Path, what: str) -> None:
    """Refuse a model that a profile computes where it would be taken for one of ours.

    Args:
        directory: of the model.
        what: is to be done with it, as `trained`.

    Raises:
        ModelError: a profile computes it, or it is missing or damaged.
    """
    profile = read_profile(directory)
    if profile is not None:
        hint = "it translates, and can be explained, inspected, evaluated and served"
        raise ModelError(f"a model of a founding system cannot be {what}: its formulas are not ours", file=directory,
                         found=profile, hint=hint)  # fmt: skip


def _read(directory: Path) -> dict[str, Any]:
    """What stands in `config.json`, whose format is known."""
    file = directory / CONFIG
    tree = read_json(file, limit=MAX_SETTINGS_BYTES)
    if tree.get("format") != FORMAT:
        hint = None if "format" in tree else f"a model of another system is taken over by dragoman import {directory}"
        raise ModelError("unknown format of model", file=file, expected=FORMAT, found=tree.get("format"), hint=hint)
    if unknown := sorted(tree.keys() - _KEYS):
        raise ModelError("not a model's configuration", file=file, expected=", ".join(sorted(_KEYS)), found=unknown[0])
    files = tree.get(FILES, {})
    if not (isinstance(files, dict) and files.keys() <= set(all_tokenizer_files())):
        raise ModelError("not a model's configuration", file=file, expected=f"{FILES}: SHA-256 of tokenizers")
    return tree


def read_config(directory: Path) -> tuple[ModelConfig, DecodingConfig, Languages]:
    """Return what `config.json` says.

    Raises:
        ModelError: it is missing, not of a format we know, or does not hold together.
    """
    file = directory / CONFIG
    if not file.exists():
        hint = "a model directory is what `dragoman train --out` made, after its first validation"
        if near := _models_near(directory):
            hint = f"there {'is one' if len(near) == 1 else 'are some'} in {', '.join(near)}"
        raise ModelError("no model here", file=directory, expected=CONFIG, hint=hint)
    with unquoted(file):
        found = _parts(_read(directory), file)
    _sound(directory)
    return found


def _sound(directory: Path) -> dict[str, Any]:
    """What stands in `config.json`, known to be what was written.

    Raises:
        ModelError: it is damaged, or of another format.
    """
    return unsealed(_read(directory), directory / CONFIG, SUM)


def _parts(tree: dict[str, Any], file: Path) -> tuple[ModelConfig, DecodingConfig, Languages]:
    parts = {name: tree.get(name, {}) for name in ("model", "decoding", "languages")}
    if not all(isinstance(part, dict) for part in parts.values()):
        raise ModelError("not a model's configuration", file=file, expected="objects: model, decoding, languages")
    if parts["decoding"]:  # written by a version that did not know a setting: what it did is done
        before = {name: one.before for name, one in DecodingConfig.settings.items() if one.before is not ...}
        parts["decoding"] = {**before, **parts["decoding"]}
    try:
        return (
            ModelConfig.from_dict(parts["model"]),
            DecodingConfig.from_dict(parts["decoding"]),
            Languages.from_dict(parts["languages"]),
        )
    except ConfigError as error:
        raise ModelError("not a model's configuration", file=file, found=error) from error


def _models_near(directory: Path) -> list[str]:
    """Some model directories in or beside a directory that is none, or beside where it would be."""
    found: list[str] = []
    for place in (directory, directory.parent):
        with suppress(OSError):
            found += [str(one.parent) for one in islice(sorted(place.glob(f"*/{CONFIG}")), NEAR)]
    return found[:NEAR]


def load_tokenizers(directory: Path, config: ModelConfig) -> TokenizerPair:
    """Return the tokenizers beside a model, with its fuzzy matches if it was trained with some.

    Raises:
        DataError: a file is missing, superfluous or damaged.
        ModelError: they are not those of the model.
    """
    tokenizers = TokenizerPair.load(directory, file_sums(directory))
    found = tokenizers.count_of_matches
    if config.matches and not found:
        hint = f"it belongs to the model: copy it from where {WEIGHTS} comes from"
        expected = f"{MATCHES}, since sources are read with fuzzy matches"
        raise ModelError("a file of the model is missing", file=directory, expected=expected, hint=hint)
    if config.matches is not None and found != config.matches:
        raise ModelError("other fuzzy matches than the model's", file=directory, expected=config.matches, found=found)
    mels = None if tokenizers.sound is None else tokenizers.sound.n_mels
    if mels != config.mels:
        wanted = "texts" if config.mels is None else f"sounds with {config.mels} mel bins"
        hint = f"{SOUND} belongs to the model: copy it from where {WEIGHTS} comes from"
        raise ModelError("the audio front end does not fit the model", file=directory, expected=wanted,
                         found="texts" if mels is None else f"sounds with {mels} mel bins", hint=hint)  # fmt: skip
    for side, size, rows in (
        ("source", tokenizers.source_vocab, config.source_vocab),
        ("target", len(tokenizers.target), config.target_vocab),
    ):
        if rows != size and (side == "target" or config.learns_pairs):
            raise ModelError(f"the {side} vocabulary does not fit the model", file=directory, expected=rows, found=size)
    return tokenizers
