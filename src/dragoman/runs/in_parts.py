"""Checkpoints of which each process writes a part, beneath the same manifest as others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from dragoman.distributed import World
from dragoman.distributed.parts import Place, write_parts
from dragoman.errors import ModelError
from dragoman.runs.checkpoint import (
    ALIASES,
    Checkpoint,
    new_place,
    publish,
    read_in_parts,
    record_of,
    refused,
    verify_checkpoint,
)

T = TypeVar("T")


def save_in_parts(
    directory: Path,
    step: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    values: Mapping[str, Any],
    config_hash: str,
    *,
    world: World,
    aliases: Mapping[str, str],
) -> Path:
    """Write `directory/step-XXXXXXXX` as `save_checkpoint` does; all processes must do so at once.

    Args:
        directory: as of `save_checkpoint`, like what follows; seen by all processes.
        step: updates done.
        tensors: file stem -> name -> tensor, whole or this process's part.
        values: anything JSON can hold.
        config_hash: of the settings it was trained with.
        world: the processes.
        aliases: `STEM.NAME` of tied tensors -> of the one that is written.

    Raises:
        SaveError: the disk refused, in all processes.
    """
    final = directory / f"step-{step:08d}"
    named = {f"{stem}.{name}": tensor for stem, group in tensors.items() for name, tensor in group.items()}
    with refused(directory, final, cleans=world.is_first):
        temporary = _first(world, lambda: new_place(directory, final))
        write_parts(temporary, {name: one for name, one in named.items() if name not in aliases}, world)
        names = sorted(path.name for path in temporary.glob("*.safetensors"))
        records = world.split(names, lambda own: [record_of(temporary / name) for name in own])
        files, stored = dict(zip(names, records, strict=True)), {**values, ALIASES: dict(aliases)}
        _first(world, lambda: publish(temporary, final, step, files, stored, config_hash))
    return final


def load_in_parts(path: Path, place: Place, world: World) -> Checkpoint:
    """Verify a checkpoint in parts, then read it; all processes must do so at once.

    Args:
        path: its directory.
        place: as of `read_parts`.
        world: the processes that read together.

    Raises:
        ModelError: it is no checkpoint, or a file is missing or damaged.
    """
    manifest = _first(world, lambda: verify_checkpoint(path))
    return read_in_parts(path, manifest, None, place, world)


def _first(world: World, work: Callable[[], T]) -> T:
    """What the first process makes, or its error, in all of them."""
    outcome: Any = None
    if world.is_first:
        try:
            outcome = work()
        except (OSError, ModelError) as error:
            outcome = error
    outcome = world.share(outcome)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
