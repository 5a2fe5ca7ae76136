"""Translating by Ray gives what one process gives: rows, their order and what stands beside them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy
import pandas
import pyarrow
import pytest
from pyarrow import parquet

from dragoman import Translator, bulk, import_model
from dragoman.bulk import on_ray, running, tables
from dragoman.cleaning import clean, cleaning, facts
from dragoman.cli import make_app
from dragoman.config import DecodingConfig
from dragoman.data import sharing
from dragoman.data.filtering import Counts
from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.ray import Cluster, Synthesize, Translate, evaluate, synthesize, translate_file
from dragoman.studies import evaluate as evaluate_here
from dragoman.studies import synthesize as synthesize_here
from dragoman.text import ParallelCorpus
from dragoman.workers import open_workers
from dying import Dying, dying_at_three
from end_to_end import small
from importing_directories import many_languages
from oracle.marian_directory import texts as drawn_texts

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray's own house
TEXTS = ["", *small.sentences(36), "  ", small.sentences(1)[0]]
ONE = Cluster(workers=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.saved(tmp_path_factory.mktemp("model"), small.word_pair())


@pytest.fixture(scope="module")
def expected(model: Path) -> list[str]:
    return [one.text for one in Translator.from_pretrained(model).translate(TEXTS)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    ray, at_end = import_module("ray"), signal.getsignal(signal.SIGTERM)
    here = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", here)  # where actors find `dying`
        ray.init(
            address="local", num_cpus=3, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False,
            logging_level="ERROR",
        )  # fmt: skip
    yield ray
    ray.shutdown()
    signal.signal(signal.SIGTERM, at_end)  # Ray puts its own there


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones, so that few lines are many tasks."""
    monkeypatch.setattr(on_ray, "_BATCH", 4)
    monkeypatch.setattr(on_ray, "_BLOCK_BYTES", 100)


def lines_of(folder: Path, suffix: str = ".txt") -> list[str]:
    parts = sorted(path for path in folder.glob(f"*{suffix}") if path.name[0] != "_")
    return [line for part in parts for line in part.read_text(encoding="utf-8").split("\n")[:-1]]


def lines_file(path: Path, texts: list[str] = TEXTS) -> Path:
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def table_file(path: Path, texts: list[str] = TEXTS) -> Path:
    names, numbers = [f"n{n}" for n in range(len(texts))], [[0.5, n] for n in range(len(texts))]
    table = pyarrow.table({"id": names, "de": pyarrow.array(texts, pyarrow.string()), "weights": numbers})
    parquet.write_table(table, path, row_group_size=7)
    return path


# Without Ray


@pytest.mark.parametrize("kind", ["arrays", "pandas", "arrow"])
def test_a_batch_comes_out_as_it_came_in_with_more_columns(model, expected, kind):
    texts: list[Any] = [*TEXTS, None, 7, "two\nlines", b"\xff", TEXTS[1].encode()]
    if kind == "arrow":  # a column of one type
        texts = [*(text.encode() for text in TEXTS), None, None, None, *texts[-2:]]
    numbers = list(range(len(texts)))
    batch = {
        "arrays": lambda: {"n": numpy.array(numbers), "text": numpy.array(texts, dtype=object)},
        "pandas": lambda: pandas.DataFrame({"n": numbers, "text": texts}),
        "arrow": lambda: pyarrow.table({"n": numbers, "text": texts}),
    }[kind]()
    made = Translate(model, score="score")(batch)
    assert type(made) is type(batch)
    found = made.to_pydict() if kind == "arrow" else {name: list(made[name]) for name in made}
    assert found["n"] == numbers
    assert found["text"] == texts
    assert found["translation"] == [*expected, "", "", "", "", expected[1]]
    assert found["problem"][: len(TEXTS)] == [""] * len(TEXTS)
    told = found["problem"][len(TEXTS) :]
    assert told[3:] == ["byte 0 is not UTF-8", ""]
    assert told[0] == "there is no text"
    assert kind == "arrow" or told[1:3] == ["no text, but of type int", "more than one line"]
    assert all(isinstance(one, float) for one in found["score"])


def test_columns_that_lack_or_clash_are_refused(model):
    with pytest.raises(DataError, match="no such column"):
        Translate(model)({"line": numpy.array(["a"])})
    with pytest.raises(DataError, match="already"):
        Translate(model)({"text": numpy.array(["a"]), "translation": numpy.array(["b"])})
    with pytest.raises(ConfigError, match="two columns have one name"):
        Translate(model, source="translation")
    with pytest.raises(ConfigError, match="no such kind"):
        Synthesize(model, kind="invention")


