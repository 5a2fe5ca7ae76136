"""A long file through several processes gives what one gives, whatever happens on the way."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from dragoman import Translator
from dragoman.bulk import Problem, running, translate_file
from dragoman.bulk.parts import Part, cut
from dragoman.bulk.running import Job
from dragoman.cli import make_app
from dragoman.config import DecodingConfig, Placement
from dragoman.errors import ConfigError, DataError
from dragoman.nn import Transformer
from end_to_end import small

TEXTS = ["", *small.sentences(36), "  ", small.sentences(1)[0]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    made = small.model(small.shape(small.word_pair()), 1)
    assert isinstance(made, Transformer)
    folder, config = tmp_path_factory.mktemp("model"), small.shape(small.word_pair())
    return small.save(folder, made.float(), config, small.word_pair(), DecodingConfig(max_length=8))


@pytest.fixture(scope="module")
def expected(model: Path) -> list[str]:
    return [one.text for one in Translator.from_pretrained(model).translate(TEXTS)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source.txt"
    file.write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")
    return file


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that see what a test has changed; PyTorch is not imported again for each."""
    monkeypatch.setattr(running, "get_context", lambda _: get_context("fork"))


def lines_of(folder: Path) -> list[str]:
    return [line for part in sorted(folder.glob("*.txt")) for line in part.read_text(encoding="utf-8").split("\n")[:-1]]


@pytest.mark.parametrize("kind", ["txt", "gz", "bz2", "xz"])
def test_as_many_lines_come_out_as_went_in_in_order(model, expected, source, tmp_path, forked, kind):
    opener: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    if kind != "txt":
        source = source.with_suffix(f".{kind}")
        source.write_bytes(opener[kind](source.with_suffix(".txt").read_bytes()))
    result = translate_file(model, source, tmp_path / "out", workers=2, part_lines=7)
    assert lines_of(tmp_path / "out") == expected
    assert (result.lines, result.kept, result.problems, result.left_out) == (len(TEXTS), 0, (), ())


def test_spawned_workers_write_one_file(model, expected, source, tmp_path):
    result = translate_file(model, source, tmp_path / "out.txt", workers=1, part_lines=20)
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")[:-1] == expected
    assert result.path == tmp_path / "out.txt"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.txt", "source.txt"]


def test_a_stopped_run_goes_on_with_the_parts_that_lack(model, expected, source, tmp_path, forked, monkeypatch):
    whole = translate_file(model, source, tmp_path / "out", workers=1, part_lines=10)
    (tmp_path / "out" / "000001.txt").unlink()
    again = translate_file(model, source, tmp_path / "out", workers=1, part_lines=10)
    assert (again.lines, again.kept) == (whole.lines, whole.lines - 10)
    assert lines_of(tmp_path / "out") == expected
    monkeypatch.setattr(running, "_translated", None)  # nothing is left to do
    assert translate_file(model, source, tmp_path / "out", workers=1, part_lines=10).kept == whole.lines


def test_parts_of_something_else_are_not_mixed_in(model, source, tmp_path, forked):
    translate_file(model, source, tmp_path / "out", workers=1, part_lines=50)
    with pytest.raises(ConfigError, match="part_lines differs"):
        translate_file(model, source, tmp_path / "out", workers=1, part_lines=40)
    with pytest.raises(ConfigError, match=r"beam_size differs\n.*expected: 2\n.*found: +[13-9]"):
        translate_file(model, source, tmp_path / "out", workers=1, part_lines=50, settings={"beam_size": 2})
    source.write_text("another\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="the input has changed"):
        translate_file(model, source, tmp_path / "out", workers=1, part_lines=50)
    with pytest.raises(ConfigError, match=r"source differs\n.*folder.txt.*\n.*source.txt"):
        translate_file(model, shutil.copy(source, tmp_path / "folder.txt"), tmp_path / "out", part_lines=50)
    other = tmp_path / "mine"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="other things"):
        translate_file(model, source, other, workers=1)
    assert (other / "letter.txt").read_text() == "dear"


def test_places_that_do_not_do_are_refused_before_a_model_is_opened(source, tmp_path):
    nowhere, folder, file = tmp_path / "no model", tmp_path / "folder.txt", tmp_path / "file"
    folder.mkdir()
    file.write_text("mine")
    for given, output, told in (
        (tmp_path / "none", "out", "none: cannot read the file"), (folder, "out", "reads a file"),
        ("-", "out", "reads a file"), (source, source, "would overwrite the input"),
        (source, tmp_path / "folder.txt" / ".." / source.name, "overwrite"),
        (source, folder, r"(.|\n)*found: +a folder"), (source, file, r"(.|\n)*found: +a file"),
    ):  # fmt: skip
        with pytest.raises((ConfigError, DataError), match=told):
            translate_file(nowhere, given, tmp_path / output, workers=1)
    for counts in ({"workers": 0}, {"workers": 100_000}, {"part_lines": 0}, {"part_lines": -1}):
        with pytest.raises(ConfigError, match="from 1 to"):
            translate_file(nowhere, source, tmp_path / "out", **counts)
    assert file.read_text() == "mine"
    assert source.read_text(encoding="utf-8").split("\n")[:-1] == TEXTS


