"""A trace as a record: structure for JSON, numbers as safetensors, both with a number of their format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped
from safetensors.numpy import load, save

from dragoman.errors import ConfigError, DataError
from dragoman.files import make_directory, opened, parse_json, write_bytes
from dragoman.inspector.arrays import ALL, FIRST
from dragoman.shown import html_table, short

FORMAT = 1
RECORD, ARRAYS = "record.json", "arrays.safetensors"


@dataclass(frozen=True)
class Inspection:
    """What a model did with one text: its stages as a graph, its search, and what of both is worth knowing.

    Attributes:
        record: plain values, as `schema/trace-1.schema.json` describes them.
        arrays: the numbers of the stages by their names; each is in `record["arrays"]` with its level of detail.
        presets: the same with one thing otherwise, by name; a page offers them.
    """

    record: dict[str, Any]
    arrays: dict[str, Shaped[np.ndarray, "..."]] = field(repr=False)
    presets: dict[str, Inspection] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        given, written = self.record["text"], self.record["output"]["text"]
        return f"{type(self).__name__}({short(given)} -> {short(written)}, {len(self.arrays)} arrays)"

    def _repr_html_(self) -> str:
        """For notebooks: the page itself where it is there, else a table of the steps."""
        from dragoman.inspector.offline import PAGE, inline_frame

        if (PAGE / "index.html").exists():
            return inline_frame(self)
        rows = [(one["t"], one["reads"]["piece"], one["writes"]["piece"], one["rank"]) for one in self.record["steps"]]
        return html_table(rows, ("step", "reads", "writes", "rank"), repr(self))

    def names(self, level: int = ALL) -> list[str]:
        """Return the names of the arrays up to a level: 1 of the first view, 2 with operands, 3 all."""
        return [name for name, told in self.record["arrays"].items() if told["level"] <= level]

    def parameters(self) -> set[str]:
        """Return the names of the arrays that are parameters of the model, and no numbers of this text."""
        return {name for node in self.record["graph"]["nodes"] for name in node["parameters"]}

    def json(self) -> str:
        """Return the record as JSON."""
        return json.dumps(self.record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def safetensors(self, names: Iterable[str] | None = None, metadata: dict[str, str] | None = None) -> bytes:
        """Return arrays as a safetensors file: those of these names, or all.

        Args:
            names: each counts once.
            metadata: texts by name that stand in the file's head.

        Raises:
            DataError: there is no such array.
        """
        wanted = list(self.arrays) if names is None else list(dict.fromkeys(names))
        if missing := [name for name in wanted if name not in self.arrays]:
            raise DataError("there is no such array", expected="names of record['arrays']", found=", ".join(missing))
        return save({name: self.arrays[name] for name in wanted}, metadata)

    def first_view(self) -> int:
        """Return how many bytes a first view takes: the record, and the arrays of level 1."""
        return len(self.json().encode()) + len(self.safetensors(self.names(FIRST)))

    def save(self, path: str | Path) -> Path:
        """Write a page that needs nothing else, where the name ends in `.html`; else a directory of two files.

        Raises:
            ConfigError: a directory is there with other things in it, or a file was meant.
            OSError: it cannot be written.
        """
        path = Path(path)
        if path.suffix.lower() in (".html", ".htm"):
            from dragoman.inspector.offline import offline_page

            write_bytes(path, offline_page(self).encode())
            return path
        if path.suffix.lower() == ".json":
            hint = "--out DIR makes one; --json prints the record alone"
            raise ConfigError("a record is a directory of two files", file=path, hint=hint)
        if path.is_dir() and any(path.iterdir()) and not (path / RECORD).exists():
            raise ConfigError("the directory has other things in it", file=path, hint="give another one (--out)")
        make_directory(path)
        write_bytes(path / RECORD, self.json().encode())
        write_bytes(path / ARRAYS, self.safetensors())
        return path

    @classmethod
    def load(cls, directory: str | Path) -> Inspection:
        """Read what `save` wrote into a directory.

        Raises:
            DataError: it is of another format.
        """
        directory = Path(directory)
        with opened(directory / RECORD) as file:
            record = parse_json(file.read(), directory / RECORD)
        if record.get("format") != FORMAT:
            raise DataError("a record of another format", expected=str(FORMAT), found=str(record.get("format")))
        with opened(directory / ARRAYS) as file:
            return cls(record, load(file.read()))


def schema() -> dict[str, Any]:
    """Return the JSON schema of `Inspection.record`."""
    file = resources.files("dragoman.inspector") / "schema" / f"trace-{FORMAT}.schema.json"
    return json.loads(file.read_text(encoding="utf-8"))
