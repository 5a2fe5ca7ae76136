"""Training data given in Python: paths as they are, lists as files in the run directory, so that a run can go on."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from dragoman.audio.listing import Recording
from dragoman.config import SETTINGS_FILE
from dragoman.errors import DataError, DragomanError
from dragoman.files import json_text, make_directory, remove, write_bytes
from dragoman.given import as_texts, check_lines, check_series

FOLDER = "texts"

# One file, several, or the texts themselves: of several things, strings are texts and `Path`s are files.
Lines = str | PathLike[str] | Iterable[str | PathLike[str]]
# The same of pairs: a .tsv or .jsonl file, several, or (source, target) each.
Pairs = str | PathLike[str] | Iterable[PathLike[str] | Sequence[str]]

# Lists of recordings: a .tsv file, several as `Path`s, or the lines themselves.
Sounds = Lines


@contextmanager
def kept_lists(run: Path) -> Iterator[Path]:
    """Give the folder of a run for lists; of a run that is refused before it begins, nothing new is left there."""
    folder = run / FOLDER
    before, run_was_there = set(folder.iterdir()) if folder.is_dir() else set(), run.is_dir()
    try:
        yield folder
    except DragomanError:
        if not (run / SETTINGS_FILE).exists() and folder.is_dir():
            for path in set(folder.iterdir()) - before:
                remove(path)
            for empty in (folder, *([] if run_was_there else [run])):
                with suppress(OSError):
                    empty.rmdir()
        raise


def data_files(given: Mapping[str, Lines | Pairs | None], folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the settings of `[data]` for what was given; lists are written to files first.

    Args:
        given: by the names of the settings; None is left out.
        folder: for the files. Their names tell their content, so that nothing is overwritten by other texts.

    Raises:
        DataError: a text is no string or more than one line, a pair is none, or two lists differ in length.
    """
    found: dict[str, tuple[str, ...]] = {}
    lengths: dict[str, int] = {}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, (str, PathLike)):
            found[name] = (fspath(value),)
            continue
        items = list(check_series(value, name))
        if items and all(isinstance(item, PathLike) for item in items):
            found[name] = tuple(map(fspath, items))
            continue
        lengths[name] = len(items)
        lines = _pair_lines(items, name) if name.endswith("pairs") else check_lines(as_texts(items, name), name)
        if name.endswith("audio"):  # relative to where the program runs, not to the file that is written
            lines = [str(Recording.of_line(line)) if line.strip() else "" for line in lines]
        found[name] = (_write(folder, name, lines),)
    for source in lengths.keys() & {"source", "dev_source", "source_audio", "dev_source_audio"}:
        target = source.removesuffix("_audio").replace("source", "target")
        if target in lengths and lengths[source] != lengths[target]:
            expected = f"as many as in {source}, {lengths[source]:,}"
            raise DataError(f"{target} has another number of texts", expected=expected, found=f"{lengths[target]:,}")
    return found


def _pair_lines(items: Sequence[Any], name: str) -> list[str]:
    lines = []
    for number, item in enumerate(items):
        pair = (item.get("source"), item.get("target")) if isinstance(item, Mapping) else item
        here = f"{name}[{number}]"
        texts = check_lines(as_texts(pair, here), here)
        if len(texts) != 2:
            raise DataError(f"{here} is no pair", expected="(source, target)", found=f"{len(texts)} texts")
        lines.append(json_text({"source": texts[0], "target": texts[1]}))
    return lines


def _write(folder: Path, name: str, lines: Iterable[str]) -> str:
    try:
        data = "".join(f"{line}\n" for line in lines).encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{name} contains what is not text", found=ascii(error.object[error.start : error.end])
        ) from error
    kind = "jsonl" if name.endswith("pairs") else "txt"
    path = folder / f"{name}-{len(data)}-{zlib.crc32(data):08x}.{kind}"
    if not path.exists():
        make_directory(folder)
        write_bytes(path, data)
    return str(path)
