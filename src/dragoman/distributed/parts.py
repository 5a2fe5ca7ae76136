"""Tensors in parts as files, each process writing its own: PyTorch's distributed checkpoint, as safetensors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.distributed.world import World
from dragoman.errors import ModelError

# Makes the place that a tensor is read into, of its name, shape and type.
Place = Callable[[str, torch.Size, torch.dtype], Tensor]


def write_parts(directory: Path, tensors: Mapping[str, Tensor], world: World) -> None:
    """Write tensors, of which each process has a part, or all of them the whole; all processes must do so at once.

    Args:
        directory: seen by all; a file is added for each process.
        tensors: by name, with the same names in all processes.
        world: the processes.

    Raises:
        OSError: a process could not write, in all of them.
    """
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

    writer = HuggingFaceStorageWriter(str(directory), save_distributed=True)
    try:
        checkpoint.save(dict(tensors), storage_writer=writer, process_group=world.control)
    except checkpoint.CheckpointException as error:
        raise OSError(0, str(next(iter(error.failures.values()))[0])) from error


def read_parts(
    directory: Path, stems: Collection[str] | None = None, place: Place | None = None, world: World | None = None
) -> dict[str, Tensor]:
    """Read tensors that were written in parts, by any number of processes.

    Args:
        directory: all of its safetensors files are read.
        stems: what the names begin with, up to a dot, of those that are read; None: all.
        place: makes what a tensor is read into, e.g. with one part in each process; whole ones on the CPU if None.
        world: the processes that read together; None: this one reads alone.

    Raises:
        ModelError: they are no such files, or something is missing.
    """
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    with _as_model_error(directory):
        reader = HuggingFaceStorageReader(str(directory))
        held_there: Mapping[str, Any] = reader.read_metadata().state_dict_metadata
        found = {name: one for name, one in held_there.items() if stems is None or name.partition(".")[0] in stems}
        for name, held in found.items():
            if sum(math.prod(chunk.sizes) for chunk in held.chunks) != math.prod(held.size):
                raise ModelError("a part of a tensor is missing", file=directory, found=name)
        make = place or (lambda name, shape, dtype: torch.zeros(shape, dtype=dtype))
        tensors = {name: make(name, held.size, held.properties.dtype) for name, held in found.items()}
        group = None if world is None else world.control
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # as is meant
            checkpoint.load(tensors, storage_reader=reader, process_group=group, no_dist=world is None)
        return tensors


@contextmanager
def _as_model_error(directory: Path) -> Iterator[None]:
    from safetensors import SafetensorError
    from torch.distributed.checkpoint import CheckpointException

    try:
        yield
    except (SafetensorError, CheckpointException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError("not a checkpoint in parts", file=directory, found=error) from error
