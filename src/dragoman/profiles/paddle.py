"""Multi-head attention with valid lengths, as the article on attention in Paddle builds it.

What differs from `dragoman.nn.MultiHeadAttention`:

| | theirs | here |
|---|---|---|
| inputs | queries, keys and values apart, all of width `query_vec_size` | the same |
| width of a head | `hidden_vec_size`, whatever the width of the inputs | the same |
| width of the output | `output_vec_size`, free | the same |
| offsets | on all four projections, kernels [in, out] | on all four, `[out, in]` as PyTorch has them |
| heads | interleaved: column c·heads + h of W_q, W_k and W_v is component c of head h | `_split_heads` |
| concatenation | head by head: row h·hidden_vec_size + c of W_o | the same |
| masks | keys at and beyond `valid_lens[b]` get the score -1e6: with no valid key, all weigh alike | `filled_weights` |
| length | fixed to `query_size` for queries and keys | the same |
| attention maps | inside | `observe`, [batch, heads, q_len, k_len] |

Lengths may be integers or floats; Paddle 3 itself compares its range only with `valid_lens.astype("float32")`.

Weights are `W_q.weight` [in, out], `W_q.bias`, and so on for W_k, W_v and W_o: names inferred from the article's
formulas, for no saved weights of it are known. To turn saved ones into safetensors::

    python -c "import paddle, sys; from safetensors.numpy import save_file; save_file(
    {k: v.numpy() for k, v in paddle.load(sys.argv[1]).items()}, sys.argv[2])" IN.pdparams OUT.safetensors
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from dragoman import nn as blocks
from dragoman.errors import ConfigError
from dragoman.nn import AttentionRecord, attention_scores
from dragoman.nn.attention import Observer
from dragoman.profiles.conclusions import concluding
from dragoman.profiles.parts import check_heads, filled_weights, filling
from dragoman.profiles.weights import Weights

_FILL = -1e6


class DotProductAttention(nn.Module):
    """One head: three projections, then the values' sum weighted by softmax(QKᵀ/√hidden_vec_size).

    Args:
        query_size: number of queries and of keys.
        query_vec_size: width of what comes in.
        hidden_vec_size: width of the projections, and of what goes out.
    """

    head_num = 1

    def __init__(self, query_size: int, query_vec_size: int, hidden_vec_size: int) -> None:
        super().__init__()
        self.query_size, self.query_vec_size, self.hidden_vec_size = query_size, query_vec_size, hidden_vec_size
        self.W_q, self.W_k, self.W_v = (_linear(query_vec_size, self.head_num * hidden_vec_size) for _ in range(3))
        self._observers: list[Observer] = []

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with an `AttentionRecord` after each forward pass; returns what ends it."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def forward(
        self,
        queries: Float[Tensor, "batch q_len query_vec"],
        keys: Float[Tensor, "batch q_len query_vec"],
        values: Float[Tensor, "batch q_len query_vec"],
        valid_lens: Shaped[Tensor, " batch"],
    ) -> Float[Tensor, "batch q_len out"]:
        """Attend from the queries to the first `valid_lens[b]` keys of each row.

        Raises:
            ConfigError: there are not `query_size` positions.
        """
        length = queries.shape[1]
        if length != self.query_size:
            raise ConfigError("the length is fixed", expected=f"query_size {self.query_size}", found=length)
        query, key, value = map(self._split_heads, (self.W_q(queries), self.W_k(keys), self.W_v(values)))
        mask = (torch.arange(length, device=queries.device) < valid_lens[:, None])[:, None, None, :]
        scores = attention_scores(query, key)
        weights = filled_weights(scores, mask, fill=_FILL)
        output = self._mix((weights @ value).transpose(1, 2).flatten(2))
        for observer in tuple(self._observers):
            observer(AttentionRecord(query, key, value, mask, scores, weights, output))
        return output

    def _split_heads(self, x: Tensor) -> Tensor:
        # [batch, len, hidden · heads] -> [batch, heads, len, hidden]
        return x.unflatten(-1, (self.hidden_vec_size, self.head_num)).permute(0, 3, 1, 2)

    def _mix(self, heads: Tensor) -> Tensor:
        return heads


class MultiHeadAttention(DotProductAttention):
    """Several heads at once, joined and mixed by W_o.

    Args:
        query_size: number of queries and of keys.
        query_vec_size: width of what comes in.
        hidden_vec_size: width of a head.
        output_vec_size: width of what goes out.
        head_num: number of heads.
    """

    def __init__(
        self, query_size: int, query_vec_size: int, hidden_vec_size: int, output_vec_size: int, head_num: int
    ) -> None:
        self.head_num = head_num
        super().__init__(query_size, query_vec_size, hidden_vec_size)
        self.W_o = _linear(head_num * hidden_vec_size, output_vec_size)

    def _mix(self, heads: Tensor) -> Tensor:
        return self.W_o(heads)


def build(
    query_size: int,
    query_vec_size: int,
    hidden_vec_size: int,
    output_vec_size: int,
    head_num: int,
    *,
    dtype: torch.dtype = torch.float32,
) -> MultiHeadAttention:
    """Return a fresh `MultiHeadAttention` with Paddle's initialisation: Xavier-uniform matrices, zero offsets."""
    return MultiHeadAttention(query_size, query_vec_size, hidden_vec_size, output_vec_size, head_num).to(dtype)


