"""Checkpoints: directories that are complete or absent, whenever the process or the power dies.

    checkpoints/step-00001000/
      model.safetensors  optimizer.safetensors ...   tensors by name, one file per stem
      state.json                                     the plain values
      MANIFEST.json                                  size and SHA-256 of each of these; written last

Where each process of a training keeps a part of every tensor, there are files `shard-*.safetensors` in place of those
for each stem, one of each process: PyTorch's distributed checkpoint. Their tensors are called `STEM.NAME`, and names
that are tied to others stand in `state.json` under `aliases`.

A checkpoint is prepared in `.tmp-step-00001000-PID`, flushed and renamed. Where one of the same step stands already,
that one waits as `.old-step-00001000` until the new one has been verified, and counts as a checkpoint until then.
Only one process may write (see `RunLock`); any may read at any time.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from torch import Tensor

from dragoman.config.values import Bounds, Like, Mistake, convert
from dragoman.distributed import World
from dragoman.distributed.parts import Place, read_parts
from dragoman.errors import ModelError, SaveError
from dragoman.files import (
    encode_json,
    flush_directory,
    make_directory,
    read_json,
    remove,
    remove_temporaries,
    temporary_sibling,
    verify_file,
    write_new_file,
)
from dragoman.models.tensors import encode_tensors, read_tensors

CHECKPOINTS = "checkpoints"  # where a run directory has them
MANIFEST = "MANIFEST.json"
STATE = "state.json"
ALIASES = "aliases"
PART = "shard-"  # as PyTorch begins the names of such files
_SUFFIX = ".safetensors"
_DIRECTORY = re.compile(r"(\.old-)?step-(\d{8,})")

FileName = Annotated[str, Like(r"[A-Za-z0-9_-]+\.safetensors|state\.json", "the name of a file of a checkpoint")]
Sha256 = Annotated[str, Like("[0-9a-f]{64}", "a SHA-256")]
Count = Annotated[int, Bounds(ge=0)]
Report = Callable[[str], None]


@dataclass(frozen=True)
class FileRecord:
    """What a file of a checkpoint must be."""

    bytes: Count
    sha256: Sha256


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a checkpoint says about itself."""

    format: Literal[1] = 1
    step: Count
    config_hash: str
    files: dict[FileName, FileRecord]

    @property
    def in_parts(self) -> bool:
        """Whether each process wrote a part of every tensor (`save_in_parts`)."""
        return any(name.startswith(PART) for name in self.files)

    def encode(self) -> bytes:
        """Return the bytes of `MANIFEST.json`: these fields and a SHA-256 over them."""
        body = asdict(self)
        return encode_json(body | {"sha256": hashlib.sha256(encode_json(body)).hexdigest()})


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint.

    Attributes:
        path: its directory.
        tensors: file stem -> name -> tensor, on the CPU.
        values: the plain values, as JSON gives them back (tuples are lists, keys are strings).
        manifest: step, hash of the config and files.
    """

    path: Path
    tensors: dict[str, dict[str, Tensor]]
    values: dict[str, Any]
    manifest: Manifest

    @property
    def step(self) -> int:
        """Updates done when it was written."""
        return self.manifest.step


def save_checkpoint(
    directory: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], values: Mapping[str, Any], config_hash: str
) -> Path:
    """Write `directory/step-XXXXXXXX`; when this returns it is on the disk, complete.

    Args:
        directory: the `checkpoints` directory of a run; made if missing.
        step: updates done.
        tensors: file stem -> name -> tensor, on any device; tied tensors are written once.
        values: anything JSON can hold.
        config_hash: of the settings it was trained with.

    Raises:
        SaveError: the disk refused (full, read-only, broken). All earlier checkpoints are as they were, and the next
            save starts from a clean directory.
    """
    final = directory / f"step-{step:08d}"
    with refused(directory, final):
        temporary = new_place(directory, final)
        files = {}
        for stem, group in sorted(tensors.items()):
            name = stem + _SUFFIX
            files[name] = _write(temporary / name, encode_tensors(group))
        publish(temporary, final, step, files, values, config_hash)
    return final


@contextmanager
def refused(directory: Path, final: Path, *, cleans: bool = True) -> Iterator[None]:
    """Tell, inside the `with` block, that the disk refused a checkpoint, and leave a clean directory.

    Args:
        directory: of all checkpoints.
        final: of the one that is written.
        cleans: whether this process may delete something.

    Raises:
        SaveError: that is so.
    """
    try:
        yield
    except (OSError, ModelError) as error:
        with suppress(OSError):
            if cleans:
                clean_temporaries(directory)
        reason = (error.strerror or error) if isinstance(error, OSError) else error
        hint = "look at the space left and the permissions there; earlier checkpoints are untouched"
        raise SaveError("cannot write the checkpoint", file=final, found=reason, hint=hint) from error


def new_place(directory: Path, final: Path) -> Path:
    """Make the directory that a checkpoint is prepared in."""
    make_directory(directory)
    clean_temporaries(directory)
    temporary = temporary_sibling(final)
    os.mkdir(temporary)
    return temporary


def publish(
    temporary: Path,
    final: Path,
    step: int,
    files: Mapping[str, FileRecord],
    values: Mapping[str, Any],
    config_hash: str,
) -> None:
    """Finish a checkpoint whose tensors are written, and give it its name."""
    everything = {STATE: _write(temporary / STATE, encode_json(values)), **files}
    write_new_file(temporary / MANIFEST, Manifest(step=step, config_hash=config_hash, files=everything).encode())
    flush_directory(temporary)
    _publish(temporary, final)


def record_of(path: Path) -> FileRecord:
    """Return what a file that is written already is."""
    with path.open("rb") as file:
        return FileRecord(bytes=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def _write(path: Path, data: bytes) -> FileRecord:
    write_new_file(path, data)
    return FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _publish(temporary: Path, final: Path) -> None:
    """Give a finished checkpoint its name; one of the same step goes only once the new one has proved readable."""
    aside = final.with_name(f".old-{final.name}")
    replaces = os.path.lexists(final)
    if replaces:
        os.rename(final, aside)
    os.rename(temporary, final)
    flush_directory(final.parent)
    if replaces:
        verify_checkpoint(final)
        _delete(aside)


def _delete(path: Path) -> None:
    """Delete a checkpoint; what is left of it if we die on the way does not look like one."""
    doomed = temporary_sibling(path)
    os.rename(path, doomed)
    flush_directory(path.parent)
    remove(doomed)


def clean_temporaries(directory: Path) -> None:
    """Undo or finish what a killed writer left half done. Only for the process that holds the run's lock."""
    if not directory.is_dir():
        return
    remove_temporaries(directory)
    for _, current, aside in _candidates(directory):
        if current:
            continue
        final = aside.with_name(aside.name.removeprefix(".old-"))
        if _is_sound(final):
            _delete(aside)
            continue
        if os.path.lexists(final):
            _delete(final)
        os.rename(aside, final)
        flush_directory(directory)


