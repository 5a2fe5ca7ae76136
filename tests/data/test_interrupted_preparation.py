"""What an earlier process left when it was killed, and inputs that have no end."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from dragoman.data import prepare
from dragoman.errors import ConfigError, DataError
from dragoman.files import write_bytes, written_as
from dragoman.text.lines import file_hash
from small_runs import small_config


def test_what_was_taken_away_and_not_replaced_comes_back(tmp_path: Path) -> None:
    config, told = small_config(tmp_path), list[str]()
    prepare(config, tmp_path / "data")
    os.rename(tmp_path / "data", tmp_path / ".old-data")  # as if it had died between two renames
    prepare(config, tmp_path / "data", report=told.append)
    assert any("is up to date" in line for line in told)
    assert not (tmp_path / ".old-data").exists()


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_without_an_end_is_not_read(device: str) -> None:
    with pytest.raises(DataError, match="not a file of text"):
        file_hash(device)


def test_the_empty_device_is_an_empty_file() -> None:
    assert file_hash(os.devnull) == hashlib.sha256(b"").hexdigest()


def test_a_temporary_of_a_process_with_our_number_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / f".tmp-model-{os.getpid()}").write_text("half")
    write_bytes(tmp_path / "model", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == b"whole"


def test_a_name_that_is_no_text_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a path"):
        small_config(tmp_path, "run\udcff")
    assert not list(tmp_path.glob("run*"))


@pytest.mark.parametrize("name", [None, "", "/train/source.tokens"])
def test_what_cannot_be_written_is_told_by_the_name_that_was_given(name: str | None, tmp_path: Path) -> None:
    temporary = tmp_path / ".tmp-data-7"
    with pytest.raises(OSError, match="No space") as caught, written_as(temporary, tmp_path / "data"):
        raise OSError(errno.ENOSPC, "No space left on device", None if name is None else f"{temporary}{name}")
    assert caught.value.filename == f"{tmp_path / 'data'}{name or ''}"


def test_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone") as caught, written_as(tmp_path / ".tmp-data-7", tmp_path / "data"):
        raise OSError(errno.ENOENT, "gone", "elsewhere")
    assert caught.value.filename == "elsewhere"


def test_a_directory_that_cannot_be_made_is_told_without_a_temporary(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="Not a directory") as caught:
        prepare(small_config(tmp_path, "run"), tmp_path / "file" / "data")
    assert caught.value.filename == str(tmp_path / "file" / "data")
