"""Averages of weights over the last checkpoints (section 6.1 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from dragoman.config import SETTINGS_FILE, make_config, read_toml
from dragoman.errors import ConfigError, ModelError
from dragoman.markov import is_markov
from dragoman.models import load_pretrained
from dragoman.models.adapters import has_adapter, load_adapter
from dragoman.models.description import load_tokenizers, save_tokenizers
from dragoman.models.pretrained import fill, save_config, save_weights
from dragoman.models.tensors import read_tensors
from dragoman.optimizers.moving_average import check_alike
from dragoman.runs.checkpoint import CHECKPOINTS, list_checkpoints, load_checkpoint, step_of
from dragoman.training.merging import check_free, merge_loaded


def average_checkpoints(paths: Sequence[Path], stem: str = "model") -> dict[str, Tensor]:
    """Average the weights of checkpoints; the paper averages its last 5 (base) or 20 (big).

    Sums are taken in float64 and rounded once, to each tensor's own type. Tensors that are not floating point come
    from the last checkpoint.

    Args:
        paths: checkpoint directories, or safetensors files, at least one.
        stem: which file of a checkpoint directory holds the weights.

    Raises:
        ModelError: none is given, one is damaged, or two do not hold tensors of the same names, shapes and types.
    """
    if not paths:
        raise ModelError("there is nothing to average", expected="at least one checkpoint")
    sums: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    for path in paths:
        weights = load_checkpoint(path, [stem]).tensors[stem] if path.is_dir() else read_tensors(path)
        check_alike(weights, last or weights, path)
        last = weights
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                sums[name] = sums[name].add_(tensor) if name in sums else tensor.to(torch.float64, copy=True)
    return {name: sums[name].div_(len(paths)).to(last[name].dtype) if name in sums else last[name] for name in last}


@dataclass(frozen=True)
class AveragedRun:
    """A model directory that was made by averaging; its path, wherever one is taken.

    Attributes:
        directory: of the model.
        steps: of the checkpoints whose weights it has, oldest first.
    """

    directory: Path
    steps: tuple[int, ...]

    def __fspath__(self) -> str:
        return str(self.directory)


def last_saves(directory: Path, every: int | None) -> list[Path]:
    """Return the newest checkpoint and those saved right before it, oldest first; not a best one kept from long ago.

    Args:
        directory: the checkpoints of a run.
        every: updates between two saves, at most; all checkpoints are returned if None.
    """
    paths = list_checkpoints(directory)
    first = len(paths) - 1
    while first > 0 and (every is None or step_of(paths[first]) - step_of(paths[first - 1]) <= every):
        first -= 1
    return paths[max(0, first) :]


def named_steps(paths: Sequence[Path]) -> str:
    """Return the steps of checkpoints in words."""
    return f"{'step' if len(paths) == 1 else 'steps'} {', '.join(f'{step_of(path):,}' for path in paths)}"


def average(directory: str | Path, last: int, out: str | Path) -> AveragedRun:
    """Write a model directory whose weights are the average of a run's last checkpoints (paper section 6.1).

    They are those of consecutive saves: a best checkpoint that is kept from long ago is none of the last.

    Args:
        directory: the run.
        last: how many checkpoints, counted from the last, at least one.
        out: the model directory to make; neither the run itself nor another.

    Raises:
        ConfigError: `last` or `out` is out of the question.
        ModelError: there are fewer checkpoints, or one is damaged.
    """
    directory, out = Path(directory), Path(out)
    if last < 1:
        raise ConfigError("an average needs at least one checkpoint", found=last)
    check_free(out, "the average")
    if is_markov(directory):
        raise ModelError("a Markov model has no checkpoints to average", file=directory)
    if not (directory / CHECKPOINTS).is_dir():
        raise ModelError("no run here", file=directory, expected=f"a directory {CHECKPOINTS}")
    paths = last_saves(directory / CHECKPOINTS, _longest_gap(directory))
    if len(paths) < last:
        raise ModelError(
            "there are not so many checkpoints of consecutive saves", file=directory, expected=last,
            found=f"only {len(paths)}" + (f", of {named_steps(paths)}" if paths else ""),
            hint="training.keep_last says how many a run keeps besides the best",
        )  # fmt: skip
    paths = paths[-last:]
    weights = average_checkpoints(paths)
    if has_adapter(directory):  # the checkpoints hold factors only
        return AveragedRun(_merged(directory, weights, out), tuple(map(step_of, paths)))
    pretrained = load_pretrained(directory)
    tokenizers = load_tokenizers(directory, pretrained.config)
    fill(pretrained.model, weights)  # what is tied is one tensor again
    save_config(out, pretrained.config, pretrained.decoding, pretrained.languages)
    save_tokenizers(out, tokenizers)
    save_weights(out, pretrained.model)
    return AveragedRun(out, tuple(map(step_of, paths)))


def _merged(run: Path, factors: Mapping[str, Tensor], out: Path) -> Path:
    """Write a model directory of a run's base with other factors merged into it."""
    adapter = replace(load_adapter(run), factors=factors)
    return merge_loaded(adapter, Path(adapter.base), out)


def _longest_gap(directory: Path) -> int | None:
    """Updates between two saves of a run, at most; None where it has no settings."""
    if not (directory / SETTINGS_FILE).exists():
        return None
    settings = make_config(read_toml(directory / SETTINGS_FILE))
    return settings.training.save_every or settings.validation.every
