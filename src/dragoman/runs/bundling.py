"""What of a run is needed to translate, and a directory that holds just that."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman.archive import ENDING, as_directory, unpacked, write_archive
from dragoman.audio.waveform import Waveform
from dragoman.directories import check_new, prepared, put
from dragoman.engines import choose_device
from dragoman.errors import ConfigError
from dragoman.files import opened
from dragoman.language import load_language_model
from dragoman.language.loading import family_of
from dragoman.markov.files import SETTINGS, TENSORS
from dragoman.models.description import CONFIG, DATASTORE, WEIGHTS
from dragoman.text.tokenizer_pair import tokenizer_files
from dragoman.translation import Translator

CARD = "README.md"
_PICTURES = ("curves.png",)  # what a card may show


@dataclass(frozen=True)
class Bundle:
    """A directory with what serving a model needs.

    Attributes:
        directory: where it is.
        files: its files -> their bytes.
    """

    directory: Path
    files: dict[str, int]

    @property
    def bytes(self) -> int:
        """Return how much it takes on disk."""
        return sum(self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"directory": str(self.directory), "files": self.files, "bytes": self.bytes}


def needed_files(directory: str | Path) -> list[str]:
    """Return the names of the files of a model directory that running the model needs.

    Its configuration, weights (of a Markov model, counts), tokenizers, fuzzy matches and datastore, as far as it has
    them.

    Raises:
        ModelError: there is no model.
    """
    directory = Path(directory)
    counted = family_of(directory) == "Markov"
    model = (SETTINGS, TENSORS) if counted else (WEIGHTS, DATASTORE)
    names = [CONFIG, *model, *sorted(tokenizer_files(directory))]
    return [name for name in names if (directory / name).exists() or name == WEIGHTS]


def bundle(model: str | Path, out: str | Path) -> Bundle:
    """Copy what running a model needs, and its card, into a directory of its own, and run it there once.

    Checkpoints, prepared data, logs and settings of the training stay behind. The directory appears when all is well.

    Args:
        model: a run or model directory, or a packed model.
        out: the directory to make.

    Raises:
        ConfigError: `out` is there already.
        ModelError: there is no model, or it is damaged.
        SaveError: a file cannot be written.
    """
    source, out = as_directory(Path(model)), Path(out)
    check_new(out)
    names = given_away(source)
    with prepared(out) as made:
        copy_files(source, names, made)
        try_model(made)
        put(made, out)
    return Bundle(out, {name: (out / name).stat().st_size for name in names})


def pack(model: str | Path, out: str | Path) -> Bundle:
    """Put what running a model needs, and its card, into one file, and run it from there once.

    Every verb takes the file for a model: small files are unpacked for it, weights are read where they lie.

    Args:
        model: a run or model directory.
        out: the file to make, which ends in `.dragoman`.

    Raises:
        ConfigError: `out` is there already, or has another ending.
        ModelError: there is no model, it is damaged, or larger than 4 GiB.
    """
    source, out = Path(model), Path(out)
    if out.suffix != ENDING or os.path.lexists(out):
        expected = f"a new file whose name ends in {ENDING}"
        raise ConfigError("a model cannot be packed there", file=out, expected=expected)
    if as_directory(source) != source:
        raise ConfigError("the model is packed already", file=source, expected="a directory", hint="copy the file")
    names = [*needed_files(source), *([CARD] if (source / CARD).exists() else [])]
    with prepared(out) as folder:
        made = folder / out.name
        write_archive(made, {name: source / name for name in names})
        try_model(unpacked(made))
        os.rename(made, out)
    return Bundle(out, {name: (source / name).stat().st_size for name in names})


def given_away(source: Path) -> list[str]:
    """Return the names of the files that somebody gets who is given a model: what it needs, and its card.

    Raises:
        ModelError: there is no model.
    """
    return [*needed_files(source), *(name for name in (CARD, *_PICTURES) if (source / name).exists())]


def copy_files(source: Path, names: Sequence[str], made: Path) -> None:
    """Copy files of a directory into another one, in which there are none of these names."""
    for name in names:
        with opened(source / name) as file, (made / name).open("xb") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)


def try_model(directory: Path) -> None:
    """Open a model, and translate a line if it is one that translates, or a second of silence if it listens.

    Raises:
        DragomanError: it cannot be done.
    """
    if family_of(directory) == "transformer":
        translator = Translator.from_pretrained(directory)
        sound = translator.tokenizers.sound
        translator.translate(["a" if sound is None else Waveform(torch.zeros(sound.sample_rate), sound.sample_rate)])
    else:
        load_language_model(directory, device=str(choose_device("cpu")))
