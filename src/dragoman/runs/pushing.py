"""A model put onto the Hugging Face hub: what running it needs, and its card."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.archive import as_directory
from dragoman.errors import DragomanError, ModelError
from dragoman.models.adapters import ADAPTER, has_adapter
from dragoman.models.hub import check_name
from dragoman.remote import told
from dragoman.runs.bundling import CARD, bundle, needed_files


@dataclass(frozen=True)
class Pushed:
    """What was uploaded, or would be.

    Attributes:
        name: `org/name`.
        files: names -> bytes.
        url: of the upload; None where nothing was uploaded.
    """

    name: str
    files: dict[str, int]
    url: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"name": self.name, "files": self.files, "url": self.url}


def push(
    model: str | Path, name: str, *, private: bool = False, dry_run: bool = False, message: str | None = None
) -> Pushed:
    """Put a model onto the hub as `org/name`: the files of `bundle`, with the card, whose head the hub reads.

    An adapter of the run goes along in its own directory. The key is the one that `hf auth login` keeps, or HF_TOKEN.

    Args:
        model: a run or model directory, or a packed model.
        name: `org/name`; the repository is made if it is not there.
        private: whether others may not see a repository that is made.
        dry_run: only tell which files would be uploaded; nothing is sent, and no key is needed.
        message: of the commit.

    Raises:
        ConfigError: the name is none.
        DragomanError: the extra `hub` is not installed, or the hub refuses.
        ModelError: there is no model, or it has no card.
    """
    check_name(name)
    model = as_directory(Path(model))
    needed_files(model)  # where there is no model, that is what is said
    if not (model / CARD).exists():
        hint = "a run has one when its training has ended; of another directory write one, with the hub's head"
        raise ModelError("a model on the hub needs a card", file=model / CARD, hint=hint)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        bundle(model, out)
        if has_adapter(model):
            adapter = out / ADAPTER
            adapter.mkdir()
            for file in sorted((model / ADAPTER).iterdir()):
                (adapter / file.name).write_bytes(file.read_bytes())
        paths = sorted(path for path in out.rglob("*") if path.is_file())
        files = {path.relative_to(out).as_posix(): path.stat().st_size for path in paths}
        url = None if dry_run else _upload(out, name, private, message or f"{name}, made with Dragoman")
    return Pushed(name, files, url)


def _upload(folder: Path, name: str, private: bool, message: str) -> str:
    try:
        from huggingface_hub import HfApi
    except ImportError:
        hint = "pip install 'dragoman[hub]'; --dry-run tells what would be uploaded"
        raise DragomanError("pushing needs a package that is not installed", found="no huggingface_hub",
                            hint=hint) from None  # fmt: skip
    try:
        api = HfApi()
        api.create_repo(name, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=name, folder_path=folder, commit_message=message))
    except Exception as error:  # of many kinds: no network, no key, no right to write
        raise DragomanError("the hub did not take the model", file=name, found=told(error),
                            hint="log in with `hf auth login`, and check the name") from error  # fmt: skip
