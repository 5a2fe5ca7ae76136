"""A mistake in one of several processes: one message, the exit status of one process, and no new start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.config import TrainConfig, write_toml
from dragoman.distributed import RankError, torchrun
from dragoman.distributed.launching import launch
from dragoman.errors import ConfigError
from small_runs import small_config


def command(config: TrainConfig, *more: str) -> list[str]:
    file = Path(config.out).with_suffix(".toml")
    write_toml(config, file)
    return [sys.executable, "-m", "dragoman", "train", "--config", str(file), "--out", config.out, *more]


def told(config: TrainConfig, *more: str) -> tuple[int, list[str]]:
    """The exit status, and the message of a mistake with all that follows it on standard error."""
    done = subprocess.run(command(config, *more), capture_output=True, text=True, timeout=150, check=False)
    lines = done.stderr.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("dragoman: "))
    return done.returncode, lines[first:]


@pytest.mark.parametrize("wrong", ['data.source=["nowhere.txt"]', 'training.freeze=["nothing"]'])
def test_a_late_mistake_is_told_as_by_one_process(tmp_path: Path, wrong: str) -> None:
    """Before and after the data are prepared."""
    config = small_config(tmp_path, "run", wrong)
    alone = told(config)
    assert told(config, "--devices", "2") == alone
    assert alone[0] == 2


def test_a_process_that_dies_too_often_is_told_without_a_traceback(tmp_path: Path) -> None:
    run = command(small_config(tmp_path, "run", "training.max_steps=100000"), "--devices", "2", "--restarts", "0")
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(run, stderr=errors)
        while not (tmp_path / "run" / "metrics.jsonl").exists():
            assert process.poll() is None
            time.sleep(0.1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        status = process.wait(100)
    lines = (tmp_path / "errors").read_text(encoding="utf-8")
    assert status != 0
    assert "more often than --restarts allows" in lines
    assert "Traceback" not in lines


def test_the_first_process_that_meets_a_mistake_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = ConfigError("wrong")
    assert torchrun.leave_status(mistake) == (True, 2)
    launch(1, 0, [])
    monkeypatch.setenv(torchrun.STATUS_FILE, str(tmp_path / "status"))
    monkeypatch.setattr(torchrun, "_GRACE", 0.1)
    lost = RankError("another process has ended")
    assert torchrun.leave_status(lost) == (True, 1)
    assert torchrun.leave_status(mistake) == (True, 0)
    assert torchrun.leave_status(mistake) == torchrun.leave_status(lost) == (False, 0)
    assert torchrun.status_left() == 2
    with pytest.raises(SystemExit) as ended:
        launch(2, 3, [])
    assert ended.value.code == 0
