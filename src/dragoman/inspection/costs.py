"""How many multiplications with additions a model takes, part by part, as formulas in its sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dragoman.config import ModelConfig


@dataclass(frozen=True)
class Cost:
    """Multiply-adds of one part of a pass, in all its layers.

    Attributes:
        name: the part.
        formula: in the sizes of the model, for all layers and the whole batch.
        count: its value.
    """

    name: str
    formula: str
    count: int


def costs_of(config: ModelConfig, sizes: Mapping[str, int]) -> tuple[Cost, ...]:
    """Return the multiply-adds of one pass over all positions: matrix products only, which is nearly everything.

    Args:
        config: the model's.
        sizes: every size by its name, `batch`, `src` and `tgt` included.
    """
    parts: list[Cost] = []
    if config.family != "causal":
        parts += _stack("encoder", "src", sizes)
    if config.family != "masked":
        parts += _stack("decoder", "tgt", sizes)
    if config.family == "transformer":
        parts += _cross(sizes)
    length = "src" if config.family == "masked" else "tgt"
    vocab = sizes.get("target_vocab", sizes.get("vocab", 0))
    count = sizes["batch"] * sizes[length] * sizes["d_model"] * vocab
    return (*parts, Cost("generator", f"batch·{length}·d_model·vocab", count))


def _stack(name: str, length: str, sizes: Mapping[str, int]) -> Iterator[Cost]:
    """Self-attention and feed-forward of all layers of a stack."""
    n, heads, d_k, d_v, d_model = (sizes[one] for one in (length, "num_heads", "d_k", "d_v", "d_model"))
    times, symbols = sizes["batch"] * sizes[f"num_{name}_layers"], "batch·layers"
    yield Cost(
        f"{name}: Q, K, V and W_o", f"{symbols}·{length}·d_model·heads·(2·d_k+2·d_v)",
        times * n * d_model * heads * (2 * d_k + 2 * d_v),
    )  # fmt: skip
    yield Cost(
        f"{name}: QKᵀ and weights·V", f"{symbols}·heads·{length}²·(d_k+d_v)", times * heads * n * n * (d_k + d_v)
    )
    yield Cost(f"{name}: feed-forward", f"{symbols}·{length}·2·d_model·d_ff", times * n * 2 * d_model * sizes["d_ff"])


def _cross(sizes: Mapping[str, int]) -> Iterator[Cost]:
    src, tgt, heads, d_k, d_v, d_model = (sizes[one] for one in ("src", "tgt", "num_heads", "d_k", "d_v", "d_model"))
    times = sizes["batch"] * sizes["num_decoder_layers"]
    yield Cost(
        "decoder: cross Q and W_o",
        "batch·layers·tgt·d_model·heads·(d_k+d_v)",
        times * tgt * d_model * heads * (d_k + d_v),
    )
    yield Cost(
        "decoder: cross K and V",
        "batch·layers·src·d_model·heads·(d_k+d_v)",
        times * src * d_model * heads * (d_k + d_v),
    )
    yield Cost(
        "decoder: cross QKᵀ and weights·V",
        "batch·layers·heads·tgt·src·(d_k+d_v)",
        times * heads * tgt * src * (d_k + d_v),
    )


def step_cost(config: ModelConfig, sizes: Mapping[str, int]) -> int:
    """Return the multiply-adds of one step with a cache, when `tgt` positions are keys: one query in every layer.

    Args:
        config: of a model with a decoder.
        sizes: as for `costs_of`.
    """
    heads, d_k, d_v, d_model = (sizes[one] for one in ("num_heads", "d_k", "d_v", "d_model"))
    layer = d_model * heads * (2 * d_k + 2 * d_v) + heads * sizes["tgt"] * (d_k + d_v) + 2 * d_model * sizes["d_ff"]
    if config.family == "transformer":
        layer += d_model * heads * (d_k + d_v) + heads * sizes["src"] * (d_k + d_v)
    vocab = sizes.get("target_vocab", sizes.get("vocab", 0))
    return sizes["batch"] * (sizes["num_decoder_layers"] * layer + d_model * vocab)