def test_what_fails_with_one_row_costs_one_row(model, expected, monkeypatch):
    made = Translate(model)
    right = made.translator.translate_lines

    def fails(texts, *rest, **named):
        if TEXTS[5] in texts:
            raise RuntimeError("this row again\nand more")
        return right(texts, *rest, **named)

    monkeypatch.setattr(made.translator, "translate_lines", fails)
    found = made({"text": numpy.array(TEXTS[:9], dtype=object)})
    assert list(found["translation"]) == [*expected[:5], "", *expected[6:9]]
    assert [reason for reason in found["problem"] if reason] == ["this row again"]


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".parquet"])
@pytest.mark.parametrize("skip", [0, 1, 7, 13, 39, 100])
def test_reading_may_begin_at_any_row(tmp_path, monkeypatch, suffix, skip):
    monkeypatch.setattr(tables, "BLOCK", 4)
    file = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        table_file(file)
    else:
        lines_file(tmp_path / "rows.txt")
        if suffix == ".txt.gz":
            file.write_bytes(import_module("gzip").compress((tmp_path / "rows.txt").read_bytes()))
    kind = tables.kind_of(file)
    found = [row for table in tables.read_rows(str(file), kind, skip) for row in table.to_pylist()]
    texts = [row["de"] if kind == ".parquet" else row["text"].decode() for row in found]
    assert texts == TEXTS[skip:]


