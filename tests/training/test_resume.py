"""A run that is killed and resumed computes what it would have computed, bit for bit."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from dragoman.config import make_config
from dragoman.errors import ConfigError, DragomanError, LockedError
from dragoman.runs.lock import RunLock
from dragoman.training import train
from dragoman.training.judging import Judge
from dragoman.training.trainer import Trainer
from forked import run as in_child
from small_runs import digests, events, losses, small_config, train_until_killed

MORE = ("ema_decay=0.9", "accumulate=2", "optimizer=adamw", "weight_decay=0.01")
MUON = ("optimizer=muon", "weight_decay=0.01", "ema_decay=0.9")
# A head of 16 numbers: such layers run in the native kernels, where they are compiled.
NATIVE = ("num_heads=1", "dropout=0.2")


@pytest.mark.parametrize(("threads", "extra"), [(1, ()), (1, MORE), (2, MORE), (1, MUON), (1, NATIVE)])
def test_a_run_killed_five_times_is_bit_identical(tmp_path, threads, extra):
    settings = (f"threads={threads}", "save_every=3", *extra)
    # In a child like the others: a process whose second thread has worked cannot be forked.
    assert in_child(lambda: train(small_config(tmp_path, "whole", *settings), quiet=True)) == 0
    per_epoch = _updates_per_epoch(tmp_path / "whole")
    broken = small_config(tmp_path, "broken", *settings)
    end = per_epoch * (1 + 20 // per_epoch)
    places = sorted({end - per_epoch + 1, end - per_epoch + 3, end - 1, end, end + 5})
    assert len(places) == 5, "three kills within one epoch, one at its end, one in the next"
    for place in places:
        train_until_killed(broken, place)
    assert in_child(lambda: train(broken, resume=True, quiet=True)) == 0
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")
    assert len(losses(tmp_path / "whole")) == 60
    assert digests(tmp_path / "broken") == digests(tmp_path / "whole")
    validations = [[row["loss"] for row in events(tmp_path / name, "validation")] for name in ("whole", "broken")]
    assert validations[0] == validations[1]


def _updates_per_epoch(run: Path) -> int:
    epochs = [row["epoch"] for row in events(run, "train")]
    return epochs.index(1)


def test_other_seeds_give_other_runs_and_the_same_seed_the_same(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(small_config(tmp_path, name, "max_steps=5", f"seed={seed}"), quiet=True)
    assert losses(tmp_path / "a") == losses(tmp_path / "b")
    assert losses(tmp_path / "a") != losses(tmp_path / "c")


def test_resuming_with_other_settings_is_refused_with_the_difference(tmp_path):
    train(small_config(tmp_path, "run", "max_steps=2"), quiet=True)
    with pytest.raises(ConfigError, match=r"training\.learning_rate: 0\.003 in the run, 0\.1 now"):
        train(small_config(tmp_path, "run", "max_steps=2", "learning_rate=0.1"), resume=True, quiet=True)


def test_a_finished_run_can_be_given_more_steps(tmp_path):
    train(small_config(tmp_path, "run", "max_steps=20"), quiet=True)
    assert train(small_config(tmp_path, "run", "max_steps=20"), resume=True, quiet=True).progress.step == 20
    more = train(small_config(tmp_path, "run", "max_steps=60"), resume=True, quiet=True)
    whole = train(small_config(tmp_path, "whole"), quiet=True)
    assert more.progress.step == 60
    assert losses(more.directory) == losses(whole.directory)


@pytest.mark.parametrize(
    ("setting", "verb"), [("training.average_last=3", "average"), ("validation.length_penalties=[0.0, 2.0]", "tune")]
)
def test_what_is_done_when_training_ends_is_not_asked_of_a_finished_run(tmp_path, setting, verb):
    done = train(small_config(tmp_path, "run", "max_steps=4"), quiet=True)
    before = (done.directory / "config.toml").read_bytes()
    with pytest.raises(ConfigError, match="the run is finished") as caught:
        train(small_config(tmp_path, "run", "max_steps=4", setting), resume=True, quiet=True)
    assert verb in str(caught.value)
    assert (done.directory / "config.toml").read_bytes() == before
    more = train(small_config(tmp_path, "run", "max_steps=6", setting), resume=True, quiet=True)
    assert more.progress.step == 6


def test_a_run_directory_is_not_overwritten_by_mistake(tmp_path):
    train(small_config(tmp_path, "run", "max_steps=1"), quiet=True)
    with pytest.raises(ConfigError, match="a run here already"):
        train(small_config(tmp_path, "run", "max_steps=1"), quiet=True)


def test_what_somebody_else_left_there_is_neither_replaced_nor_deleted(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("train.log", "metrics.jsonl"):
        (folder / name).write_text("mine\n")
    bad = small_config(tmp_path, "run", "max_steps=1")
    (tmp_path / "target.txt").write_text("one line\n")
    with pytest.raises(DragomanError):
        train(bad, quiet=True)
    assert all((folder / name).read_text().startswith("mine\n") for name in ("train.log", "metrics.jsonl"))
    for name in ("README.md", "model.safetensors"):
        other = tmp_path / name.lower()
        other.mkdir()
        (other / name).write_text("mine")
        with pytest.raises(ConfigError, match=rf"(?s)would overwrite.*found: +{name}"):
            train(small_config(tmp_path, other.name), quiet=True)
        assert [path.read_text() for path in other.iterdir()] == ["mine"]


def test_a_finished_run_without_its_checkpoints_is_not_trained_anew(tmp_path):
    config = small_config(tmp_path, "run", "max_steps=3")
    train(config, quiet=True)
    before = digests_of(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(ConfigError, match="no checkpoint to go on from"):
        train(config, resume=True, quiet=True)
    assert digests_of(tmp_path / "run") == before


def digests_of(run: Path) -> list[bytes]:
    return [(run / name).read_bytes() for name in ("model.safetensors", "README.md", "config.toml", "metrics.jsonl")]


def test_a_run_that_stopped_early_and_kept_an_average_is_over(tmp_path):
    settings = ("max_steps=400", "every=5", "learning_rate=1e-9", "patience=2", "keep_last=3", "average_last=3")
    config = small_config(tmp_path, "run", *settings)
    with pytest.MonkeyPatch.context() as patch:
        # The average wins: but for the first only its validation, which comes when patience is out, is the best so far.
        patch.setattr(Judge, "is_better", lambda _, __, progress: progress.best is None or progress.worse_in_a_row >= 2)
        first = train(config, quiet=True)
    assert (first.progress.step, first.progress.averaged) == (15, 3)
    again = train(config, resume=True, quiet=True)
    assert (again.progress.step, again.progress.finished) == (15, True)
    assert "finished already" in (tmp_path / "run" / "train.log").read_text()


def test_what_is_left_open_again_is_no_change_but_another_start_is(tmp_path):
    config = small_config(tmp_path, "run", "max_steps=2", "precision=auto")
    train(config, quiet=True)
    assert train(config, resume=True, quiet=True).progress.step == 2
    with pytest.raises(ConfigError, match=r"training\.init_from: None in the run"):
        train(small_config(tmp_path, "run", "init_from=elsewhere"), resume=True, quiet=True)


def test_how_many_matches_were_chosen_may_be_said_afterwards(tmp_path):
    train(small_config(tmp_path, "run", "training.max_steps=1"), quiet=True)
    assert train(small_config(tmp_path, "run", "data.fuzzy_matches=0"), resume=True, quiet=True).exit_status == 0
    with pytest.raises(ConfigError, match=r"data\.fuzzy_matches: None in the run, 2 now"):
        train(small_config(tmp_path, "run", "data.fuzzy_matches=2"), resume=True, quiet=True)


def test_a_run_whose_settings_do_not_tell_its_matches_goes_on(tmp_path):
    config = small_config(tmp_path, "run", "data.fuzzy_matches=2", "max_steps=2", "model.tie_embeddings=decoder")
    train(config, quiet=True)
    for name, told in (("config.toml", "\nmatches = 2"), ("config.json", '\n  "matches": 2,')):
        file = tmp_path / "run" / name
        assert file.read_text().count(told) == 1
        file.write_text(file.read_text().replace(told, ""))  # as older versions have it
    longer = small_config(tmp_path, "run", "max_steps=4")
    assert train(longer, resume=True, quiet=True).progress.step == 4
    assert '"matches": 2' in (tmp_path / "run" / "config.json").read_text()


def test_a_run_directory_in_use_is_refused(tmp_path):
    config = small_config(tmp_path)
    Path(config.out).mkdir()
    with RunLock(Path(config.out)), pytest.raises(LockedError):
        train(config, quiet=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_stops_and_the_run_goes_on_from_there(tmp_path, number):
    config = small_config(tmp_path, "stopped")

    def run() -> None:
        update = Trainer.learn

        def update_and_signal(self, batches):
            update(self, batches)
            if self.progress.step == 7:
                os.kill(os.getpid(), number)

        Trainer.learn = update_and_signal
        os._exit(train(config, quiet=True).exit_status)

    assert in_child(run) == 128 + number
    state = json.loads((tmp_path / "stopped/checkpoints/step-00000007/state.json").read_text())
    assert state["progress"]["step"] == 7
    train(config, resume=True, quiet=True)
    train(small_config(tmp_path, "whole"), quiet=True)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")
    assert digests(tmp_path / "stopped") == digests(tmp_path / "whole")


def test_the_same_files_elsewhere_are_the_same_but_exchanged_or_changed_ones_are_not(tmp_path):
    config = small_config(tmp_path, "run", "max_steps=2")
    train(config, quiet=True)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("source.txt", "target.txt"):
        shutil.copy(tmp_path / name, moved)
    source, target = str(moved / "source.txt"), str(moved / "target.txt")

    def again(**data: list[str]) -> int:
        tree = {"out": str(tmp_path / "run"), "data": data}
        return train(make_config(tree), resume=True, quiet=True).progress.step

    assert again(source=[source], target=[target]) == 2
    assert again(source=[source], target=[target]) == 2  # the settings have the new names now, the data the old ones
    for data in ({"source": [target], "target": [source]}, {"source": [source, source]}, {"target": [source]}):
        with pytest.raises(ConfigError, match="keeps its data"):
            again(**data)
    (moved / "target.txt").write_text("changed\n")
    with pytest.raises(ConfigError, match=r"(?s)a resumed run keeps its data.*target\.txt"):
        again(target=[target])
    assert again(source=[source]) == 2
