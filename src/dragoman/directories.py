"""Directories that appear under their name complete, or not at all.

What is made lies in a temporary sibling, on the same file system, until it is moved to where it belongs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.files import make_directory, remove, temporary_sibling, written_as


def check_new(out: Path) -> None:
    """Refuse to make a directory where something is already; an empty directory may be there.

    Raises:
        ConfigError: something is.
    """
    if os.path.lexists(out) and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError("something is there already", file=out, hint="give another one (--out)")
    if above := [one for one in out.parents if one.exists() and not one.is_dir()]:
        raise ConfigError("no directory can be made in a file", file=above[0], hint="give another one (--out)")


@contextmanager
def prepared(out: Path) -> Iterator[Path]:
    """Give an empty directory beside `out` to work in; what was not moved out of it goes in the end.

    Raises:
        OSError: it cannot be made; this, and what the system says of what is in it, names `out`.
    """
    make_directory(out.absolute().parent)
    temporary = temporary_sibling(out.absolute())
    try:
        with written_as(temporary, out):
            with suppress(FileNotFoundError):
                remove(temporary)  # of a process of the same number that was killed
            temporary.mkdir()
            yield temporary
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            remove(temporary)


def put(made: Path, out: Path) -> None:
    """Let a directory that is complete appear as `out`, in place of an empty one."""
    with suppress(FileNotFoundError):
        out.rmdir()
    os.rename(made, out)
