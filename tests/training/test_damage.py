"""Whatever happens to a file of a model, of prepared data or of a checkpoint: it is refused by its name, at once."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.data import Prepared
from dragoman.errors import ConfigError, DragomanError, ModelError
from dragoman.files import check_filled
from dragoman.models import build_model, save_pretrained
from dragoman.models.description import read_config, save_tokenizers
from dragoman.models.stored import read_arrays
from dragoman.runs.checkpoint import load_checkpoint
from dragoman.text import SentencePieceTokenizer, TokenizerPair
from dragoman.training import train
from dragoman.translation import Translator
from forked import run as in_child
from small_runs import WORDS, small_config

PLACES = 12  # of a bit that changes, in each file
STEP = "checkpoints/step-00000004"


def translator(directory: Path) -> Translator:
    return Translator.from_pretrained(directory, device="cpu")


LOADED: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    ".": (translator, ("config.json", "model.safetensors", "vocabulary.source.json", "vocabulary.target.json")),
    "data": (
        Prepared.open,
        (
            "prepared.json", "report.json", "dev.source.txt", "vocabulary.source.json", "train/store.json",
            *(f"{part}/{side}.{kind}" for part in ("train", "dev") for side in ("source", "target")
              for kind in ("tokens", "offsets")),
        ),
    ),
    STEP: (load_checkpoint, ("MANIFEST.json", "state.json", "model.safetensors", "optimizer.safetensors")),
}  # fmt: skip
CASES = [(part, name) for part, (_, names) in LOADED.items() for name in names]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    return train(small_config(folder, "run", "max_steps=4", "validation.every=4"), quiet=True).directory


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a SentencePiece tokenizer."""
    draw = random.Random(0)
    tokenizer = SentencePieceTokenizer.train("bpe", [" ".join(draw.choices(WORDS, k=6)) for _ in range(50)],
                                             vocab_size=300)  # fmt: skip
    sizes = {"source_vocab": len(tokenizer), "target_vocab": len(tokenizer), "d_model": 16, "num_heads": 2, "d_ff": 32}
    config = ModelConfig.from_dict({**sizes, "num_encoder_layers": 1, "num_decoder_layers": 1})
    directory = tmp_path_factory.mktemp("subwords") / "model"
    save_pretrained(directory, build_model(config), config)
    save_tokenizers(directory, TokenizerPair(tokenizer, tokenizer))
    return directory


def refused(load: Callable[[Path], Any], directory: Path, name: str) -> str:
    with pytest.raises(DragomanError) as caught:
        load(directory)
    assert Path(name).name in str(caught.value).split("\n")[0]
    return str(caught.value)


@pytest.mark.parametrize(("part", "name"), CASES)
def test_no_file_changes_unseen(run: Path, tmp_path: Path, part: str, name: str) -> None:
    load = LOADED[part][0]
    directory = tmp_path / Path(part).name if part != "." else tmp_path / "run"
    shutil.copytree(run / part, directory)
    check_each(load, directory, name)


