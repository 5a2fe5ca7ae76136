"""The three tables of a foreign model: source and target embedding, and what makes logits; which of them are one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.importing.vocabularies import Order
from dragoman.importing.weights import Given


class Tables(NamedTuple):
    """What is made of them.

    Attributes:
        state: by our names, tied ones left out.
        model: what `ModelConfig` says of them.
    """

    state: dict[str, Tensor]
    model: dict[str, Any]


def take_tables(
    tables: Sequence[Float[Tensor, "_ d_model"]],
    bias: Float[Tensor, " vocab"] | None,
    orders: Sequence[Order],
    banned: Sequence[int] = (),
) -> Tables:
    """Return the tables in our order; those that are equal are one.

    Args:
        tables: source embedding, target embedding, generator.
        bias: of the logits; None is zeros.
        orders: of the source and the target vocabulary.
        banned: ids of theirs that are taken out of every distribution.
    """
    source, target, generator = tables
    source_order, target_order = orders
    offsets = torch.zeros(len(generator)) if bias is None else bias
    shared = source_order.tokens == target_order.tokens and _equal(source, target)
    tied = _equal(target, generator)
    state = {
        "source_embedding.tokens.weight": source_order.rows(source),
        "generator.bias": target_order.offsets(offsets, banned),
    }
    if not (shared and tied):
        state["target_embedding.tokens.weight"] = target_order.rows(target)
    if not tied:
        state["generator.weight"] = target_order.rows(generator)
    model = {
        "source_vocab": len(source_order.tokens),
        "target_vocab": len(target_order.tokens),
        "tie_embeddings": "all" if shared and tied else "decoder" if tied else "none",
        "generator_bias": True,
    }
    return Tables(state, model)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and torch.equal(one, other))


def first_of(given: Given, *names: str) -> str:
    """Return the first of these names that is there; the last one if none is."""
    return next((name for name in names if name in given), names[-1])
