"""Models by their name on the Hugging Face hub, `org/name`, where the extra `hub` is installed; else no network."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman.errors import ConfigError, ModelError

# What running a model may need, and its card.
FILES = ("*.json", "*.safetensors", "*.model", "*.toml", "README.md")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_EXTRA = "pip install 'dragoman[hub]'"


def is_hub_name(path: object) -> bool:
    """Return whether a text can only be a name on a hub: `org/name`, with no directory `org` here."""
    return isinstance(path, str) and _NAME.fullmatch(path) is not None and not Path(path).parent.exists()


def on_disk(path: str | Path) -> Path:
    """Return the directory of a model; one that is named as on the hub is fetched, or taken from the hub's cache.

    Raises:
        ModelError: it is not to be had, or the extra is not installed.
    """
    if not is_hub_name(path):
        return Path(path)
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ModelError("no model here, and the hub cannot be asked", file=path, expected="a model directory",
                         hint=f"to fetch {path} from the Hugging Face hub: {_EXTRA}") from None  # fmt: skip
    try:
        return Path(snapshot_download(str(path), allow_patterns=list(FILES)))
    except Exception as error:  # of many kinds: no network, no such repository, no right to read it
        found = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        raise ModelError("the model cannot be had from the hub", file=path, found=found,
                         hint="look at its name and at the network, or give a directory") from error  # fmt: skip


def name_of(path: Path) -> str | None:
    """Return the name, without its organisation, of a model in the hub's cache; None of any other directory."""
    repository = path.parent.parent.name  # .../models--org--name/snapshots/REVISION
    is_cached = path.parent.name == "snapshots" and repository.startswith("models--")
    return repository.removeprefix("models--").partition("--")[2] if is_cached else None


def check_name(name: str) -> None:
    """Refuse what is no name on a hub.

    Raises:
        ConfigError: it is not of the form org/name.
    """
    if _NAME.fullmatch(name) is None:
        raise ConfigError("not a name on the hub", expected="org/name", found=name)
