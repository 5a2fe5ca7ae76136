"""Plain values held against types: what can be converted for certain is, and all that is wrong is told at once.

A type is what an annotation says: `bool`, `int`, `float`, `str`, a `Literal`, one of these or None, a tuple or dict of
them, a regular expression, a dataclass, or a class that reads itself (`Readable`); with `Bounds`, `Before` and `Like`
in its metadata. Values come from TOML, JSON, the command line and Python, so text may stand for a number or for yes and
no, and lists for tuples.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from dragoman.config.near import near_names

Number = int | float
Answer = Callable[[str, Collection[str]], str | None]
T = TypeVar("T")

_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*(\.0+)?")
_BOOLS = dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True)
_BOOLS |= dict.fromkeys(("0", "false", "f", "no", "n", "off"), False)
_LARGEST = 2**63  # of floats that are taken for whole numbers
SHOWN = 50  # mistakes that a message lists
_WIDTH = 100  # characters of a value that a message shows


class Bounds:
    """Limits of a number, in the metadata of its type: greater than, greater or equal, less than, less or equal."""

    def __init__(
        self, *, gt: Number | None = None, ge: Number | None = None, lt: Number | None = None, le: Number | None = None
    ) -> None:
        self.gt, self.ge, self.lt, self.le = gt, ge, lt, le

    def hold(self, value: Number) -> bool:
        """Return whether a number is within them."""
        return (
            (self.gt is None or value > self.gt)
            and (self.ge is None or value >= self.ge)
            and (self.lt is None or value < self.lt)
            and (self.le is None or value <= self.le)
        )

    def words(self, *, whole: bool) -> str:
        """Return them in words that follow "a number"; those of whole numbers include both ends."""
        if whole:
            low = self.ge if self.gt is None else self.gt + 1
            high = self.le if self.lt is None else self.lt - 1
            if low is not None and high is not None:
                return f" from {low:,} to {high:,}"
            return f" of at least {low:,}" if low is not None else f" of at most {high:,}"
        if self.ge is not None and self.le is not None:
            return f" from {self.ge:g} to {self.le:g}"
        parts = [("above", self.gt), ("of at least", self.ge), ("below", self.lt), ("at most", self.le)]
        return " " + " and ".join(f"{what} {limit:g}" for what, limit in parts if limit is not None)


class Before:
    """What is done to a value before its type is looked at, and what may be given then, in words."""

    def __init__(self, function: Callable[[object], object], expected: str) -> None:
        self.function, self.expected = function, expected


class Like:
    """What a text has to look like: a regular expression, and the same in words."""

    def __init__(self, pattern: str, expected: str) -> None:
        self.pattern, self.expected = pattern, expected


class Mistake(NamedTuple):
    """What is wrong with one value: its dotted name ("" for the whole) and a message that tells what was found."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class Readable(Protocol):
    """A class that makes itself of plain values, as sections of settings do."""

    @classmethod
    def read(cls, value: object, place: str, mistakes: list[Mistake]) -> Any:
        """Return what a value makes of it, or anything at all once it has told its `mistakes`."""


class _Refused(Exception):
    """A value is not of its type and cannot be made so."""


def convert(value: Any, kind: Any, place: str, mistakes: list[Mistake]) -> Any:
    """Return a value as one of a type, converted where there is only one way to.

    Args:
        value: what was given.
        kind: the type.
        place: the dotted name of the value, for messages.
        mistakes: takes what is wrong; if it grew, what is returned is worth nothing.
    """
    try:
        return _converted(value, kind, place, mistakes)
    except _Refused:
        mistakes.append(Mistake(place, f"expected {in_words(kind)} (found {shown(value)})"))
        return None


def _converted(value: Any, kind: Any, place: str, mistakes: list[Mistake]) -> Any:
    """The same; raises `_Refused` where the value as a whole is not of the type."""
    if type(value) is kind and kind in (bool, int, NoneType):
        return value
    if plain := _PLAIN.get(kind):
        return plain(_scalar(value))
    if hasattr(kind, "read"):
        return kind.read(value, place, mistakes)
    if is_dataclass(kind):
        return convert_dataclass(value, kind, place, mistakes)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(value, parts, place, mistakes)
    if origin in (Union, UnionType):
        return None if value is None else _converted(value, _alone(parts), place, mistakes)
    if origin is Literal and isinstance(value, (str, int)) and value in parts:
        return parts[parts.index(value)]
    if origin is re.Pattern or kind is re.Pattern:
        return _expression(value)
    if origin is tuple and isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        return tuple(convert(item, parts[0], f"{place}.{i}", mistakes) for i, item in enumerate(value))
    if origin is dict and isinstance(value, Mapping):
        places = {key: f"{place}.{key}" if place else str(key) for key in value}
        return {
            convert(key, parts[0], places[key], mistakes): convert(one, parts[1], places[key], mistakes)
            for key, one in value.items()
        }
    raise _Refused


def _annotated(value: Any, parts: tuple[Any, ...], place: str, mistakes: list[Mistake]) -> Any:
    for part in parts[1:]:
        if isinstance(part, Before):
            value = part.function(value)
    found = _converted(value, parts[0], place, mistakes)
    for part in parts[1:]:
        if isinstance(part, Bounds) and not part.hold(found):
            raise _Refused
        if isinstance(part, Like) and not re.fullmatch(part.pattern, found):
            raise _Refused
    return found