def test_no_subword_model_changes_unseen(subwords: Path, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(subwords, directory)
    check_each(translator, directory, "tokenizer.model")


def check_each(load: Callable[[Path], Any], directory: Path, name: str) -> None:
    path, draw = directory / name, random.Random(name)
    good = path.read_bytes()
    for _ in range(PLACES):
        damaged = bytearray(good)
        damaged[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        refused(load, directory, name)
    path.write_bytes(good[: len(good) // 2])
    refused(load, directory, name)
    path.unlink()
    os.mkfifo(path)
    refused(load, directory, name)
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(load, directory, name)
    path.unlink()
    secret = directory.parent / "secret"
    secret.write_text("qwertz: 'asdfgh'\n" * 3)
    path.symlink_to(secret)
    told = refused(load, directory, name)
    assert "qwertz" not in told
    assert "asdfgh" not in told
    path.unlink()
    (directory.parent / "elsewhere").write_bytes(good)
    path.symlink_to(directory.parent / "elsewhere")
    load(directory)


def test_a_model_whose_files_are_links_is_read(run: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "vocabulary.source.json", "vocabulary.target.json"):
        (tmp_path / name).symlink_to(run / name)
    assert translator(tmp_path).translate(["ba ce"])[0].text == translator(run).translate(["ba ce"])[0].text


def test_an_open_translator_keeps_what_was_checked(run: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    shutil.copytree(run, directory)

    def work() -> None:
        opened = translator(directory)
        before = opened.translate(["ba ce", "di fo gu"])
        with (directory / "model.safetensors").open("r+b") as file:
            file.write(bytes(10_000))
        assert opened.translate(["ba ce", "di fo gu"]) == before
        os.truncate(directory / "model.safetensors", 0)
        assert opened.translate(["ba ce", "di fo gu"]) == before

    assert in_child(work) == 0


@pytest.mark.parametrize("name", ["config.json", "tokenizer.model", "model.safetensors"])
def test_no_mutation_ends_in_anything_but_a_message(subwords: Path, tmp_path: Path, name: str) -> None:
    directory = tmp_path / "model"
    shutil.copytree(subwords, directory)
    tree = json.loads((directory / "config.json").read_text())
    del tree["sha256"], tree["files"]  # so that the parsers see what is wrong
    (directory / "config.json").write_text(json.dumps(tree))
    path, draw = directory / name, random.Random(7)
    good = path.read_bytes()
    if name == "model.safetensors":
        good = good.replace(b'"crc32"', b'"other"')
    loaded = 0
    for _ in range(120):
        mutant = bytearray(good)
        for _ in range(draw.choice((1, 1, 2, 8))):
            place = draw.randrange(min(len(mutant), 4096) or 1)
            length = draw.choice((1, 1, 4, 100))
            change = draw.choice(("flip", "cut", "twice", "noise"))
            if change == "flip":
                mutant[place] ^= 1 << draw.randrange(8)
            elif change == "cut":
                del mutant[place : place + length]
            elif change == "twice":
                mutant[place:place] = mutant[place : place + length]
            else:
                mutant[place : place + length] = draw.randbytes(length)
            mutant = mutant or bytearray(b"x")
        path.write_bytes(mutant)
        try:
            translator(directory)
            loaded += 1
        except DragomanError:
            pass
    assert loaded < 120


def test_tensors_that_overlap_or_leave_holes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for offsets, size in (((0, 8), (4, 12)), 12), (((0, 8), (12, 20)), 20), (((4, 12), (12, 20)), 20):
        header = {name: {"dtype": "F32", "shape": [2], "data_offsets": list(one)}
                  for name, one in zip("ab", offsets, strict=True)}  # fmt: skip
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))
        assert read_arrays(path) is None


def test_a_file_that_is_mostly_holes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(b"x" * 5000)
        file.truncate(1 << 31)
    with pytest.raises(ModelError, match="mostly holes"):
        check_filled(path)
    path.write_bytes(bytes(40 << 20))
    check_filled(path)


@pytest.mark.parametrize("name", ["train.log", "metrics.jsonl", "hypotheses", "checkpoints"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_nothing_is_written_through_a_link(run: Path, tmp_path: Path, name: str, kind: str) -> None:
    directory, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(run, directory, symlinks=True)
    if (directory / name).is_dir():
        shutil.rmtree(directory / name)
        outside.mkdir()
    else:
        (directory / name).unlink()
        outside.write_text("precious")
    if kind == "link":
        (directory / name).symlink_to(outside)
    else:
        os.mkfifo(directory / name)
    with pytest.raises(DragomanError):
        train(small_config(run.parent, "run").replace({"out": str(directory)}), resume=True, quiet=True)
    assert list(outside.iterdir()) == [] if outside.is_dir() else outside.read_text() == "precious"


def test_damaged_metrics_do_not_stop_a_run(run: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    shutil.copytree(run, directory)
    (directory / "README.md").unlink()  # as if it had not ended
    damaged = bytearray((directory / "metrics.jsonl").read_bytes())
    damaged[100] ^= 0x80
    (directory / "metrics.jsonl").write_bytes(damaged)
    settings = (directory / "config.toml").read_text().replace(str(run), str(directory))
    (directory / "config.toml").write_text(settings)
    assert train(small_config(run.parent, "run").replace({"out": str(directory)}), resume=True, quiet=True).progress


def test_settings_that_changed_beside_a_checkpoint_are_noticed(run: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    shutil.copytree(run, directory)
    settings = (directory / "config.toml").read_text()
    assert settings.count("label_smoothing = 0.1\n") == 1
    (directory / "config.toml").write_text(settings.replace("label_smoothing = 0.1\n", "label_smoothing = 0.2\n"))
    given = small_config(run.parent, "run", "label_smoothing=0.2").replace({"out": str(directory)})
    with pytest.raises(ConfigError, match="the checkpoint was made with other settings"):
        train(given, resume=True, quiet=True)


def test_an_id_beyond_the_vocabulary_is_refused(run: Path, tmp_path: Path) -> None:
    data = Prepared.open(run / "data")
    with pytest.raises(DragomanError, match="not in the vocabulary") as caught:
        data.train.check_ids(data.tokenizers.source_vocab, len(data.tokenizers.target) - 1)
    assert caught.value.file is not None
    assert caught.value.file.endswith("target.tokens")


def test_another_search_leaves_the_sums_of_the_tokenizers(run: Path, tmp_path: Path) -> None:
    from dragoman.studies import save_decoding

    directory = tmp_path / "run"
    shutil.copytree(run, directory)
    before = json.loads((directory / "config.json").read_text())
    save_decoding(directory, read_config(directory)[1].replace({"beam_size": 2}))
    after = json.loads((directory / "config.json").read_text())
    assert after["files"] == before["files"]
    assert after["sha256"] != before["sha256"]
    assert after["decoding"]["beam_size"] == 2
    assert torch.is_tensor(translator(directory).transformers[0].state_dict().popitem()[1])