def verify_checkpoint(path: Path) -> Manifest:
    """Check every file of a checkpoint against its manifest, parsing none of them but the manifest.

    Raises:
        ModelError: names the file that is missing or damaged.
    """
    manifest = _read_manifest(path)
    for name, record in manifest.files.items():
        verify_file(path / name, record.bytes, record.sha256)
    return manifest


def _read_manifest(path: Path) -> Manifest:
    file = path / MANIFEST
    value = read_json(file)
    if value.get("format") != 1:
        raise ModelError("an unknown format of checkpoint", file=file, expected=1, found=value.get("format"))
    value.pop("sha256", None)
    mistakes: list[Mistake] = []
    manifest: Manifest = convert(value, Manifest, "", mistakes)
    if mistakes:
        raise ModelError("not a manifest", file=file, found=mistakes[0])
    # There is one way to write it, byte for byte: so no bit of it can change unseen.
    encoded = manifest.encode()
    verify_file(file, len(encoded), hashlib.sha256(encoded).hexdigest())
    named = _DIRECTORY.fullmatch(path.name)
    if named and int(named[2]) != manifest.step:
        raise ModelError("the manifest of another step", file=file, expected=int(named[2]), found=manifest.step)
    if STATE not in manifest.files:
        raise ModelError(f"the manifest does not list {STATE}", file=file)
    return manifest


