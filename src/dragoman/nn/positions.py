"""Positions inside attention, instead of a row of sines and cosines added to each token (not in the paper).

All kinds here make a score depend on how far apart query and key are, not on where they stand.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from dragoman.nn.embedding import SinusoidalPositions

DISTANCE = 16


class AttentionPositions(nn.Module):
    """What an attention does about positions; this one does nothing, each kind overrides one method.

    It has no `forward`: it is a part of one attention, called by it in the middle of its work.

    Attributes:
        across: whether it can stand in cross-attention, where queries and keys are of different sequences.
        placing: what it does to queries and keys, in words, if anything.
        adding: what it adds to the scores, in words, if anything.
    """

    across = False
    placing = ""
    adding = ""

    @classmethod
    def of(cls, heads: int, d_k: int, distance: int) -> AttentionPositions:
        """Return positions for an attention of so many heads, whose queries have `d_k` columns each.

        `distance` is the largest one that is told from larger ones, where that is limited.
        """
        return cls()

    def place(self, x: Float[Tensor, "batch heads new d_k"], start: int) -> Float[Tensor, "batch heads new d_k"]:
        """Return queries or keys of positions `start`, `start + 1`, … as they are to meet; keys are cached so."""
        return x

    def bias(
        self, query: Float[Tensor, "batch heads q_len d_k"], k_len: int
    ) -> Float[Tensor, "batch heads q_len {k_len}"] | None:
        """Return what is added to the scores of these queries, the last of `k_len` positions; None if nothing is."""
        return None


class RotaryPositions(AttentionPositions):
    """Rotates queries and keys by angles that grow with their position (RoFormer, Su et al. 2021, section 3.2).

    Columns 2i and 2i + 1 are one complex number, which position p multiplies by exp(i·p / 10000^(2i/d_k)): the
    wavelengths of the paper's sinusoids. A query at p and a key at q then meet as if rotated by the angles of p − q.
    There are no weights and no longest length, and the fused kernel serves as without positions.

    In cross-attention a query at place p of the target meets a key at place q of the source in the same way: nothing
    makes p − q mean anything there but that the two sides often go on together.

    Args:
        d_k: width of queries and keys per head: even.
    """

    across = True
    placing = "rotated by its position"

    def __init__(self, d_k: int) -> None:
        super().__init__()
        if d_k % 2:
            raise ValueError(f"rotary positions rotate pairs of columns: d_k must be even, got {d_k}")
        self.waves = SinusoidalPositions(d_k)

    @classmethod
    def of(cls, heads: int, d_k: int, distance: int) -> RotaryPositions:
        """See `AttentionPositions.of`."""
        return cls(d_k)

    def place(self, x: Float[Tensor, "batch heads new d_k"], start: int) -> Float[Tensor, "batch heads new d_k"]:
        """Return queries or keys rotated; in float32 where they are narrower."""
        factors = self.rotations(start, x.shape[-2], x)
        # [batch, heads, new, d_k] as d_k / 2 complex numbers; contiguous, as the products that follow need it too
        pairs = x.to(factors.real.dtype).contiguous().unflatten(-1, (-1, 2))
        return torch.view_as_real(torch.view_as_complex(pairs) * factors).flatten(-2).type_as(x)

    def rotations(self, start: int, length: int, like: Float[Tensor, "*any"]) -> Complex[Tensor, "{length} pairs"]:
        """Return the complex factors of positions `start`, `start + 1`, …, on `like`'s device, at least as wide."""
        wide = torch.promote_types(like.dtype, torch.float32)
        rows = self.waves.table(start + length, like.new_empty(0, dtype=wide))[start:]
        sine, cosine = rows.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.complex(cosine, sine)


