"""What a resumed run keeps, and what may be changed about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from dragoman.config import (
    SECTIONS,
    SETTINGS_FILE,
    DataConfig,
    TrainConfig,
    TrainingConfig,
    all_settings,
    make_config,
    read_toml,
)
from dragoman.data import Prepared
from dragoman.errors import ConfigError
from dragoman.pace import duration
from dragoman.runs.checkpoint import CHECKPOINTS
from dragoman.text.lines import file_hash
from dragoman.training.markov import check_meant
from dragoman.training.progress import Progress

# How long a run is; one becomes the other.
_LENGTHS = {"max_steps", "max_epochs", "max_minutes"}


def reconciled(config: TrainConfig, directory: Path, *, resume: bool) -> TrainConfig:
    """Return the settings to train with: those stored, where a run is resumed, with what may be changed.

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
    fixed = set()
    _forget_other_lengths(stored["training"], given.get("training", {}))
    if stored["training"]["init_from"] is not None:
        given.pop("tokenizer", None)  # which were those of the model to start from
    # Adapters stand beside their base wherever that is now; its sum is looked at.
    if (directory / CHECKPOINTS).is_dir() and not stored["training"]["lora_rank"]:
        fixed.add("training.init_from")  # it has begun already
    differing = []
    for one in all_settings():
        value = given.get(one.section, {}).get(one.name)
        if value is None or stored[one.section][one.name] == value:
            continue
        if one.dotted == "data.fuzzy_matches" and value == _chosen_matches(stored, directory):
            continue
        if one.changeable and one.dotted not in fixed:
            stored[one.section][one.name] = value
        elif value != "auto":  # what "auto" chose stands
            differing.append(f"{one.dotted}: {stored[one.section][one.name]!r} in the run, {value!r} now")
    if not config.decoding.leaves_penalty_open and "length_penalties" not in config.validation.given:
        stored["validation"]["length_penalties"] = None  # what is given now has not to be the best
    if differing:
        raise ConfigError(
            "a resumed run keeps its settings, but these differ:\n  " + "\n  ".join(differing),
            file=stored_file,
            hint="leave them out, or start a new run (with training.init_from to begin from these weights)",
        )
    return make_config({**stored, "out": str(directory)})


def _forget_other_lengths(stored: dict[str, Any], given: dict[str, Any]) -> None:
    """Where the run is to be longer or shorter than before, what else ended it does not count unless given again."""
    if any(given.get(name) is not None and given[name] == stored[name] for name in ("max_minutes", "max_epochs")):
        given.pop("max_steps", None)  # the same command again: what it became is stored
    wanted = {name for name in _LENGTHS if given.get(name) is not None}
    if all(stored[name] == given[name] for name in wanted):
        return
    for name in _LENGTHS - wanted:
        stored[name] = None


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
    return Prepared.open(data, verify=False).tokenizers.count_of_matches


def config_hash(config: TrainConfig, data_key: str) -> str:
    """Return the SHA-256 of the settings and data that a resumed run must share: contents count, paths do not."""
    values: dict[str, Any] = {**config.to_dict(), "model": config.model.as_built().to_dict()}
    tree: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for one in all_settings():
        if "run" not in one.content:
            continue
        value = values[one.section][one.name]
        # A setting younger than some checkpoints does not count where it is as if it were not there.
        if one.before is ... or value not in (one.default, one.before):
            tree[one.section][one.name] = value
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


def told_of_plan(progress: Progress, settings: TrainingConfig, planned: int | None) -> Iterator[str]:
    """Yield what a resumed run has to say of its length: whether it has changed, and what time counts.

    Args:
        progress: of the checkpoint, with the plan of now.
        settings: of now.
        planned: `max_steps` as it was before; None: unknown.
    """
    last = progress.last_step or settings.max_steps or 0
    if planned is not None and planned != settings.max_steps and not progress.finished:
        end = "ends there" if progress.step >= last else f"goes on to {last:,}"
        how = ""
        if progress.changed_at == progress.step < last:
            how = f"; the learning rate, {progress.rate_then:.2e} now, goes to the curve of such a run and ends at 0"
        yield f"{planned:,} updates were planned; training {end}{how}"
    if settings.max_minutes is not None:
        yield f"of {duration(60 * settings.max_minutes)} given, {duration(progress.seconds)} are used already"
