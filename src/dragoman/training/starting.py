"""`train`: from files or lists of pairs, or a text, to a run directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.config import Family, TrainConfig, make_config, merge, settings_tree
from dragoman.errors import ConfigError
from dragoman.events import OnEvent
from dragoman.text.listed import Lines, Pairs, Sounds, data_files, kept_lists
from dragoman.training.run import Run, train_config
from dragoman.training.watching import Watch

_DATA = (
    "source", "source_audio", "target", "pairs", "dev_source", "dev_source_audio", "dev_target", "dev_pairs", "text",
    "dev_text",
)  # fmt: skip


def train(
    config: TrainConfig | None = None,
    *,
    source: Lines | None = None,
    source_audio: Sounds | None = None,
    target: Lines | None = None,
    pairs: Pairs | None = None,
    dev_source: Lines | None = None,
    dev_source_audio: Sounds | None = None,
    dev_target: Lines | None = None,
    dev_pairs: Pairs | None = None,
    text: Lines | None = None,
    dev_text: Lines | None = None,
    family: Family | None = None,
    init_from: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    on_event: OnEvent | None = None,
) -> Run:
    """Train a model on pairs of sequences, or on one text: prepare, choose what is left open, train, keep the best.

    Give files or lists and a run directory, `train(source=..., target=..., out="runs/mine")`, or a `TrainConfig`. A
    path is a file, several `Path`s are several; a list of strings is the lines themselves, which are kept in the run
    directory. SIGTERM and Ctrl-C save a checkpoint and return.

    Args:
        config: all settings in one object; those left at None are chosen from the corpus and the device.
        source: source lines.
        source_audio: instead of source: lists of recordings (.tsv), or their lines: path, or path, start and end.
        target: target lines, one for each.
        pairs: instead, or besides: .tsv, .csv, .jsonl or .tmx files, or (source, target) tuples.
        dev_source: held-out source lines; without any, some pairs are taken out of training.
        dev_source_audio: held-out recordings instead.
        dev_target: held-out target lines.
        dev_pairs: held-out pairs, instead or besides.
        text: with `family`, instead of pairs: lines, each a sequence.
        dev_text: held-out lines.
        family: "causal", "masked", or one of the Markov models.
        init_from: fine-tune: a run or model directory to begin from.
        settings: any others by name, as `{"max_steps": 500, "model.d_model": 128}`; `dragoman.settings()` lists them.
        out: the run directory.
        resume: go on from the newest sound checkpoint in `out`; the stored settings hold.
        quiet: tell nothing on standard error.
        on_event: called with each `dragoman.events.Event`; training stops at a checkpoint when it returns True.

    Raises:
        ConfigError: settings are missing, unknown, contradict each other, or differ from those of the resumed run.
        DataError: the files or lists cannot be used.
        DivergenceError, SaveError, LockedError: as their names say.
    """
    data = _of_data(locals())
    watch = None if on_event is None else Watch(on_event)
    if config is None:
        return _train_on(data, family, init_from, settings or {}, out, resume=resume, quiet=quiet, watch=watch)
    others = {**data, "out": out, "family": family, "init_from": init_from, "settings": settings}
    if found := [key for key, value in others.items() if value is not None]:
        raise ConfigError("give a config or files, not both", found=", ".join(found))
    return train_config(config, resume=resume, quiet=quiet, watch=watch)


def _of_data(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in _DATA}


def _train_on(
    data: Mapping[str, Lines | Pairs | Sounds | None],
    family: Family | None,
    init_from: str | Path | None,
    settings: Mapping[str, Any],
    out: str | Path | None,
    *,
    resume: bool,
    quiet: bool,
    watch: Watch | None,
) -> Run:
    if out is None:
        raise ConfigError("a run directory is needed", expected="out=...")
    tree = settings_tree(settings)  # names are checked before anything is written
    model = {} if family is None else {"family": family}
    start = {} if init_from is None else {"init_from": str(init_from)}
    with kept_lists(Path(out)) as folder:
        named = {"out": str(out), "data": data_files(data, folder), "model": model, "training": start}
        config = make_config(merge(tree, named))
        return train_config(config, resume=resume, quiet=quiet, watch=watch)