class RelativePositions(AttentionPositions):
    """A learned vector for each distance, added to the keys (Shaw et al. 2018, equation 4).

    The score of query i and key j is qᵢ · (kⱼ + a) / √d_k, a being row clip(j − i) of `key`: distances beyond the
    largest share its row, so there is no longest length. All heads of a layer share the rows. Nothing is added to the
    values: in Shaw et al. (section 4.3) that brings nothing where keys have their vectors, and no fused kernel does it.
    In a decoder, which hides what comes later, the rows of positive distances stay as they are.

    Args:
        d_k: width of keys per head.
        distance: the largest distance that is told from larger ones, on either side.
    """

    adding = "the query's product with the vector of each distance (likewise / √d_k)"

    def __init__(self, d_k: int, distance: int = DISTANCE) -> None:
        super().__init__()
        if distance < 1:
            raise ValueError(f"a distance of at least 1 is needed, got {distance}")
        self.distance = distance
        self.key = nn.Parameter(torch.empty(2 * distance + 1, d_k))
        self.reset_parameters()

    @classmethod
    def of(cls, heads: int, d_k: int, distance: int) -> RelativePositions:
        """See `AttentionPositions.of`."""
        return cls(d_k, distance)

    def reset_parameters(self) -> None:
        """Draw the vectors Xavier-uniform, as the matrix with which queries are multiplied."""
        nn.init.xavier_uniform_(self.key)

    def bias(
        self, query: Float[Tensor, "batch heads q_len d_k"], k_len: int
    ) -> Float[Tensor, "batch heads q_len {k_len}"]:
        """Return qᵢ · a / √d_k with the vector a of the distance between query and key."""
        by_distance = (query / math.sqrt(query.shape[-1])) @ self.key.T
        rows = self.rows(query.shape[-2], k_len, device=query.device)
        return by_distance.gather(-1, rows.expand(*query.shape[:2], -1, -1))

    def rows(self, q_len: int, k_len: int, *, device: torch.device | None = None) -> Int[Tensor, "{q_len} {k_len}"]:
        """Return the row of `key` for each pair of a query, of the last of `k_len` positions, and a key."""
        position = torch.arange(k_len, device=device)
        return (position - position[k_len - q_len :, None]).clamp(-self.distance, self.distance) + self.distance


class AlibiPositions(AttentionPositions):
    """Lowers each score by the distance of its key, times a slope of the head (ALiBi: Press, Smith and Lewis 2022).

    Head h of n, counted from 1, has the slope 2^(-8h/n): some heads look nearly everywhere, others hardly beyond the
    neighbours. Where n is no power of two, the first heads have the slopes of the next smaller power and the others
    every second one of twice as many heads, from the first, as in the article's own code. Nothing is learned, and the
    bias is added to QKᵀ/√d_k as it is. There is no longest length: the article (*Train Short, Test Long*) measures that
    texts longer than any in training hardly cost anything.

    The article has decoders alone: query i and key j ≤ i get -slope · (i - j), as decoder self-attention does here. In
    an encoder, where keys stand on both sides, the usual variant is -slope · |i - j|, which does not tell left from
    right: causal or not, one formula serves both. Cross-attention gets nothing, for target and source have no common
    distance.

    Args:
        heads: how many heads the attention has.
    """

    adding = "the distance times minus the slope of the head"

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(heads)

    @classmethod
    def of(cls, heads: int, d_k: int, distance: int) -> AlibiPositions:
        """See `AttentionPositions.of`."""
        return cls(heads)

    def bias(
        self, query: Float[Tensor, "batch heads q_len d_k"], k_len: int
    ) -> Float[Tensor, "batch heads q_len {k_len}"]:
        """Return -slope · |i - j| of each head; made in float32 where queries are narrower."""
        wide = torch.promote_types(query.dtype, torch.float32)
        position = torch.arange(k_len, device=query.device, dtype=wide)
        distance = (position - position[k_len - query.shape[-2] :, None]).abs()
        slopes = torch.tensor(self.slopes, device=query.device, dtype=wide)
        return (-slopes[:, None, None] * distance).type_as(query).expand(len(query), -1, -1, -1)


def alibi_slopes(heads: int) -> list[float]:
    """Return the slope of each of so many heads, as `AlibiPositions` has them."""
    lower = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * head / lower) for head in range(1, lower + 1)]
    return slopes + [2.0 ** (-4 * head / lower) for head in range(1, 2 * (heads - lower), 2)]


KINDS: dict[str, type[AttentionPositions]] = {
    "rotary": RotaryPositions,
    "relative": RelativePositions,
    "alibi": AlibiPositions,
}


def make_positions(kind: str | None, *, heads: int, d_k: int, distance: int = DISTANCE) -> AttentionPositions | None:
    """Return new positions of a kind (`KINDS`) for one attention; None for None. Arguments as in `of` of the kinds."""
    return None if kind is None else KINDS[kind].of(heads, d_k, distance)
