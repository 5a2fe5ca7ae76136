"""The tensors of a foreign directory: safetensors; a pickle only in a child process, and only if it is asked for."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.errors import ModelError
from dragoman.files import opened
from dragoman.models.tensors import read_tensors
from dragoman.text.vocabulary import read_tokens

SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
SECONDS = 600
# PyTorch's reader of tensors alone, which runs none of the pickle's functions, with bounded memory and time.
_CONVERT = """
import resource, sys
path, out, memory = sys.argv[1], sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import torch
from safetensors.torch import save_file
resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
state = torch.load(path, map_location="cpu", weights_only=True)
for name in ("model", "state_dict", "model_state"):
    if isinstance(state.get(name), dict):
        state = state[name]
        break
tensors = {str(name): value.contiguous().clone() for name, value in state.items() if isinstance(value, torch.Tensor)}
save_file(tensors, out)
"""
# The same of a checkpoint of OpenNMT-py, whose options are an `argparse.Namespace`: its attributes, and no function.
_CHECKPOINT = """
import argparse, json, resource, sys
path, out, memory = sys.argv[1], sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import torch
from safetensors.torch import save_file
resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
with torch.serialization.safe_globals([argparse.Namespace]):
    whole = torch.load(path, map_location="cpu", weights_only=True)
state = {**whole["model"], **{f"generator.{name}": value for name, value in (whole.get("generator") or {}).items()}}
tensors = {str(name): value.contiguous().clone() for name, value in state.items() if isinstance(value, torch.Tensor)}
save_file(tensors, out)
with open(f"{out}.json", "w", encoding="utf-8") as file:
    json.dump({"opt": vars(whole["opt"]), "vocab": whole["vocab"]}, file, default=str)
"""


def read_state(
    directory: Path, name: str = SAFE, pickled: str = PICKLED, *, unpickle: bool = False
) -> dict[str, Tensor]:
    """Return the tensors of a directory by name.

    Args:
        directory: where they lie.
        name: of a safetensors file.
        pickled: of PyTorch's file, read where there is no other.
        unpickle: whether that may be done.

    Raises:
        ModelError: there are none, they are damaged, or they are pickled and that was not allowed.
    """
    if (directory / name).exists():
        return read_tensors(directory / name)
    if (directory / f"{name}.index.json").exists():
        hint = "load it with transformers and save it with max_shard_size='100GB'"
        raise ModelError("the weights lie in several files", file=directory, expected=name, hint=hint)
    path = directory / pickled
    if not path.exists():
        raise ModelError("there are no weights", file=directory, expected=name)
    if not unpickle:
        hint = "if you trust where it comes from: --unpickle reads its tensors alone, in a process of their own"
        raise ModelError("the weights are pickled, and a pickle may run code", file=path, expected=name, hint=hint)
    return _unpickled(path, _CONVERT)[0]


def read_checkpoint(path: Path, *, unpickle: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a pickled checkpoint of OpenNMT-py, and its options and vocabularies.

    Raises:
        DataError: what is beside the tensors is too large.
        ModelError: it is damaged, holds something else, or may not be read.
    """
    if not unpickle:
        hint = "--unpickle reads it in a process of its own, or convert it as the page about importing shows"
        raise ModelError("the checkpoint is pickled, and a pickle may run code", file=path, expected=SAFE, hint=hint)
    return _unpickled(path, _CHECKPOINT)


def _unpickled(path: Path, convert: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    with opened(path) as file:  # a regular file, before anybody else opens it
        size = len(file.read(1)) and path.stat().st_size
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        out = Path(folder) / SAFE
        command = [sys.executable, "-c", convert, str(path), str(out), str((4 << 30) + 6 * size)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise ModelError("the pickled weights take too long to read", file=path) from error
        if done.returncode or not out.exists():
            last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            hint = "convert it with the system that made it, as the page about importing shows"
            raise ModelError(
                "the pickle holds more than tensors, or is damaged", file=path, found=last[:200], hint=hint
            )
        beside = Path(f"{out}.json")
        return read_tensors(out), read_tokens(beside) if beside.exists() else {}
