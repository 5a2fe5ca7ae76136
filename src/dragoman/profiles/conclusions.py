"""What a refused state dict most likely is, in one line before the list of its entries."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from dragoman.errors import ConfigError, ModelError

P = ParamSpec("P")
T = TypeVar("T")

# Under what names whole checkpoints hold the weights.
_WEIGHTS = ("model", "state_dict", "model_state_dict", "net", "weights", "module", "params")
# What wrappers of modules put before each name.
_PREFIXES = ("module.", "_orig_mod.", "model.")
SHOWN = 6  # entries of a list that nobody reads to its end


def concluding(
    choices: Mapping[str, Sequence[object]] | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return what makes a loader say first why a state is refused.

    A path, a whole checkpoint and names with a prefix are recognised. Else the loader is tried with other values of
    some of its options, and if one of them takes the state, that is the conclusion.

    Args:
        choices: options of the loader, and their values.

    Raises:
        ModelError: from the loader, with its conclusion.
    """

    def made(load: Callable[P, T]) -> Callable[P, T]:
        """Return the loader, which now says that."""
        signature = inspect.signature(load)

        @functools.wraps(load)  # signature and docstring stay the loader's
        def concluded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError:
                return load(*args, **kwargs)  # which says what is missing
            given.apply_defaults()
            state = given.arguments["state"]
            if why := _not_a_state(state):
                raise ModelError(f"{_system(load)}: {why}")
            try:
                return load(*args, **kwargs)
            except ModelError as error:
                why = _wrapped(state, load, given) or _other_option(load, given, choices or {})
                raise ModelError(_shortened(error.message, why), expected=error.expected, found=error.found,
                                 hint=error.hint) from None  # fmt: skip

        return concluded

    return made


def check_given(name: str, count: int | None, usual: int) -> int:
    """Return a number of heads, which no weights of such a layout tell.

    Raises:
        ConfigError: it was not given.
    """
    if count is None:
        raise ConfigError("the weights do not tell how many heads there are", expected=f"{name}=…",
                          hint=f"give the number that the model was trained with; {usual} is usual")  # fmt: skip
    return count


def _system(load: Callable[..., object]) -> str:
    return f"{load.__module__.rpartition('.')[2]}.{load.__name__}"


def _not_a_state(state: object) -> str | None:
    if isinstance(state, (str, bytes, os.PathLike)):
        return (
            "a path was given: read the file first, as with safetensors.torch.load_file(path), and give what it holds"
        )
    if hasattr(state, "state_dict") and not isinstance(state, Mapping):
        return "a module was given: give its state_dict()"
    if not isinstance(state, Mapping):
        return None
    for name in _WEIGHTS:
        inner = state.get(name)
        if isinstance(inner, Mapping) and inner:
            return f"this is a whole checkpoint: pass its {name!r}"
        if hasattr(inner, "state_dict"):
            return f"this is a whole checkpoint with a module in it: pass its {name!r}, as state_dict()"
    return None


def _wrapped(state: object, load: Callable[..., object], given: inspect.BoundArguments) -> str | None:
    names = [name for name in state if isinstance(name, str)] if isinstance(state, Mapping) else []
    for prefix in _PREFIXES:
        if names and all(name.startswith(prefix) for name in names):
            assert isinstance(state, Mapping)
            stripped = {name.removeprefix(prefix): value for name, value in state.items()}
            if prefix != "model." or _takes(load, given, state=stripped):
                return f"names start with {prefix} (a wrapper put it there): strip it from each, " \
                    f"as {{k.removeprefix({prefix!r}): v for k, v in state.items()}}"  # fmt: skip
    return None


def _other_option(
    load: Callable[..., object], given: inspect.BoundArguments, choices: Mapping[str, Sequence[object]]
) -> str | None:
    for name, values in choices.items():
        for value in values:
            if value != given.arguments.get(name) and _takes(load, given, **{name: value}):
                transposed = "shapes are transposed: " if name == "edition" else "this is of another kind: "
                return f"{transposed}try {name}={value!r}"
    return None


def _takes(load: Callable[..., object], given: inspect.BoundArguments, **changed: object) -> bool:
    other = inspect.BoundArguments(given.signature, type(given.arguments)({**given.arguments, **changed}))
    try:
        load(*other.args, **other.kwargs)
    except (ModelError, ConfigError, RuntimeError, ValueError, AttributeError, IndexError, KeyError, TypeError):
        return False
    return True


def _shortened(message: str, why: str | None) -> str:
    """The message with its conclusion first, and of its list the beginning."""
    head, *rows = message.split("\n")
    if why is None and rows:
        missing, left = (sum(word in row for row in rows) for word in (": missing", ": left over"))
        misshapen = len(rows) - missing - left
        counts = ((missing, "missing"), (left, "left over"), (misshapen, "of another shape"))
        why = ", ".join(f"{count} {what}" for count, what in counts if count)
    more = [f"  and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
    first = head if why is None else f"{why}; {head}" if not head.endswith(":") else f"{head.removesuffix(':')}: {why}"
    return "\n".join([first, *rows[:SHOWN], *more])
