"""Files of data sets on the Hugging Face hub, by the names that pandas and fsspec give them; else no network.

Without a network the hub's package tries again and again, or waits for ever: whether the hub answers at all is asked
first, for a few seconds.
"""

from __future__ import annotations

import importlib
import re
import threading
from functools import cache
from pathlib import Path
from typing import Literal

from dragoman.errors import ConfigError, DataError

SCHEME = "hf:/"  # of a `Path`, which keeps one slash
_NAME = re.compile(r"hf:/+datasets/(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/]+))?/(?P<file>[^*?]*[^*?/])")
_REVISIONS = {"~parquet": "refs/convert/parquet"}  # what the hub itself makes of each data set
SECONDS = 6.0  # until a hub that does not answer is given up


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
    kept_back = refusal("dataset", named["name"], revision)
    try:
        return hub.hf_hub_download(
            named["name"], named["file"], repo_type="dataset", revision=revision, etag_timeout=SECONDS,
            local_files_only=kept_back is not None,
        )  # fmt: skip
    except Exception as error:  # of many kinds: no network, no such file, no right to read it
        hint = "check the name and the network; a private data set needs `hf auth login`"
        message = "the file cannot be fetched from the Hugging Face hub"
        raise DataError(message, file=path, found=kept_back or told(error), hint=hint) from error


def refusal(kind: Literal["model", "dataset"], name: str, revision: str | None = None) -> str | None:
    """Return why the hub does not give a repository, in one line; None where it does.

    It has `SECONDS` for its answer, whatever hangs: the look-up of its address, a proxy or itself.

    Args:
        kind: of the repository.
        name: `org/name`.
        revision: a branch, tag or commit; the main one where None.
    """
    from huggingface_hub import HfApi

    found = [f"no answer from the hub in {SECONDS:g} seconds"]

    def ask() -> None:
        try:
            getattr(HfApi(), f"{kind}_info")(name, revision=revision, timeout=SECONDS)
            found.append("")
        except Exception as error:  # of many kinds: no network, no such repository, no right to read it
            is_answer = getattr(error, "response", None) is not None
            found.append(f"{'the hub answers' if is_answer else 'no answer from the hub'}: {told(error)}")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(SECONDS)
    return found[-1] or None


def told(error: Exception) -> str:
    """Return what an error of the hub's package says, in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
