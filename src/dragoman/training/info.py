"""What a run or model directory holds, in words."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from dragoman.archive import as_directory
from dragoman.config import SETTINGS_FILE, make_config, read_toml
from dragoman.config.training import LOWER_IS_BETTER
from dragoman.engines import choose_device, choose_engine
from dragoman.errors import ModelError
from dragoman.files import read_json
from dragoman.language import LanguageModel, load_language_model
from dragoman.markov import MarkovModel, is_markov
from dragoman.memory.datastore import Datastore
from dragoman.models import count_parameters, load_pretrained
from dragoman.models.description import WEIGHTS, load_tokenizers, read_config
from dragoman.nn import MaskedLM
from dragoman.runs.bundling import CARD, needed_files
from dragoman.runs.checkpoint import CHECKPOINTS, STATE, list_checkpoints
from dragoman.runs.history import last_stamp
from dragoman.runs.lock import is_locked
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.progress import Progress


def info(directory: str | Path) -> dict[str, Any]:
    """Return what a run or model directory, or a packed model, holds.

    How far training came and what the model reached on held-out lines, shape, vocabularies, languages, decoding
    options, engine and checkpoints, bytes on disk, and the files that running the model needs.

    Raises:
        ModelError: there is no model, or it is damaged.
    """
    directory = as_directory(Path(directory))
    if is_markov(directory):
        return _describe_counts(directory, load_language_model(directory))
    if not (directory / WEIGHTS).exists() and (directory / SETTINGS_FILE).exists():
        return _without_weights(directory)
    device = choose_device()
    loaded = load_pretrained(directory, device)
    tokenizers = load_tokenizers(directory, loaded.config)
    engine = "none: a masked model is not a next-token model"
    if not isinstance(loaded.model, MaskedLM):
        chosen, reason = choose_engine(loaded.model)
        engine = f"{chosen.name} in {chosen.precision} on {device} ({reason})"
    store = Datastore.load(directory)
    text = _entries(tokenizers.source, tokenizers.source_vocab)
    sides = {
        "source": text if tokenizers.sound is None else str(tokenizers.sound),
        "target": _entries(tokenizers.target),
        "joint": tokenizers.joint,
    }
    if tokenizers.matching is not None:
        sides["beside each source"] = str(tokenizers.matching)
    return {
        "directory": str(directory),
        **_training_of(directory),
        "parameters": count_parameters(loaded.model),
        "model": loaded.config.to_dict(none=False),
        "tokenizers": sides if loaded.config.family == "transformer" else {"text": sides["target"]},
        "languages": loaded.languages.to_dict(none=False),
        "decoding": {} if isinstance(loaded.model, MaskedLM) else loaded.decoding.to_dict(none=False),
        **({} if store is None else {"datastore": str(store)}),
        "engine": engine,
        "checkpoints": [path.name for path in list_checkpoints(directory / "checkpoints")],
        **_to_give_away(directory),
    }


def _without_weights(directory: Path) -> dict[str, Any]:
    """Of a run that has not been validated yet: there is no model to describe."""
    return {
        "directory": str(directory),
        **_training_of(directory),
        "model": read_config(directory)[0].to_dict(none=False),
        "checkpoints": [path.name for path in list_checkpoints(directory / CHECKPOINTS)],
        "bytes": _bytes_of(directory),
        "needed": [],
    }


def _describe_counts(directory: Path, loaded: LanguageModel) -> dict[str, Any]:
    model = loaded.model
    assert isinstance(model, MarkovModel)
    return {
        "directory": str(directory),
        "state": "finished" if (directory / CARD).exists() else "a model alone, without its training",
        "parameters": model.numbers,
        "model": {"family": model.kind, "target_vocab": model.vocab, "k": model.k, "backoff": model.backoff},
        "tokenizers": {"text": _entries(loaded.tokenizer)},
        "languages": loaded.languages.to_dict(none=False),
        "decoding": loaded.decoding.to_dict(none=False),
        "engine": "none: what was counted is looked up",
        "checkpoints": [],
        **_to_give_away(directory),
    }


def _training_of(directory: Path) -> dict[str, Any]:
    """How far training came, how long it took, and how good the kept model is on held-out lines."""
    paths = list_checkpoints(directory / CHECKPOINTS)
    try:
        progress = Progress.from_values(read_json(paths[-1] / STATE)["progress"]) if paths else None
    except (ModelError, KeyError, TypeError):
        progress = None  # damaged: its manifest tells where it is asked for
    if progress is None:
        if not (directory / SETTINGS_FILE).exists():
            return {"state": "a model without its training"}
        begun = "training, nothing saved yet" if is_locked(directory) else "no checkpoint tells how far training came"
        return {"state": begun}
    found: dict[str, Any] = {
        "state": _state(directory, progress),
        "training": {"updates": progress.step, "epochs": progress.epoch + 1, "seconds": round(progress.seconds, 1)},
    }
    if (ended := last_stamp(directory)) is not None:
        found["training"]["last_told"] = ended
    if progress.best is not None and (directory / SETTINGS_FILE).exists():
        metric = make_config(read_toml(directory / SETTINGS_FILE)).validation.metric or "loss"
        value = -progress.best if metric in LOWER_IS_BETTER else progress.best
        found["held_out"] = {metric: round(value, 4), "step": progress.best_step}
    return found


def _state(directory: Path, progress: Progress) -> str:
    resume = f"`dragoman train --resume --out {shlex.quote(str(directory))}` goes on"
    if is_locked(directory):
        return f"training, step {progress.step:,} saved"
    if not progress.finished:
        return f"interrupted at step {progress.step:,}; {resume}"
    return "finished" if (directory / CARD).exists() else f"interrupted after the last update; {resume}"


def _to_give_away(directory: Path) -> dict[str, Any]:
    """What it takes on disk, and what of that translating needs."""
    needed = needed_files(directory)
    return {
        "bytes": _bytes_of(directory),
        "needed": needed,
        "needed_bytes": sum((directory / name).stat().st_size for name in needed),
    }


def _entries(tokenizer: Tokenizer, vocab: int | None = None) -> str:
    return f"{tokenizer.kind}, {len(tokenizer) if vocab is None else vocab:,} entries"


def _bytes_of(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
