"""What a person gave, checked by pydantic: converted where that is certain, else all mistakes told at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial, reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)

from dragoman.config.section import Before, Bounds, S, Section
from dragoman.errors import ConfigError


def checked(kind: type[S], tree: Mapping[str, Any], file: str | Path | None = None) -> S:
    """A section of any kind from values by name, with pydantic's complaints as one `ConfigError`.

    Args:
        kind: the section.
        tree: the values.
        file: where they are from.

    Raises:
        ConfigError: a value has the wrong type or two contradict each other; all are listed at once.
    """
    try:
        return _adapter(kind).validate_python(_as_tree(kind, tree))
    except ValidationError as error:
        rows = []
        for item in error.errors():
            place = ".".join(str(part) for part in item["loc"])
            given = f" (found {item['input']!r})" if item["loc"] and item["type"] != "missing" else ""
            rows.append(f"{place + ': ' if place else ''}{item['msg'].removeprefix('Value error, ')}{given}")
        raise ConfigError("the settings do not hold together:\n  " + "\n  ".join(rows), file=file) from error


def _as_tree(kind: type[Section], tree: Mapping[str, Any]) -> dict[str, Any]:
    """The same with sections inside it as dicts, where they stand in their places."""
    types = kind.types()
    return {
        name: value.to_dict(unset=False) if isinstance(value, Section) and type(value) is types.get(name) else value
        for name, value in tree.items()
    }


@cache
def _adapter(kind: type[Section]) -> Any:
    return TypeAdapter(_type(kind))


def _type(kind: Any) -> Any:
    """The type of a setting as pydantic knows it."""
    origin: Any = get_origin(kind)
    parts = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Section):
        types = kind.types()
        fields: dict[str, Any] = {name: (_type(types[name]), one.default) for name, one in kind.settings.items()}
        config = ConfigDict(extra="forbid", allow_inf_nan=False)
        model: Any = create_model(kind.__name__, __config__=config, **fields)
        return Annotated[model, AfterValidator(partial(_made, kind))]
    if origin is Annotated:
        return _of(origin, (_type(parts[0]), *map(_metadata, parts[1:])))
    if origin in (Union, UnionType):
        return reduce(or_, map(_type, parts))
    if origin is tuple:
        return _of(origin, (_type(parts[0]), ...))
    return kind


def _of(origin: Any, parts: tuple[Any, ...]) -> Any:
    return origin[parts]


def _metadata(part: Bounds | Before) -> Any:
    if isinstance(part, Before):
        return BeforeValidator(part.function)
    return Field(gt=part.gt, ge=part.ge, lt=part.lt, le=part.le)


def _made(kind: type[Section], found: BaseModel) -> Section:
    return kind.made({name: getattr(found, name) for name in kind.settings}, frozenset(found.model_fields_set))
