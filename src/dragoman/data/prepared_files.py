"""The small files of a prepared directory: its description, the corpus report, the held-out texts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dragoman.config import file_keys
from dragoman.config.values import Mistake, convert
from dragoman.errors import DataError, ModelError
from dragoman.files import flush_directory, read_json, sum_of, unsealed, write_new_file
from dragoman.text import CorpusReport, TextReport

FORMAT = 1
PREPARED = "prepared.json"
_FACTS = {"counts", "hashes", "languages", "held_out", "key"}


def read_facts(directory: Path) -> dict[str, Any]:
    """Return what `prepared.json` says.

    Raises:
        DataError: it is missing or damaged, or of another format.
    """
    path = directory / PREPARED
    try:
        facts = unsealed(read_json(path), path)
        if facts["format"] != FORMAT:
            raise DataError("prepared data of an unknown format", file=path, expected=FORMAT, found=facts["format"])
        if any(Path(name).name != name for name in facts["files"]) or not facts.keys() >= _FACTS:
            raise ValueError("entries are missing or wrong")
    except ModelError as error:
        raise DataError(f"not a prepared directory: {error.message}", file=path, found=error.found) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError("the description of the prepared data is damaged", file=path, found=error) from error
    return {"is_text": False, "listens": False, **facts}


def hashes_by_setting(facts: dict[str, Any]) -> dict[str, list[str]]:
    """Return the hashes of the files that each setting named, in their order; of older data none."""
    named, hashes = facts.get("settings", {}).get("data", {}), facts["hashes"]
    keys = [key for key in file_keys("pairs", "text") if key in named and set(named[key]) <= set(hashes)]
    return {key: [hashes[path] for path in named[key]] for key in keys}


def file_sum(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal.

    Raises:
        DataError: it is missing, is not a regular file, or cannot be read.
    """
    try:
        return sum_of(path)
    except ModelError as error:
        raise DataError("cannot read the file", file=path, found=error.found or error.message) from error


def read_report(path: Path, kind: type[CorpusReport] | type[TextReport]) -> CorpusReport | TextReport:
    """Return the corpus report.

    Raises:
        DataError: it is missing or damaged.
    """
    mistakes: list[Mistake] = []
    try:
        found = read_json(path)
    except ModelError as error:
        raise DataError("not a corpus report", file=path, found=error.found or error.message) from error
    found.pop("warnings", None)  # which are made of the rest
    report = convert(found, kind, "", mistakes)
    if mistakes:
        raise DataError("not a corpus report", file=path, found=mistakes[0])
    return report


def write_json(path: Path, tree: dict[str, Any]) -> None:
    """Write a new file of JSON, every character as itself."""
    write_new_file(path, (json.dumps(tree, ensure_ascii=False, indent=2) + "\n").encode("utf-8"))


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """Write a new file with a text on each line."""
    write_new_file(path, "".join(f"{text}\n" for text in texts).encode("utf-8"))


def read_texts(path: Path) -> list[str]:
    """Return the texts that `write_texts` wrote.

    Raises:
        DataError: they are missing or damaged.
    """
    # Not `read_lines`: a CR at the end of a text was a character of it.
    try:
        return path.read_bytes().decode("utf-8").split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("cannot read the held-out texts", file=path, found=error) from error


def _old(directory: Path) -> Path:
    return directory.with_name(f".old-{directory.name}")


def restore(directory: Path) -> None:
    """Put back what a process took away that died before it put the new data in its place."""
    if directory.name and not os.path.lexists(directory) and (_old(directory) / PREPARED).is_file():
        os.rename(_old(directory), directory)


def put(temporary: Path, directory: Path) -> None:
    """Put a new prepared directory in the place of an older one, if there is one."""
    flush_directory(temporary)
    old = _old(directory)
    shutil.rmtree(old, ignore_errors=True)
    if directory.exists():
        os.rename(directory, old)
    os.rename(temporary, directory)
    flush_directory(directory.parent)
    shutil.rmtree(old, ignore_errors=True)
