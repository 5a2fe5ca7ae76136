"""Packed models and names on the Hugging Face hub in place of directories, for every verb that takes a MODEL."""

from __future__ import annotations

from typing import Any

# Verbs that write into the directory of a model.
_WRITERS = {"tune", "remember", "average", "merge", "plot"}


def opened(context: Any, given: Any) -> Any:
    """Return directories as they are, and of a packed model the folder where it is unpacked.

    Args:
        context: of the verb, which typer gives by its place.
        given: a directory, a file or a name on the hub, or several.

    Raises:
        ConfigError: a verb that writes into a model is given a packed one, or one of the hub.
        ModelError: as for `fetched`.
    """
    if isinstance(given, (list, tuple)):
        return [opened(context, one) for one in given]
    given = fetched(context, given)
    if given is None or not given.is_file() or context.info_name == "pack":  # which refuses it itself
        return given
    from dragoman.archive import unpacked
    from dragoman.errors import ConfigError

    if context.info_name in _WRITERS:
        hint = f"unpack it: dragoman bundle {given} --out DIR"
        raise ConfigError("a packed model cannot be changed", file=given, expected="a directory", hint=hint)
    return unpacked(given)


def fetched(context: Any, given: Any) -> Any:
    """Return directories and files as they are, and of a name on the hub the directory where the model is now.

    Args:
        context: of the verb, which typer gives by its place.
        given: a directory, a file or a name on the hub, or several.

    Raises:
        ConfigError: a verb that writes into a model is given one of the hub.
        ModelError: it cannot be had, or the extra `hub` is not installed.
    """
    if isinstance(given, (list, tuple)):
        return [fetched(context, one) for one in given]
    from dragoman.models.hub import is_hub_name, on_disk

    if given is None or not is_hub_name(str(given)):
        return given
    if context.info_name in _WRITERS:
        from dragoman.errors import ConfigError

        hint = f"a model of the hub is copied first: dragoman bundle {given} --out DIR"
        message = "no such directory here, and a model of the hub is not written to"
        raise ConfigError(message, file=given, expected="a directory", hint=hint)
    found = on_disk(str(given))
    return str(found) if isinstance(given, str) else found
