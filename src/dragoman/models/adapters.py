"""An adapter as a small directory: `adapter.json`, which names its base, and `adapter.safetensors`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.errors import ModelError
from dragoman.files import make_directory, read_json, sealed, sum_of, unquoted, unsealed, write_json
from dragoman.models.build import build_model
from dragoman.models.description import WEIGHTS
from dragoman.models.low_rank import ATTENTION, FEED_FORWARD, LowRank, matrices_in
from dragoman.models.pretrained import Pretrained, fill
from dragoman.models.tensors import read_tensors, write_tensors

FORMAT = 1
ADAPTER = "adapter"  # of a run: the directory of its adapter
DESCRIPTION, FACTORS = "adapter.json", "adapter.safetensors"
_KEYS = {"format", "base", "sha256_of_base", "rank", "alpha", "matrices"}


@dataclass(frozen=True)
class Adapter:
    """What an adapter directory holds.

    Attributes:
        directory: where it is.
        base: the path of its base when it was trained; the base may have moved since.
        sha256_of_base: of the base's `model.safetensors`.
        rank: of each pair of factors.
        alpha: what they count is alpha / rank.
        matrices: the kinds of matrices that have them.
        factors: by dotted name.
    """

    directory: Path
    base: str
    sha256_of_base: str
    rank: int
    alpha: float
    matrices: tuple[str, ...]
    factors: Mapping[str, Tensor]

    def check_base(self, directory: Path) -> None:
        """Refuse a model that is not the base.

        Raises:
            ModelError: its weights are others.
        """
        if sum_of(directory / WEIGHTS) != self.sha256_of_base:
            raise ModelError(
                "the adapter belongs to another base model", file=self.directory,
                expected=f"{self.base}, as it was then",
                found=f"{directory}, whose weights have another SHA-256", hint="name the model that it was trained on",
            )  # fmt: skip

    def apply(self, model: nn.Module) -> LowRank:
        """Put it into a model of the base's weights, and return its factors beside it.

        Raises:
            ModelError: it does not fit.
        """
        named = [one for one in matrices_in(model) if f"{one.name}.a" in self.factors]
        found = LowRank(model, self.rank, self.alpha, named)
        found.load(self.factors)
        return found


def has_adapter(directory: Path) -> bool:
    """Return whether a directory is an adapter, or a run that has one."""
    return (directory / DESCRIPTION).exists() or (directory / ADAPTER / DESCRIPTION).exists()


def save_adapter(run: Path, factors: LowRank, base: str, sha256_of_base: str) -> None:
    """Write the adapter of a run into its directory `adapter`."""
    directory = run / ADAPTER
    make_directory(directory)
    write_tensors(directory / FACTORS, factors.state_dict())
    told = {
        "format": FORMAT, "base": base, "sha256_of_base": sha256_of_base, "rank": factors.rank,
        "alpha": factors.alpha, "matrices": sorted({one.name.rpartition(".")[2] for one in factors.matrices}),
    }  # fmt: skip
    write_json(directory / DESCRIPTION, sealed(told))


def load_adapter(directory: str | Path) -> Adapter:
    """Return what is in an adapter directory, or in that of a run.

    Raises:
        ModelError: there is none, or it is damaged.
    """
    directory = Path(directory)
    if not (directory / DESCRIPTION).exists() and (directory / ADAPTER / DESCRIPTION).exists():
        directory /= ADAPTER
    file = directory / DESCRIPTION
    if not file.exists():
        hint = "train one with --init-from BASE --set training.lora_rank=8"
        raise ModelError("no adapter here", file=directory, expected=DESCRIPTION, hint=hint)
    with unquoted(file):
        tree = unsealed(read_json(file), file)
        if tree.get("format") != FORMAT:
            raise ModelError("an unknown format of adapter", file=file, expected=FORMAT, found=tree.get("format"))
        rank, alpha, parts = tree.get("rank"), tree.get("alpha", 0.0), tree.get("matrices")
        sound = tree.keys() == _KEYS and all(isinstance(tree[key], str) for key in ("base", "sha256_of_base"))
        sound = sound and type(rank) is int and rank > 0 and isinstance(alpha, (int, float)) and math.isfinite(alpha)
        if not (sound and isinstance(parts, list) and parts and set(parts) <= {*ATTENTION, *FEED_FORWARD}):
            raise ModelError("not the description of an adapter", file=file, expected=", ".join(sorted(_KEYS)))
    factors = read_tensors(directory / FACTORS)
    return Adapter(directory, tree["base"], tree["sha256_of_base"], rank, float(alpha), tuple(parts), factors)


def with_adapter(base: Pretrained, adapter: Adapter) -> Pretrained:
    """Return another model with an adapter merged; all else that it has, as embeddings, it shares with the base.

    Raises:
        ModelError: the adapter does not fit.
    """
    changed = {one.parameter for one in matrices_in(base.model) if f"{one.name}.a" in adapter.factors}
    weights = {name: one.clone() if name in changed else one for name, one in base.model.state_dict().items()}
    with torch.device("meta"):
        model = build_model(base.config)
    fill(model, weights)
    adapter.apply(model)
    return replace(base, model=model.eval())
