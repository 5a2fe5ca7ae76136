"""Odd inputs, and what may happen to files and workers meanwhile: one plain error, and the same call goes on."""

from __future__ import annotations

import errno
import gzip
import shutil
import time
from multiprocessing import active_children, get_context
from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.bulk import parts, running, translate_file
from dragoman.bulk.lines import each_result
from dragoman.errors import DataError, ModelError
from dragoman.text.opening import open_bytes
from end_to_end import small

TEXTS = small.sentences(12)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.saved(tmp_path_factory.mktemp("model"), small.word_pair())


@pytest.fixture(scope="module")
def expected(model: Path) -> list[str]:
    return [one.text for one in Translator.from_pretrained(model).translate(TEXTS)]


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "get_context", lambda _: get_context("fork"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source.txt"
    file.write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")
    return file


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def ended_soon() -> bool:
    """Tell whether no process is left; the pool's own thread may be the one that collects the last, a moment later."""
    until = time.monotonic() + 30
    while any(not child.daemon for child in active_children()) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(not child.daemon for child in active_children())


def test_as_many_lines_as_there_are(model, expected, tmp_path):
    first, second = (text.encode() for text in TEXTS[:2])
    for data, wanted in (
        (b"", []), (b"\n", [""]), (first, expected[:1]), (first + b"\r\n" + second, expected[:2]),
        (b"\0\n" + first + b"\n", ["", expected[0]]), (b"\xef\xbb\xbf" + first, None), (b"ba " * 350_000, None),
    ):  # fmt: skip
        source, made = tmp_path / "odd.txt", tmp_path / "made.txt"
        source.write_bytes(data)
        result = translate_file(model, source, made, workers=1)
        lines = read(made)
        assert len(lines) == result.lines == (1 if wanted is None else len(wanted))
        assert wanted is None or data[:1] == b"\0" or lines == wanted


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_one_file_is_compressed_as_its_name_says(model, expected, source, tmp_path, suffix):
    made = tmp_path / f"made.txt{suffix}"
    translate_file(model, source, made, workers=1, part_lines=5)
    with open_bytes(made) as stream:
        assert stream.read().decode().split("\n")[:-1] == expected
    assert not (tmp_path / f"made.txt{suffix}.parts").exists()


def test_a_place_that_cannot_be_written_is_named(model, source, tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in ("file/out", "file/out.txt"):
        with pytest.raises(OSError) as refused:
            translate_file(model, source, tmp_path / place, workers=1)
        assert "file" in str(refused.value.filename)


def test_a_full_disk_ends_the_workers_and_keeps_what_is_done(model, expected, source, tmp_path, monkeypatch):
    whole, full = parts.write_bytes, tmp_path / "out" / "000001.txt"

    def write(path: Path, data: bytes) -> None:
        if path == full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        whole(path, data)

    monkeypatch.setattr(parts, "write_bytes", write)
    with pytest.raises(OSError, match="No space left") as ended:
        translate_file(model, source, tmp_path / "out", workers=1, part_lines=5)
    assert ended.value.filename == str(full)
    assert ended_soon()
    monkeypatch.setattr(parts, "write_bytes", whole)
    assert translate_file(model, source, tmp_path / "out", workers=1, part_lines=5).kept == 5
    assert [line for part in sorted((tmp_path / "out").glob("*.txt")) for line in read(part)] == expected


def test_what_is_under_way_is_not_waited_for(model, source, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_printed", lambda *_: time.sleep(600))
    monkeypatch.setattr(running, "wait", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        translate_file(model, source, tmp_path / "out", workers=2, part_lines=3)
    assert time.monotonic() - began < 120


def test_a_model_that_goes_meanwhile_ends_in_one_error(model, expected, source, tmp_path, monkeypatch):
    moved, plan = Path(shutil.copytree(model, tmp_path / "model")), running.plan_of

    def goes(*given: object) -> object:
        made = plan(*given)  # type: ignore[arg-type]
        moved.rename(tmp_path / "away")
        return made

    monkeypatch.setattr(running, "plan_of", goes)
    with pytest.raises(ModelError, match="model"):
        translate_file(moved, source, tmp_path / "out", workers=2, part_lines=5)
    assert not list((tmp_path / "out").glob("*.txt"))
    monkeypatch.setattr(running, "plan_of", plan)
    (tmp_path / "away").rename(moved)
    translate_file(moved, source, tmp_path / "out", workers=1, part_lines=5)
    assert [line for part in sorted((tmp_path / "out").glob("*.txt")) for line in read(part)] == expected


def test_a_file_of_the_model_is_no_fault_of_a_line(tmp_path):
    def translate(texts: list[str], first: int) -> list[str]:
        raise ModelError("the model was opened from another file", file=tmp_path)

    with pytest.raises(ModelError, match="another file"):
        each_result(translate, ["a", "b"], 1, "")

    def nan(texts: list[str], first: int) -> list[str]:
        if "b" in texts:
            raise ModelError("the model gives NaN")
        return texts

    results, problems = each_result(nan, ["a", "b", b"c"], 1, "")
    assert results == ["a", "", "c"]
    assert [(one.line, one.reason) for one in problems] == [(2, "the model gives NaN")]


def test_a_cut_archive_keeps_what_came_before_it(model, expected, tmp_path, source):
    packed = tmp_path / "source.gz"
    packed.write_bytes(gzip.compress(source.read_bytes())[:-6])
    with pytest.raises(DataError, match="damaged or cut short"):
        translate_file(model, packed, tmp_path / "out", workers=1, part_lines=2)