def test_without_the_package_one_message_says_how_to_get_it(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(DragomanError, match=r"pip install 'dragoman\[ray\]'"):
        translate_file(model, lines_file(tmp_path / "source.txt"), tmp_path / "out")


def test_an_address_where_nobody_listens_is_told_at_once(model, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DragomanError, match="not to be reached"):
            translate_file(model, lines_file(tmp_path / "source.txt"), tmp_path / "out", cluster=address)


def test_what_cannot_be_is_refused_before_ray_starts(model, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "connected", None)
    lines, table = lines_file(tmp_path / "lines.txt"), table_file(tmp_path / "table.parquet")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more")
    (tmp_path / "folder").mkdir()
    for given, output, words, told in (
        (table, "out", {}, "no such column"), (table, "out", {"columns": ("de", "id")}, "already"),
        (table, "out.jsonl", {"columns": ("de", "en")}, "cannot be converted to"),
        (broken, "out", {}, "not a Parquet file"),
        (tmp_path / "folder", "out", {}, "no tables in it"), (lines, "out", {"scores": True}, "no column of scores"),
        (lines, "out", {"cluster": Cluster(workers=(3, 2))}, "so many workers"), (lines, "lines.txt", {}, "overwrite"),
        (lines, "out", {"cluster": Cluster(workers=0)}, "so many workers"),
        (tmp_path / "none", "out", {}, "cannot read"),
    ):  # fmt: skip
        with pytest.raises(DragomanError, match=told):
            translate_file(model, given, tmp_path / output, **words)
    asked = ["translate", str(model), "--input", str(lines), "--output", str(tmp_path / "out")]
    for words, told in ((["--ray", "local", "--workers", "1,2,3"], "FEWEST,MOST"), (["--workers", "1,2"], "one number"),
                        (["--workers", "many"], "FEWEST,MOST"), (["--workers", "1", "--columns", "a=b"], "by Ray"),
                        (["--ray", "local", "--columns", "a=b"], "two columns")):  # fmt: skip
        with pytest.raises(ConfigError) as refused:
            make_app()([*asked, *words], standalone_mode=False)
        assert told in str(refused.value)
    assert not (tmp_path / "out").exists()


# With Ray


def test_a_dataset_keeps_its_rows(model, expected, cluster):
    data = import_module("ray.data")
    rows = [{"id": number, "de": text} for number, text in enumerate(TEXTS)]
    found = data.from_items(rows, override_num_blocks=5).map_batches(
        Translate, fn_constructor_kwargs={"model": str(model), "source": "de", "target": "en"}, batch_size=4,
        compute=data.ActorPoolStrategy(size=1),
    ).take_all()  # fmt: skip
    assert sorted((one["id"], one["en"]) for one in found) == list(enumerate(expected))
    assert all(one["de"] == TEXTS[one["id"]] and one["problem"] == "" for one in found)


@pytest.fixture
def dying(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose actors die at a row."""
    monkeypatch.setattr(tables, "TranslateFile", Dying)
    folder = Path(shutil.copytree(model, tmp_path / "dying"))
    (folder / "dies-at").write_text(TEXTS[20], encoding="utf-8")
    return folder


def test_a_killed_actor_loses_and_repeats_nothing_and_a_stopped_run_goes_on(
    dying, expected, cluster, blocks, tmp_path, monkeypatch
):
    (dying / "dies-once").touch()
    source, out = lines_file(tmp_path / "source.txt"), tmp_path / "out"
    result = translate_file(dying, source, out, cluster=Cluster(workers=2), part_lines=9)
    assert (dying / "has-died").exists()
    assert (result.lines, result.kept, result.problems) == (len(TEXTS), 0, ())
    assert lines_of(out) == expected
    for name in ("000002.txt", "000004.txt"):
        (out / name).unlink()
    again = translate_file(dying, source, out, cluster=ONE, part_lines=9)
    assert (again.lines, again.kept) == (len(TEXTS), 18)
    assert lines_of(out) == expected
    monkeypatch.setattr(running, "_Run", None)  # several processes take what is there for theirs
    with pytest.raises(TypeError):
        bulk.translate_file(dying, source, out, part_lines=9, columns={"scores": False, "as_json": False})


def test_a_row_that_ends_every_actor_ends_in_one_message(dying, cluster, blocks, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "TRIES", 1)
    with pytest.raises(DragomanError, match=r"Ray gave up(.|\n)*the same call goes on"):
        translate_file(dying, lines_file(tmp_path / "s.txt"), tmp_path / "out", cluster=ONE, part_lines=5)


def test_what_is_wrong_with_a_file_is_told_as_without_ray(model, cluster, tmp_path):
    packed = tmp_path / "source.gz"
    packed.write_bytes(import_module("gzip").compress("\n".join(TEXTS).encode())[:-12])
    with pytest.raises(DataError) as told:
        translate_file(model, packed, tmp_path / "out", cluster=ONE)
    assert "damaged or cut short" in str(told.value).splitlines()[0]
    assert len(str(told.value).splitlines()) == 2


def test_tables_keep_what_they_have(model, expected, cluster, blocks, tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    for name, texts in (("b", TEXTS[20:]), ("a", TEXTS[:20])):
        table_file(folder / f"{name}.parquet", texts)
    asked = [str(model), "--input", str(folder), "--columns", "source=de,target=en", "--part-lines", "16", "--scores"]
    made = tmp_path / "made.parquet"
    make_app()(
        ["translate", *asked, "--ray", "local", "--workers", "1,2", "--output", str(made)], standalone_mode=False
    )
    found = parquet.read_table(made)
    assert found.column_names == ["id", "de", "weights", "en", "score", "problem"]
    assert found["en"].to_pylist() == expected
    given = parquet.read_table(folder / "a.parquet")
    assert found.slice(0, 20).select(given.column_names).equals(given)
    empty = table_file(tmp_path / "empty.parquet", [])
    translate_file(model, empty, tmp_path / "none.parquet", cluster=ONE, columns=("de", "en"))
    assert parquet.read_table(tmp_path / "none.parquet").column_names == ["id", "de", "weights", "en", "problem"]


def test_objects_keep_what_they_have(model, expected, cluster, blocks, tmp_path):
    rows = [f'{{"text": "{TEXTS[1]}", "when": "2024-01-01", "n": 12345678901234567890}}', "", "[1]", '{"n": 1.5}',
            '{"text": null}', '{"text": "\\ud800"}']  # fmt: skip
    source = lines_file(tmp_path / "source.jsonl", rows)
    result = translate_file(model, source, tmp_path / "out", cluster=ONE, part_lines=4)
    found = [json.loads(line) for line in lines_of(tmp_path / "out", ".jsonl")]
    assert found[0] == {**json.loads(rows[0]), "translation": expected[1], "problem": ""}
    assert [one["translation"] for one in found[1:5]] == [""] * 4
    assert [one["problem"] for one in found[1:5]] == [
        "not JSON", "not a JSON object", 'there is no "text"', "there is no text"
    ]  # fmt: skip
    assert found[5]["text"] == "\ud800"
    assert [one.line for one in result.problems][:4] == [2, 3, 4, 5]


def test_pairs_and_scores_are_those_of_one_process(model, expected, cluster, blocks, tmp_path):
    source, bad = lines_file(tmp_path / "source.txt"), tmp_path / "bad.txt"
    search = DecodingConfig(max_length=8, end_at_limit="charged")
    here, counts, ours = Counts(unit="lines"), Counts(unit="lines"), {"max_ratio": 9.0, "kind": "self-training"}
    wanted = list(synthesize_here(str(model), source, counts=here, decoding=search, **ours))
    found = list(synthesize(model, source, cluster=ONE, counts=counts, settings={"end_at_limit": "charged"}, **ours))
    assert found == wanted
    assert counts == here
    bad.write_bytes(b"\xff\n" + TEXTS[1].encode())
    list(synthesize(model, bad, cluster=ONE, counts=counts))
    assert counts.dropped["unreadable"] == 1
    judged = evaluate(model, TEXTS, expected, cluster=ONE, metrics=["chrf"], bootstrap=0, worst=1)
    alone = evaluate_here(model, TEXTS, expected, metrics=["chrf"], bootstrap=0)
    assert judged.hypotheses == alone.hypotheses == expected
    assert judged.scores == alone.scores


def test_a_model_for_many_languages_is_asked_for_others(cluster, blocks, tmp_path):
    given = many_languages(tmp_path / "theirs", ["eng_Latn", "fra_Latn", "zho_Hans"])
    run = import_model(tmp_path / "theirs", tmp_path / "run", **given).directory
    lines, asked = drawn_texts(9, 4), {"source_language": "fra_Latn", "target_language": "zho_Hans"}
    source = lines_file(tmp_path / "source.txt", lines)
    expected = [one.text for one in Translator.from_pretrained(run).translate(lines, **asked)]
    translate_file(run, source, tmp_path / "out", cluster=ONE, part_lines=4, **asked)
    assert lines_of(tmp_path / "out") == expected
    judged = evaluate(run, lines, expected, cluster=ONE, bootstrap=0, **asked)
    assert judged.hypotheses == expected
    assert "tok:zh" in str(judged.scores[0].signature)


def test_work_on_a_corpus_gives_the_bytes_of_one_process(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(facts, "WINDOW", 60)
    monkeypatch.setattr(cleaning, "BLOCK", 50)
    monkeypatch.setattr(sharing, "BLOCK", 30)
    random, words = numpy.random.default_rng(1), [one + other for one in "bdfgklmn" for other in "aeiou"]
    rows = [[" ".join(random.choice(words, random.integers(3, 12))) for _ in range(2)] for _ in range(200)]
    files = [
        lines_file(tmp_path / f"in.{side}", [*column, *column[:20], ""])
        for side, column in zip("ab", zip(*rows, strict=True), strict=True)
    ]
    given = ["--source", str(files[0]), "--target", str(files[1])]
    ends = {"one": [], "ray": ["--ray", "local", "--workers", "2"]}
    for name, more in ends.items():
        how = [*given, *more, "--json", "--out"]
        make_app()(["clean", *how, str(tmp_path / f"{name}-clean"), "--set", "near_similarity=0.7"],
                   standalone_mode=False)  # fmt: skip
        shards = [f"--set={one}" for one in ("data.shard_pairs=100", "tokenizer.kind=bpe", "tokenizer.vocab_size=300")]
        make_app()(["prepare", *how, str(tmp_path / f"{name}-data"), *shards], standalone_mode=False)
    for kind, count in (("clean", 4), ("data", 20)):
        made = [path for path in (tmp_path / f"one-{kind}").rglob("*") if path.is_file()]
        assert len(made) >= count
        for path in made:
            other = tmp_path / f"ray-{kind}" / path.relative_to(tmp_path / f"one-{kind}")
            assert path.read_bytes() == other.read_bytes(), path
    assert json.loads((tmp_path / "ray-clean" / "report.json").read_text())["rules"]["duplicate"]["dropped"] > 15


def test_a_task_that_died_is_done_again_and_errors_come_as_they_were(cluster, tmp_path):
    with open_workers(ONE) as workers:
        assert list(workers.map(dying_at_three, str(tmp_path / "died"), range(6))) == list(range(6))
    assert (tmp_path / "died").exists()
    with pytest.raises(DragomanError, match="Ray gave up"), open_workers(ONE) as workers:
        list(workers.map(dying_at_three, "always", range(6)))
    none = ParallelCorpus.from_files([lines_file(tmp_path / "a", ["x"])], [lines_file(tmp_path / "b", ["y", "z"])])
    with pytest.raises(DataError, match="different numbers of lines"):
        clean(none, tmp_path / "out", workers=ONE)
