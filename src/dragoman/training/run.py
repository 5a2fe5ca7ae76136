"""`train`: from files of pairs to a run directory."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman.config import TrainConfig, make_config, read_toml, write_toml
from dragoman.data import Prepared, prepare
from dragoman.decoding import Translator
from dragoman.engines import choose_device
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.files import make_directory
from dragoman.models import Languages, build_model, count_parameters, load_pretrained
from dragoman.models.pretrained import check_fit, fill, save_config, save_weights
from dragoman.nn import Transformer
from dragoman.text import TokenizerPair
from dragoman.training.averaging import average_checkpoints
from dragoman.training.card import write_card
from dragoman.training.checkpoint import clean_temporaries, list_checkpoints, load_checkpoint, newest_checkpoint
from dragoman.training.defaults import complete, describe, estimate_seconds
from dragoman.training.lock import RunLock
from dragoman.training.log import RunLog, duration
from dragoman.training.seeding import seed_all
from dragoman.training.signals import StopSignals
from dragoman.training.trainer import Progress, Trainer
from dragoman.training.validate import validate

CONFIG = "config.toml"
# What a resumed run may change: how long it goes on and what it tells, never what it computes.
CHANGEABLE: dict[str, set[str] | None] = {
    "training": {
        "average_last", "device", "keep_last", "log_every", "max_minutes", "max_steps", "patience", "save_every",
        "tensorboard", "threads",
    },
    "validation": {"every", "max_sentences"},
    "decoding": None,
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A finished or interrupted training.

    Attributes:
        directory: the run directory, which is also the model directory.
        config: every setting, defaults included.
        progress: where training stands.
        exit_status: 0, or 128 + the signal that interrupted it.
    """

    directory: Path
    config: TrainConfig
    progress: Progress
    exit_status: int = 0

    def translator(self) -> Translator:
        """The best model of the run."""
        return Translator.from_pretrained(self.directory)