@concluding()
def load(
    state: Mapping[str, Any], query_size: int, head_num: int, *, dtype: torch.dtype = torch.float32
) -> MultiHeadAttention:
    """Return their `MultiHeadAttention`, in evaluation mode; the weights tell all sizes but these.

    Args:
        state: `W_q.weight` … `W_o.bias` to arrays.
        query_size: as in `MultiHeadAttention`.
        head_num: as in `MultiHeadAttention`.
        dtype: of the weights.

    Raises:
        ModelError: an entry is missing, left over or misshapen.
        ConfigError: the width of the projections does not divide into so many heads.
    """
    weights = Weights(state, "paddle", dtype)
    query_vec_size, width = (weights.common("W_[qkv].weight", place) for place in (0, 1))
    check_heads("head_num", head_num, width)
    output_vec_size = weights.common("W_o.weight", 1)
    model = build(query_size, query_vec_size, width // head_num, output_vec_size, head_num, dtype=dtype)
    _fill(model, weights, "W_q", "W_k", "W_v", "W_o")
    return model.eval()


@concluding()
def load_single(
    state: Mapping[str, Any], query_size: int, *, dtype: torch.dtype = torch.float32
) -> DotProductAttention:
    """Return their `DotProductAttention`, in evaluation mode: as `load`, without W_o.

    Raises:
        ModelError: an entry is missing, left over or misshapen.
    """
    weights = Weights(state, "paddle", dtype)
    sizes = (weights.common("W_[qkv].weight", place) for place in (0, 1))
    model = DotProductAttention(query_size, *sizes).to(dtype)
    _fill(model, weights, "W_q", "W_k", "W_v")
    return model.eval()


@torch.no_grad()
def to_block(model: MultiHeadAttention) -> blocks.MultiHeadAttention:
    """Return the heads, one after the other, as a `dragoman.nn.MultiHeadAttention`, for stacks and caches.

    Raises:
        ConfigError: what goes out is not as wide as what comes in.
    """
    width, out = model.query_vec_size, model.W_o.out_features
    if out != width:
        raise ConfigError("a block keeps its width", expected=f"output_vec_size {width}", found=out)
    heads, hidden = model.head_num, model.hidden_vec_size
    block = blocks.MultiHeadAttention(width, heads, d_k=hidden, d_v=hidden, weigh=filling(_FILL))
    block = block.to(model.W_o.weight.dtype)
    # Row h·hidden + c of a block is row c·heads + h of theirs.
    rows = torch.arange(hidden * heads).view(hidden, heads).T.flatten()
    linears = (model.W_q, model.W_k, model.W_v)
    block.projection.weight.copy_(torch.cat([linear.weight[rows] for linear in linears]))
    block.projection.bias.copy_(torch.cat([linear.bias[rows] for linear in linears]))
    block.output.load_state_dict(model.W_o.state_dict())
    return block.train(model.training)


def _linear(inner: int, outer: int) -> nn.Linear:
    linear = nn.Linear(inner, outer)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _fill(model: DotProductAttention, weights: Weights, *names: str) -> None:
    for name in names:
        weights.affine(getattr(model, name), f"{name}.{{}}", transpose=True)
    weights.finish()
