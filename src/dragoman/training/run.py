"""From settings to a run directory: everything between them and the trainer."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import torch

from dragoman.archive import ENDING
from dragoman.config import SETTINGS_FILE, TrainConfig, file_keys, make_config, read_toml, write_toml
from dragoman.config.effects import check_effects
from dragoman.data import EPOCHS, Prepared, prepare
from dragoman.data.extending import extend_tokenizers, with_tokens_of
from dragoman.distributed import ALONE, join_world, was_restarted
from dragoman.engines import choose_device
from dragoman.engines.forking import is_forked
from dragoman.errors import ConfigError, DragomanError, ModelError, SaveError
from dragoman.events import Finished
from dragoman.fast import keep_few_products
from dragoman.files import check_own_directory, remove_temporaries
from dragoman.memory.datastore import searching_library
from dragoman.models import Languages, build_model, load_pretrained
from dragoman.models.description import DATASTORE, check_ours, load_tokenizers, save_tokenizers
from dragoman.models.pretrained import WEIGHTS, fill, read_config, save_config
from dragoman.nn import Transformer
from dragoman.pace import duration
from dragoman.planning import TimePlan
from dragoman.runs.checkpoint import CHECKPOINTS, clean_temporaries, newest_checkpoint
from dragoman.runs.curves import draw_if_possible
from dragoman.runs.lock import RunLock, new_directory
from dragoman.training.averaging import average_checkpoints, last_saves, named_steps
from dragoman.training.card import typed_command, write_card
from dragoman.training.defaults import complete, describe, estimate_seconds
from dragoman.training.finished import Run
from dragoman.training.following import Lead, follow, leading
from dragoman.training.from_base import check_shape, doubts, grown, with_tokenizers_of
from dragoman.training.judging import HYPOTHESES
from dragoman.training.learned import base_again
from dragoman.training.log import BOARD, RunLog
from dragoman.training.markov import check_meant, is_counted, stack_settings, train_markov
from dragoman.training.progress import Progress
from dragoman.training.remember import save_datastore, stored_pairs
from dragoman.training.resuming import check_nothing_late, check_same_files, config_hash, reconciled, told_of_plan
from dragoman.training.search import tune_search
from dragoman.training.seeding import seed_all
from dragoman.training.sharded import make_trainer
from dragoman.training.signals import StopError, StopSignals
from dragoman.training.timing import fit_to_time
from dragoman.training.trainer import Trainer
from dragoman.training.validate import check_validation
from dragoman.training.watching import Watch

CARD = "README.md"


def train_config(config: TrainConfig, *, resume: bool = False, quiet: bool = False, watch: Watch | None = None) -> Run:
    """Train as a config says; see `dragoman.train` for the rest.

    Args:
        config: all settings.
        resume: go on with the run that is there.
        quiet: tell nothing on standard error.
        watch: hands what happens to a Python program.

    Raises:
        ConfigError, DataError, DivergenceError, SaveError, LockedError: as for `dragoman.train`.
    """
    world = join_world(config.training.device, config.training.rank_timeout)
    if not world.is_first:
        return follow(config, world)
    with leading(world) as lead:
        return _lead(config, resume=resume or was_restarted(), quiet=quiet, watch=watch, lead=lead)


def _lead(config: TrainConfig, *, resume: bool, quiet: bool, watch: Watch | None, lead: Lead) -> Run:
    """What the first process does, which is all there is to do where it is alone."""
    directory = Path(config.out)
    given_files = set(file_keys()) & config.data.given
    others = [f"data.{key}" for key in sorted(given_files - {"prepared"}) if getattr(config.data, key)]
    if others and config.data.prepared is not None:
        found, hint = f"data.prepared and {', '.join(others)}", "give one or the other: prepared data are complete"
        raise ConfigError("prepared data and files to be prepared cannot be given together", found=found, hint=hint)
    if config.data.prepared is not None and Path(config.data.prepared).resolve() == directory.resolve():
        found, hint = f"the prepared data in {directory}", "give another out (--out)"
        raise ConfigError("a run needs a directory of its own", found=found, hint=hint)
    if resume and not given_files and not (directory / SETTINGS_FILE).exists():
        hint = "check out (--out), or give the files to begin with"
        raise ConfigError("there is no run here to go on with", file=directory, hint=hint)
    if not (directory / SETTINGS_FILE).exists():
        if found := [name for name in (WEIGHTS, CARD) if (directory / name).exists()]:
            hint = "give another out (--out)"
            raise ConfigError("a run would overwrite what is there", file=directory, found=", ".join(found), hint=hint)
        check_meant(config, config.model.family)
        check_validation(config)
        if config.training.init_from is None or "family" in config.model.given:
            check_effects(config)
    for name in (CHECKPOINTS, HYPOTHESES, BOARD, EPOCHS, "data"):
        check_own_directory(directory / name)
    with new_directory(directory), RunLock(directory):
        remove_temporaries(directory)
        config = reconciled(config, directory, resume=resume)
        with RunLog(directory, quiet=quiet, tensorboard=config.training.tensorboard, watch=watch) as log:
            if resume and not (directory / SETTINGS_FILE).exists():
                log.line(f"there is no run in {directory} to go on with: a new one begins")
            try:
                with StopSignals(quiet=quiet) as stop:
                    run = _Session(config, directory, log, given_files, stop, lead).train()
                if watch is not None:
                    watch.tell(Finished(run.progress.step, directory, run.progress.finished))
                return run
            except DragomanError:
                if not (directory / SETTINGS_FILE).exists():
                    log.discard()
                raise


class _Session:
    """One start of a training: everything between the settings and the trainer."""

    def __init__(
        self, config: TrainConfig, directory: Path, log: RunLog, given_files: set[str], stop: StopSignals, lead: Lead
    ) -> None:
        self.config, self.directory, self.log, self.given_files, self.stop = config, directory, log, given_files, stop
        self.lead = lead
        self.began = time.perf_counter()
        self.most: int | None = None  # updates, if there were time
        self.start: Path | None = None  # the model to start from
        self.newest: Path | None = None  # the checkpoint to go on from, and the updates planned then
        self.planned: int | None = None

    def train(self) -> Run:
        """From the settings to the end of training, or to a signal."""
        try:
            with self.stop.interruptible():
                ready = self._begin()
                if isinstance(ready, Trainer):
                    self._before_first(ready)
        except KeyboardInterrupt:
            if self.stop.received is None:
                raise
            self.log.line("stopped before training began")
            return Run(self.directory, self.config, Progress(), self.stop.exit_status)
        return self._run(ready) if isinstance(ready, Trainer) else ready

    def _begin(self) -> Trainer | Run:
        """Everything before the first update; the run, if there is nothing to train."""
        if self.config.training.threads is not None and not is_forked():
            torch.set_num_threads(self.config.training.threads)
        if is_counted(self.config.model.family):
            return Run(self.directory, *train_markov(self.config, self.directory, self.log, self._prepare, self.stop))
        if self.config.training.datastore:
            searching_library()  # before the training, not after it
        device = choose_device(self.config.training.device)
        keep_few_products()  # before the first product, which tells the device's speed
        clean_temporaries(self.directory / CHECKPOINTS)
        newest = self.newest = newest_checkpoint(self.directory / CHECKPOINTS, self.log.line)
        if newest is None:
            self._check_untrained()
        start = self.start = self._start() if newest is None else None
        data = self._prepared() if newest else self._prepare(start)
        if newest is not None:
            self.planned = make_config(read_toml(self.directory / SETTINGS_FILE)).training.max_steps
        given, fresh = self.config, not (self.directory / SETTINGS_FILE).exists()
        self._complete(data, device, start, newest)
        if fresh:  # what was chosen may have left something that was given without an effect
            check_effects(self.config, given)
        trainer = self._trainer(data, device, start)
        if newest is None:
            self.log.forget_after(-1)
            self._describe(data)
            for warning in doubts(data, self.config):
                self.log.line(f"warning: {warning}")
        else:
            self._restore(trainer, newest, self.planned)
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

    def _before_first(self, trainer: Trainer) -> None:
        """Tell that training starts, judge the model that it starts from, and plan the time that is left."""
        progress, minutes = trainer.progress, self.config.training.max_minutes
        if self.log.watch is not None:
            self.log.watch.begin(self.directory, progress, self.stop, self.config.training.max_steps)
        if progress.finished:
            return
        (self.directory / DATASTORE).unlink(missing_ok=True)  # its weights are about to change
        self.lead.start(trainer, self.newest, self.planned, judges_base=self.start is not None)
        began = time.perf_counter()
        if self.start is not None:
            trainer.judge_base(self.stop)
        if minutes is not None:
            passed = time.perf_counter() - self.began
            trainer.time = TimePlan(60 * minutes - passed, self.most or trainer.last_step)
            if self.start is not None:
                trainer.time.validated(time.perf_counter() - began)

    def _run(self, trainer: Trainer) -> Run:
        progress = trainer.progress
        ended, stop = False, self.stop
        if not progress.finished:
            trainer.run(stop)
            progress = trainer.progress
        self.lead.leave()
        trainer.judge.world = ALONE
        if progress.finished:
            trainer.stores.discard()
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
            hint = f"unpack it: dragoman bundle {init} --out DIR" if str(init).endswith(ENDING) else None
            raise ModelError("no model to start from", file=init, expected="a run or model directory", hint=hint)
        check_ours(Path(init), "trained on")
        self._take_family(Path(init))
        base = read_config(Path(init))[0]
        check_shape(self.config.model, base, Path(init))
        if self.config.tokenizer.given:
            self.log.line(f"the tokenizers are those of {init}: the settings of [tokenizer] do not count")
        self.config = with_tokenizers_of(self.config, Path(init), load_tokenizers(Path(init), base))
        return Path(init)

    def _take_family(self, start: Path) -> None:
        """The family of the model to begin from, unless another was asked for."""
        model, family = self.config.model, read_config(start)[0].family
        if "family" in model.given and model.family != family:
            hint = "start from one of the same family, or from nothing"
            message = "the model to start from is of another family"
            raise ConfigError(message, file=start, expected=model.family, found=family, hint=hint)
        self.config = self.config.replace({"model": {**model.to_dict(unset=False), "family": family}})
        if not is_counted(family):
            check_meant(self.config, family)
            check_validation(self.config)

    def _prepare(self, start: Path | None = None) -> Prepared:
        tokenizers = None if start is None else load_tokenizers(start, read_config(start)[0])
        if tokenizers is not None and self.config.training.extend_vocabulary:
            tokenizers = extend_tokenizers(tokenizers, self.config, self.log.line)
        if tokenizers is not None and (file := self.config.training.add_tokens) is not None:
            tokenizers = with_tokens_of(tokenizers, file, self.log.line)
        return prepare(self.config, self.directory / "data", tokenizers=tokenizers, report=self.log.line)

    def _prepared(self) -> Prepared:
        """The data of the run that is resumed; files given again must be the same ones, wherever they are now."""
        settings = self.config.data
        data = Prepared.open(self.directory / "data" if settings.prepared is None else Path(settings.prepared))
        check_same_files(settings, self.given_files, data)
        return data

    def _complete(self, data: Prepared, device: torch.device, start: Path | None, newest: Path | None) -> None:
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
            base = {**load_pretrained(start).config.as_built().to_dict(), "source_vocab": None, "target_vocab": None}
            config = config.replace({"model": {**base, **kept}})
        self.config, choices = complete(config, data, device)
        if config.training.max_minutes and (newest is None or config.training.max_steps is None):
            self.most, passed = self.config.training.max_steps, time.perf_counter() - self.began
            self.config, choices = fit_to_time(config, self.config, choices, data, device, passed, newest)
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
        base = base_again(self.config.training, self.directory) if start is None else start
        if base is not None:
            weights = load_pretrained(base).model.state_dict()
            fill(model, grown(weights, model, base, self.config, data.tokenizers), base)
        if start is not None:
            self.log.line(f"starting from the weights of {start}")
        seconds = estimate_seconds(self.config, data, device)
        if self.config.training.max_minutes is not None and (self.most or 0) > (self.config.training.max_steps or 0):
            seconds = 60 * self.config.training.max_minutes
        shared = config_hash(self.config, data.key)
        trainer = make_trainer(model.to(device), data, self.config, self.directory, self.log, shared, self.lead.world)
        self.log.line(
            f"{trainer.learner.told()} on {device}; up to {self.config.training.max_steps:,} updates, "
            f"about {duration(seconds)} unless it stops earlier"
        )
        return trainer

    def _restore(self, trainer: Trainer, newest: Path, planned: int | None) -> None:
        trainer.restore(newest, planned)
        progress = trainer.progress
        if progress.finished and (self.directory / CARD).exists():
            check_nothing_late(self.config, self.directory)
        self._describe(trainer.data)
        self.log.forget_after(progress.step)
        self.log.line(f"resumed at step {progress.step:,}, epoch {progress.epoch + 1}")
        for line in told_of_plan(progress, self.config.training, planned):
            self.log.line(line)

    def _finish(self, trainer: Trainer) -> None:
        progress = trainer.progress
        self._check_kept(trainer)
        if self.config.training.average_last > 1:
            self._average(trainer)
        kept = f"the model of step {progress.best_step:,}"
        if progress.averaged:
            kept = f"the average of the {progress.averaged} checkpoints up to step {progress.best_step:,}"
        if self.config.training.init_from is not None and not progress.best_step:
            kept = f"the weights of {self.config.training.init_from}: nothing learned here was better than the base"
        trainer.model.load_state_dict(load_pretrained(self.directory).model.state_dict())
        final = trainer.judge.best or trainer.judge.measure()
        if self.config.training.datastore:
            self._remember(trainer)
        config, plan = self.config, trainer.time
        if plan is not None and not plan.tries_searches:
            config = config.replace({"validation": config.validation.replace({"length_penalties": None})})
            self.log.line(f"no time is left to try other searches; `dragoman tune {self.directory}` does")
        config, tuned = tune_search(self.directory, config, trainer.data, self.log, progress.step)
        self.config = self.config.replace({"decoding": config.decoding})
        draw_if_possible(self.directory, progress.step)
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
                trainer.learner.save(self.directory)
        except OSError as error:
            raise SaveError(
                "cannot write the model", file=file, found=error.strerror, hint="free some space"
            ) from error

    def _remember(self, trainer: Trainer) -> None:
        """The datastore of the training pairs for the kept model."""
        pairs, held_out = (stored_pairs(store) for store in (trainer.data.train, trainer.data.dev))
        assert isinstance(trainer.model, Transformer)
        model, specials = trainer.model.eval(), trainer.data.tokenizers.source.specials
        save_datastore(model, pairs, held_out, self.directory, specials=specials, autocast=trainer.autocast,
                       report=self.log.line)  # fmt: skip

    def _average(self, trainer: Trainer) -> None:
        """Put the average of the last checkpoints in the best model's place if it is better."""
        every = self.config.training.save_every or self.config.validation.every
        saves, most = last_saves(trainer.checkpoints, every), self.config.training.average_last
        if len(saves) < most:
            self.log.line(f"there are only {len(saves)} checkpoints in a row to average, not {most}")
        paths = saves[-most:]
        own = {name: tensor.clone() for name, tensor in trainer.learner.state().items()}
        trainer.learner.load(average_checkpoints(paths))
        judge, progress = trainer.judge, trainer.progress
        result = judge.measure()
        best = judge.is_better(result, progress)
        better = best and trainer.attempts.write("weights", lambda: trainer.learner.save(self.directory))
        if better:
            judge.set_best(result, progress, len(paths))
        trainer.learner.load(own)
        remark = f"the average of the checkpoints of {named_steps(paths)}; {'best so far' if better else 'not better'}"
        judge.keep(result, progress.step, "average", remark)
        if better:
            trainer.save()  # what is best must be known if training goes on
