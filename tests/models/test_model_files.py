"""Files: whole or absent when written, checked before they are parsed when read."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman import files
from dragoman.errors import ModelError
from dragoman.files import (
    encode_json,
    make_directory,
    read_json,
    remove,
    remove_orphans,
    remove_temporaries,
    temporary_sibling,
    verify_file,
    write_bytes,
    write_json,
)
from dragoman.models import tensors as tensor_files
from dragoman.models.tensors import encode_tensors, read_tensors, write_tensors

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

# Writing


def test_a_written_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for data in (b"old", b"new" * 1000, b""):
        write_bytes(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_long_data_is_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_WRITE_BYTES", 7)
    write_bytes(tmp_path / "data", bytes(range(100)))
    assert (tmp_path / "data").read_bytes() == bytes(range(100))


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("untouched")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "other").read_text() == "untouched"
    assert not (tmp_path / "link").is_symlink()


def test_permissions_of_a_file_follow_the_umask(tmp_path: Path) -> None:
    former = os.umask(0o007)
    try:
        write_bytes(tmp_path / "file", b"")
    finally:
        os.umask(former)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o660


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.json"
    path.write_text("old")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        write_bytes(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_macos_flushes_the_cache_of_the_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[int] = []
    answer: list[OSError] = []

    def control(descriptor: int, command: int) -> int:
        commands.append(command)
        if answer:
            raise answer[0]
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    write_bytes(tmp_path / "a", b"1")
    assert commands == [51, 51]
    answer.append(OSError(errno.ENOTSUP, "not on this file system"))
    write_bytes(tmp_path / "a", b"2")
    answer[0] = OSError(errno.EIO, "broken")
    with pytest.raises(OSError, match="broken"):
        write_bytes(tmp_path / "a", b"3")
    assert (tmp_path / "a").read_bytes() == b"2"


@pytest.mark.parametrize(("code", "passes"), [(errno.EINVAL, True), (errno.EIO, False)])
def test_directories_that_cannot_be_flushed(
    code: int, passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(code, "refused")

    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    monkeypatch.setattr(os, "fsync", refuse)
    if passes:
        files.flush_directory(tmp_path)
    else:
        with pytest.raises(OSError, match="refused"):
            files.flush_directory(tmp_path)


def test_directories_and_temporaries(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    make_directory(deep)
    make_directory(deep)
    inside = temporary_sibling(deep / "model")
    assert inside.name == f".tmp-model-{os.getpid()}"
    (inside / "x").mkdir(parents=True)
    temporary_sibling(deep / "config.json").write_text("half")
    (deep / ".tmp-link-1").symlink_to(tmp_path / "a")
    (deep / ".tmp-notes").write_text("not ours")
    (deep / "config.json").write_text("whole")
    remove_temporaries(deep)
    assert sorted(path.name for path in deep.iterdir()) == [".tmp-notes", "config.json"]
    remove(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


# JSON


def test_json_comes_back_and_gives_the_same_bytes_again(tmp_path: Path) -> None:
    value = {"b": [1, 2.5, None, True], "a": {"猫": "\ud800", "inf": float("inf")}}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    assert encode_json(read_json(tmp_path / "a.json")) == (tmp_path / "a.json").read_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1]", "not a JSON object"),
        (b'"x"', "not a JSON object"),
        (b'{"a": 1, "a": 2}', "a key is there twice"),
        (b'{"a": "\xff"}', "not valid JSON"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not valid JSON"),
        (b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}", "nested too deeply"),
        (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "too much for JSON"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "nested too deeply"),
        (b"{}" + b" " * files.MAX_JSON_BYTES, "too large"),
        (b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94.", "not valid JSON"),
    ],
)
def test_bad_json_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=message) as caught:
        read_json(path)
    assert caught.value.file == str(path)


def test_json_as_deep_as_allowed_is_read(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_bytes(b'{"a": ' + b"[" * 63 + b"]" * 63 + b"}")
    assert "a" in read_json(tmp_path / "deep.json")


# Tensors

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]


@given(
    st.dictionaries(
        st.text(max_size=8).filter(
            lambda name: name != "__metadata__" and not any("\ud800" <= c < "\ue000" for c in name)
        ),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3)),
        max_size=6,
    )
)
def test_any_tensors_come_back_exactly(tmp_path_factory: pytest.TempPathFactory, kinds: dict[str, tuple]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    tensors = {name: torch.randn(shape).mul(100).to(dtype) for name, (dtype, shape) in kinds.items()}
    path.write_bytes(encode_tensors(tensors))
    loaded = read_tensors(path)
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)
    assert encode_tensors(loaded) == path.read_bytes()


def test_tied_tensors_are_written_once_and_tied_again(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    weight = torch.nn.Parameter(torch.randn(100, 10))
    write_tensors(path, {"z": weight, "b": weight.detach(), "a": weight.data, "other": torch.ones(1)})
    assert path.stat().st_size < 1.5 * weight.nbytes
    loaded = read_tensors(path)
    assert loaded["z"] is loaded["a"] is loaded["b"]
    assert torch.equal(loaded["z"], weight)
    assert not loaded["z"].requires_grad
    assert encode_tensors(loaded) == path.read_bytes()


def test_views_of_one_memory_are_written_in_full(tmp_path: Path) -> None:
    path = tmp_path / "views.safetensors"
    packed = torch.arange(24.0).view(4, 6)
    views: dict[str, Tensor] = {"packed": packed, "turned": packed.t(), "flat": packed.view(-1), "row": packed[1]}
    views |= {"column": packed[:, 2], "bits": packed.view(torch.int32), "spread": torch.ones(1).expand(3)}
    write_tensors(path, views)
    loaded = read_tensors(path)
    assert all(torch.equal(loaded[name], view) for name, view in views.items())


def test_what_was_read_outlives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"weight": torch.ones(5000)})
    loaded = read_tensors(path)
    os.truncate(path, 0)
    assert loaded["weight"].sum() == 5000


def safetensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(encoded) if length is None else length).to_bytes(8, "little") + encoded + data


def tensor(dtype: object = "F32", shape: object = (1,), offsets: object = (0, 4)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HOSTILE = {
    "empty": b"",
    "pickle": b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94.",
    "zip": b"PK\x03\x04" + b"\0" * 100,
    "only a length": b"\x02\0\0\0\0\0\0\0",
    "longer than the file": safetensors(b"{}", length=100),
    "100 MB header": safetensors(b"{}", length=100_000_000),
    "largest header": safetensors(b"{}", length=2**64 - 1),
    "over our header limit": safetensors(b"{" + b" " * tensor_files.MAX_HEADER_BYTES + b"}"),
    "too many tensors": safetensors(
        {str(i): tensor(shape=[0], offsets=[0, 0]) for i in range(tensor_files.MAX_TENSORS + 2)}
    ),
    "deep header": safetensors(b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "a list": safetensors(b"[]"),
    "key twice": safetensors(b'{"a":%b,"a":%b}' % ((json.dumps(tensor()).encode(),) * 2), b"\0" * 4),
    "overlap": safetensors({"a": tensor(), "b": tensor()}, b"\0" * 4),
    "hole": safetensors({"a": tensor(offsets=[4, 8])}, b"\0" * 8),
    "left over": safetensors({"a": tensor()}, b"\0" * 8),
    "too short": safetensors({"a": tensor()}, b"\0" * 3),
    "shape overflow": safetensors({"a": tensor(shape=[2**32, 2**32])}, b"\0" * 4),
    "huge dimension": safetensors({"a": tensor(shape=[2**63], offsets=[0, 4])}, b"\0" * 4),
    "huge empty": safetensors({"a": tensor(shape=[0, 2**63], offsets=[0, 0])}),
    "beyond 64 bits": safetensors({"a": tensor(shape=[2**70])}, b"\0" * 4),
    "negative": safetensors({"a": tensor(shape=[-1])}, b"\0" * 4),
    "wrong type": safetensors({"a": tensor(dtype="F128")}, b"\0" * 4),
    "no object": safetensors({"a": 3}),
    "metadata no strings": safetensors({"__metadata__": {"aliases": {}}}),
    "alias of nothing": safetensors({"__metadata__": {"aliases": '{"b": "a"}'}}),
    "alias of itself": safetensors({"__metadata__": {"aliases": '{"a": "a"}'}, "a": tensor()}, b"\0" * 4),
    "alias no name": safetensors({"__metadata__": {"aliases": '{"b": ["a"]}'}, "a": tensor()}, b"\0" * 4),
    "aliases no JSON": safetensors({"__metadata__": {"aliases": "{"}}),
    "aliases too deep": safetensors({"__metadata__": {"aliases": '{"a":' * 99 + "1" + "}" * 99}}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_tensor_files_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(HOSTILE[kind])
    with pytest.raises(ModelError) as caught:
        read_tensors(path)
    assert caught.value.file == str(path)
    assert list(tmp_path.iterdir()) == [path]


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    good = encode_tensors({"a": torch.ones(3), "b": torch.zeros(2, 2)})
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(ModelError):
            read_tensors(path)


# Kinds of files


def test_missing_and_irregular_files_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    expected = {
        "missing": "No such file",
        "directory": "regular file",
        "pipe": "regular file",
        "device": "regular file",
    }
    for name, message in expected.items():
        path = tmp_path / name
        for read in (read_json, read_tensors, lambda path: verify_file(path, 0, EMPTY_SHA256)):
            with pytest.raises(ModelError, match=message) as caught:
                read(path)
            assert caught.value.file == str(path)


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(encode_tensors({"a": torch.ones(2)}))
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert read_tensors(tmp_path / "link")["a"].tolist() == [1, 1]


def test_reading_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    write_json(tmp_path / "a.json", {})
    before = os.dup(0)
    os.close(before)
    read_json(tmp_path / "a.json")
    verify_file(tmp_path / "a.json", 3, "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356")
    with pytest.raises(ModelError):
        read_json(tmp_path / "directory")
    after = os.dup(0)
    os.close(after)
    assert after == before


def test_size_and_hash_are_checked(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    verify_file(tmp_path / "empty", 0, EMPTY_SHA256)
    with pytest.raises(ModelError, match="size"):
        verify_file(tmp_path / "empty", 1, EMPTY_SHA256)
    with pytest.raises(ModelError, match="content"):
        verify_file(tmp_path / "empty", 0, EMPTY_SHA256[::-1])


def test_what_a_dead_process_left_is_deleted_and_what_a_living_one_prepares_is_not(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    kept = [".tmp-data-1", ".tmp-data-old", f".tmp-other-{ended.pid}"]
    for name in (*kept, f".tmp-data-{ended.pid}", f".tmp-data-{os.getpid()}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    remove_orphans(tmp_path / "data")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
