"""Tensors as safetensors files: the same tensors always give the same bytes, and tied ones are written once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.files import check_filled, opened, parse_json, size_of, unquoted, write_bytes
from dragoman.models.quantised import as_numbers
from dragoman.models.stored import MAX_HEADER_BYTES, MAX_TENSORS
from dragoman.models.sums import check_pieces, with_sum


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
            tensors, is not what its sum says, or is mostly holes.
    """
    with unquoted(path):
        return _tensors(path)


def _tensors(path: Path) -> dict[str, Tensor]:
    check_filled(path)
    data, metadata = _read(path)
    try:
        found = load(data)
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError, AttributeError, KeyError) as error:
        raise ModelError("not a valid safetensors file", file=path, found=error) from error
    del data
    # In memory as PyTorch aligns it.
    tensors = as_numbers({name: found.pop(name).clone() for name in list(found)}, path)
    names = set(tensors)
    for alias, name in parse_json(metadata.get("aliases", "{}").encode(), path).items():
        if not isinstance(name, str) or name not in names or alias in names:
            raise ModelError("an alias does not name a tensor", file=path, found=f"{alias!r} for {name!r}")
        tensors[alias] = tensors[name]
    return tensors


def _read(path: Path) -> tuple[bytes, Any]:
    """All of a file, and the metadata of its header (8 bytes length, then JSON), which is looked at first."""
    with opened(path) as file:
        size, start = size_of(file), file.read(8)
        length = int.from_bytes(start, "little")
        if length > min(MAX_HEADER_BYTES, size - 8):
            limit = f"a header of at most {MAX_HEADER_BYTES} bytes, within the file"
            raise ModelError("not a safetensors file", file=path, expected=limit, found=f"{length} bytes of {size}")
        start += file.read(length)
        header = parse_json(start[8:], path)
        if len(header) > MAX_TENSORS + 1:
            raise ModelError("too many tensors", file=path, expected=f"at most {MAX_TENSORS}", found=len(header))
        file.seek(0)
        data = file.read()
    check_pieces(path, [data])
    return data, header.get("__metadata__", {})
