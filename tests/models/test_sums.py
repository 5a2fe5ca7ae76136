"""A file of tensors says what it must be: damage is noticed when it is opened."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from dragoman.errors import ModelError
from dragoman.models.sums import aside, check_pieces, with_sum
from dragoman.models.tensors import encode_tensors, read_tensors

TIED = torch.arange(6.0).view(2, 3)
FILES = {
    "nothing": {},
    "one": {"a": torch.ones(3)},
    "tied": {"a": TIED, "b": TIED, "c": torch.zeros(1, dtype=torch.float64)},
}


@pytest.mark.parametrize("name", FILES)
def test_no_byte_of_a_tensor_changes_unseen(name: str, tmp_path: Path) -> None:
    path, good = tmp_path / "model.safetensors", encode_tensors(FILES[name])
    for place in range(len(good)):
        for change in (1, 0x80, 0xFF):
            path.write_bytes(good[:place] + bytes([good[place] ^ change]) + good[place + 1 :])
            with pytest.raises(ModelError):
                read_tensors(path)


def test_the_message_tells_file_and_sums(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    good = encode_tensors(FILES["one"])
    path.write_bytes(good[:-1] + b"\x00")
    with pytest.raises(ModelError, match="damaged: wrong content") as caught:
        read_tensors(path)
    assert caught.value.file == str(path)
    assert re.fullmatch("CRC-32 [0-9a-f]{8}", caught.value.expected or "")
    assert caught.value.expected != caught.value.found


def test_files_without_a_sum_are_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for metadata in (None, {"format": "pt"}, {"aliases": "{}"}):
        plain = save(FILES["one"], metadata)
        path.write_bytes(plain[:-1] + b"\x00")
        assert read_tensors(path)["a"].tolist() != [1, 1, 1]
        path.write_bytes(with_sum(plain))
        assert read_tensors(path)["a"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", FILES)
def test_other_programs_read_files_with_a_sum(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(encode_tensors(FILES[name]))
    with safe_open(path, framework="pt") as file:
        assert set(file.keys()) == FILES[name].keys() - {"b"}
        assert set(file.metadata()) == {"crc32", *(["aliases"] if name == "tied" else [])}
    assert int.from_bytes(path.read_bytes()[:8], "little") % 8 == 0


def test_a_check_aside_tells_when_it_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    good = encode_tensors(FILES["one"])
    aside(partial(check_pieces, path, [good[:200], good[200:]]))()
    wait = aside(partial(check_pieces, path, [good, b"\x00"]))
    with pytest.raises(ModelError, match="damaged: wrong content"):
        wait()
