"""Models to and from the hub, whose interface is replaced: what is asked for, and no network otherwise."""

from __future__ import annotations

import sys
import types

import pytest

from dragoman.errors import DragomanError, ModelError
from dragoman.models.hub import is_hub_name, on_disk
from dragoman.runs.pushing import push


def test_only_what_can_be_no_directory_is_a_name_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert is_hub_name("org/name")
    assert not any(map(is_hub_name, ("runs/typo", "name", "/a/b", "./a/b", "a/b/c", tmp_path / "org/name", "../a")))
    assert on_disk("runs/typo").as_posix() == "runs/typo"


def test_a_name_is_fetched_or_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = {}

    def fetch(name, allow_patterns):
        asked[name] = allow_patterns
        return str(tmp_path)

    fake = types.ModuleType("huggingface_hub")
    fake.snapshot_download = fetch
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    assert on_disk("org/name") == tmp_path
    assert "*.safetensors" in asked["org/name"]

    def refuse(name, allow_patterns):
        raise OSError("no route to host")

    fake.snapshot_download = refuse
    with pytest.raises(ModelError, match=r"cannot be had from the hub(.|\n)*no route"):
        on_disk("org/name")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelError, match=r"pip install 'dragoman\[hub\]'"):
        on_disk("org/name")


def test_what_is_no_name_or_has_no_card_is_refused(tmp_path):
    with pytest.raises(DragomanError, match="org/name"):
        push(tmp_path, "name")
    with pytest.raises(ModelError, match="needs a card"):
        push(tmp_path, "org/name", dry_run=True)
