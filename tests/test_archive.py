"""A model as one file: read as its directory is, and refused where a stranger made it otherwise."""

from __future__ import annotations

import random
import struct
import zipfile
from pathlib import Path

import pytest

import dragoman
from dragoman.archive import PAGE, as_directory, read_members, unpacked, write_archive
from dragoman.errors import ConfigError, DragomanError, ModelError
from dragoman.files import opened, size_of, sum_of
from dragoman.inspection import read_model_config
from dragoman.models import load_pretrained
from dragoman.runs import bundle, pack
from dragoman.training import train
from dragoman.translation import Translator
from export_models import TEXTS, make_directory
from small_runs import small_config


def test_a_packed_model_translates_as_its_directory(tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", positions="rotary", norm="pre")
    made = pack(model, tmp_path / "one.dragoman")
    with zipfile.ZipFile(made.directory) as archive:
        assert archive.testzip() is None
        assert set(archive.namelist()) == set(made.files)
    with made.directory.open("rb") as file:
        assert all(member.start % PAGE == 0 for member in read_members(file.fileno(), made.directory).values())
    outputs = [
        [one.text for one in Translator.from_pretrained(path).translate(TEXTS)] for path in (model, made.directory)
    ]
    assert outputs[0] == outputs[1]
    weights = [load_pretrained(path).model.state_dict() for path in (model, made.directory)]
    assert all(one.equal(weights[1][name]) for name, one in weights[0].items())
    folder = unpacked(made.directory)
    with opened(folder / "model.safetensors") as file:
        assert size_of(file) == (model / "model.safetensors").stat().st_size
    assert sum_of(folder / "model.safetensors") == sum_of(model / "model.safetensors")
    assert as_directory(model) == model
    with pytest.raises(ConfigError, match="cannot be packed there"):
        pack(model, made.directory)


def test_whatever_takes_a_model_takes_a_packed_one_and_names_it(tmp_path: Path) -> None:
    directory, packed = make_directory(tmp_path / "model"), tmp_path / "one.dragoman"
    pack(directory, packed)
    for call in (
        dragoman.info, lambda model: dragoman.explain(model, TEXTS[0]), lambda model: dragoman.inspect(model, TEXTS[0]),
        lambda model: bundle(model, tmp_path / f"{Path(model).name} bundled"), lambda model: read_model_config([model]),
    ):  # fmt: skip
        call(str(packed))
    for call in (lambda model: dragoman.complete(model, TEXTS), lambda model: dragoman.fill(model, TEXTS)):
        with pytest.raises(ModelError, match=r"one\.dragoman: only a"):
            call(str(packed))
    with pytest.raises(ConfigError, match=r"one\.dragoman: the model is packed already"):
        pack(packed, tmp_path / "two.dragoman")
    with pytest.raises(ModelError, match="not a packed model"):
        pack(Path(__file__), tmp_path / "two.dragoman")
    with pytest.raises(ModelError, match=r"no model to start from(.|\n)*dragoman bundle .*one.dragoman --out DIR"):
        train(small_config(tmp_path, "run", "max_steps=1", f"init_from={packed}"), quiet=True)


def hostile(path: Path, kind: str) -> None:
    """A zip of two files with something wrong."""
    method = zipfile.ZIP_DEFLATED if kind == "bomb" else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        names = {"traversal": "../../config.json", "absolute": "/etc/config.json", "folder": "a/config.json"}
        archive.writestr(names.get(kind, "config.json"), "0" * (10_000_000 if kind == "bomb" else 10))
        if kind == "twice":
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr("config.json", "other")
        if kind == "many":
            for number in range(2000):
                archive.writestr(f"f{number}.json", "")
        if kind == "link":
            link = zipfile.ZipInfo("model.safetensors")
            link.external_attr = 0o120777 << 16
            archive.writestr(link, "/etc/passwd")
        if kind == "comment":
            archive.comment = b"x"
    if kind == "count":
        data = bytearray(path.read_bytes())
        struct.pack_into("<2H", data, len(data) - 14, 65535, 65535)
        path.write_bytes(data)


@pytest.mark.parametrize(
    "kind", ["bomb", "traversal", "absolute", "folder", "twice", "many", "link", "comment", "count"]
)
def test_hostile_archives_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.dragoman"
    hostile(path, kind)
    with pytest.raises(ModelError, match="not a packed model"):
        unpacked(path)


def test_overlapping_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"{}" * 100)
    write_archive(tmp_path / "x.dragoman", {"a.json": tmp_path / "a.json", "b.json": tmp_path / "a.json"})
    data = bytearray((tmp_path / "x.dragoman").read_bytes())
    second = data.rindex(b"PK\1\2")
    struct.pack_into("<L", data, second + 42, 0)
    data[second + 46 : second + 52] = b"a.json"
    (tmp_path / "x.dragoman").write_bytes(data)
    with pytest.raises(ModelError, match="twice, or over"):
        unpacked(tmp_path / "x.dragoman")


def test_damaged_archives_are_told_in_one_line(tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", positions="rotary", norm="pre", num_encoder_layers=1)
    whole = pack(model, tmp_path / "one.dragoman").directory.read_bytes()
    draw, refused = random.Random(1), 0
    for number in range(60):
        data = bytearray(whole)
        if number % 3 == 0:
            data = data[: draw.randrange(len(data))]
        else:
            place = draw.randrange(len(data) - 400, len(data)) if number % 3 == 1 else draw.randrange(len(data))
            data[place] ^= 1 << draw.randrange(8)
        path = tmp_path / f"{number}.dragoman"
        path.write_bytes(data)
        try:
            load_pretrained(path)
        except DragomanError:
            refused += 1
    assert refused >= 30
