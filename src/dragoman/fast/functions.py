"""The sub-layers of a Transformer as functions of rows without padding, with their gradients.

Each gives what the module of `dragoman.nn` gives, to float32's rounding, or to that of `kernels.factors`: products with
weights and for their gradients have factors of that type, and results of float32. A sub-layer's last bias is left to
`add_norm`. Gradients can be taken once, not of themselves.
"""

from __future__ import annotations

from ctypes import byref
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.fast.kernels import Drop, Kernels, Layout, attend, attend_back

Grads = tuple[Tensor | None, ...]


def add_norm(
    kernels: Kernels,
    z: Float[Tensor, "rows d_model"],
    bias: Float[Tensor, " d_model"] | None,
    x: Float[Tensor, "rows d_model"],
    gain: Float[Tensor, " d_model"],
    offset: Float[Tensor, " d_model"],
    *,
    eps: float,
    drop: Drop,
    keeps_sum: bool,
) -> tuple[Float[Tensor, "rows d_model"], Float[Tensor, "rows d_model"] | None]:
    """Return the norm of x + dropout(z + bias), and that sum if wanted (paper 3.1, 5.4); else it is written over z.

    Args:
        kernels: what computes.
        z: what a sub-layer said, without its last bias; nobody else may need it.
        bias: that bias.
        x: what goes by the sub-layer.
        gain: of the norm.
        offset: of the norm.
        eps: of the norm.
        drop: of the residual connection.
        keeps_sum: whether the sum is wanted.
    """
    return _AddNorm.apply(kernels, z, bias, x, gain, offset, eps, drop, keeps_sum)


def feed_forward(
    kernels: Kernels,
    x: Float[Tensor, "rows d_model"],
    inner: Float[Tensor, "d_ff d_model"],
    bias: Float[Tensor, " d_ff"],
    outer: Float[Tensor, "d_model d_ff"],
    drop: Drop,
) -> Float[Tensor, "rows d_model"]:
    """Return dropout(max(0, xW₁ + b₁))W₂, without the last bias (paper 3.3)."""
    return _FeedForward.apply(kernels, x, inner, bias, outer, drop)


def self_attention(
    kernels: Kernels,
    layout: Layout,
    x: Float[Tensor, "rows d_model"],
    matrix: Float[Tensor, "packed d_model"],
    bias: Float[Tensor, " packed"] | None,
    output: Float[Tensor, "d_model values"],
    rotations: Complex[Tensor, "rows pairs"] | None = None,
) -> Float[Tensor, "rows d_model"]:
    """Return multi-head attention of rows to those of their own sentence, without the last bias (paper 3.2).

    Queries and keys are multiplied by `rotations`, if there are any: rotary positions.
    """
    return _SelfAttention.apply(kernels, layout, x, matrix, bias, output, rotations)


