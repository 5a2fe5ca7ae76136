"""Settings that were given and would do nothing: refused, each with what it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from dragoman.config.decoding import DecodingConfig
from dragoman.config.section import Need, Section, Setting
from dragoman.config.values import Bounds
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.config.tree import TrainConfig


def check_effects(config: TrainConfig, given: TrainConfig | None = None) -> None:
    """Refuse settings that were given and do nothing beside the others.

    What is at its default, or off (0, false), asks for nothing. The settings of `decoding` are those of later searches,
    which may change any of them: they are held against each other where a search is asked for.

    Args:
        config: all settings; what is open in it may still give the others an effect.
        given: the settings as they were given, if `config` has others that were chosen since.

    Raises:
        ConfigError: there are such settings; names all of them.
    """
    from dragoman.config.tree import SECTIONS  # not above: a sentence is translated without the other sections

    said = [
        one
        for name, section in SECTIONS.items()
        if name != "decoding"
        for one in section.settings.values()
        if one.name in getattr(given or config, name).given
    ]
    _refuse(said, lambda dotted: _value(config, dotted))


def check_search(options: DecodingConfig, given: Collection[str]) -> None:
    """Refuse options of a search that were given and do nothing beside the others.

    Args:
        options: all of them.
        given: names of those that were asked for.

    Raises:
        ConfigError: there are such options; names all of them.
    """
    said = [one for one in DecodingConfig.settings.values() if one.name in given]
    _refuse(said, lambda dotted: getattr(options, dotted.partition(".")[2]))


def _refuse(said: Iterable[Setting], value: Callable[[str], object]) -> None:
    idle = [
        f"{one.dotted} = {_shown(value(one.dotted))} needs {' or '.join(_missing(need, value) for need in one.needs)}"
        for one in said
        if one.needs and value(one.dotted) and value(one.dotted) != one.default
        if not any(_holds(need, value) for need in one.needs)
    ]
    if idle:
        message = "a setting would do nothing" if len(idle) == 1 else "some settings would do nothing"
        raise ConfigError(f"{message}: {'; '.join(idle)}", hint="leave it out, or set what it needs")


def _value(config: TrainConfig, dotted: str) -> object:
    section, _, name = dotted.partition(".")
    part: Section = getattr(config, section)
    return getattr(part, name)


def _holds(need: Need, value: Callable[[str], object]) -> bool:
    return all(_allows(allowed, value(dotted)) for dotted, allowed in need.items())


def _missing(need: Need, value: Callable[[str], object]) -> str:
    missing = {dotted: allowed for dotted, allowed in need.items() if not _allows(allowed, value(dotted))}
    return " and ".join(f"{dotted} {_condition(allowed)}" for dotted, allowed in missing.items())


def _allows(allowed: Bounds | tuple[object, ...], value: object) -> bool:
    if isinstance(allowed, Bounds):
        return isinstance(value, (int, float)) and allowed.hold(value)
    return value in allowed or (value is None and ... in allowed)


def _condition(allowed: Bounds | tuple[object, ...]) -> str:
    if isinstance(allowed, Bounds):
        return f"above {allowed.gt:g}" if allowed.gt is not None else f"of at least {allowed.ge}"
    if allowed == (None,):
        return "unset"
    return "= " + " or ".join(_shown(one) for one in allowed if one is not ... and one != "auto")


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"
