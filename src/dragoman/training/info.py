"""What a run or model directory holds, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dragoman.engines import choose_device, choose_engine
from dragoman.models import count_parameters, load_pretrained
from dragoman.nn import MaskedLM
from dragoman.text import TokenizerPair
from dragoman.training.checkpoint import list_checkpoints


def describe_model(directory: str | Path) -> dict[str, Any]:
    """Shape, vocabulary, languages, decoding options, engine and checkpoints of a model directory.

    Raises:
        ModelError: there is no model, or it is damaged.
    """
    directory = Path(directory)
    device = choose_device()
    loaded = load_pretrained(directory, device)
    tokenizers = TokenizerPair.load(directory)
    engine = "none: a masked model is not a next-token model"
    if not isinstance(loaded.model, MaskedLM):
        chosen, reason = choose_engine(loaded.model)
        engine = f"{chosen.name} on {device} ({reason})"
    return {
        "directory": str(directory),
        "parameters": count_parameters(loaded.model),
        "model": loaded.config.model_dump(exclude_none=True),
        "tokenizers": {
            "source": f"{tokenizers.source.kind}, {len(tokenizers.source):,} entries",
            "target": f"{tokenizers.target.kind}, {len(tokenizers.target):,} entries",
            "joint": tokenizers.joint,
        },
        "languages": loaded.languages.model_dump(exclude_none=True),
        "decoding": loaded.decoding.model_dump(exclude_none=True),
        "engine": engine,
        "checkpoints": [path.name for path in list_checkpoints(directory / "checkpoints")],
    }
