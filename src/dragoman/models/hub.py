"""Models by their name on the Hugging Face hub, `org/name`, where the extra `hub` is installed; else no network."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman.errors import ConfigError, ModelError
from dragoman.remote import refusal, told

# What running a model may need, and its card.
FILES = ("*.json", "*.safetensors", "*.model", "*.toml", "README.md")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_EXTRA = "pip install 'dragoman[hub]'"
_DIRECTORY = "for a directory, check its path"


def is_hub_name(path: object) -> bool:
    """Return whether a text can only be a name on a hub: `org/name`, with no directory `org` here."""
    return isinstance(path, str) and _NAME.fullmatch(path) is not None and not Path(path).parent.exists()


def on_disk(path: str | Path) -> Path:
    """Return the directory of a model; one that is named as on the hub is fetched, or taken from the hub's cache.

    Raises:
        ModelError: it is neither here nor to be had from the hub, or the extra is not installed.
    """
    if not is_hub_name(path):
        return Path(path)
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise _missing(path, "huggingface_hub, which would ask the hub, is not installed",
                       f"to fetch {path} from the Hugging Face hub: {_EXTRA}; {_DIRECTORY}") from None  # fmt: skip
    name = str(path)
    kept_back = refusal("model", name)
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES), local_files_only=kept_back is not None))
    except Exception as error:  # of many kinds: not in the cache, the network is gone, no space
        hint = f"{_DIRECTORY}; for the hub, check the name and the network: a private model needs `hf auth login`"
        raise _missing(path, kept_back or f"the hub: {told(error)}", hint) from error


def _missing(path: str | Path, hub: str, hint: str) -> ModelError:
    return ModelError("no model of this name, neither here nor on the hub", file=path,
                      expected="a directory, or org/name on the Hugging Face hub",
                      found=f"{hub}; no such directory in {Path.cwd()}", hint=hint)  # fmt: skip


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
