from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from dragoman.config import DataConfig, TokenizerConfig, TrainConfig, make_config
from dragoman.data import Prepared, prepare
from dragoman.errors import ConfigError, DataError
from dragoman.text import TokenizerPair

EN = ["the", "a", "cat", "dog", "house", "eats", "sees", "fish", "big", "small", "two", "three", "runs", "home"]
DE = ["der", "ein", "Katze", "Hund", "Haus", "isst", "sieht", "Fisch", "groß", "klein", "zwei", "drei", "läuft", "heim"]


def texts(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    draw = random.Random(seed)
    rows = [draw.choices(range(14), k=draw.randint(3, 9)) for _ in range(count)]
    return [" ".join(EN[i] for i in row) + "." for row in rows], [" ".join(DE[i] for i in row) + "." for row in rows]


def put(path: Path, lines: list[str]) -> str:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return str(path)


def config(
    folder: Path, count: int = 200, dev: int = 20, extra: tuple[list[str], list[str]] = ([], []), **data: object
) -> TrainConfig:
    folder.mkdir(exist_ok=True)
    source, target = texts(count)
    files: dict[str, object] = {
        "source": (put(folder / "train.en", source + extra[0]),),
        "target": (put(folder / "train.de", target + extra[1]),),
    }
    if dev:
        held = texts(dev, seed=1)
        files |= {"dev_source": (put(folder / "d.en", held[0]),), "dev_target": (put(folder / "d.de", held[1]),)}
    return TrainConfig(out="unused", data=DataConfig.from_dict(files | data), tokenizer=TokenizerConfig(vocab_size=320))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_everything_is_there_and_fits_together(tmp_path: Path) -> None:
    settings = config(tmp_path)
    said: list[str] = []
    made = prepare(settings, tmp_path / "out", report=said.append)
    source, target = texts(200)
    assert [made.tokenizers.source.decode(made.train.source(i).tolist()) for i in range(200)] == source
    assert [made.tokenizers.target.decode(made.train.target(i).tolist()) for i in range(200)] == target
    assert (made.dev_source, made.dev_target) == texts(20, seed=1)
    assert len(made.dev) == 20
    assert made.tokenizers.target.decode(made.dev.target(3).tolist()) == made.dev_target[3]
    assert made.languages == ("en", "de")
    assert not made.held_out
    given = settings.data
    assert set(made.hashes) == {*given.source, *given.target, *given.dev_source, *given.dev_target}
    assert made.report.pairs == 200
    assert made.report.dev is not None
    assert "200 pairs" in said
    assert "train: 200 of 200 pairs kept" in said
    assert Prepared.open(tmp_path / "out", verify=True).report == made.report
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.de", "d.en", "out", "train.de", "train.en"]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    settings = config(tmp_path, dev=0)
    prepare(settings, tmp_path / "a")
    prepare(settings, tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_held_out_pairs_are_split_off_and_counted(tmp_path: Path) -> None:
    made = prepare(config(tmp_path, dev=0), tmp_path / "out")
    assert made.held_out
    assert len(made.dev) == 10
    assert len(made.train) == 190
    assert made.counts["train"].dropped == {"held out": 10}
    trained = {made.tokenizers.source.decode(made.train.source(i).tolist()) for i in range(190)}
    assert not trained & set(made.dev_source)


def test_every_filter_is_applied_and_the_sum_is_right(tmp_path: Path) -> None:
    source, target = texts(1)
    held = texts(20, seed=1)
    rows = [
        (source[0], target[0]),  # a repetition
        ("", "x"),
        ("x", "  "),
        (held[0][0].upper(), "neu"),  # a held-out source
        ("new", held[1][0]),  # a held-out target
        ("the " * 300, "der"),
        ("the", "der Hund isst den Fisch im Haus"),
    ]
    extra = [row[0] for row in rows], [row[1] for row in rows]
    settings = config(tmp_path, extra=extra, drop_duplicates=True, drop_overlap=True, max_length_ratio=3.0)
    made = prepare(settings, tmp_path / "out")
    counts = made.counts["train"]
    assert counts.read == 207
    assert counts.kept == len(made.train)
    assert counts.kept + counts.dropped.total() == counts.read
    assert counts.dropped == {"duplicate": 1, "empty": 2, "overlap": 2, "too long": 1, "length ratio": 1}


def test_held_out_pairs_are_judged_whole_whatever_their_ratio(tmp_path: Path) -> None:
    settings = config(tmp_path, max_length_ratio=1.5)
    put(Path(settings.data.dev_target[0]), ["der Hund isst den Fisch im Haus und läuft heim"] * 19 + [""])
    made = prepare(settings, tmp_path / "out")
    assert made.counts["dev"].dropped == {"empty": 1}
    assert len(made.dev) == len(made.dev_source) == 19


def test_unreadable_lines_are_skipped_on_both_sides_and_counted(tmp_path: Path) -> None:
    settings = config(tmp_path, on_bad_text="skip")
    for path in (settings.data.source[0], settings.data.dev_target[0]):
        lines = Path(path).read_bytes().split(b"\n")
        lines[4] = b"\xff"
        Path(path).write_bytes(b"\n".join(lines))
    made = prepare(settings, tmp_path / "out")
    assert made.counts["train"].dropped == made.counts["dev"].dropped == {"unreadable": 1}
    assert (len(made.train), len(made.dev), len(made.dev_source)) == (199, 19, 19)
    assert made.counts["train"].read == 200
    assert made.tokenizers.target.decode(made.train.target(4).tolist()) == texts(200)[1][5]


def test_unchanged_data_is_reused_and_changed_data_is_not(tmp_path: Path) -> None:
    settings = config(tmp_path)
    first = prepare(settings, tmp_path / "out")
    stamp = (tmp_path / "out" / "prepared.json").stat().st_mtime_ns
    said: list[str] = []
    again = prepare(settings, tmp_path / "out", report=said.append)
    assert (tmp_path / "out" / "prepared.json").stat().st_mtime_ns == stamp
    assert again.key == first.key
    assert len(said) == 1
    assert "up to date" in said[0]
    named = settings.replace({"data": settings.data.replace({"target_language": "nl"})})
    assert prepare(named, tmp_path / "out").languages == ("en", "nl")
    # The same files under other names are the same data.
    moved = config(tmp_path / "elsewhere")
    assert prepare(moved, tmp_path / "out").key == first.key
    assert (tmp_path / "out" / "prepared.json").stat().st_mtime_ns == stamp

    with open(settings.data.target[0], "ab") as stream:
        stream.write(b"mehr\n")
    with pytest.raises(DataError, match="different numbers"):
        prepare(settings, tmp_path / "out")
    assert Prepared.open(tmp_path / "out").key == first.key
    with open(settings.data.source[0], "ab") as stream:
        stream.write(b"more\n")
    changed = prepare(settings, tmp_path / "out")
    assert len(changed.train) == 201
    larger = settings.replace({"tokenizer": TokenizerConfig(vocab_size=330)})
    assert len(prepare(larger, tmp_path / "out").tokenizers.source) == 330
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    "name", ["dev.source.txt", "tokenizer.source.model", "report.json", "train/source.tokens", "dev/store.json"]
)
def test_a_damaged_directory_is_refused_by_name_and_made_again(tmp_path: Path, name: str) -> None:
    settings = config(tmp_path, count=60)
    settings = settings.replace({"tokenizer": TokenizerConfig(vocab_size=320, joint=False)})
    prepare(settings, tmp_path / "out")
    path = tmp_path / "out" / name
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError, match=path.name):
        Prepared.open(tmp_path / "out")
    said: list[str] = []
    prepare(settings, tmp_path / "out", report=said.append)
    assert "damaged" in said[0]
    Prepared.open(tmp_path / "out", verify=True)


