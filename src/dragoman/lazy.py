"""Public names of a package that are imported from their modules when they are first used (PEP 562).

So a package costs nothing until it is needed, and of its modules only those are imported that are. The package writes
the same imports under `TYPE_CHECKING` too, for type checkers and editors; a test holds both against each other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package whose names are imported when they are used.

    Args:
        package: its `__name__`.
        homes: module within the package -> public names from there.
    """
    found = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def attribute(name: str) -> object:
        """A public name, from its home."""
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(found[name]), name)

    return sorted(found), attribute, lambda: sorted(found)


def renamed_names(package: str, names: Mapping[str, str], until: str) -> Callable[[str], object]:
    """Return a `__getattr__` for former names of a package, which still work and say what they are called now.

    Args:
        package: its `__name__`.
        names: former name -> name of today.
        until: the version in which the former names are gone.
    """

    def attribute(name: str) -> object:
        """A public name by its former one."""
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        message = f"{package}.{name} is now {package}.{names[name]}; this name will be removed in version {until}"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
        return getattr(import_module(package), names[name])

    return attribute