def load_checkpoint(path: Path, stems: Collection[str] | None = None) -> Checkpoint:
    """Verify a checkpoint, then read it.

    Args:
        path: its directory, under whatever name.
        stems: read the tensors of these files only (all are verified); every file if None.

    Raises:
        ModelError: it is no checkpoint, a file is missing or damaged (which one is said), or a stem is not there.
    """
    manifest = verify_checkpoint(path)
    if manifest.in_parts:
        return read_in_parts(path, manifest, stems)
    held = [name.removesuffix(_SUFFIX) for name in manifest.files if name != STATE]
    if missing := sorted(set(stems or ()) - set(held)):
        raise ModelError("the checkpoint lacks a file", file=path, expected=f"{missing[0]}{_SUFFIX}")
    tensors = {stem: read_tensors(path / f"{stem}{_SUFFIX}") for stem in held if stems is None or stem in stems}
    return Checkpoint(path, tensors, read_json(path / STATE), manifest)


def read_in_parts(
    path: Path,
    manifest: Manifest,
    stems: Collection[str] | None = None,
    place: Place | None = None,
    world: World | None = None,
) -> Checkpoint:
    """Read a verified checkpoint in parts; arguments as of `load_checkpoint` and `read_parts`.

    Raises:
        ModelError: it is none, or a stem is not there.
    """
    values = read_json(path / STATE)
    if more := sorted({one.name for one in path.glob(f"*{_SUFFIX}")} - set(manifest.files)):
        raise ModelError("the manifest does not list a file", file=path, found=more[0])
    found = read_parts(path, stems, place, world)
    aliases = values.pop(ALIASES, {})
    for alias, name in aliases.items():
        if name in found:
            found[alias] = found[name]
    tensors: dict[str, dict[str, Tensor]] = {}
    for named, tensor in found.items():
        stem, _, name = named.partition(".")
        tensors.setdefault(stem, {})[name] = tensor
    if missing := sorted(set(stems or ()) - set(tensors)):
        raise ModelError("the checkpoint lacks tensors", file=path, expected=missing[0])
    return Checkpoint(path, tensors, values, manifest)


def _is_sound(path: Path) -> bool:
    try:
        verify_checkpoint(path)
    except ModelError:
        return False
    return True


def _candidates(directory: Path) -> list[tuple[int, bool, Path]]:
    """(step, stands under its own name, path), oldest first; real directories only."""
    found = []
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            named = _DIRECTORY.fullmatch(entry.name)
            if named and entry.is_dir(follow_symlinks=False):
                found.append((int(named[2]), named[1] is None, directory / entry.name))
    return sorted(found)


def list_checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints in a directory by their names, oldest first, none of them verified."""
    return [path for _, current, path in _candidates(directory) if current]


def step_of(path: Path) -> int:
    """Return the step that a checkpoint is named after."""
    return int(path.name.rpartition("-")[2])


def newest_checkpoint(directory: Path, report: Report | None = None) -> Path | None:
    """Return the newest checkpoint that verifies; None if there is none at all. Changes nothing on the disk.

    Args:
        directory: the `checkpoints` directory of a run.
        report: is told of each newer one that is damaged.

    Raises:
        ModelError: there are checkpoints, and all are damaged.
    """
    damage = None
    for _, _, path in reversed(_candidates(directory)):
        try:
            verify_checkpoint(path)
        except ModelError as error:
            damage = damage or error
            if report:
                report(f"{path.name} is damaged, going back to an earlier checkpoint: {error}")
        else:
            return path
    if damage:
        raise ModelError("no checkpoint here can be read", file=directory, found=damage) from damage
    return None


def prune(directory: Path, keep: int, protect: Collection[int] = ()) -> list[Path]:
    """Delete old checkpoints, but none before a newer one has been verified just now.

    Args:
        directory: the `checkpoints` directory of a run.
        keep: how many stay, counted back from the newest one that verifies; damaged newer ones are left alone.
        protect: steps that stay in any case.

    Returns:
        What was deleted.

    Raises:
        SaveError: one could not be deleted.
    """
    checkpoints = list_checkpoints(directory)
    while checkpoints and not _is_sound(checkpoints[-1]):
        checkpoints.pop()
    stay = {f"step-{step:08d}" for step in protect}
    doomed = [path for path in checkpoints[: -max(1, keep)] if path.name not in stay]
    for path in doomed:
        try:
            _delete(path)
        except OSError as error:
            raise SaveError("cannot delete an old checkpoint", file=path, found=error.strerror) from error
    return doomed
