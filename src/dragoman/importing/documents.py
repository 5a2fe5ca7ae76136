"""YAML of strangers: plain values alone, no names that stand for something else, of bounded size."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from dragoman.errors import ModelError
from dragoman.files import read_whole

MAX_BYTES = 1 << 20
MAX_VOCABULARY_BYTES = 32 << 20


def read_yaml(path: Path, *, limit: int = MAX_BYTES, tags: Collection[str] = ()) -> dict[str, Any]:
    """Return the mapping that a YAML file holds; `tags` as for `parse_yaml`.

    Raises:
        ModelError: as for `parse_yaml`, or the file cannot be read.
    """
    return parse_yaml(read_whole(path, limit, "YAML"), path, tags)


def parse_yaml(data: bytes, path: Path, tags: Collection[str] = ()) -> dict[str, Any]:
    """Return the mapping that YAML found in `path` holds.

    Args:
        data: the YAML.
        path: where it was found, for messages.
        tags: names of classes, of which what a mapping or a list says is taken as plain values; any other is refused.

    Raises:
        ModelError: it is none, is no UTF-8, is nested too deeply, or has an alias; or PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        hint = "pip install pyyaml"
        raise ModelError("reading the settings needs PyYAML", file=path, hint=hint) from error

    class Plain(yaml.SafeLoader):
        """Refuses aliases, by which a few bytes become any amount."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("an alias")
            return super().compose_node(parent, index)

        def plain(self, node: Any) -> Any:
            if node.id == "mapping":
                return self.construct_mapping(node, deep=True)
            return self.construct_sequence(node, deep=True)

    for tag in tags:
        Plain.add_constructor(tag, Plain.plain)
    try:
        found = _loaded(Plain(data.decode("utf-8")))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError) as error:
        told = str(error).partition("\n")[0]
        raise ModelError("this YAML cannot be read", file=path, found=told) from error
    if not isinstance(found, dict):
        raise ModelError("no settings in this YAML", file=path, found=type(found).__name__)
    return {str(key): value for key, value in found.items()}


def _loaded(loader: Any) -> Any:
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