def test_descriptions_that_lie_are_refused(tmp_path: Path) -> None:
    prepare(config(tmp_path, count=60), tmp_path / "out")
    path = tmp_path / "out" / "prepared.json"
    good = json.loads(path.read_text())
    lies = [{**good, "format": 9}, {**good, "files": {"../d.en": "0" * 64}}, {"format": 1, "files": {}}, [], 3]
    for lie in lies:
        path.write_text(json.dumps(lie))
        with pytest.raises(DataError, match=r"prepared\.json"):
            Prepared.open(tmp_path / "out")


def test_foreign_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="something else"):
        prepare(config(tmp_path), tmp_path / "mine")
    assert contents(tmp_path / "mine") == {"thesis.txt": b"years of work"}


def test_given_tokenizers_are_used(tmp_path: Path) -> None:
    settings = config(tmp_path)
    own = prepare(settings, tmp_path / "own")
    words = TokenizerPair.train([], TokenizerConfig(kind="word"))
    given = prepare(settings, tmp_path / "given", tokenizers=words)
    assert given.tokenizers.source.kind == "word"
    assert given.key != own.key
    assert prepare(settings, tmp_path / "given", tokenizers=words).key == given.key


def test_a_prepared_directory_can_be_named_instead_of_files(tmp_path: Path) -> None:
    made = prepare(config(tmp_path), tmp_path / "out")
    named = TrainConfig(out="unused", data=DataConfig(prepared=str(tmp_path / "out"), source_language="sv"))
    opened = prepare(named, tmp_path / "ignored", tokenizers=made.tokenizers)
    assert opened.key == made.key
    assert opened.languages == ("sv", "de")
    assert not (tmp_path / "ignored").exists()
    with pytest.raises(DataError, match="other tokenizers"):
        prepare(named, tmp_path / "x", tokenizers=TokenizerPair.train([], TokenizerConfig(kind="word")))
    with pytest.raises(DataError, match="not a prepared directory"):
        Prepared.open(tmp_path)


