"""What a run or model directory holds, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dragoman.engines import choose_device, choose_engine
from dragoman.language import LanguageModel, load_language_model
from dragoman.markov import MarkovModel, is_markov
from dragoman.memory.datastore import Datastore
from dragoman.models import count_parameters, load_pretrained
from dragoman.models.description import load_tokenizers
from dragoman.nn import MaskedLM
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.checkpoint import list_checkpoints


def info(directory: str | Path) -> dict[str, Any]:
    """Return shape, vocabulary, languages, decoding options, engine and checkpoints of a model directory.

    Raises:
        ModelError: there is no model, or it is damaged.
    """
    directory = Path(directory)
    if is_markov(directory):
        return _describe_counts(directory, load_language_model(directory))
    device = choose_device()
    loaded = load_pretrained(directory, device)
    tokenizers = load_tokenizers(directory, loaded.config)
    engine = "none: a masked model is not a next-token model"
    if not isinstance(loaded.model, MaskedLM):
        chosen, reason = choose_engine(loaded.model)
        engine = f"{chosen.name} in {chosen.precision} on {device} ({reason})"
    store = Datastore.load(directory)
    sides = {
        "source": _entries(tokenizers.source, tokenizers.source_vocab),
        "target": _entries(tokenizers.target),
        "joint": tokenizers.joint,
    }
    if tokenizers.matching is not None:
        sides["beside each source"] = str(tokenizers.matching)
    return {
        "directory": str(directory),
        "parameters": count_parameters(loaded.model),
        "model": loaded.config.to_dict(none=False),
        "tokenizers": sides if loaded.config.family == "transformer" else {"text": sides["target"]},
        "languages": loaded.languages.to_dict(none=False),
        "decoding": {} if isinstance(loaded.model, MaskedLM) else loaded.decoding.to_dict(none=False),
        **({} if store is None else {"datastore": str(store)}),
        "engine": engine,
        "checkpoints": [path.name for path in list_checkpoints(directory / "checkpoints")],
    }


def _describe_counts(directory: Path, loaded: LanguageModel) -> dict[str, Any]:
    model = loaded.model
    assert isinstance(model, MarkovModel)
    return {
        "directory": str(directory),
        "parameters": model.numbers,
        "model": {"family": model.kind, "target_vocab": model.vocab, "k": model.k, "backoff": model.backoff},
        "tokenizers": {"text": _entries(loaded.tokenizer)},
        "languages": loaded.languages.to_dict(none=False),
        "decoding": loaded.decoding.to_dict(none=False),
        "engine": "none: what was counted is looked up",
        "checkpoints": [],
    }


def _entries(tokenizer: Tokenizer, vocab: int | None = None) -> str:
    return f"{tokenizer.kind}, {len(tokenizer) if vocab is None else vocab:,} entries"