def _scalar(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _whole(value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST:
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(text := value.strip()):
        try:
            return int(text.partition(".")[0])
        except ValueError:  # more digits than Python converts
            raise _Refused from None
    raise _Refused


def _real(value: Any) -> float:
    if not (isinstance(value, (int, float)) or (isinstance(value, str) and value.isascii())):
        raise _Refused
    try:
        found = float(value)
    except (ValueError, OverflowError):
        raise _Refused from None
    if not math.isfinite(found):
        raise _Refused
    return found


def _yes_or_no(value: Any) -> bool:
    found = _BOOLS.get(value.lower()) if isinstance(value, str) else None
    if found is None and isinstance(value, (int, float)) and value in (0, 1):
        found = bool(value)
    if found is None:
        raise _Refused
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Refused
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:  # half a surrogate pair: bytes that were not UTF-8
        raise _Refused from None
    return value if type(value) is str else str.__str__(value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise _Refused


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    bool: _yes_or_no,
    int: _whole,
    float: _real,
    str: _text,
    NoneType: _nothing,
    object: lambda value: value,
}


def _expression(value: Any) -> re.Pattern[str]:
    if isinstance(value, re.Pattern):
        return value
    try:
        return re.compile(_text(value))
    except (re.error, RecursionError):
        raise _Refused from None


def convert_dataclass(value: object, kind: type[T], place: str, mistakes: list[Mistake]) -> T:
    """Return a dataclass of a table of its fields; see `convert`."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        mistakes.append(Mistake(place, f"expected a table (found {shown(value)})"))
        return cast(T, None)
    before = len(mistakes)
    needed = {one.name for one in fields(cast(Any, kind)) if one.default is MISSING and one.default_factory is MISSING}
    found = convert_fields(value, get_type_hints(kind, include_extras=True), place, mistakes, needed=needed)
    return kind(**found) if len(mistakes) == before else cast(T, None)


def convert_fields(
    tree: Mapping[Any, Any],
    types: Mapping[str, Any],
    place: str,
    mistakes: list[Mistake],
    *,
    needed: Collection[str] = (),
    answer: Answer | None = None,
) -> dict[str, Any]:
    """Return the values of a table by name, each as one of its type.

    Args:
        tree: what was given.
        types: of every name that there is.
        place: the dotted name of the table, for messages.
        mistakes: takes what is wrong; unknown names with the nearest known one.
        needed: names that must be given.
        answer: what to say to an unknown name, given the known ones; by itself, those it is a slip of.
    """
    dotted = f"{place}." if place else ""
    found = {name: convert(tree[name], kind, dotted + name, mistakes) for name, kind in types.items() if name in tree}
    for name, kind in types.items():
        if name in needed and name not in tree:
            mistakes.append(Mistake(dotted + name, f"must be given ({in_words(kind)})"))
    for name in tree:
        if name not in types:
            # Near names are looked for as long as somebody will read them: a file may have any number of unknown ones.
            hint = _hint(name, types, answer) if len(mistakes) < SHOWN else ""
            called = str(name) if len(str(name)) <= _WIDTH else shown(name)
            mistakes.append(Mistake(dotted + called, f"there is no such name here{hint} (found {shown(tree[name])})"))
    return found


def told(mistakes: Sequence[Mistake]) -> str:
    """Return mistakes as lines of a message, `SHOWN` of them at most."""
    rows = [str(one) for one in mistakes[:SHOWN]]
    if len(mistakes) > SHOWN:
        rows.append(f"and {len(mistakes) - SHOWN:,} more")
    return "".join(f"\n  {row}" for row in rows)


def _hint(name: object, types: Mapping[str, Any], answer: Answer | None) -> str:
    if not isinstance(name, str):
        return ""
    if answer is not None:
        told = answer(name, types)
    else:
        told = " or ".join(map(repr, near_names(name, types)))
        told = f"did you mean {told}?" if told else None
    return f"; {told}" if told else ""


def _alone(parts: tuple[Any, ...]) -> Any:
    """The one type of which a value is, if it is not None."""
    (kind,) = (part for part in parts if part is not NoneType)
    return kind


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "nothing"}


def in_words(kind: Any) -> str:
    """Return what a type accepts, in words: "a whole number of at least 1"."""
    if kind in _WORDS:
        return _WORDS[kind]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        for part in parts[1:]:
            if isinstance(part, (Before, Like)):
                return part.expected
        bounds = [part.words(whole=parts[0] is int) for part in parts[1:] if isinstance(part, Bounds)]
        return in_words(parts[0]) + "".join(bounds)
    if origin in (Union, UnionType):
        return in_words(_alone(parts))
    if origin is Literal:
        *others, last = map(str, parts)
        return f"{', '.join(others)} or {last}" if others else last
    if origin is tuple:
        return f"a list, each item {in_words(parts[0])}"
    return "a regular expression" if re.Pattern in (origin, kind) else "a table"


def shown(value: object) -> str:
    """Return a value as messages show it, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # more digits than Python converts, or too deep
        text = f"a {type(value).__name__} too large to be shown"
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
