"""What prepared data depend on: the key that tells them from others, and the settings that they were made with."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from dragoman.config import Section, TrainConfig
from dragoman.data.prepared_files import FORMAT, read_facts
from dragoman.errors import ConfigError
from dragoman.text import TokenizerPair
from dragoman.text.lines import file_hash


def check_settings(directory: Path, config: TrainConfig) -> None:
    """Refuse settings of data or tokenizer that the prepared data do not have: they would do nothing.

    Raises:
        ConfigError: one was given.
    """
    made = read_facts(directory).get("settings", {})
    differing = []
    sections = {"data": config.data, "tokenizer": config.tokenizer, "audio": config.audio}
    for section, settings in sections.items():
        before = {name: one.before for name, one in settings.settings.items() if one.before is not ...}
        given = _content(settings, unset=False)
        known = {**_plain(before), **made.get(section, {})}
        for key in sorted(given.keys() & known.keys()):
            if known[key] != given[key]:
                made_with = "left open" if known[key] is None else repr(known[key])
                differing.append(f"{section}.{key}: {made_with} for the data, {given[key]!r} now")
    if differing:
        found, hint = "; ".join(differing), "leave them out, or prepare the files again with them"
        raise ConfigError("the data were prepared with other settings", file=directory, found=found, hint=hint)


def data_key(
    config: TrainConfig, hashes: list[list[str]], tokenizers: TokenizerPair | None, recordings: str | None
) -> str:
    """Return the hash of all that prepared data depend on: equal keys, equal data.

    Args:
        config: its settings.
        hashes: of the files of each part.
        tokenizers: those that are given.
        recordings: a sum over the sizes of all recordings, if there are some.
    """
    listens = {"audio": _content(config.audio), "listed": recordings} if recordings is not None else {}
    settings: dict[str, Any] = {
        **listens,
        "format": FORMAT,
        "data": _content(config.data),
        "files": [len(config.data.pairs), len(config.data.dev_pairs), len(config.data.test_pairs), hashes],
        "tokenizer": tokenizer_hashes(tokenizers) if tokenizers else _content(config.tokenizer),
        "mask": config.model.family == "masked",
        "is_text": not config.model.learns_pairs,
    }
    if config.data.reads_languages:
        settings["languages"] = [config.data.source_language, config.data.target_language]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _content(settings: Section, *, unset: bool = True) -> dict[str, Any]:
    """What prepared data depend on, as JSON has it: files count by what is in them."""
    content = {name for name, one in settings.settings.items() if "data" in one.content}
    return _plain({name: value for name, value in settings.to_dict(unset=unset).items() if name in content})


def _plain(tree: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(tree))


def tokenizer_hashes(tokenizers: TokenizerPair) -> dict[str, str]:
    """Return the SHA-256 of each file that tokenizers are saved as."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizers.save(folder)
        return {path.name: file_hash(path) for path in sorted(Path(folder).iterdir())}
