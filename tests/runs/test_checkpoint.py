"""Checkpoints: exact round trips, damage refused by name, what is kept and what goes."""

from __future__ import annotations

import json
import math
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.runs.checkpoint import (
    Manifest,
    clean_temporaries,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    prune,
    save_checkpoint,
    verify_checkpoint,
)

FILES = ["MANIFEST.json", "model.safetensors", "optimizer.safetensors", "state.json"]


def tensors(content: int = 1) -> dict[str, dict[str, Tensor]]:
    drawn = torch.Generator().manual_seed(content)
    weight = torch.randn(60, 70, generator=drawn)
    moments = torch.randn(60, 70, generator=drawn)
    return {"model": {"embedding": weight, "generator": weight}, "optimizer": {"m": moments}}


def save(directory: Path, step: int, content: int = 1) -> Path:
    return save_checkpoint(directory, step, tensors(content), {"epoch": content, "best": [0.1, None]}, "settings")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


# Round trips


def test_everything_comes_back(tmp_path: Path) -> None:
    values = {"epoch": 3, "loss": 0.1 + 0.2, "best": math.inf, "names": ["猫", "\udc80"], "inner": {"none": None}}
    path = save_checkpoint(tmp_path / "run" / "checkpoints", 1000, tensors(), values, "abc")
    assert path == tmp_path / "run" / "checkpoints" / "step-00001000"
    assert sorted(contents(path)) == FILES
    checkpoint = load_checkpoint(path)
    assert (checkpoint.path, checkpoint.step, checkpoint.manifest.config_hash) == (path, 1000, "abc")
    assert checkpoint.values == values
    for stem, group in tensors().items():
        assert checkpoint.tensors[stem].keys() == group.keys()
        assert all(torch.equal(checkpoint.tensors[stem][name], tensor) for name, tensor in group.items())
    assert checkpoint.tensors["model"]["embedding"] is checkpoint.tensors["model"]["generator"]


def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path: Path) -> None:
    first = save(tmp_path / "a", 7)
    loaded = load_checkpoint(first)
    reversed_order = {stem: dict(reversed(group.items())) for stem, group in reversed(loaded.tensors.items())}
    second = save_checkpoint(tmp_path / "b", 7, reversed_order, loaded.values, loaded.manifest.config_hash)
    assert contents(first) == contents(second)


def test_the_manifest_is_what_the_design_says(tmp_path: Path) -> None:
    path = save(tmp_path, 5)
    manifest = json.loads((path / "MANIFEST.json").read_text())
    assert (manifest["format"], manifest["step"], manifest["config_hash"]) == (1, 5, "settings")
    assert sorted(manifest["files"]) == FILES[1:]
    assert all(record["bytes"] == (path / name).stat().st_size for name, record in manifest["files"].items())


def test_only_the_asked_for_tensors_are_read(tmp_path: Path) -> None:
    path = save(tmp_path, 5)
    assert load_checkpoint(path, ["model"]).tensors.keys() == {"model"}
    with pytest.raises(ModelError, match=r"ema\.safetensors"):
        load_checkpoint(path, ["ema"])


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    former = os.umask(0o027)
    try:
        path = save(tmp_path / "new", 1)
    finally:
        os.umask(former)
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o640}


def test_a_save_over_the_same_step_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, 3, content=1)
    path = save(tmp_path, 3, content=2)
    assert load_checkpoint(path).values["epoch"] == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000003"]


# Damage


def refused(path: Path, name: str) -> bool:
    """Whether loading is refused with an error that names the file."""
    try:
        load_checkpoint(path)
    except ModelError as error:
        return error.file == str(path / name)
    return False


@pytest.mark.parametrize("name", FILES)
def test_any_flipped_bit_is_refused(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, 9)
    good = (path / name).read_bytes()
    draw = random.Random(name)
    places = range(8 * len(good)) if len(good) < 60 else (draw.randrange(8 * len(good)) for _ in range(250))
    for place in places:
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        (path / name).write_bytes(bad)
        assert refused(path, name), f"bit {place}"
    (path / name).write_bytes(good)
    assert not refused(path, name)


@pytest.mark.parametrize("name", FILES)
def test_truncated_extended_zeroed_and_missing_files_are_refused(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, 9)
    good = (path / name).read_bytes()
    draw = random.Random(name)
    bad = [good[: draw.randrange(len(good))] for _ in range(50)]
    bad += [good + b"\0", good + good, b"\0" * len(good), good[:-1] + b"\0"]
    for start in range(0, len(good), 4096):
        page = good[start : start + 4096]
        bad.append(good[:start] + bytes(len(page)) + good[start + 4096 :])
    for data in bad:
        (path / name).write_bytes(data)
        assert refused(path, name)
    (path / name).unlink()
    assert refused(path, name)


def test_swapped_files_are_refused(tmp_path: Path) -> None:
    one, two = save(tmp_path, 1, content=1), save(tmp_path, 2, content=2)
    for name in FILES:
        mine, other = (one / name).read_bytes(), (two / name).read_bytes()
        (one / name).write_bytes(other)
        assert refused(one, name)
        (one / name).write_bytes(mine)
    model, optimizer = one / "model.safetensors", one / "optimizer.safetensors"
    good = model.read_bytes(), optimizer.read_bytes()
    model.write_bytes(good[1])
    assert refused(one, model.name)
    model.write_bytes(good[0])
    optimizer.write_bytes(good[0])
    assert refused(one, optimizer.name)


