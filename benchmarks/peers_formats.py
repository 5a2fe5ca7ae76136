"""What the formats of other programs can say of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def refusal(config: Mapping[str, Any]) -> str | None:
    """Why CTranslate2's format cannot say what a model is, in words; None if it can, as outputs have shown."""
    d_k, d_v = (config.get(name) or config["d_model"] // config["num_heads"] for name in ("d_k", "d_v"))
    if config["family"] != "transformer":
        return f"it is a {config['family']} model"
    if config["positions"] not in ("interleaved", "concatenated", "rotary"):
        return f"it has {config['positions']} positions"
    if d_k != d_v or d_k * config["num_heads"] != config["d_model"]:
        return "its heads are not an equal share of the width"
    if config.get("matches"):
        return "it reads fuzzy matches beside a source"
    return None


def sinusoids(length: int, d_model: int, layout: str) -> np.ndarray:
    """Sine and cosine of each position, in float64 and then rounded (paper 3.5)."""
    angle = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)
    parts = [np.sin(angle), np.cos(angle)]
    table = np.stack(parts, -1).reshape(length, -1) if layout == "interleaved" else np.concatenate(parts, 1)
    return table.astype(np.float32)
