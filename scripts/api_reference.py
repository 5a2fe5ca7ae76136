"""Write the sources of the API reference, out of the docstrings; `scripts/build_site.py` puts it into the site.

One page for each room of the package, whichever there are, and one that lists the names of `dragoman` itself. The
pages name what is public; mkdocstrings reads signatures and docstrings when the site is built.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = {
    "docstring_section_style": "list",
    "filters": ["!^_"],
    "heading_level": 2,
    "line_length": 86,
    "members_order": "source",
    "merge_init_into_class": True,
    "separate_signature": True,
    "show_if_no_docstring": False,
    "show_labels": False,
    "show_root_full_path": False,
    "show_root_heading": True,
    "show_signature_annotations": True,
    "show_source": False,
    "signature_crossrefs": True,
}


def rooms() -> list[str]:
    """Return the rooms of the package: its public subpackages and modules, in alphabetical order."""
    import dragoman

    return sorted(module.name for module in iter_modules(dragoman.__path__) if not module.name.startswith("_"))


def public_names(module: ModuleType) -> list[str]:
    """Return the classes and functions of a room: of its `__all__`, or else those it defines, or else its modules."""
    inside = {name: getattr(module, name) for name in getattr(module, "__all__", dir(module)) if name[0] != "_"}
    found = [name for name, value in inside.items() if inspect.isclass(value) or inspect.isfunction(value)]
    if hasattr(module, "__all__"):
        return found
    return [name for name in found if inside[name].__module__.startswith(module.__name__)] or list(inside)


def address(module: ModuleType, name: str) -> str:
    """Return the dotted path of a room's name; that of its home where a module has the same name as what it holds."""
    value = getattr(module, name)
    namesake = name in (inner.name for inner in iter_modules(getattr(module, "__path__", [])))
    return f"{value.__module__ if namesake and not inspect.ismodule(value) else module.__name__}.{name}"


def room_page(room: str) -> str:
    """Return the page of a room: a directive for its own docstring, then one for each of its names."""
    module = import_module(f"dragoman.{room}")
    own = {"show_root_heading": False, "show_root_toc_entry": False, "members": False}
    blocks = [f"# dragoman.{room}\n", *_directive(module.__name__, own)]
    for name in public_names(module):
        blocks += _directive(address(module, name), {"show_if_no_docstring": True} if _is_bare(module, name) else {})
    return "\n".join(blocks)


def _is_bare(module: ModuleType, name: str) -> bool:
    """Whether neither signature nor docstring lists the fields of a class: they stand with their types and defaults."""
    value = getattr(module, name)
    listed = is_dataclass(value) or any(section in (value.__doc__ or "") for section in ("Args:", "Attributes:"))
    return inspect.isclass(value) and bool(inspect.get_annotations(value)) and not listed


def _directive(name: str, options: dict[str, bool]) -> Iterator[str]:
    yield f"::: {name}"
    if options:
        yield "    options:"
        yield from (f"      {key}: {str(value).lower()}" for key, value in options.items())
    yield ""


def index_page() -> str:
    """Return the page of `dragoman` itself: each of its names with what it does in one line, then the rooms."""
    import dragoman

    names = sorted((name for name in dragoman.__all__ if name != "__version__"), key=str.lower)
    return "\n".join(
        [
            "# API reference\n",
            "What `import dragoman` gives. It lives in the rooms below, which have more.\n",
            *(_entry(name) for name in names),
            "\n## Rooms\n",
            *(f"- [`dragoman.{room}`]({room}.md): {first_line(import_module(f'dragoman.{room}'))}" for room in rooms()),
            "",
        ]
    )


def _entry(name: str) -> str:
    value = getattr(import_module("dragoman"), name)
    room = value.__module__.split(".")[1]
    return f"- [`{name}`]({room}.md#{address(import_module(f'dragoman.{room}'), name)}): {first_line(value)}"


def first_line(value: object) -> str:
    """Return the first paragraph of a docstring, as one line."""
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def reference_settings(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the settings of the reference's site, which has a search of its own, out of those of the guide."""
    entries: list[dict[str, str]] = [{"All names": "index.md"}]
    entries += [{f"dragoman.{room}": f"{room}.md"} for room in rooms()]
    handler = {"paths": [os.path.relpath(ROOT / "src", folder)], "options": OPTIONS}
    return {**settings, "nav": entries, "plugins": ["search", {"mkdocstrings": {"handlers": {"python": handler}}}]}


def write_reference(docs: Path) -> None:
    """Write the pages of the reference into a folder."""
    pages = {"index": index_page(), **{room: room_page(room) for room in rooms()}}
    for name, text in pages.items():
        (docs / f"{name}.md").write_text(text, encoding="utf-8")