def test_what_several_workers_do_not_do_is_refused(model, source, tmp_path, capfd):
    for words, told in ((["--on-bad-text", "replace"], "leave bad lines empty"), (["--adapter", "x"], "dragoman merge"),
                        (["--nbest", "2"], "one line for each")):  # fmt: skip
        given = ["translate", str(model), "--input", str(source), "--output", str(tmp_path / "out"), "--workers", "1"]
        with pytest.raises(ConfigError) as refused:
            make_app()([*given, *words], standalone_mode=False)
        assert told in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_bad_lines_are_left_empty_and_told(model, expected, source, tmp_path, forked, monkeypatch):
    bad = source.read_bytes().split(b"\n")
    bad[3] = b"\xff" + bad[3]
    source.write_bytes(b"\n".join(bad))
    translate = running._printed

    def fails(translator, job, texts, first):
        if TEXTS[11] in texts:
            raise RuntimeError("this line again")
        return translate(translator, job, texts, first)

    monkeypatch.setattr(running, "_printed", fails)
    result = translate_file(model, source, tmp_path / "out", workers=1, part_lines=10)
    hidden = [number for number, text in enumerate(TEXTS) if text == TEXTS[11]]
    assert lines_of(tmp_path / "out") == [
        "" if number in (3, *hidden) else line for number, line in enumerate(expected)
    ]
    told = [Problem(4, "byte 0 is not UTF-8"), *(Problem(number + 1, "this line again") for number in hidden)]
    assert list(result.problems) == sorted(told, key=lambda one: one.line)


def test_what_a_dead_worker_was_at_is_done_again(model, expected, source, tmp_path, forked, monkeypatch):
    printed, flag = running._printed, tmp_path / "died"

    def dies_once(translator, job, texts, first):
        if first == 11 and not flag.exists():
            flag.touch()
            os._exit(137)
        return printed(translator, job, texts, first)

    monkeypatch.setattr(running, "_printed", dies_once)
    told: list[str] = []
    result = translate_file(model, source, tmp_path / "out", workers=2, part_lines=5, report=told.append)
    assert lines_of(tmp_path / "out") == expected
    assert result.left_out == ()
    assert any("a worker has died" in line for line in told)


def test_a_part_that_no_pool_took_is_not_lost(model, expected, source, tmp_path, monkeypatch):
    """A worker may die between two parts: then the pool takes no more of them."""
    broken = [True]

    class Pool(ProcessPoolExecutor):
        def __init__(self, workers: int, context: object, opening: Callable[[Job], None], given: tuple[Job]) -> None:
            monkeypatch.setitem(running._WORKER, "job", given[0])
            monkeypatch.setitem(running._WORKER, "translator", Translator.from_pretrained(model))
            self.taken = 0

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def submit(self, work: Callable[[Part], object], part: Part) -> Future[object]:
            self.taken += 1
            if self.taken == 2 and broken and broken.pop():
                raise BrokenProcessPool
            done: Future[object] = Future()
            done.set_result(work(part))
            return done

    monkeypatch.setattr(running, "ProcessPoolExecutor", Pool)
    translate_file(model, source, tmp_path / "out", workers=2, part_lines=5)
    assert not broken
    assert lines_of(tmp_path / "out") == expected


def test_a_part_that_always_kills_is_left_out_and_tried_again(model, expected, source, tmp_path, forked, monkeypatch):
    printed = running._printed

    def dies(translator, job, texts, first):
        return os._exit(137) if first == 21 else printed(translator, job, texts, first)

    monkeypatch.setattr(running, "_printed", dies)
    result = translate_file(model, source, tmp_path / "out.txt", workers=1, part_lines=20)
    assert 1 in result.left_out
    assert not (tmp_path / "out.txt").exists()
    monkeypatch.setattr(running, "_printed", printed)
    translate_file(model, source, tmp_path / "out.txt", workers=1, part_lines=20)
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")[:-1] == expected


def test_workers_end_when_who_started_them_is_killed(monkeypatch):
    """A pipe that only the worker holds open ends with it."""
    ends, begun = os.pipe(), os.pipe()
    starter = os.fork()
    if starter == 0:
        monkeypatch.setattr(Translator, "from_pretrained", lambda *_, **__: os.write(begun[1], b"x"))
        worker = get_context("fork").Process(target=lambda: (running._open(Job(("m",), DecodingConfig(), Placement())),
                                                             time.sleep(600)))  # fmt: skip
        worker.start()
        os.close(ends[1])
        time.sleep(600)
    os.close(ends[1])
    assert os.read(begun[0], 1) == b"x"
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    assert select.select([ends[0]], [], [], 30)[0], "the worker is still there"
    assert os.read(ends[0], 1) == b""


def test_a_damaged_file_is_one_error(model, source, tmp_path, forked):
    packed = tmp_path / "source.gz"
    packed.write_bytes(gzip.compress(source.read_bytes())[:-20])
    with pytest.raises(DataError, match="damaged or cut short"):
        translate_file(model, packed, tmp_path / "out", workers=1)


def test_lines_are_cut_as_everywhere(tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"a\r\nb\n\nc\r\r\nlast")
    assert [(part.first, part.lines) for part in cut(file, 2)] == [
        (1, [b"a", b"b"]),
        (3, [b"", b"c\r"]),
        (5, [b"last"]),
    ]
