"""Tensors as safetensors files: the same tensors always give the same bytes, and tied ones are written once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.files import opened, parse_json, write_bytes
from dragoman.models.stored import MAX_HEADER_BYTES
from dragoman.models.sums import check_sum, with_sum

MAX_TENSORS = 20_000


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Put tensors under `path`, whole and durable, in place of what was there before."""
    write_bytes(path, encode_tensors(tensors))


def encode_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors as a safetensors file: on the CPU, contiguous, in an order that depends on names and types only.

    Names that share one tensor (tied weights) are written once; the others stand as JSON, name -> written name, under
    `aliases` in the header's metadata, beside the sum of the file (see `sums`). The same tensors always give the same
    bytes.
    """
    kept: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    written: dict[object, str] = {}
    storages: set[int] = set()
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        place = (tensor.device, tensor.dtype, tensor.data_ptr(), tensor.shape, tensor.stride())
        if tensor.numel() and written.setdefault(place, name) != name:
            aliases[name] = written[place]
            continue
        tensor = tensor.cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        # Another view of memory that is written already: safetensors wants every tensor to own its bytes.
        kept[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    # One entry only: the library writes several in random order.
    return with_sum(save(kept, {"aliases": json.dumps(aliases)} if aliases else None))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file into memory of our own (not a map of the file); aliases are the same tensor again.

    Raises:
        ModelError: it is not such a file, its header is larger than `MAX_HEADER_BYTES`, it has more than `MAX_TENSORS`
            tensors, or is not what its sum says.
    """
    _check_header(path)
    check_sum(path)
    try:
        with safe_open(path, framework="pt") as file:
            names, metadata = list(file.keys()), file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in names}
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError, AttributeError, KeyError) as error:
        raise ModelError("not a valid safetensors file", file=path, found=error) from error
    for alias, name in parse_json(metadata.get("aliases", "{}").encode(), path).items():
        if not isinstance(name, str) or name not in names or alias in names:
            raise ModelError("an alias does not name a tensor", file=path, found=f"{alias!r} for {name!r}")
        tensors[alias] = tensors[name]
    return tensors


def _check_header(path: Path) -> None:
    """Look at the header (8 bytes length, then JSON) before the library takes memory for what it promises."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(MAX_HEADER_BYTES, size - 8):
            limit = f"a header of at most {MAX_HEADER_BYTES} bytes, within the file"
            raise ModelError("not a safetensors file", file=path, expected=limit, found=f"{length} bytes of {size}")
        header = parse_json(file.read(length), path)
    if len(header) > MAX_TENSORS + 1:
        raise ModelError("too many tensors", file=path, expected=f"at most {MAX_TENSORS}", found=len(header))
