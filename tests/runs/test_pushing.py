"""Models to and from the hub, whose interface is replaced: what is asked for, and no network otherwise."""

from __future__ import annotations

import inspect
import shutil
import sys
import threading
import time
import types
from fnmatch import fnmatch
from pathlib import Path

import pytest

import dragoman
from dragoman import remote
from dragoman.cli import make_app
from dragoman.errors import ConfigError, DragomanError, ModelError
from dragoman.models.hub import is_hub_name, name_of, on_disk
from dragoman.runs import pack
from dragoman.runs.bundling import needed_files
from dragoman.runs.pushing import push
from dragoman.training import train
from small_runs import small_config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pushed")
    chosen = ("max_steps=4", "training.license=cc-by-4.0")
    return train(small_config(folder, "run", *chosen), quiet=True).directory


class Asked:
    """What a hub says when it is asked whether it has a model; one that hangs never says it."""

    def __init__(self, refuses=None):
        self.refuses, self.names, self.free = refuses, [], threading.Event()

    def __call__(self):  # in place of the class
        return self

    def model_info(self, repo_id, *, revision=None, timeout=None):
        assert 0 < timeout <= 10
        self.names.append(repo_id)
        if self.refuses is TimeoutError:
            self.free.wait(60)
        elif self.refuses is not None:
            raise self.refuses


def pretended(fetch, refuses=None):
    """A package that asks and fetches as one says, in place of the hub's."""
    made = types.ModuleType("huggingface_hub")
    made.HfApi, made.snapshot_download = Asked(refuses), fetch
    return made


@pytest.fixture
def hub(monkeypatch):
    """A hub that keeps what it is sent, by name of the repository."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    kept = {"made": [], "files": {}, "messages": []}

    class Api:
        def create_repo(self, repo_id, *, private=None, exist_ok=False):
            kept["made"].append((repo_id, private, exist_ok))

        def upload_folder(self, *, repo_id, folder_path, commit_message=None):
            folder = Path(folder_path)
            found = {one.relative_to(folder).as_posix(): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
            kept["files"][repo_id] = found
            kept["messages"].append(commit_message)
            return f"hub:{repo_id}"

        def model_info(self, repo_id, *, revision=None, timeout=None):
            assert repo_id in kept["files"]

    for name in ("create_repo", "upload_folder", "model_info"):  # the real ones take what the pretended ones do
        theirs = inspect.signature(getattr(huggingface_hub.HfApi, name)).parameters
        assert set(inspect.signature(getattr(Api, name)).parameters) <= set(theirs)
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    return kept


def test_what_is_uploaded_is_the_bundle_with_its_card(run, hub):
    yaml = pytest.importorskip("yaml")
    told = push(run, "org/name", private=True, message="first")
    sent = hub["files"]["org/name"]
    assert set(sent) == {*needed_files(run), "README.md"}
    assert {name: (run / name).read_bytes() for name in sent} == sent
    assert told.files == {name: len(data) for name, data in sent.items()}
    assert (told.url, hub["made"], hub["messages"]) == ("hub:org/name", [("org/name", True, True)], ["first"])
    head = yaml.safe_load(sent["README.md"].decode().split("---\n", 2)[1])
    assert (head["library_name"], head["pipeline_tag"], head["license"]) == ("dragoman", "translation", "cc-by-4.0")


def test_a_trial_sends_nothing_and_lists_the_same(run, hub):
    tried = push(run, "org/name", dry_run=True)
    assert tried.url is None
    assert hub == {"made": [], "files": {}, "messages": []}
    assert tried.files == push(run, "org/name").files
    assert hub["made"] == [("org/name", False, True)]


def test_what_was_uploaded_comes_back_as_the_model(run, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    push(pack(run, tmp_path / "a.dragoman").directory, "org/packed")
    push(run, "org/name")
    (run / "adapter").mkdir()
    try:
        (run / "adapter" / "adapter.json").write_text("{}")
        push(run, "org/adapted")
    finally:
        shutil.rmtree(run / "adapter")
    assert set(hub["files"]["org/adapted"]) - set(hub["files"]["org/name"]) == {"adapter/adapter.json"}
    assert hub["files"]["org/packed"] == hub["files"]["org/name"]

    def fetch(name, allow_patterns, local_files_only):
        assert not local_files_only
        for file, data in hub["files"][name].items():
            if any(fnmatch(file, pattern) for pattern in allow_patterns):
                (tmp_path / "cache" / file).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / "cache" / file).write_bytes(data)
        return str(tmp_path / "cache")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    lines = ["a b c", "b", ""]
    here, there = (dragoman.Translator.from_pretrained(one).translate(lines) for one in (str(run), "org/name"))
    assert [(one.text, one.score) for one in here] == [(one.text, one.score) for one in there]


def test_a_hub_that_refuses_is_told_in_one_line(run, hub, monkeypatch):
    def refuse(self, repo_id, **_):
        raise PermissionError("403: you may not\nand a long explanation")

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", refuse)
    with pytest.raises(
        DragomanError, match=r"did not take the model(.|\n)*403: you may not\n(.|\n)*auth login"
    ) as told:
        push(run, "org/name")
    assert "long explanation" not in str(told.value)
    assert hub["files"] == {}


def test_only_what_can_be_no_directory_is_a_name_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert is_hub_name("org/name")
    assert not any(map(is_hub_name, ("runs/typo", "name", "/a/b", "./a/b", "a/b/c", tmp_path / "org/name", "../a")))
    assert on_disk("runs/typo").as_posix() == "runs/typo"


def test_a_name_is_fetched_or_both_meanings_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = {}

    def fetch(name, allow_patterns, local_files_only):
        asked[name] = allow_patterns, local_files_only
        return str(tmp_path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", pretended(fetch))
    assert on_disk("org/name") == tmp_path
    assert "*.safetensors" in asked["org/name"][0]
    assert asked["org/name"][1] is False
    monkeypatch.setitem(sys.modules, "huggingface_hub", pretended(fetch, OSError("no route to host")))
    assert on_disk("org/name") == tmp_path  # from the cache
    assert asked["org/name"][1] is True

    def lack(name, allow_patterns, local_files_only):
        raise OSError("not in the cache")

    gone = OSError("404 Client Error\nand a long explanation")
    gone.response = object()
    cases = {"no answer from the hub: OSError: no route to host": OSError("no route to host"),
             "the hub answers: OSError: 404 Client Error": gone, "OSError: not in the cache": None}  # fmt: skip
    for told, refuses in cases.items():
        monkeypatch.setitem(sys.modules, "huggingface_hub", pretended(lack, refuses))
        with pytest.raises(ModelError, match=r"neither here nor on the hub") as raised:
            on_disk("org/name")
        for part in (told, "no such directory", "check its path", "check the name and the network"):
            assert part in str(raised.value)
        assert "long explanation" not in str(raised.value)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelError, match=r"no such directory(.|\n)*pip install 'dragoman\[hub\]'"):
        on_disk("org/name")


def test_a_hub_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote, "SECONDS", 0.2)
    fake = pretended(lambda *_, **__: 1 / 0, TimeoutError)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    begun = time.perf_counter()
    try:
        with pytest.raises(ModelError, match=r"no answer from the hub in 0\.2 seconds"):
            on_disk("org/name")
    finally:
        fake.HfApi.free.set()
    assert time.perf_counter() - begun < 20
    assert fake.HfApi.names == ["org/name"]


def test_what_is_no_name_or_has_no_model_or_no_card_is_refused(run, tmp_path):
    with pytest.raises(ConfigError, match="org/name"):
        push(tmp_path, "name")
    with pytest.raises(ModelError, match="no model here"):
        push(tmp_path, "org/name", dry_run=True)
    model = Path(shutil.copytree(run, tmp_path / "model"))
    (model / "README.md").unlink()
    with pytest.raises(ModelError, match="needs a card"):
        push(model, "org/name", dry_run=True)


@pytest.fixture
def cache(run, tmp_path, monkeypatch):
    """The run under a name of the hub, as the hub's cache has it; what is asked for is kept."""
    monkeypatch.chdir(tmp_path)
    kept, asked = tmp_path / "cache" / "models--org--de-en" / "snapshots" / "a1b2", []
    shutil.copytree(run, kept)

    def fetch(name, allow_patterns, local_files_only):
        asked.append(name)
        return str(kept)

    monkeypatch.setitem(sys.modules, "huggingface_hub", pretended(fetch))
    return kept, asked


