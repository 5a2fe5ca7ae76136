"""A small model, and services of it on free ports of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.serving import ServeSettings, make_settings
from dragoman.training import train
from served import Served
from small_runs import small_config
from small_sounds import saved_listener


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained for some seconds; what it writes is of no account."""
    folder = tmp_path_factory.mktemp("served")
    return train(small_config(folder, "tiny", "max_steps=30", "length_penalties=[]"), quiet=True).directory


@pytest.fixture(scope="session")
def settings(model: Path) -> ServeSettings:
    """Two models for two languages and one between; all of the same weights."""
    pairs = [("zh", "en"), ("en", "de"), ("en", "zh")]
    models = [{"path": model, "name": f"{one}-{other}", "source": one, "target": other} for one, other in pairs]
    return make_settings(None, {"models": models, "port": 0, "log": "none", "engine": "native", "threads": 1})


@pytest.fixture(scope="session")
def service(settings: ServeSettings) -> Iterator[Served]:
    """One service for all tests that do not change it."""
    with Served(settings) as served:
        yield served


@pytest.fixture(scope="session")
def listening(model: Path, tmp_path_factory: pytest.TempPathFactory) -> ServeSettings:
    """A model that listens and tells the times of words, one that does not tell them, and one that reads."""
    folder = tmp_path_factory.mktemp("listening")
    tones = saved_listener(folder / "tones", language="en")
    plain = saved_listener(folder / "plain", language="de", ctc=False)
    models = [{"path": tones}, {"path": plain}, {"path": model, "name": "zh-en", "source": "zh", "target": "en"}]
    return make_settings(None, {"models": models, "port": 0, "log": "none", "threads": 1})


@pytest.fixture(scope="session")
def hearing(listening: ServeSettings) -> Iterator[Served]:
    """A service of them, for all tests that do not change it."""
    with Served(listening) as served:
        yield served
