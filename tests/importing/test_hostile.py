"""Directories of strangers: whatever is in them, there is a run directory or an error of ours, and nothing else."""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.errors import ConfigError, DataError, DragomanError, ModelError
from dragoman.importing.pieces import ForeignPieces, read_pieces
from dragoman.importing.states import read_state
from dragoman.protobuf import field
from export_models import make_directory
from importing_directories import MAKERS
from oracle.marian_directory import sentencepiece_model

MUTATIONS = int(os.environ.get("DRAGOMAN_MUTATIONS", "300"))
VALUES = (None, True, -1, 0, 1.5, 2**63, 10**12, "", "x", [], [0], {}, {"a": []}, 1e308, "\ud800", [[[[]]]])


@pytest.fixture(scope="module", params=MAKERS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("hostile") / "theirs"
    return folder, MAKERS[request.param](folder)


def test_what_is_no_directory_of_another_system_is_told_at_once(made: tuple[Path, Any], tmp_path: Path) -> None:
    folder = made[0]
    ours, file = make_directory(tmp_path / "ours"), tmp_path / "file"
    file.write_text("x")
    for given, out, told in (
        (tmp_path / "none", "out", r"is a directory(.|\n)*found: +nothing"), (file, "out", r"found: +a file"),
        (ours, "out", "every verb takes it as it is"), (folder, file, "there already"),
        (folder, file / "out", "made in a file"), (folder, ours, "there already"),
    ):  # fmt: skip
        with pytest.raises((ModelError, ConfigError), match=told):
            dragoman.import_model(given, tmp_path / out)
    with pytest.raises(
        ModelError, match=f"dragoman import {folder}$" if (folder / "config.json").exists() else "no model"
    ):
        dragoman.Translator.from_pretrained(folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "ours"]


def spoiled(data: bytes, draw: random.Random) -> bytes:
    """Some bytes changed, left out, put in or cut off."""
    place = draw.randrange(len(data))
    kind = draw.randrange(5)
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]
    if kind == 2:
        return data[:place] + draw.randbytes(draw.randint(1, 8)) + data[place:]
    if kind == 3:
        return data[:place] + data[place + draw.randint(1, 16) :]
    other = draw.randrange(len(data))
    return data[:place] + data[other : other + 64] + data[place + 64 :]


def changed(tree: Any, draw: random.Random) -> Any:
    """A JSON object with a value of another kind, a key less, or one more."""
    tree = dict(tree)
    key = draw.choice(list(tree)) if tree else "a"
    if draw.random() < 0.2:
        tree.pop(key, None)
    elif draw.random() < 0.1:
        tree[f"{key}{draw.randrange(9)}"] = draw.choice(VALUES)
    elif isinstance(tree.get(key), dict) and draw.random() < 0.7:
        tree[key] = changed(tree[key], draw)
    else:
        tree[key] = draw.choice(VALUES)
    return tree


def mutate(path: Path, draw: random.Random) -> None:
    data = path.read_bytes()
    if path.suffix == ".json" and draw.random() < 0.7:
        with suppress(ValueError):  # of a file that is spoiled already
            path.write_text(json.dumps(changed(json.loads(data), draw)))
            return
    path.write_bytes(spoiled(data or b"{}", draw))


@pytest.fixture
def trusting(made: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """SentencePiece models that nobody has touched are looked at once, not in each of many imports."""
    known: dict[bytes, ForeignPieces] = {}

    def read(path: Path) -> ForeignPieces:
        data = path.read_bytes()
        if data not in known:
            known[data] = read_pieces(path)
        return known[data]

    for name in ("joeynmt", "many_languages", "marian", "pieces", "transformers"):
        monkeypatch.setattr(importlib.import_module(f"dragoman.importing.{name}"), "read_pieces", read)
    for name in ("flush_directory", "_flush"):
        monkeypatch.setattr(f"dragoman.files.{name}", lambda *_: None)


def attempt(folder: Path, out: Path, languages: dict[str, Any]) -> str | None:
    """The error of an import, if there is one; another one than ours is raised."""
    begun = time.monotonic()
    try:
        dragoman.import_model(folder, out, **languages)
    except DragomanError as error:
        told = str(error)
    else:
        told = None
        shutil.rmtree(out)
    assert not out.exists()
    assert time.monotonic() - begun < 20
    assert len(told or "") < 4000
    return told


@pytest.mark.usefixtures("trusting")
def test_mutated_files_give_a_model_or_an_error_of_ours(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, languages = made
    names = sorted(path.name for path in folder.iterdir() if not path.name.endswith((".spm", ".model")))
    failed = 0
    for number in range(MUTATIONS):
        draw = random.Random(number)
        copy = tmp_path / f"copy{number}"
        shutil.copytree(folder, copy)
        for _ in range(draw.choice((1, 1, 2))):
            mutate(copy / draw.choice(names), draw)
        failed += attempt(copy, tmp_path / "out", languages) is not None
        shutil.rmtree(copy)
    assert failed > MUTATIONS // 3
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_spoiled_sentencepiece_model_harms_nobody(tmp_path: Path) -> None:
    whole = sentencepiece_model(1)
    (tmp_path / "whole").write_bytes(whole)
    assert len(read_pieces(tmp_path / "whole").pieces) > 20
    for number in range(max(4, MUTATIONS // 10)):
        path = tmp_path / f"{number}"
        path.write_bytes(spoiled(spoiled(whole, random.Random(number)), random.Random(-number)))
        with suppress(DataError):
            read_pieces(path)
    # A piece so long that the library overflows its stack on it.
    piece = b"\xe2\x96\x81" + b"a" * 300_000
    (tmp_path / "long").write_bytes(whole + field(1, field(1, piece)))
    with suppress(DataError):
        read_pieces(tmp_path / "long")


def test_a_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A call of os.system("touch ran"), as a pickle has it.
    (tmp_path / "pytorch_model.bin").write_bytes(b"cposix\nsystem\n(S'touch ran'\ntR.")
    with pytest.raises(ModelError, match="a pickle may run code"):
        read_state(tmp_path)
    with pytest.raises(ModelError, match="holds more than tensors"):
        read_state(tmp_path, unpickle=True)
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_model.bin"]


def test_no_device_or_pipe_is_waited_for(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, languages = made
    for path in sorted(folder.iterdir()):
        copy = tmp_path / path.name
        shutil.copytree(folder, copy)
        (copy / path.name).unlink()
        os.mkfifo(copy / path.name)
        told = attempt(copy, tmp_path / "out", languages)
        assert told is not None
        assert path.name in told
        shutil.rmtree(copy)