def test_settings_that_prepared_data_do_not_have_are_refused(tmp_path: Path) -> None:
    made = prepare(config(tmp_path, drop_duplicates=True), tmp_path / "out")
    same = DataConfig(prepared=str(tmp_path / "out"), drop_duplicates=True)
    assert prepare(TrainConfig(out="x", data=same, tokenizer=TokenizerConfig(vocab_size=320)), "x").key == made.key
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size: 320 for the data, 400 now"):
        prepare(TrainConfig(out="x", data=same, tokenizer=TokenizerConfig(vocab_size=400)), "x")
    other = DataConfig(prepared=str(tmp_path / "out"), drop_duplicates=False)
    with pytest.raises(ConfigError, match=r"data\.drop_duplicates: True for the data, False now"):
        prepare(TrainConfig(out="x", data=other), "x")


def test_settings_that_were_not_there_when_data_were_prepared_are_refused(tmp_path: Path) -> None:
    made = prepare(config(tmp_path), tmp_path / "out")
    facts = json.loads((made.directory / "prepared.json").read_text())
    del facts["sha256"]
    del facts["settings"]["data"]["fuzzy_matches"]
    (made.directory / "prepared.json").write_text(json.dumps(facts))
    off = DataConfig(prepared=str(made.directory), fuzzy_matches=0)
    assert prepare(TrainConfig(out="x", data=off), "x").key == made.key
    with pytest.raises(ConfigError, match=r"data\.fuzzy_matches: 0 for the data, 2 now"):
        prepare(TrainConfig(out="x", data=off.replace({"fuzzy_matches": 2})), "x")


def test_what_was_chosen_for_prepared_data_stands(tmp_path: Path) -> None:
    files = config(tmp_path).data
    prepare(TrainConfig(out="x", data=files), tmp_path / "out")
    now = DataConfig(prepared=str(tmp_path / "out"))
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size: left open for the data, 300 now"):
        prepare(TrainConfig(out="x", data=now, tokenizer=TokenizerConfig(vocab_size=300)), "x")


def test_the_current_directory_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(DataError, match="a directory of their own"):
        prepare(settings, ".")


def test_text_that_ends_in_a_carriage_return_keeps_it(tmp_path: Path) -> None:
    settings = config(tmp_path, dev=1)
    Path(settings.data.dev_source[0]).write_bytes(b"\xef\xbb\xbf\xef\xbb\xbfthe cat\r\r\n")
    assert prepare(settings, tmp_path / "out").dev_source == ["\ufeffthe cat\r"]


def test_nothing_left_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no training pair is left"):
        prepare(config(tmp_path, max_source_tokens=1), tmp_path / "out")
    with pytest.raises(ConfigError, match="no training pairs"):
        prepare(TrainConfig(out="x"), tmp_path / "out")
    with pytest.raises(DataError, match="too few pairs"):
        prepare(config(tmp_path, count=1, dev=0), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_left_beside_the_held_out_pairs_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"a {i}\tb {i}\n" for i in range(9)), encoding="utf-8")
    file = str(tmp_path / "a.tsv")
    data = {"pairs": [file], "dev_pairs": [file], "drop_overlap": True}
    with pytest.raises(DataError, match=r"no training pair is left(?s:.*)9 overlap(?s:.*)drop_overlap"):
        prepare(make_config({"out": str(tmp_path / "run"), "data": data}), tmp_path / "data")
