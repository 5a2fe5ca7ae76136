"""The same weights under Marian's names."""

from __future__ import annotations

from pathlib import Path

import torch
from as_marian import write_archive

import dragoman
from dragoman.models import load_pretrained
from oracle.marian_directory import make_marian


def test_an_archive_has_the_weights_of_the_directory(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs", seed=3)
    write_archive(tmp_path / "theirs", tmp_path / "archive")
    for side in ("source", "target"):
        (tmp_path / "archive" / f"{side}.spm").write_bytes((tmp_path / "theirs" / f"{side}.spm").read_bytes())
    states = []
    for name in ("theirs", "archive"):
        dragoman.import_model(tmp_path / name, tmp_path / f"{name}-run")
        states.append(load_pretrained(tmp_path / f"{name}-run").model.state_dict())
    assert states[0].keys() == states[1].keys()
    assert {name for name, tensor in states[0].items() if not torch.equal(tensor, states[1][name])} == set()
