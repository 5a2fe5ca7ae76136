"""What a resumed run keeps, and what may be changed about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from dragoman.config import (
    FILE_KEYS,
    SECTIONS,
    SETTINGS_FILE,
    DataConfig,
    ModelConfig,
    TrainConfig,
    make_config,
    read_toml,
)
from dragoman.data import Prepared
from dragoman.errors import ConfigError
from dragoman.text.lines import file_hash
from dragoman.training.checkpoint import CHECKPOINTS
from dragoman.training.defaults import PENALTY_KEYS
from dragoman.training.markov import check_meant

# What a resumed run may change: where its files are, how long it goes on, what it tells; never what it computes.
CHANGEABLE: dict[str, set[str] | None] = {
    "data": set(FILE_KEYS),
    "training": {
        "average_last", "datastore", "device", "init_from", "keep_last", "log_every", "max_minutes", "max_steps",
        "patience", "save_every", "tensorboard", "threads",
    },
    "validation": {"every", "length_penalties", "max_sentences"},
    "decoding": None,
}  # fmt: skip
# Settings younger than some checkpoints: where they are as if they were not, they do not count.
LATER = {
    "data": {"fuzzy_matches", "repeat"},
    "model": {"init", "right_to_left", "right_to_left_decoder", "word_dropout"},
    "tokenizer": {"symbols"},
    "training": {"bpe_dropout", "r_drop", "r_drop_after", "sampled_sides", "unigram_alpha"},
    "validation": {"tokenize"},
}


def reconciled(config: TrainConfig, directory: Path, *, resume: bool) -> TrainConfig:
    """The settings to train with: those stored, where a run is resumed, with what may be changed.

    Raises:
        ConfigError: there is a run and it is not to be resumed, or settings are given that it does not have.
    """
    stored_file = directory / SETTINGS_FILE
    if not stored_file.exists():
        return config
    if not resume:
        hint = "give resume (--resume) to go on with it, or another out (--out)"
        raise ConfigError("there is a run here already", file=directory, hint=hint)
    read = make_config(read_toml(stored_file))
    stored = {**read.to_dict(), "model": read.model.as_built().to_dict()}
    check_meant(config, stored["model"]["family"])
    given = config.to_dict(unset=False, none=False)
    differing = []
    for section, values in given.items():
        if not isinstance(values, Mapping):
            continue
        allowed = CHANGEABLE.get(section, set())
        if stored["training"]["schedule"] == "cosine" and allowed is not None:
            allowed = allowed - {"max_steps"}  # it shapes the whole curve
        if (directory / CHECKPOINTS).is_dir() and allowed is not None:
            allowed = allowed - {"init_from"}  # it has begun already
        for key, value in values.items():
            if stored[section][key] == value or (
                key == "fuzzy_matches" and value == _chosen_matches(stored, directory)
            ):
                continue
            if allowed is None or key in allowed:
                stored[section][key] = value
            elif value != "auto":  # what "auto" chose stands
                differing.append(f"{section}.{key}: {stored[section][key]!r} in the run, {value!r} now")
    if config.decoding.given & PENALTY_KEYS and "length_penalties" not in config.validation.given:
        stored["validation"]["length_penalties"] = None  # what is given now has not to be the best
    if differing:
        raise ConfigError(
            "a resumed run keeps its settings, but these differ:\n  " + "\n  ".join(differing),
            file=stored_file,
            hint="leave them out, or start a new run (with training.init_from to begin from these weights)",
        )
    return make_config({**stored, "out": str(directory)})


def check_nothing_late(config: TrainConfig, directory: Path) -> None:
    """Refuse settings of what is done when training ends, where it has ended: nothing would come of them.

    Raises:
        ConfigError: there is one that the run does not have.
    """
    stored = make_config(read_toml(directory / SETTINGS_FILE))
    pairs = (
        ("training.average_last", stored.training.average_last, config.training.average_last, "average"),
        ("validation.length_penalties", stored.validation.length_penalties, config.validation.length_penalties, "tune"),
    )
    for key, before, now, verb in pairs:
        if now is not None and now != before:
            hint = f"`dragoman {verb}` does that for a finished run"
            raise ConfigError("the run is finished, and so is this", file=directory, found=f"{key} = {now}", hint=hint)


def _chosen_matches(stored: Mapping[str, Any], directory: Path) -> int | None:
    """How many fuzzy matches were chosen for a run whose settings leave them open."""
    data = directory / "data"
    if stored["data"]["fuzzy_matches"] is not None or not data.is_dir():
        return None
    return Prepared.open(data).tokenizers.count_of_matches


def config_hash(config: TrainConfig, data_key: str) -> str:
    """SHA-256 of the settings and the data that a resumed run must share; paths do not count, contents do."""
    tree: dict[str, Any] = {**config.to_dict(), "model": config.model.as_built().to_dict()}
    del tree["out"], tree["model"]["matches"]  # the data tell the latter; older checkpoints do not have it
    for section, keys in CHANGEABLE.items():
        tree[section] = {} if keys is None else {key: v for key, v in tree[section].items() if key not in keys}
    for section, keys in LATER.items():
        plain = ModelConfig().as_built().to_dict() if section == "model" else SECTIONS[section]().to_dict()
        tree[section] = {k: v for k, v in tree[section].items() if k not in keys or v not in (plain[k], False)}
    return hashlib.sha256(json.dumps([tree, data_key], sort_keys=True).encode()).hexdigest()


def check_same_files(settings: DataConfig, given: Set[str], data: Prepared) -> None:
    """Refuse files that do not say what those of the run said, each in its place; wherever they are now.

    Args:
        settings: the files as they are named now.
        given: which keys of them were named.
        data: of the run.

    Raises:
        ConfigError: one has changed, is another one, or there are more or fewer.
    """
    for key in sorted(given - {"prepared"}):
        paths = getattr(settings, key)
        hashes, before = [file_hash(path) for path in paths], data.files.get(key)
        same = set(hashes) <= set(data.hashes.values()) if before is None else hashes == before
        if not same:
            raise ConfigError(
                "a resumed run keeps its data, but a file has changed, or is another one",
                found=f"data.{key} = {', '.join(paths)}",
                hint="leave the files out to go on with the data of the run, or start a new one",
            )
