"""Packed models in place of directories, for every verb that takes a MODEL."""

from __future__ import annotations

from typing import Any

# Verbs that write into the directory of a model.
_WRITERS = {"tune", "remember", "average", "merge", "plot"}


def opened(context: Any, given: Any) -> Any:
    """Return directories as they are, and of a packed model the folder where it is unpacked.

    Args:
        context: of the verb, which typer gives by its place.
        given: a directory or a file, or several.

    Raises:
        ConfigError: a verb that writes into a model is given a packed one.
    """
    if isinstance(given, (list, tuple)):
        return [opened(context, one) for one in given]
    if given is None or not given.is_file() or context.info_name == "pack":  # which refuses it itself
        return given
    from dragoman.archive import unpacked
    from dragoman.errors import ConfigError

    if context.info_name in _WRITERS:
        hint = f"unpack it: dragoman bundle {given} --out DIR"
        raise ConfigError("a packed model cannot be changed", file=given, expected="a directory", hint=hint)
    return unpacked(given)