def train(
    config: TrainConfig | None = None,
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    dev_source: str | Path | None = None,
    dev_target: str | Path | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> Run:
    """Train an encoder-decoder on pairs of sequences: prepare, choose what is open, train, keep the best.

    Give a `TrainConfig`, or just files. SIGTERM and Ctrl-C save a checkpoint and return.

    Args:
        config: all settings; those left at None are chosen from the corpus and the device.
        source: with `target` and `out`, instead of a config: a file of source lines.
        target: the file of target lines, aligned.
        dev_source: held-out source lines; without them, some pairs are taken out of training.
        dev_target: held-out target lines.
        out: the run directory.
        resume: go on from the newest sound checkpoint in `out`; the stored settings hold.
        quiet: tell nothing on standard error.

    Raises:
        ConfigError: settings are missing, contradict each other, or differ from those of the run to be resumed.
        DataError: the files cannot be used.
        DivergenceError, SaveError, LockedError: as their names say.
    """
    if config is None:
        files = {"source": source, "target": target, "dev_source": dev_source, "dev_target": dev_target}
        given = {name: (str(path),) for name, path in files.items() if path is not None}
        if out is None:
            raise ConfigError("a run directory is needed", expected="out=...")
        config = make_config({"out": str(out), "data": given})
    directory = Path(config.out)
    make_directory(directory)
    with RunLock(directory), StopSignals() as stop:
        config = _reconciled(config, directory, resume)
        with RunLog(directory, quiet=quiet, tensorboard=config.training.tensorboard) as log:
            return _Session(config, directory, log).train(stop)


def _reconciled(config: TrainConfig, directory: Path, resume: bool) -> TrainConfig:
    """The settings to train with: those stored, where a run is resumed, with what may be changed."""
    stored_file = directory / CONFIG
    if not stored_file.exists():
        return config
    if not resume:
        hint = "give resume (--resume) to go on with it, or another out (--out)"
        raise ConfigError("there is a run here already", file=directory, hint=hint)
    stored = make_config(read_toml(stored_file)).model_dump()
    given = config.model_dump(exclude_unset=True, exclude_none=True)
    differing = []
    for section, values in given.items():
        if not isinstance(values, Mapping):
            continue
        allowed = CHANGEABLE.get(section, set())
        for key, value in values.items():
            if stored[section][key] == value:
                continue
            if allowed is None or key in allowed:
                stored[section][key] = value
            else:
                differing.append(f"{section}.{key}: {stored[section][key]!r} in the run, {value!r} now")
    if differing:
        raise ConfigError(
            "a resumed run keeps its settings, but these differ:\n  " + "\n  ".join(differing),
            file=stored_file,
            hint="leave them out, or start a new run (with training.init_from to begin from these weights)",
        )
    return make_config({**stored, "out": str(directory)})


def config_hash(config: TrainConfig) -> str:
    """SHA-256 of the settings that a resumed run must share."""
    tree: dict[str, Any] = config.model_dump(mode="json", exclude={"out"})
    for section, keys in CHANGEABLE.items():
        tree[section] = {} if keys is None else {key: v for key, v in tree[section].items() if key not in keys}
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


class _Session:
    """One start of a training: everything between the settings and the trainer."""

    def __init__(self, config: TrainConfig, directory: Path, log: RunLog) -> None:
        self.config, self.directory, self.log = config, directory, log

    def train(self, stop: StopSignals) -> Run:
        training = self.config.training
        if self.config.model.family != "transformer":
            raise ConfigError(
                "pairs train an encoder-decoder",
                expected='model.family = "transformer"',
                found=self.config.model.family,
            )
        if training.threads is not None:
            torch.set_num_threads(training.threads)
        device = choose_device(training.device)
        start = self._start()
        data = self._data(start)
        self._complete(data, device, start)
        trainer = self._trainer(data, device, start)
        self._resume(trainer)
        if not trainer.progress.finished:
            trainer.run(stop)
        if trainer.progress.finished:
            self._finish(trainer)
        elif stop.received is not None:
            self.log.line(f"stopped at step {trainer.progress.step:,}; --resume goes on from there")
        return Run(self.directory, self.config, trainer.progress, stop.exit_status)

    def _start(self) -> Path | None:
        """The run or model to begin from, if any."""
        init = self.config.training.init_from
        if init is not None and not (Path(init) / "config.json").exists():
            raise ModelError("no model to start from", file=init, expected="a run or model directory")
        return None if init is None else Path(init)

    def _data(self, start: Path | None) -> Prepared:
        data = self.config.data
        if not (data.source or data.pairs or data.prepared):
            raise DataError("there is nothing to train on", expected="--source and --target files, or --pairs")
        tokenizers = None if start is None else TokenizerPair.load(start)
        return prepare(self.config, self.directory / "data", tokenizers=tokenizers, report=self.log.line)

    def _complete(self, data: Prepared, device: torch.device, start: Path | None) -> None:
        """Choose what is open, say so, and write down what a model directory needs besides its weights."""
        config = self.config
        if start is not None:
            shape = load_pretrained(start).config
            kept = {
                key: value for key, value in config.model.model_dump(exclude_unset=True).items() if value is not None
            }
            config = config.replace({"model": {**shape.model_dump(), **kept}})
        self.config, choices = complete(config, data, device)
        if choices:
            self.log.line("chosen from the corpus and the device:")
            for line in describe(choices):
                self.log.line(line)
        write_toml(self.config, self.directory / CONFIG)
        languages = Languages(source=data.languages[0], target=data.languages[1])
        save_config(self.directory, self.config.model, self.config.decoding, languages)
        data.tokenizers.save(self.directory)

    def _trainer(self, data: Prepared, device: torch.device, start: Path | None) -> Trainer:
        seed_all(self.config.training.seed, -1)
        model = build_model(self.config.model)
        assert isinstance(model, Transformer)
        if start is not None:
            weights = load_pretrained(start).model.state_dict()
            check_fit(model, weights, start)
            fill(model, weights, start)
            self.log.line(f"starting from the weights of {start}")
        seconds = estimate_seconds(self.config, data, device)
        self.log.line(
            f"{count_parameters(model):,} parameters on {device}; up to {self.config.training.max_steps:,} updates, "
            f"about {duration(seconds)} unless it stops earlier"
        )
        return Trainer(model.to(device), data, self.config, self.directory, self.log, config_hash(self.config))

    def _resume(self, trainer: Trainer) -> None:
        clean_temporaries(trainer.checkpoints)
        newest = newest_checkpoint(trainer.checkpoints, self.log.line)
        if newest is None:
            self.log.forget_after(-1)
            return
        checkpoint = load_checkpoint(newest)
        if checkpoint.manifest.config_hash != trainer.config_hash:
            raise ConfigError("the checkpoint was made with other settings", file=newest, hint="start a new run")
        trainer.restore(checkpoint)
        progress, budget = trainer.progress, self.config.training.max_steps or 0
        if progress.finished and progress.step < budget and not self._out_of_patience(progress):
            progress.finished = False
        self.log.forget_after(progress.step)
        self.log.line(f"resumed at step {progress.step:,}, epoch {progress.epoch + 1}")

    def _out_of_patience(self, progress: Progress) -> bool:
        settings = self.config.training
        limit = settings.max_minutes
        spent = limit is not None and progress.seconds >= 60 * limit
        return spent or bool(settings.patience and progress.worse_in_a_row >= settings.patience)

    def _finish(self, trainer: Trainer) -> None:
        count = self.config.training.average_last
        progress = trainer.progress
        kept = f"the model of step {progress.best_step:,}"
        if count > 1 and self._average(trainer, count):
            kept = f"the average of the last {count} checkpoints"
        fill_best(trainer.model, self.directory)
        final = validate(trainer.model, trainer.data, self.config, trainer.autocast)
        write_card(self.directory, self.config, trainer.data, progress, final, kept, command=_command())
        self.log.line(f"done: {progress.step:,} updates in {duration(progress.seconds)}; kept {kept}")
        self.log.line(f"the model is in {self.directory}; its card is {self.directory / 'README.md'}")

    def _average(self, trainer: Trainer, count: int) -> bool:
        """Put the average of the last checkpoints in the best model's place, if it is better on the dev set."""
        paths = list_checkpoints(trainer.checkpoints)[-count:]
        weights = average_checkpoints(paths)
        trainer.model.load_state_dict(weights)
        result = validate(trainer.model, trainer.data, self.config, trainer.autocast)
        value = result.value(self.config.validation.metric or "loss")
        best = trainer.progress.best
        better = best is None or value >= best
        trainer.keep_validation(result, trainer.progress.step, f"average of the last {len(paths)} checkpoints")
        if better:
            save_weights(self.directory, weights)
        return better


def fill_best(model: Transformer, directory: Path) -> None:
    """Load the weights that a run kept into its model."""
    model.load_state_dict(load_pretrained(directory).model.state_dict())


def average_run(directory: str | Path, last: int, out: str | Path) -> Path:
    """A model directory whose weights are the average of a run's last checkpoints (paper section 6.1).

    Raises:
        ModelError: there are fewer checkpoints, or one is damaged.
    """
    directory, out = Path(directory), Path(out)
    paths = list_checkpoints(directory / "checkpoints")
    if len(paths) < last:
        raise ModelError(
            "there are not so many checkpoints", file=directory, expected=last, found=len(paths),
            hint="training.keep_last says how many a run keeps",
        )  # fmt: skip
    pretrained = load_pretrained(directory)
    weights = average_checkpoints(paths[-last:])
    check_fit(pretrained.model, weights)
    save_config(out, pretrained.config, pretrained.decoding, pretrained.languages)
    TokenizerPair.load(directory).save(out)
    save_weights(out, weights)
    return out


def _command() -> str:
    return " ".join(["dragoman", *sys.argv[1:]]) if Path(sys.argv[0]).name == "dragoman" else "dragoman.train(...)"
