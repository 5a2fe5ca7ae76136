"""`train`: from files of pairs, or a text, to a run directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from dragoman.config import SETTINGS_FILE, Family, TrainConfig, file_keys, make_config, write_toml
from dragoman.config.effects import check_effects
from dragoman.data import Prepared, prepare
from dragoman.engines import choose_device
from dragoman.errors import ConfigError, DragomanError, ModelError, SaveError
from dragoman.files import check_own_directory, make_directory, remove_temporaries
from dragoman.memory.datastore import make_datastore, searching_library
from dragoman.models import Languages, build_model, count_parameters, load_pretrained
from dragoman.models.description import DATASTORE, load_tokenizers, save_tokenizers
from dragoman.models.pretrained import WEIGHTS, fill, read_config, save_config, save_weights
from dragoman.nn import Transformer
from dragoman.pace import duration
from dragoman.training.averaging import average_checkpoints
from dragoman.training.card import typed_command, write_card
from dragoman.training.checkpoint import (
    CHECKPOINTS,
    clean_temporaries,
    list_checkpoints,
    newest_checkpoint,
)
from dragoman.training.defaults import complete, describe, estimate_seconds
from dragoman.training.fast import keep_few_products
from dragoman.training.judging import HYPOTHESES
from dragoman.training.lock import RunLock
from dragoman.training.log import BOARD, RunLog
from dragoman.training.markov import check_meant, is_counted, stack_settings, train_markov
from dragoman.training.progress import Progress
from dragoman.training.remember import fit_and_save, stored_pairs
from dragoman.training.resuming import check_nothing_late, check_same_files, config_hash, reconciled
from dragoman.training.search import tune_search
from dragoman.training.seeding import seed_all
from dragoman.training.signals import StopError, StopSignals
from dragoman.training.trainer import Trainer
from dragoman.training.validate import check_validation, doubt
from dragoman.translation import Translator

CARD = "README.md"


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
        """Return the best model of the run."""
        return Translator.from_pretrained(self.directory)


def train(
    config: TrainConfig | None = None,
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    dev_source: str | Path | None = None,
    dev_target: str | Path | None = None,
    text: str | Path | None = None,
    dev_text: str | Path | None = None,
    family: Family | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> Run:
    """Train an encoder-decoder on pairs of sequences, or another family on one text: prepare, choose what is open,
    train, keep the best.

    Give a `TrainConfig`, or just files. SIGTERM and Ctrl-C save a checkpoint and return.

    Args:
        config: all settings; those left at None are chosen from the corpus and the device.
        source: with `target` and `out`, instead of a config: a file of source lines.
        target: the file of target lines, aligned.
        dev_source: held-out source lines; without them, some pairs are taken out of training.
        dev_target: held-out target lines.
        text: with `family` and `out`, instead of pairs: a file of lines, each a sequence.
        dev_text: held-out lines.
        family: "causal", "masked", or one of the Markov models.
        out: the run directory.
        resume: go on from the newest sound checkpoint in `out`; the stored settings hold.
        quiet: tell nothing on standard error.

    Raises:
        ConfigError: settings are missing, contradict each other, or differ from those of the run to be resumed.
        DataError: the files cannot be used.
        DivergenceError, SaveError, LockedError: as their names say.
    """
    files = {"source": source, "target": target, "dev_source": dev_source, "dev_target": dev_target}
    given = {
        key: (str(path),) for key, path in {**files, "text": text, "dev_text": dev_text}.items() if path is not None
    }
    others = {"out": out, "family": family}
    if config is None:
        if out is None:
            raise ConfigError("a run directory is needed", expected="out=...")
        model = {} if family is None else {"family": family}
        config = make_config({"out": str(out), "data": given, "model": model})
    elif found := [*given, *(key for key, value in others.items() if value is not None)]:
        raise ConfigError("give a config or files, not both", found=", ".join(found))
    return _train(config, resume, quiet)


def _train(config: TrainConfig, resume: bool, quiet: bool) -> Run:
    directory = Path(config.out)
    given_files = set(file_keys()) & config.data.given
    others = [f"data.{key}" for key in sorted(given_files - {"prepared"}) if getattr(config.data, key)]
    if others and config.data.prepared is not None:
        found, hint = f"data.prepared and {', '.join(others)}", "give one or the other: prepared data are complete"
        raise ConfigError("prepared data and files to be prepared", found=found, hint=hint)
    if config.data.prepared is not None and Path(config.data.prepared).resolve() == directory.resolve():
        found, hint = f"the prepared data in {directory}", "give another out (--out)"
        raise ConfigError("a run wants a directory of its own", found=found, hint=hint)
    if resume and not given_files and not (directory / SETTINGS_FILE).exists():
        hint = "look at out (--out), or give the files to begin with"
        raise ConfigError("there is no run here to go on with", file=directory, hint=hint)
    if not (directory / SETTINGS_FILE).exists():
        if found := [name for name in (WEIGHTS, CARD) if (directory / name).exists()]:
            hint = "give another out (--out)"
            raise ConfigError("a run would overwrite what is there", file=directory, found=", ".join(found), hint=hint)
        check_meant(config, config.model.family)
        check_validation(config)
        if config.training.init_from is None or "family" in config.model.given:
            check_effects(config)
    for name in (CHECKPOINTS, HYPOTHESES, BOARD, "data"):
        check_own_directory(directory / name)
    with _run_directory(directory), RunLock(directory):
        remove_temporaries(directory)
        config = reconciled(config, directory, resume=resume)
        with RunLog(directory, quiet=quiet, tensorboard=config.training.tensorboard) as log:
            try:
                with StopSignals(quiet=quiet) as stop:
                    return _Session(config, directory, log, given_files, stop).train()
            except DragomanError:
                if not (directory / SETTINGS_FILE).exists():
                    log.discard()
                raise


@contextmanager
def _run_directory(directory: Path) -> Iterator[None]:
    """Make a run directory; if it is refused before anything was written to it, it goes again."""
    there = directory.is_dir()
    make_directory(directory)
    try:
        yield
    except DragomanError:
        with suppress(OSError):
            if {one.name for one in directory.iterdir()} <= {RunLock.NAME} and not there:
                (directory / RunLock.NAME).unlink(missing_ok=True)
                directory.rmdir()
        raise


class _Session:
    """One start of a training: everything between the settings and the trainer."""

    def __init__(
        self, config: TrainConfig, directory: Path, log: RunLog, given_files: set[str], stop: StopSignals
    ) -> None:
        self.config, self.directory, self.log, self.given_files, self.stop = config, directory, log, given_files, stop

    def train(self) -> Run:
        """From the settings to the end of training, or to a signal."""
        try:
            with self.stop.interruptible():
                ready = self._begin()
        except KeyboardInterrupt:
            if self.stop.received is None:
                raise
            self.log.line("stopped before training began")
            return Run(self.directory, self.config, Progress(), self.stop.exit_status)
        return self._run(ready) if isinstance(ready, Trainer) else ready

    def _begin(self) -> Trainer | Run:
        """Everything before the first update; the run, if there is nothing to train."""
        if self.config.training.threads is not None:
            torch.set_num_threads(self.config.training.threads)
        if is_counted(self.config.model.family):
            return Run(self.directory, *train_markov(self.config, self.directory, self.log, self._prepare, self.stop))
        if self.config.training.datastore:
            searching_library()  # before the training, not after it
        device = choose_device(self.config.training.device)
        keep_few_products()  # before the first product, which tells the device's speed
        clean_temporaries(self.directory / CHECKPOINTS)
        newest = newest_checkpoint(self.directory / CHECKPOINTS, self.log.line)
        if newest is None:
            self._check_untrained()
        start = self._start() if newest is None else None
        data = self._prepared() if newest else self._prepare(start)
        given, fresh = self.config, not (self.directory / SETTINGS_FILE).exists()
        self._complete(data, device, start)
        if fresh:  # what was chosen may have left something that was given without an effect
            check_effects(self.config, given)
        trainer = self._trainer(data, device, start)
        if newest is None:
            self.log.forget_after(-1)
            self._describe(data)
            if note := doubt(data, self.config):
                self.log.line(f"warning: BLEU: {note}")
            training = self.config.training
            assert training.max_steps is not None
            if training.r_drop and training.r_drop_after >= training.max_steps:
                found = f"r_drop_after is {training.r_drop_after:,}, max_steps {training.max_steps:,}"
                self.log.line(f"warning: r_drop never begins: {found}; lower training.r_drop_after")
        else:
            self._restore(trainer, newest)
            if trainer.progress.finished and (self.directory / CARD).exists():
                self.log.line(f"finished already, after {trainer.progress.step:,} updates")
                if self.config.training.datastore and not (self.directory / DATASTORE).exists():
                    trainer.model.load_state_dict(load_pretrained(self.directory).model.state_dict())
                    self._remember(trainer)
                return Run(self.directory, self.config, trainer.progress)
        return trainer

    def _check_untrained(self) -> None:
        """Refuse to train anew over a finished model whose checkpoints are gone."""
        if (self.directory / CARD).exists():
            hint = "use the model as it is, or start a new run with training.init_from"
            file = self.directory / CHECKPOINTS
            raise ConfigError("the run is finished, and has no checkpoint to go on from", file=file, hint=hint)

    def _run(self, trainer: Trainer) -> Run:
        progress = trainer.progress
        ended, stop = False, self.stop
        if not progress.finished:
            (self.directory / DATASTORE).unlink(missing_ok=True)  # its weights are about to change
            trainer.run(stop)
        if progress.finished:
            with suppress(StopError), stop.interruptible():
                self._finish(trainer)
                ended = True
        if not ended:
            self.log.line(f"stopped at step {progress.step:,}; --resume goes on from there")
        return Run(self.directory, self.config, progress, 0 if ended else stop.exit_status)

    def _start(self) -> Path | None:
        """The run or model to begin from, if any."""
        init = self.config.training.init_from
        if init is None:
            return None
        if not (Path(init) / "config.json").exists():
            raise ModelError("no model to start from", file=init, expected="a run or model directory")
        self._take_family(Path(init))
        if self.config.tokenizer.given:
            self.log.line(f"the tokenizers are those of {init}: the settings of [tokenizer] do not count")
        return Path(init)

    def _take_family(self, start: Path) -> None:
        """The family of the model to begin from, unless another was asked for."""
        model, family = self.config.model, read_config(start)[0].family
        if "family" in model.given and model.family != family:
            hint = "start from one of the same family, or from nothing"
            raise ConfigError(
                "the model to start from is of another family",
                file=start,
                expected=model.family,
                found=family,
                hint=hint,
            )
        self.config = self.config.replace({"model": {**model.to_dict(unset=False), "family": family}})
        if not is_counted(family):
            check_meant(self.config, family)
            check_validation(self.config)

    def _prepare(self, start: Path | None = None) -> Prepared:
        tokenizers = None if start is None else load_tokenizers(start, read_config(start)[0])
        return prepare(self.config, self.directory / "data", tokenizers=tokenizers, report=self.log.line)

    def _prepared(self) -> Prepared:
        """The data of the run that is resumed; files given again must be the same ones, wherever they are now."""
        settings = self.config.data
        data = Prepared.open(self.directory / "data" if settings.prepared is None else Path(settings.prepared))
        check_same_files(settings, self.given_files, data)
        return data

    def _complete(self, data: Prepared, device: torch.device, start: Path | None) -> None:
        """Choose what is open, and say so."""
        config = self.config
        own, others = stack_settings(config.model.family)
        for other in others:
            if getattr(config.model, other.name) is not None:
                only = own[0].dotted
                self.log.line(f"{other.dotted} does not count: a {config.model.family} model has {only} only")
        if start is not None:
            given = config.model.to_dict(unset=False)
            kept = {key: value for key, value in given.items() if value is not None}
            config = config.replace({"model": {**load_pretrained(start).config.as_built().to_dict(), **kept}})
        self.config, choices = complete(config, data, device)
        if choices:
            self.log.line("chosen from the corpus and the device:")
            for line in describe(choices):
                self.log.line(line)

    def _describe(self, data: Prepared) -> None:
        """Write down what a model directory holds besides its weights."""
        languages = Languages(source=data.languages[0], target=data.languages[1])
        save_config(self.directory, self.config.model, self.config.decoding, languages)
        save_tokenizers(self.directory, data.tokenizers)
        write_toml(self.config, self.directory / SETTINGS_FILE)

    def _trainer(self, data: Prepared, device: torch.device, start: Path | None) -> Trainer:
        seed_all(self.config.training.seed, -1)
        model = build_model(self.config.model)
        if start is not None:
            fill(model, load_pretrained(start).model.state_dict(), start)
            self.log.line(f"starting from the weights of {start}")
        seconds = estimate_seconds(self.config, data, device)
        self.log.line(
            f"{count_parameters(model):,} parameters on {device}; up to {self.config.training.max_steps:,} updates, "
            f"about {duration(seconds)} unless it stops earlier"
        )
        shared = config_hash(self.config, data.key)
        return Trainer(model.to(device), data, self.config, self.directory, self.log, shared)

    def _restore(self, trainer: Trainer, newest: Path) -> None:
        trainer.restore(newest)
        progress = trainer.progress
        if progress.finished and (self.directory / CARD).exists():
            check_nothing_late(self.config, self.directory)
        self._describe(trainer.data)
        self.log.forget_after(progress.step)
        self.log.line(f"resumed at step {progress.step:,}, epoch {progress.epoch + 1}")

    def _finish(self, trainer: Trainer) -> None:
        progress = trainer.progress
        self._check_kept(trainer)
        if self.config.training.average_last > 1:
            self._average(trainer)
        kept = f"the model of step {progress.best_step:,}"
        if progress.averaged:
            kept = f"the average of the {progress.averaged} checkpoints up to step {progress.best_step:,}"
        trainer.model.load_state_dict(load_pretrained(self.directory).model.state_dict())
        final = trainer.judge.measure()
        if self.config.training.datastore:
            self._remember(trainer)
        self.config, tuned = tune_search(self.directory, self.config, trainer.data, self.log, progress.step)
        write_card(self.directory, self.config, trainer.data, progress, final, kept, typed_command(), tuned)
        self.log.line(f"done: {progress.step:,} updates in {duration(progress.seconds)}; kept {kept}")
        self.log.line(f"the model is in {self.directory}; its card is {self.directory / CARD}")

    def _check_kept(self, trainer: Trainer) -> None:
        """Make sure that there are weights to end with: those of the best validation may not have been written."""
        file = self.directory / WEIGHTS
        if file.exists():
            return
        try:
            with trainer.judge.evaluated():
                save_weights(self.directory, trainer.model)
        except OSError as error:
            raise SaveError("cannot write the model", file=file, found=error.strerror, hint="make room") from error

    def _remember(self, trainer: Trainer) -> None:
        """The datastore of the training pairs for the kept model."""
        pairs, held_out = (stored_pairs(store) for store in (trainer.data.train, trainer.data.dev))
        assert isinstance(trainer.model, Transformer)
        model, cast, tell = trainer.model.eval(), trainer.autocast, self.log.line
        made = make_datastore(model, pairs, self.directory, autocast=cast, report=tell)
        fit_and_save(model, made, held_out, self.directory, autocast=cast, report=tell)

    def _average(self, trainer: Trainer) -> None:
        """Put the average of the last checkpoints in the best model's place if it is better."""
        paths = list_checkpoints(trainer.checkpoints)[-self.config.training.average_last :]
        own = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
        trainer.model.load_state_dict(average_checkpoints(paths))
        judge, progress = trainer.judge, trainer.progress
        result = judge.measure()
        best = judge.is_better(result, progress)
        better = best and trainer.attempts.write("weights", lambda: save_weights(self.directory, trainer.model))
        if better:
            judge.set_best(result, progress, len(paths))
        trainer.model.load_state_dict(own)
        remark = f"the average of {len(paths)} checkpoints; {'best so far' if better else 'not better'}"
        judge.keep(result, progress.step, "average", remark)
        if better:
            trainer.save()  # what is best must be known if training goes on
