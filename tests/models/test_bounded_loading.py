"""Directories that are made to cost time and memory are refused before they do."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.files import sealed
from dragoman.training import train
from small_runs import small_config

# What is promised is 2 s and 300 MB; measuring has some room.
SECONDS, MEGABYTES = 4.0, 400
LOAD = r"""
import re, sys, time
from dragoman import DragomanError, Translator
start = time.process_time()
try:
    Translator.from_pretrained(sys.argv[1])
    said = ""
except DragomanError as error:
    said = str(error)
spent = time.process_time() - start
most = re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())  # since this program began, unlike ru_maxrss
print(spent, int(most[1]) / 1024, said)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound model."""
    folder = tmp_path_factory.mktemp("bounded")
    return train(small_config(folder, "run", "max_steps=2", "length_penalties=[]"), quiet=True).directory


def _weights(folder: Path, header: bytes, length: int | None = None) -> None:
    head = struct.pack("<Q", len(header) if length is None else length)
    (folder / "model.safetensors").write_bytes(head + header)


def long_header(folder: Path) -> None:
    """A header of 100 MB."""
    _weights(folder, b"{" + b" " * 100_000_000 + b"}")


def claimed_header(folder: Path) -> None:
    """A header that claims to have 2 ** 62 bytes."""
    _weights(folder, b"{}", 1 << 62)


def many_tensors(folder: Path) -> None:
    """A million empty tensors."""
    one = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    _weights(folder, json.dumps({f"t{number}": one for number in range(1_000_000)}).encode())


def sparse_weights(folder: Path) -> None:
    """Some kB on the disk that read as 9 GB of zeros."""
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(9 << 30)


def deep_settings(folder: Path) -> None:
    """Lists in lists in lists."""
    (folder / "config.json").write_text("[" * 1_000_000 + "]" * 1_000_000)


def huge_shape(folder: Path) -> None:
    """Settings that ask for more weights than there are atoms."""
    tree = json.loads((folder / "config.json").read_text())
    tree["model"] |= {"d_model": 1 << 62, "d_ff": 1 << 62}
    tree.pop("sha256", None)
    (folder / "config.json").write_text(json.dumps(sealed(tree)))


def many_words(folder: Path) -> None:
    """A vocabulary of a million words for a model of some."""
    words = json.dumps({f"w{number}": number for number in range(1_000_000)})
    (folder / "vocabulary.source.json").write_text(words)


def long_settings(folder: Path) -> None:
    """Settings of 100 MB."""
    (folder / "config.json").write_bytes(b'{"format": 1, "x": "' + b"a" * 100_000_000 + b'"}')


HOSTILE = (
    long_header, claimed_header, many_tensors, sparse_weights, deep_settings, huge_shape, many_words, long_settings,
)  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the most memory that was used")
@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_what_would_cost_much_is_refused_soon(spoil: Callable[[Path], None], model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("data", "checkpoints"))
    spoil(folder)
    found = subprocess.run([sys.executable, "-c", LOAD, str(folder)], capture_output=True, text=True, check=True)
    seconds, megabytes, said = found.stdout.split(" ", 2)
    assert said.strip(), "it was loaded"
    assert str(folder) in said
    assert float(seconds) < SECONDS
    assert float(megabytes) < MEGABYTES
