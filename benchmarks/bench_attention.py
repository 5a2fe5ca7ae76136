"""Attention by plain products against PyTorch's fused kernel, at the lengths of sentences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from rows import print_rows, settle
from torch import Tensor
from torch.nn import functional as F

from dragoman.nn import causal_mask
from dragoman.nn.attention import attention_scores, attention_weights
from dragoman.nn.dropout import dropout as drop

# batch, heads, length: about 2,000 tokens each, as training has them; 64 columns a head.
SHAPES = ((113, 4, 18), (60, 8, 34), (28, 8, 72), (16, 8, 128), (4, 8, 512))
D_K = 64
Attend = Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]


def explicit(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float) -> Tensor:
    return drop(attention_weights(attention_scores(query, key), mask), dropout) @ value


def fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


def forward_backward(attend: Attend, packed: Tensor, heads: int, mask: Tensor, dropout: float) -> Tensor:
    """Heads cut from one packed projection and joined again, as in `MultiHeadAttention`; returns the gradient."""
    packed = packed.detach().requires_grad_()
    mixed = _mixed(attend, packed, heads, mask, dropout)
    return torch.autograd.grad(mixed, packed, torch.ones_like(mixed))[0]


def _mixed(attend: Attend, packed: Tensor, heads: int, mask: Tensor, dropout: float) -> Tensor:
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in packed.chunk(3, dim=-1))
    return attend(query, key, value, mask, dropout).transpose(1, 2).flatten(2)


def _masks(batch: int, length: int) -> Tensor:
    """Causal, and each row as long as its number says: what the decoder's self-attention gets."""
    real = torch.arange(length) < torch.randint(length // 2, length + 1, (batch, 1))
    return causal_mask(length) & real[:, None, None, :]


def bench_training() -> None:
    for batch, heads, length in SHAPES:
        packed, mask = torch.randn(batch, length, 3 * heads * D_K), _masks(batch, length)
        for dropout in (0.0, 0.1):
            facts = {"pass": "forward and backward", "batch": batch, "heads": heads, "length": length}
            runs = {
                "fused": lambda p=packed, h=heads, m=mask, d=dropout: forward_backward(fused, p, h, m, d),
                "explicit": lambda p=packed, h=heads, m=mask, d=dropout: forward_backward(explicit, p, h, m, d),
            }
            print_rows("attention", {**facts, "dropout": dropout}, runs, budget=3.0)


def bench_inference() -> None:
    with torch.no_grad():
        for batch, heads, length in SHAPES:
            packed, mask = torch.randn(batch, length, 3 * heads * D_K), _masks(batch, length)
            facts = {"pass": "forward", "batch": batch, "heads": heads, "length": length, "dropout": 0.0}
            runs = {
                "fused": lambda p=packed, h=heads, m=mask: _mixed(fused, p, h, m, 0.0),
                "explicit": lambda p=packed, h=heads, m=mask: _mixed(explicit, p, h, m, 0.0),
            }
            print_rows("attention", facts, runs, budget=1.5)


def bench_step() -> None:
    """One new query over the keys of a cache."""
    with torch.no_grad():
        for batch, length in ((1, 16), (32, 16), (128, 16), (128, 64)):
            query = torch.randn(batch, 4, 1, D_K)
            key, value = torch.randn(2, batch, 4, length, D_K)
            mask = torch.ones(batch, 1, 1, length, dtype=torch.bool)
            facts = {"pass": "forward, one query", "batch": batch, "heads": 4, "length": length, "dropout": 0.0}
            runs = {
                "fused": lambda q=query, k=key, v=value, m=mask: fused(q, k, v, m, 0.0),
                "explicit": lambda q=query, k=key, v=value, m=mask: explicit(q, k, v, m, 0.0),
            }
            print_rows("attention", facts, runs, budget=0.5)


def main() -> None:
    settle()
    bench_training()
    bench_inference()
    bench_step()


if __name__ == "__main__":
    main()
