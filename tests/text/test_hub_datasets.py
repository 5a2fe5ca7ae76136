"""Files of data sets on the Hugging Face hub: fetched when they are named, and read as any file."""

from __future__ import annotations

import gzip
import inspect
import shutil
import sys
import types
from pathlib import Path

import pytest

from dragoman import remote
from dragoman.cleaning import clean
from dragoman.config import DataConfig
from dragoman.data import prepare
from dragoman.errors import ConfigError, DataError
from dragoman.text import PairFormat, ParallelCorpus
from dragoman.text.lines import count_lines, file_hash, read_lines
from small_runs import small_config

ROWS = [{"translation": {"de": f"Satz {n}", "en": f"sentence {n}"}} for n in range(30)]


class Hub(types.ModuleType):
    """Has the files of one data set, and keeps what it was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__("huggingface_hub")
        self.folder, self.asked = folder, list[tuple[str, str, str | None]]()
        self.HfApi, self.is_here = lambda: self, True

    def dataset_info(self, repo_id: str, *, revision: str | None = None, timeout: float | None = None) -> None:
        assert timeout is not None
        assert 0 < timeout <= 10
        if not self.is_here:
            raise ConnectionError("no route to host\nand a long explanation")

    def hf_hub_download(
        self, repo_id: str, filename: str, *, repo_type: str, revision: str | None, etag_timeout: float,
        local_files_only: bool,
    ) -> str:  # fmt: skip
        assert repo_type == "dataset"
        assert 0 < etag_timeout <= 60
        assert local_files_only is not self.is_here
        self.asked.append((repo_id, filename, revision))
        path = self.folder / filename
        if not path.exists():
            raise FileNotFoundError(f"404: no {filename}\nand a long explanation")
        return str(path)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    folder = tmp_path / "hub"
    (folder / "de-en").mkdir(parents=True)
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(ROWS), folder / "de-en" / "train.parquet")
    with gzip.open(folder / "train.de.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"Satz {n}\n" for n in range(30))
    made = Hub(folder)
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)
    remote._fetched.cache_clear()
    return made


def test_translations_by_language_are_read(hub: Hub) -> None:
    name = "hf://datasets/org/name/de-en/train.parquet"
    form = PairFormat.of("source=de,target=en")
    pairs = list(ParallelCorpus.from_pairs([name], form=form))
    assert [(pair.source, pair.target) for pair in pairs] == [tuple(row["translation"].values()) for row in ROWS]
    assert {pair.file for pair in pairs} == {name}
    assert file_hash(name) == file_hash(hub.folder / "de-en" / "train.parquet")
    assert hub.asked == [("org/name", "de-en/train.parquet", None)]  # once, however often it is read


def test_lines_are_read_and_a_revision_is_asked_for(hub: Hub) -> None:
    for shown, revision in (("", None), ("@v1.0", "v1.0"), ("@~parquet", "refs/convert/parquet"), ("@a%2Fb", "a/b")):
        name = f"hf://datasets/org/my.name_2{shown}/train.de.gz"
        assert count_lines(name) == 30
        assert next(read_lines(Path(name))).text == "Satz 0"
        assert set(hub.asked) == {("org/my.name_2", "train.de.gz", revision)}
        hub.asked.clear()


@pytest.mark.parametrize("shards", [(), ("data.shard_pairs=10",)])
def test_they_are_prepared_as_if_they_lay_here(hub: Hub, tmp_path: Path, shards: tuple[str, ...]) -> None:
    config = small_config(tmp_path, "run", *shards)
    here = shutil.copy(hub.folder / "de-en" / "train.parquet", tmp_path / "train.parquet")
    stores = []
    for number, name in enumerate(("hf://datasets/org/name/de-en/train.parquet", str(here))):
        data = {**config.data.to_dict(unset=False), "source": (), "target": (), "pairs": [name]}
        own = config.replace({"data": DataConfig.from_dict({**data, "columns": "source=de,target=en"}).to_dict()})
        stores.append(prepare(own, tmp_path / f"data{number}"))
    assert stores[0].key == stores[1].key
    assert stores[0].train.tokens("target").tolist() == stores[1].train.tokens("target").tolist()


def test_what_cannot_be_had_is_told_in_one_line(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"cannot be fetched(.|\n)*404: no more.tsv") as told:
        count_lines("hf://datasets/org/name/more.tsv")
    assert "long explanation" not in str(told.value)
    hub.is_here = False
    assert count_lines("hf://datasets/org/name/train.de.gz") == 30  # from the cache
    with pytest.raises(DataError, match=r"cannot be fetched(.|\n)*no answer from the hub: ConnectionError: no") as told:
        count_lines("hf://datasets/org/name/other.tsv")
    assert "long explanation" not in str(told.value)
    for wrong in (
        "hf://datasets/org/name",
        "hf://org/name/a.tsv",
        "hf://datasets/org/name/*.tsv",
        "hf://datasets/a/b/",
    ):
        with pytest.raises(ConfigError, match="hf://datasets/ORG/NAME/FILE"):
            count_lines(wrong)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DataError, match=r"pip install 'dragoman\[hub\]'"):
        count_lines("hf://datasets/org/name/third.tsv")


def test_other_paths_are_left_alone(hub: Hub, tmp_path: Path) -> None:
    for path in ("-", "a.tsv", tmp_path, "org/name/a.tsv", "https://host/a.tsv"):
        assert remote.local_file(path) is path
    assert hub.asked == []


def test_the_package_takes_what_it_is_asked() -> None:
    package = pytest.importorskip("huggingface_hub")
    for theirs, ours in (
        (package.hf_hub_download, Hub.hf_hub_download),
        (package.HfApi.dataset_info, Hub.dataset_info),
    ):
        assert set(inspect.signature(ours).parameters) <= {"self", *inspect.signature(theirs).parameters}


def test_they_are_cleaned(hub: Hub, tmp_path: Path) -> None:
    form = PairFormat.of("source=de,target=en")
    corpus = ParallelCorpus.from_pairs(["hf://datasets/org/name/de-en/train.parquet"], form=form)
    report = clean(corpus, tmp_path / "out", without=("near duplicate", "numbers"))
    assert report.read == 30
    assert len((tmp_path / "out" / "source.txt").read_text(encoding="utf-8").splitlines()) == report.kept > 0