def cli(*words):
    make_app()(list(map(str, words)), standalone_mode=False)


def test_verbs_take_a_name_of_the_hub_for_a_model(cache, tmp_path):
    kept, asked = cache
    (tmp_path / "lines").write_text("a b\n")
    verbs = {
        "info": ["--json"], "bundle": ["--out", "b"], "explain": ["a b", "--json"],
        "translate": ["a b", "--output", "t"], "evaluate": ["--source", "lines", "--reference", "lines", "--json"],
    }  # fmt: skip
    for verb, words in verbs.items():
        asked.clear()
        cli(verb, "org/de-en", *words)
        assert asked == ["org/de-en"], verb
    assert len((tmp_path / "t").read_text().splitlines()) == 1
    assert name_of(kept) == "de-en"
    assert name_of(tmp_path) is name_of(Path("org")) is None


def test_what_is_here_or_cannot_be_a_name_is_not_asked_for(cache, run, tmp_path):
    _, asked = cache
    shutil.copytree(run, tmp_path / "org" / "de-en")
    cli("info", "org/de-en", "--json")
    for wrong in ("org/typo", "typo", "a/b/c", tmp_path / "typo"):
        with pytest.raises(DragomanError):
            cli("info", wrong)
    assert asked == []


def test_verbs_say_what_a_name_of_the_hub_needs_or_may_not(cache, monkeypatch):
    for words in (("tune", "--source", "s", "--reference", "r"), ("remember",)):
        with pytest.raises(ConfigError, match=r"no such directory here(.|\n)*dragoman bundle org/de-en --out"):
            cli(words[0], "org/de-en", *words[1:])
    assert cache[1] == []
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for verb in ("info", "translate", "serve"):
        with pytest.raises(ModelError, match=r"pip install 'dragoman\[hub\]'"):
            cli(verb, "org/de-en")
