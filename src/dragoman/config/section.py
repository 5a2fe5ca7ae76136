"""What the sections are made of: frozen tables of settings that check what they are given.

Values that are exactly of their types and within their bounds, such as those of a file that was written here, are
taken at once. All others are left to pydantic (`checking`), which takes what can be converted and tells all that is
wrong. To import it takes longer than a short translation, so it is only imported then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

S = TypeVar("S", bound="Section")
Number = int | float
EXACT = 2**53  # whole numbers up to this one are floats too


class Bounds:
    """Limits of a number, in the metadata of its type: greater than, greater or equal, less than, less or equal."""

    def __init__(
        self, *, gt: Number | None = None, ge: Number | None = None, lt: Number | None = None, le: Number | None = None
    ) -> None:
        self.gt, self.ge, self.lt, self.le = gt, ge, lt, le

    def hold(self, value: Number) -> bool:
        """Whether a number is within them."""
        return (
            (self.gt is None or value > self.gt)
            and (self.ge is None or value >= self.ge)
            and (self.lt is None or value < self.lt)
            and (self.le is None or value <= self.le)
        )


class Before:
    """What is done to a value before its type is looked at, in the metadata of that type."""

    def __init__(self, function: Callable[[object], object]) -> None:
        self.function = function


class Setting:
    """The default of a setting (`...`: there is none) and what it means."""

    def __init__(self, default: object, description: str) -> None:
        self.default, self.description = default, description


def setting(*, default: Any = ..., description: str = "") -> Any:
    """A setting of a section: its default, where it has one, and what it means."""
    return Setting(default, description)


class NotPlain(ValueError):
    """A value is not exactly of its type, or not within its bounds: perhaps it can be converted."""


def _take(section: Section, **given: Any) -> None:
    section.__dict__.update(section.from_dict(given).__dict__)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting,))
class Section:
    """One frozen table of settings; unknown keys are errors.

    Raises:
        ConfigError: a value has the wrong type or two contradict each other; all are listed at once.

    Attributes:
        settings: default and meaning of each setting by name.
        defaults: the values of those that have one.
        given: names of the settings that were not left at their defaults, though they may be the same.
    """

    settings: ClassVar[dict[str, Setting]] = {}
    defaults: ClassVar[dict[str, Any]] = {}
    given: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        found = {name: cls.__dict__.get(name, ...) for name in cls.__annotations__}
        cls.settings = {n: one if isinstance(one, Setting) else Setting(one, "") for n, one in found.items()}
        cls.defaults = {name: one.default for name, one in cls.settings.items() if one.default is not ...}
        for name in cls.settings.keys() & cls.__dict__.keys():
            delattr(cls, name)

    __init__ = _take

    @classmethod
    def from_dict(cls: type[S], tree: Mapping[str, Any], *, file: str | Path | None = None) -> S:
        """A section from plain values by name, those of further sections in dicts of their own.

        Args:
            tree: the values that are not to be the defaults.
            file: where they are from.

        Raises:
            ConfigError: as for the class itself.
        """
        try:
            return _section(cls, tree)
        except ValueError:
            from dragoman.config.checking import checked

            return checked(cls, tree, file)

    @classmethod
    def made(cls: type[S], values: Mapping[str, Any], given: frozenset[str]) -> S:
        """A section of values that have the right types, which are only held against each other.

        Args:
            values: all of them, by name.
            given: names of those that were given.

        Raises:
            ValueError: two contradict each other.
        """
        section = cls.__new__(cls)
        section.__dict__.update(values, given=given)
        section.check()
        return section

    @classmethod
    def types(cls) -> dict[str, Any]:
        """The type of each setting by name, with bounds and conversions in its metadata."""
        if "_types" not in cls.__dict__:
            found = get_type_hints(cls, include_extras=True)
            cls._types = {name: found[name] for name in cls.settings}
        return cast(dict[str, Any], cls.__dict__["_types"])

    def check(self) -> None:
        """Hold the settings against each other.

        Raises:
            ValueError: two contradict each other.
        """

    def to_dict(self, *, unset: bool = True, none: bool = True) -> dict[str, Any]:
        """Plain values by name, those of further sections in dicts of their own.

        Args:
            unset: those that were left at their defaults too.
            none: those that are None too.
        """
        values = {name: getattr(self, name) for name in self.settings if unset or name in self.given}
        return {
            name: value.to_dict(unset=unset, none=none) if isinstance(value, Section) else value
            for name, value in values.items()
            if none or value is not None
        }

    def replace(self: S, changes: Mapping[str, object]) -> S:
        """A copy with the named fields changed, checked again.

        Raises:
            ConfigError: the changed fields do not hold together with the others.
        """
        try:
            changed = _plain_values(self.__class__, changes)
            values = {name: getattr(self, name) for name in self.settings}
            return self.made({**values, **changed}, self.given.union(changed))
        except ValueError:
            return self.from_dict({**self.to_dict(unset=False), **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings are frozen: {name} can be changed in a copy (replace)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"settings are frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == cast(Section, other)._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.settings)})"

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.settings)


def _section(kind: type[S], tree: Mapping[str, Any]) -> S:
    """A section of plain values.

    Raises:
        ValueError: a value is not plain or is missing, or two contradict each other.
    """
    values = {**kind.defaults, **_plain_values(kind, tree)}
    if len(values) < len(kind.settings):
        raise NotPlain("a setting without a default is missing")
    return kind.made(values, frozenset(tree))


def _plain_values(kind: type[Section], tree: Mapping[str, Any]) -> dict[str, Any]:
    if not tree:
        return {}
    if not tree.keys() <= kind.settings.keys():
        raise NotPlain("unknown settings")
    types = kind.types()
    return {name: _plain(value, types[name]) for name, value in tree.items()}


def _plain(value: Any, kind: Any) -> Any:
    """A value that is of a type as it is, or for which there is only one way to be."""
    if kind in (bool, int, NoneType):
        fits = type(value) is kind
    elif kind is float:
        if type(value) is int and abs(value) <= EXACT:
            return float(value)
        fits = type(value) is float and math.isfinite(value)
    elif kind is str:
        fits = type(value) is str and (value.isascii() or bool(value.encode()))  # half a surrogate pair is not text
    elif isinstance(kind, type) and issubclass(kind, Section):
        if type(value) is dict:
            return _section(kind, value)
        fits = type(value) is kind
    else:
        return _plain_compound(value, get_origin(kind), get_args(kind))
    if not fits:
        raise NotPlain("another type")
    return value


def _plain_compound(value: Any, origin: Any, parts: tuple[Any, ...]) -> Any:
    if origin is Annotated:
        for part in parts[1:]:
            value = part.function(value) if isinstance(part, Before) else value
        found = _plain(value, parts[0])
        if all(part.hold(found) for part in parts[1:] if isinstance(part, Bounds)):
            return found
    elif origin in (Union, UnionType):
        for part in parts:
            try:
                return _plain(value, part)
            except NotPlain:
                pass
    elif origin is Literal:
        if type(value) is str and value in parts:
            return value
    elif origin is tuple and type(value) in (list, tuple):
        return tuple(_plain(item, parts[0]) for item in value)
    raise NotPlain("another type")
