"""From which files a model was opened, so that what is read later, or in another process, comes from the same ones."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.errors import DragomanError, ModelError
from dragoman.files import encode_json, opened, read_json, size_of
from dragoman.models.blueprint import count_numbers
from dragoman.models.description import CONFIG, WEIGHTS, read_config
from dragoman.models.draft import blueprint_of
from dragoman.models.sums import START
from dragoman.shown import count
from dragoman.text.tokenizer_pair import all_tokenizer_files

_PIECE = 1 << 20
_HEAD = 8 + len(START)  # of a file of tensors, before the digits of its sum
# What the weights are used with in PyTorch, where it is loaded later than they.
LATER = (CONFIG, WEIGHTS)
Stamp = tuple[int, int, int, int]


class OpenedFiles:
    """The files of model directories as they were when a model was opened, and how it was opened.

    Args:
        directories: of one model, or of several.
        how: the arguments of `from_pretrained` besides them.

    Attributes:
        directories: their absolute paths, whatever the working directory becomes.
        given: their paths as they were given.
    """

    def __init__(self, directories: Sequence[str | Path], how: Mapping[str, Any]) -> None:
        self.given = tuple(map(str, directories))
        self.directories = tuple(Path(os.path.abspath(one)) for one in directories)
        self.how = dict(how)
        self._stamps: dict[Path, Stamp | None] = {path: _stamp(path) for path in self._there()}
        # The sums that cost nothing now.
        self._sums = {path: told for path in self._stamps if (told := _told_sum(path)) is not None}

    def check(self, names: Sequence[str] | None = None) -> None:
        """Make sure that the files are those that were opened, or copies of them.

        Args:
            names: of the files to look at in each directory; all that belong to a model if None.

        Raises:
            ModelError: one is another one now, is gone, or was not there.
        """
        for path in sorted({*self._stamps, *self._there()}):
            if (names is None or path.name in names) and not self._is_same(path):
                found = "a file that was not there" if path not in self._stamps else "another one, or a changed one"
                hint = "open the model anew with from_pretrained, or bring the former files back"
                raise ModelError(
                    "the model was opened from another file than this", file=path, expected="the file as it was opened",
                    found=found if path.exists() else "no file", hint=hint,
                )  # fmt: skip

    def opened_with(self, how: Mapping[str, Any]) -> OpenedFiles:
        """Return the same files, opened with other arguments besides; None is as it was."""
        made = object.__new__(OpenedFiles)
        given = {name: one for name, one in how.items() if one is not None}
        made.__dict__.update(self.__dict__, how={**self.how, **given})
        return made

    def reopen(self, kind: type[Any]) -> Any:
        """Return a model of a class opened again, with its `from_pretrained`.

        Raises:
            ModelError: the files are not the same.
        """
        self.check()
        first, *others = self.directories
        return kind.from_pretrained([first, *others] if others else first, **self.how)

    def __str__(self) -> str:
        return ", ".join(map(repr, self.given)) + self._size()

    def _size(self) -> str:
        try:
            numbers = sum(count_numbers(blueprint_of(read_config(one)[0])) for one in self.directories)
        except DragomanError:  # a Markov model, or it is gone meanwhile
            return ""
        return f": {count(numbers)} parameters"

    def _there(self) -> Iterator[Path]:
        for folder in self.directories:
            if folder.is_dir():
                yield from (path for path in folder.iterdir() if _belongs(path))

    def _is_same(self, path: Path) -> bool:
        stamp = _stamp(path)
        if stamp is None or path not in self._stamps:
            return False
        return stamp == self._stamps[path] or (path in self._sums and _sum(path) == self._sums[path])

    def __getstate__(self) -> dict[str, Any]:
        self.check()
        for path in self._stamps.keys() - self._sums.keys():
            self._sums[path] = _sum(path)
        # Another machine, or a copy, has other stamps.
        return {**self.__dict__, "_stamps": dict.fromkeys(self._stamps)}


class Reopened:
    """A base for what is opened from model directories: pickled and copied as their paths, not with its weights.

    What was made of a model in memory is pickled whole, where its engine can be.

    Attributes:
        opened: the files; None of what was made in memory.
    """

    opened: OpenedFiles | None = None

    def __repr__(self) -> str:
        parts = ["of models in memory" if self.opened is None else str(self.opened), *self._details()]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _details(self) -> Iterator[str]:
        """What else is said of it in its short form."""
        yield from ()

    def __reduce_ex__(self, protocol: Any, /) -> Any:
        if self.opened is None:
            return super().__reduce_ex__(protocol)
        kept = {name: value for name, value in self.__dict__.items() if name == "decoding"}
        return _reopened, (type(self), self.opened), kept


def _reopened(kind: type[Any], files: OpenedFiles) -> Any:
    return files.reopen(kind)


def _belongs(path: Path) -> bool:
    """Whether a file of a directory is one of the model, which changes what it gives."""
    known = (CONFIG, "markov.json", *all_tokenizer_files())
    return path.suffix in (".safetensors", ".model") or path.name in known


def _stamp(path: Path) -> Stamp | None:
    """What a file system knows of a file; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _sum(path: Path) -> str:
    told = _told_sum(path)
    if told is not None:
        return told
    with opened(path) as file:
        found, size = 0, 0
        while piece := file.read(_PIECE):
            found, size = zlib.crc32(piece, found), size + len(piece)
    return f"{size} {found:08x}"


def _told_sum(path: Path) -> str | None:
    """What a file says of itself: its size and its own sum; of a description, what it says of the model's shape."""
    try:
        if path.name == CONFIG:
            return f"{zlib.crc32(encode_json(read_json(path)['model'])):08x}"
        if path.suffix != ".safetensors":
            return None
        with opened(path) as file:
            head = file.read(_HEAD + 8)
            size = size_of(file)
    except (ModelError, KeyError):
        return None
    return f"{size} {head[_HEAD:].decode(errors='replace')}" if head[8:_HEAD] == START else None
