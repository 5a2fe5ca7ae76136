"""Settings from files and from `key=value`, and back to a file; unknown names answered with ours."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragoman.config.elsewhere import answer_for
from dragoman.config.lookup import settings
from dragoman.config.near import near_names
from dragoman.config.tree import SECTIONS, TrainConfig, all_settings
from dragoman.errors import ConfigError
from dragoman.files import write_bytes


def find_setting(name: str, *, file: str | Path | None = None) -> tuple[str, str]:
    """Return section and key of a setting given as `key` or `section.key`, perhaps in a file.

    Raises:
        ConfigError: the name is unknown; the hint is our name for a known foreign one, or the nearest of ours.
    """
    section, dot, key = name.rpartition(".")
    if dot:
        if section not in SECTIONS:
            hint = _home_of(section, key)
            sections = ", ".join(SECTIONS)
            raise ConfigError(f"there is no section {section!r}", file=file, expected=sections, found=name, hint=hint)
        if key in SECTIONS[section].settings:
            return section, key
        raise _unknown(key, name, file)
    for home, fields in SECTIONS.items():
        if name in fields.settings:
            return home, name
    raise _unknown(name, name, file)


def _home_of(section: str, key: str) -> str | None:
    """What to say where a section is unknown: where a setting of that name stands, or what it is a slip of."""
    for home, fields in SECTIONS.items():
        if key in fields.settings:
            return f"{key} is in [{home}]: {home}.{key}"
    near = near_names(section, SECTIONS)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else answer_for(key, ())


def _unknown(key: str, shown: str, file: str | Path | None) -> ConfigError:
    hint = answer_for(key, [one.dotted for one in all_settings() if one.section])
    if hint is None:
        hint = "`dragoman settings` lists all settings"
        with suppress(ConfigError):
            settings(key)
            hint = f"`dragoman settings {key}` lists what has to do with it"
    return ConfigError(f"unknown setting {shown!r}", file=file, hint=hint)


def parse_assignments(assignments: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return `key=value` strings as a tree of sections; values are TOML, or plain strings where they are not.

    Raises:
        ConfigError: an assignment has no `=`, or its key is unknown.
    """
    tree: dict[str, dict[str, Any]] = {}
    for name, value in assigned(assignments):
        section, key = find_setting(name)
        tree.setdefault(section, {})[key] = value
    return tree


def assigned(assignments: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of `key=value` strings; values are TOML, or plain strings where they are not.

    Raises:
        ConfigError: an assignment has no `=`.
    """
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError("a setting is given as key=value", found=assignment)
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except (ValueError, RecursionError):  # numbers of thousands of digits are no TOML either
            value = text.strip()
        yield name.strip(), value


def settings_tree(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return settings given by name, `max_steps` or `training.max_steps`, or by sections, as a tree of sections.

    Raises:
        ConfigError: a name is unknown; the hint is our name for it, or the nearest of ours.
    """
    tree: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        inner = {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, Mapping) else {name: value}
        for dotted, one in inner.items():
            section, key = find_setting(dotted)
            tree.setdefault(section, {})[key] = one
    return tree


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return a TOML file as a tree, names checked, `${NAME}` in the paths of `[data]` replaced from the environment.

    `base = "other.toml"`, at the top, names a file beside it that is read first; what this one sets wins.

    Raises:
        ConfigError: the file is missing, is not TOML, has a key we do not know, names an unset variable, or is its own
            base.
    """
    return _read(Path(path), ())


def _read(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError("cannot read the config file", file=path, found=error.strerror) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError("not a TOML file", file=path, found=error) from error
    base = tree.pop("base", None)
    if not isinstance(base, str | None):
        raise ConfigError("base must name a file", file=path, expected="text", found=base)
    _check_names(tree, path)
    if isinstance(tree.get("data"), dict):
        tree["data"] = {key: _expanded(value, path) for key, value in tree["data"].items()}
    if base is None:
        return tree
    below = path.parent / base
    if below.resolve() in (path.resolve(), *above):
        raise ConfigError("a config file is its own base", file=path, found=base)
    return merge(_read(below, (path.resolve(), *above)), tree)


def _check_names(tree: Mapping[str, Any], path: Path) -> None:
    for name, value in tree.items():
        if isinstance(value, dict):
            for key in value:
                find_setting(f"{name}.{key}", file=path)
        elif name != "out":
            section, _ = find_setting(name, file=path)
            raise ConfigError(f"{name} is outside its section", file=path, hint=f"put it under [{section}]")


def _expanded(value: Any, path: str | Path) -> Any:
    if isinstance(value, list):
        return [_expanded(item, path) for item in value]
    if not isinstance(value, str):
        return value
    try:
        return re.sub(r"\$\{(\w+)\}", lambda found: os.environ[found[1]], value)
    except KeyError as error:
        name = error.args[0]
        raise ConfigError(
            f"the variable {name} is not set", file=path, found=value, hint=f"export {name}=..."
        ) from None


def merge(*trees: Mapping[str, Any]) -> dict[str, Any]:
    """Return trees of sections laid over one another; later ones win."""
    merged: dict[str, Any] = {}
    for tree in trees:
        for name, value in tree.items():
            merged[name] = {**merged.get(name, {}), **value} if isinstance(value, Mapping) else value
    return merged


def make_config(tree: Mapping[str, Any]) -> TrainConfig:
    """Return a `TrainConfig` of a tree of plain values.

    Raises:
        ConfigError: a value has the wrong type or two contradict each other; all are listed at once.
    """
    return TrainConfig.from_dict(tree)


def write_toml(config: TrainConfig, path: str | Path) -> None:
    """Write the whole tree as TOML, every value that is set written out."""
    import tomli_w

    tree = config.to_dict(none=False)
    write_bytes(Path(path), tomli_w.dumps(tree).encode())