def test_a_whole_checkpoint_under_another_step_is_refused_but_not_under_a_free_name(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    renamed = path.rename(tmp_path / "step-00000002")
    assert refused(renamed, "MANIFEST.json")
    assert load_checkpoint(renamed.rename(tmp_path / "best")).step == 1


def replace_by_link(file: Path) -> None:
    outside = file.parent.parent / "outside"
    outside.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(outside)


def replace_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def replace_by_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("replace", [replace_by_pipe, replace_by_directory])
def test_only_regular_files_are_opened(name: str, replace: Callable[[Path], None], tmp_path: Path) -> None:
    path = save(tmp_path, 4)
    replace(path / name)
    assert refused(path, name)


@pytest.mark.parametrize("name", FILES)
def test_what_a_link_reaches_is_checked_like_any_other_file(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, 4)
    replace_by_link(path / name)
    load_checkpoint(path)
    outside = tmp_path / "outside"
    outside.write_bytes(outside.read_bytes()[:-1])
    assert refused(path, name)


@pytest.mark.parametrize(
    "name", ["../state.json", "/etc/passwd", "a/b.safetensors", "..", "state.json\n", "model.pt", ".safetensors"]
)
def test_a_manifest_cannot_name_files_elsewhere(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, 4)
    record = {"bytes": 0, "sha256": "0" * 64}
    body = json.loads((path / "MANIFEST.json").read_text()) | {"files": {name: record}}
    (path / "MANIFEST.json").write_text(json.dumps(body))
    assert refused(path, "MANIFEST.json")


def test_other_formats_and_incomplete_manifests_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 4)
    (path / "MANIFEST.json").write_bytes(Manifest(step=4, config_hash="", files={}).encode())
    assert refused(path, "MANIFEST.json")
    (path / "MANIFEST.json").write_text('{"format": 2}')
    with pytest.raises(ModelError, match=r"format.*\n.*expected: 1\n.*found: +2"):
        verify_checkpoint(path)


# Which one


def test_there_may_be_none(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / "missing") is None
    assert list_checkpoints(tmp_path / "missing") == []
    clean_temporaries(tmp_path / "missing")


def test_the_newest_goes_back_past_damaged_ones_and_says_so(tmp_path: Path) -> None:
    paths = [save(tmp_path, step, step) for step in (900, 1000, 100_000_000)]
    assert list_checkpoints(tmp_path) == paths
    assert newest_checkpoint(tmp_path) == paths[2]
    (paths[2] / "model.safetensors").write_bytes(b"")
    (paths[1] / "MANIFEST.json").unlink()
    said: list[str] = []
    assert newest_checkpoint(tmp_path, said.append) == paths[0]
    assert len(said) == 2
    assert "step-100000000" in said[0]
    assert "model.safetensors" in said[0]
    assert "step-00001000" in said[1]
    (paths[0] / "state.json").unlink()
    with pytest.raises(ModelError, match="no checkpoint here can be read"):
        newest_checkpoint(tmp_path)


def test_only_real_directories_count(tmp_path: Path) -> None:
    path = save(tmp_path / "elsewhere", 5)
    there = tmp_path / "checkpoints"
    (there / "step-1").mkdir(parents=True)
    (there / "step-00000005").symlink_to(path)
    (there / "step-00000006").write_text("")
    assert list_checkpoints(there) == []
    assert newest_checkpoint(there) is None


def test_pruning_keeps_the_newest_and_the_protected(tmp_path: Path) -> None:
    paths = [save(tmp_path, step) for step in (1, 2, 3, 4, 5)]
    assert prune(tmp_path, keep=2, protect=[2, 77]) == [paths[0], paths[2]]
    assert list_checkpoints(tmp_path) == [paths[1], paths[3], paths[4]]
    assert prune(tmp_path, keep=9) == []
    assert prune(tmp_path, keep=0) == [paths[1], paths[3]]


def test_pruning_counts_from_the_newest_sound_one(tmp_path: Path) -> None:
    paths = [save(tmp_path, step) for step in (1, 2, 3, 4)]
    (paths[3] / "state.json").write_text("{}")
    assert prune(tmp_path, keep=2) == [paths[0]]
    assert newest_checkpoint(tmp_path) == paths[2]
    for path in paths[1:3]:
        (path / "state.json").write_text("{}")
    assert prune(tmp_path, keep=1) == []


def test_cleaning_puts_back_what_was_set_aside_or_drops_it(tmp_path: Path) -> None:
    path = save(tmp_path, 6)
    (tmp_path / ".tmp-step-00000007-123").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    path.rename(tmp_path / ".old-step-00000006")
    assert newest_checkpoint(tmp_path) == tmp_path / ".old-step-00000006"
    clean_temporaries(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["notes.txt", "step-00000006"]
    path.rename(tmp_path / ".old-step-00000006")
    path.mkdir()
    clean_temporaries(tmp_path)
    assert load_checkpoint(path).step == 6
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["notes.txt", "step-00000006"]
