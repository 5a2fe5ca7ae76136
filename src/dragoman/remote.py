"""Files of data sets on the Hugging Face hub, by the names that pandas and fsspec give them; else no network."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

from dragoman.errors import ConfigError, DataError

SCHEME = "hf:/"  # of a `Path`, which keeps one slash
_NAME = re.compile(r"hf:/+datasets/(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/]+))?/(?P<file>[^*?]*[^*?/])")
_REVISIONS = {"~parquet": "refs/convert/parquet"}  # what the hub itself makes of each data set
_SECONDS = 10.0  # until a hub that does not answer is given up


def local_file(path: str | Path) -> str | Path:
    """Return a path, or where a file of a data set on the hub lies once it has been fetched into the hub's cache.

    Args:
        path: of `hf://datasets/ORG/NAME/FILE`, or `NAME@REVISION`, the file is fetched; a revision with slashes has %2F
            for them, and `~parquet` is the hub's own conversion. Any other path is returned as it is.

    Raises:
        ConfigError: a name that begins with `hf://` is not of that form.
        DataError: the package is missing, or the hub does not give the file.
    """
    return _fetched(str(path)) if str(path).startswith(SCHEME) else path


@cache
def _fetched(path: str) -> str:
    """Where a file lies; the hub is asked once in a process."""
    named = _NAME.fullmatch(path)
    if named is None:
        raise ConfigError(
            "not a file of a data set on the Hugging Face hub", file=path,
            expected="hf://datasets/ORG/NAME/FILE, or hf://datasets/ORG/NAME@REVISION/FILE",
            hint="name each file by itself, without * or ?",
        )  # fmt: skip
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        hint = "pip install 'dragoman[hub]', or download the file yourself"
        message = "reading from the Hugging Face hub needs the package huggingface_hub"
        raise DataError(message, file=path, hint=hint) from error
    revision = named["revision"]
    revision = _REVISIONS.get(revision, revision.replace("%2F", "/")) if revision else None
    try:
        return hub.hf_hub_download(
            named["name"], named["file"], repo_type="dataset", revision=revision, etag_timeout=_SECONDS
        )
    except Exception as error:  # of many kinds: no network, no such file, no right to read it
        lines = str(error).strip().splitlines()
        found = f"{type(error).__name__}: {lines[0] if lines else ''}"
        hint = "check the name and the network; a private data set needs `hf auth login`"
        message = "the file cannot be fetched from the Hugging Face hub"
        raise DataError(message, file=path, found=found, hint=hint) from error
