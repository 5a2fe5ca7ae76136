"""Sounds to words as one function: files, folders, lists and waveforms in, transcriptions out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from dragoman.audio.listing import Given, Recording, read_list
from dragoman.errors import ConfigError, DataError
from dragoman.studies.given import Texts, decoding_changes, is_file
from dragoman.text import read_texts
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.translation.results import Translation
from dragoman.translation.translator import Translator

# By which a folder's files are known for sounds.
SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".au")


def transcribe(
    model: Translator | str | Path | Sequence[str | Path],
    sounds: Given | Iterable[Given],
    *,
    beam_size: int | None = None,
    n_best: int | None = None,
    length_penalty: float | None = None,
    prefix: str = "",
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    engine: str = "auto",
    precision: str = "auto",
) -> list[Translation]:
    """Write down what is said in sounds, in their order, with a model that was trained on recordings.

    Of silence and steady noise, in which nobody speaks, nothing is written.

    Args:
        model: a run or model directory, several as an ensemble, or a translator (then the last three do not count).
        sounds: a file of sound, a folder of them, a list of recordings (.tsv), or a series of these and of waveforms
            and recordings.
        beam_size: 1 is greedy search; the model's own if None, as for all options.
        n_best: outputs of each sound.
        length_penalty: alpha of the formula.
        prefix: what every output must begin with.
        settings: any other of decoding by name, as `{"max_length": 50}`.
        device: auto, cpu, cuda or mps.
        engine: auto, native, packed or module.
        precision: auto, float32, int8 or bfloat16.

    Raises:
        ConfigError: options are unknown or contradict each other.
        DataError: a file cannot be read, or is no sound.
        ModelError: there is no encoder-decoder, or it is damaged.
    """
    several = [sounds] if isinstance(sounds, (str, PathLike)) or not isinstance(sounds, Iterable) else sounds
    asked = list(expanded(several))
    if not isinstance(model, Translator):
        model = Translator.from_pretrained(model, device=device, engine=engine, precision=precision)
    check_listens(model.tokenizers)
    named = {"beam_size": beam_size, "n_best": n_best, "length_penalty": length_penalty}
    options = model.options(decoding_changes(settings, named))
    from dragoman.studies.transcribing import guarded  # loads PyTorch

    assert model.tokenizers.sound is not None
    heard = guarded(asked, model.tokenizers.sound.sample_rate)
    return list(model.translate_lines(heard, options, prefix=prefix))


def expanded(sounds: Iterable[Given]) -> Iterator[Given]:
    """Yield each sound, of folders and lists all that they name.

    Raises:
        DataError: a file is not there, or a folder has no sounds.
    """
    for one in sounds:
        if isinstance(one, (str, PathLike)):
            yield from named_recordings(Path(one))
        else:
            yield one


def named_recordings(path: Path) -> list[Recording]:
    """Return what a path names: a file of sound, all those of a folder by their names, or all of a list (.tsv).

    Raises:
        DataError: it is not there, a folder has no sounds, or the line of a list is no text or names none.
    """
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if one.suffix.lower() in SUFFIXES and one.is_file())
        if not found:
            raise DataError("the folder has no sounds", file=path, expected=f"files named {', '.join(SUFFIXES)}")
        return [Recording(os.path.abspath(one)) for one in found]
    if not path.exists():
        raise DataError("there is no such file", file=path, expected="a sound, a folder of them, or a list (.tsv)")
    if path.suffix.lower() != ".tsv":
        return [Recording(os.path.abspath(path))]
    return list(read_list(path, read_texts(path)))


def check_listens(tokenizers: TokenizerPair) -> None:
    """Refuse a model of texts where sounds are to be heard.

    Raises:
        ConfigError: it is one.
    """
    if tokenizers.sound is None:
        hint = "`dragoman translate` runs it; a speech model is trained with --source-audio"
        raise ConfigError("the model reads texts, and does not listen to sounds", hint=hint)


def seconds_of(given: Texts | None, lines: Sequence[str]) -> list[float] | None:
    """Return how long each source is where sources are recordings, that is where the first line names a file.

    Args:
        given: the list of recordings, or the sources themselves.
        lines: what stands in it.

    Raises:
        DataError: another line names no recording, or it is no sound.
    """
    listing = Path(given) if given is not None and is_file(given) else Path("sources")
    try:
        first = Recording.of_line(lines[0], folder=os.path.dirname(os.path.abspath(listing))) if lines else None
    except DataError:
        return None
    if first is None or not os.path.isfile(first.path):
        return None
    return [one.seconds for one in read_list(listing, lines)]


def sources_as(tokenizers: TokenizerPair, given: Texts, lines: Sequence[str]) -> list[str]:
    """Return the lines of a file of sources as a model takes them: those of a list of recordings made whole.

    Args:
        tokenizers: of the model.
        given: the file, or the sources themselves.
        lines: what stands in it.

    Raises:
        DataError: a line names no recording.
    """
    if tokenizers.sound is None or not is_file(given):
        return list(lines)
    try:
        return [str(one) for one in read_list(Path(given), lines)]
    except DataError as error:
        error.hint = error.hint or "sources of a model that listens are a list of recordings (.tsv)"
        raise