def cross_attention(
    kernels: Kernels,
    layout: Layout,
    x: Float[Tensor, "rows d_model"],
    memory: Float[Tensor, "keys d_model"],
    matrix: Float[Tensor, "packed d_model"],
    bias: Float[Tensor, " packed"] | None,
    output: Float[Tensor, "d_model values"],
    rotations: Complex[Tensor, "rows pairs"] | None = None,
    key_rotations: Complex[Tensor, "keys pairs"] | None = None,
) -> Float[Tensor, "rows d_model"]:
    """Return multi-head attention of rows to the memory of their sentence, without the last bias (paper 3.2.3).

    Queries are multiplied by `rotations` and keys by `key_rotations`, if there are any: rotary positions.
    """
    return _CrossAttention.apply(kernels, layout, x, memory, matrix, bias, output, rotations, key_rotations)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: Kernels, z: Tensor, bias: Tensor | None, x: Tensor, gain: Tensor, offset: Tensor,
        eps: float, drop: Drop, keeps_sum: bool,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        total = torch.empty_like(z) if keeps_sum else z.detach()
        out, moments = torch.empty_like(z), z.new_empty(len(z), 2)
        added = z.new_zeros(z.shape[1]) if bias is None else bias
        kernels.call("add_norm", z, added, x, gain, offset, eps, byref(drop), *z.shape, total, out, moments)
        ctx.save_for_backward(total, moments, gain)
        ctx.kernels, ctx.drop, ctx.has_bias = kernels, drop, bias is not None
        ctx.set_materialize_grads(False)
        return out, total if keeps_sum else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Grads:  # pyrefly: ignore[bad-override]
        total, moments, gain = ctx.saved_tensors
        grad, grad_sum = (None if one is None else one.contiguous() for one in grads)
        if grad is None:
            grad = torch.zeros_like(total)
        by_x, by_z, sums = torch.empty_like(total), torch.empty_like(total), total.new_empty(3, total.shape[1])
        ctx.kernels.call(
            "add_norm_back", grad, grad_sum, total, moments, gain, byref(ctx.drop), *total.shape, by_x, by_z, sums
        )
        by_bias, by_gain, by_offset = sums.unbind()
        return None, by_z, by_bias if ctx.has_bias else None, by_x, by_gain, by_offset, None, None, None


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: Kernels, x: Tensor, inner: Tensor, bias: Tensor, outer: Tensor, drop: Drop
    ) -> Tensor:
        x, inner, outer = kernels.round(x, inner, outer)
        h = _times(x, inner.t())
        kernels.call("relu", h, bias, byref(drop), *h.shape)
        ctx.save_for_backward(x, inner, outer, h)
        ctx.kernels, ctx.scale = kernels, drop.scale
        [rounded] = kernels.round(h)
        return _times(rounded, outer.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Grads:  # pyrefly: ignore[bad-override]
        x, inner, outer, h = ctx.saved_tensors
        grad, rounded = ctx.kernels.round(grads[0].contiguous(), h)
        by_outer, by_h, by_bias = _times(grad.t(), rounded), _times(grad, outer), h.new_empty(h.shape[1])
        ctx.kernels.call("relu_back", by_h, h, ctx.scale, *h.shape, by_bias)
        [by_h] = ctx.kernels.round(by_h)
        return None, _times(by_h, inner), _times(by_h.t(), x), by_bias, by_outer, None


class _SelfAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: Kernels, layout: Layout, x: Tensor, matrix: Tensor, bias: Tensor | None, output: Tensor,
        rotations: Tensor | None,
    ) -> Tensor:  # fmt: skip
        x, matrix, output = kernels.round(x, matrix, output)
        packed = _linear(x, matrix, bias)
        _rotate(packed[:, : len(matrix) // 3 * 2], 2 * layout.heads, rotations)
        mixed, weights = attend(kernels, layout, *_three(packed))
        [mixed] = kernels.round(mixed)
        ctx.save_for_backward(x, matrix, output, packed, mixed, weights, rotations)
        ctx.kernels, ctx.layout, ctx.has_bias = kernels, layout, bias is not None
        return _times(mixed, output.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Grads:  # pyrefly: ignore[bad-override]
        x, matrix, output, packed, mixed, weights, rotations = ctx.saved_tensors
        [grad] = ctx.kernels.round(grads[0].contiguous())
        by_output, by_mixed, by_packed = _times(grad.t(), mixed), _times(grad, output), torch.empty_like(packed)
        attend_back(ctx.kernels, ctx.layout, _three(packed), weights, by_mixed, _three(by_packed))
        _rotate(by_packed[:, : len(matrix) // 3 * 2], 2 * ctx.layout.heads, rotations, back=True)
        by_bias = _column_sums(ctx.kernels, by_packed) if ctx.has_bias else None
        [by_packed] = ctx.kernels.round(by_packed)
        return None, None, _times(by_packed, matrix), _times(by_packed.t(), x), by_bias, by_output, None


class _CrossAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: Kernels, layout: Layout, x: Tensor, memory: Tensor, matrix: Tensor, bias: Tensor | None,
        output: Tensor, rotations: Tensor | None, key_rotations: Tensor | None,
    ) -> Tensor:  # fmt: skip
        x, memory, matrix, output = kernels.round(x, memory, matrix, output)
        width = len(matrix) // 3
        biases = (None, None) if bias is None else (bias[:width], bias[width:])
        query, packed = _linear(x, matrix[:width], biases[0]), _linear(memory, matrix[width:], biases[1])
        _rotate(query, layout.heads, rotations)
        _rotate(packed[:, :width], layout.heads, key_rotations)
        mixed, weights = attend(kernels, layout, query, *_two(packed))
        [mixed] = kernels.round(mixed)
        ctx.save_for_backward(x, memory, matrix, output, query, packed, mixed, weights, rotations, key_rotations)
        ctx.kernels, ctx.layout, ctx.has_bias = kernels, layout, bias is not None
        return _times(mixed, output.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Grads:  # pyrefly: ignore[bad-override]
        x, memory, matrix, output, query, packed, mixed, weights, rotations, key_rotations = ctx.saved_tensors
        [grad] = ctx.kernels.round(grads[0].contiguous())
        width = len(matrix) // 3
        by_output, by_mixed = _times(grad.t(), mixed), _times(grad, output)
        by_query, by_packed = torch.empty_like(query), torch.empty_like(packed)
        given, wanted = (query, *_two(packed)), (by_query, *_two(by_packed))
        attend_back(ctx.kernels, ctx.layout, given, weights, by_mixed, wanted)
        _rotate(by_query, ctx.layout.heads, rotations, back=True)
        _rotate(by_packed[:, :width], ctx.layout.heads, key_rotations, back=True)
        by_bias = torch.cat([_column_sums(ctx.kernels, one) for one in (by_query, by_packed)]) if ctx.has_bias else None
        by_query, by_packed = ctx.kernels.round(by_query, by_packed)
        by_matrix = torch.cat([_times(by_query.t(), x), _times(by_packed.t(), memory)])
        by_x, by_memory = _times(by_query, matrix[:width]), _times(by_packed, matrix[width:])
        return None, None, by_x, by_memory, by_matrix, by_bias, by_output, None, None


def _times(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b).float()


def _linear(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    if bias is not None and matrix.dtype == bias.dtype:
        return torch.addmm(bias, x, matrix.t())
    packed = _times(x, matrix.t())
    return packed if bias is None else packed.add_(bias)


def _rotate(columns: Tensor, heads: int, rotations: Tensor | None, *, back: bool = False) -> None:
    # in place: columns are those of so many heads
    if rotations is not None:
        pairs = torch.view_as_complex(columns.unflatten(1, (heads, -1, 2)))
        pairs.mul_((rotations.conj() if back else rotations)[:, None])


def _two(packed: Tensor) -> tuple[Tensor, Tensor]:
    first, second = packed.chunk(2, 1)
    return first, second


def _three(packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    first, second, third = packed.chunk(3, 1)
    return first, second, third


def _column_sums(kernels: Kernels, x: Tensor) -> Tensor:
    sums = x.new_empty(x.shape[1])
    kernels.call("column_sums", x, *x.shape, sums)
    return sums
