"""Lsdefine/attention-is-all-you-need-keras: the Keras Transformer of the English-German example.

What differs from the blocks of `dragoman.nn`:

| | theirs | here |
|---|---|---|
| layer norm | g·(x - mean)/(biased deviation + 1e-6) + b, after the residual | `DeviationNorm`, `PostNorm` |
| projections | q, k, v without offsets, the output with | `_attention` |
| attention dropout | 0.1, whatever `dropout` is | the same |
| masks | -1e9 · (1 - mask) added to the scores, so a row of padding only still looks | `added_mask` |
| embeddings | not scaled; dropout on the source side only | `PositionedEmbedding` |
| positions | counted from 1; padding gets row 0, all zeros; the table is one of the weights | `PositionedEmbedding` |
| feed-forward | width-1 convolutions, kernels [1, in, out] | `FeedForward` |
| output | no offset, not tied | `Generator` |
| special ids | padding 0, unknown 1, `<S>` 2, `</S>` 3; source and target framed with both | `pad=0` |
| attention maps | [heads·batch, q_len, k_len], head-major; mode 1: one per head | [batch, heads, q_len, k_len] |
| cache | layer inputs, projected again at each step | keys and values |

Mode 0 has one matrix for all heads, mode 1 one for each; they compute the same, their initialisation differs.

Faults of theirs:
- In mode 0 the scores are head-major but the masks are repeated batch-major: with several sentences of different
  lengths, most heads hide another sentence's padding. `faithful_to_bug="misaligned_masks"` does so too; then the
  result of a sentence depends on its batch, in training and in search.
- Their beam search raises KeyError when a source finishes no hypothesis, and their softmax overflows above 88.

This is the last state of the repository. Its early states scale by √d_model and have other norm weights.

To turn the HDF5 file that `ModelCheckpoint` or `save_weights` wrote into safetensors, without loading the model::

    python -c "import h5py, sys; from safetensors.numpy import save_file; d = {}; h5py.File(sys.argv[1]).visititems(
    lambda k, v: d.update({k: v[()]}) if isinstance(v, h5py.Dataset) else None); save_file(d, sys.argv[2])" IN OUT
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.errors import ConfigError, ModelError
from dragoman.nn import (
    Dropout,
    FeedForward,
    FixedCache,
    Generator,
    GrowingCache,
    MultiHeadAttention,
    PostNorm,
    Transformer,
    sinusoids,
)
from dragoman.profiles.keras_layout import KerasLayout, KerasWeights, recognise
from dragoman.profiles.parts import stacks

PAD = 0
BUGS = ("misaligned_masks",)


class DeviationNorm(nn.Module):
    """gamma · (x - mean) / (deviation + eps) + beta, the deviation biased and `eps` outside the root."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.gamma, self.beta = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        """Each vector on its own."""
        deviation = x.std(-1, correction=0, keepdim=True)
        return self.gamma * (x - x.mean(-1, keepdim=True)) / (deviation + self.eps) + self.beta


def position_table(len_limit: int, d_model: int) -> Float[Tensor, "{len_limit} {d_model}"]:
    """Interleaved sinusoids in float64, row p for the p-th token counted from 1; row 0, for padding, is zeros."""
    table = sinusoids(len_limit, d_model)
    table[0] = 0.0
    return table


def added_mask(
    scores: Float[Tensor, "*rows q_len k_len"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*rows q_len k_len"]:
    """Softmax over the keys after -1e9 is added to the hidden ones."""
    return (scores if mask is None else scores - 1e9 * (~mask).to(scores.dtype)).softmax(-1)


class PositionedEmbedding(nn.Module):
    """Token row + position row, then dropout.

    Args:
        tokens: the table of the words, used as it is.
        table: the positions, row 0 for padding.
        dropout: theirs on the source side, 0 on the target side.
    """

    def __init__(self, tokens: nn.Embedding, table: Float[Tensor, "len_limit d_model"], dropout: float = 0.0) -> None:
        super().__init__()
        self.tokens, self.dropout = tokens, Dropout(dropout)
        self.table: Tensor
        self.register_buffer("table", table)

    def forward(self, ids: Int[Tensor, "batch len"], start: int = 0) -> Float[Tensor, "batch len d_model"]:
        """Vectors of the tokens, the first of which stands at position `start`.

        Raises:
            ModelError: there are more tokens than the table has positions.
        """
        end = start + ids.shape[1]
        if end >= len(self.table):
            most = len(self.table) - 1
            raise ModelError("a sequence is too long for len_limit", expected=f"at most {most} tokens", found=end)
        place = torch.arange(start + 1, end + 1, device=ids.device) * (ids != PAD)
        return self.dropout(self.tokens(ids) + self.table[place])


class MisalignedAttention(MultiHeadAttention):
    """Their fault in mode 0: a head of sentence `row` gets the mask of sentence (head·batch + row) // heads."""

    def forward(
        self,
        x: Float[Tensor, "batch q_len d_model"],
        memory: Float[Tensor, "batch src d_model"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        cache: GrowingCache | FixedCache | None = None,
    ) -> Float[Tensor, "batch q_len d_model"]:
        """As `MultiHeadAttention`, with another mask."""
        if mask is not None:
            batch, heads = len(x), self.num_heads
            # [batch, heads]: whose mask it is
            owner = torch.arange(heads * batch, device=x.device).view(heads, batch).T // heads
            mask = mask.expand(batch, 1, *mask.shape[2:])[owner, 0]
        return super().forward(x, memory, mask, cache)


def build(
    i_tokens: int,
    o_tokens: int,
    len_limit: int,
    d_model: int = 256,
    d_inner_hid: int = 512,
    n_head: int = 4,
    layers: int = 2,
    dropout: float = 0.1,
    share_word_emb: bool = False,
    *,
    mode: int = 0,
    faithful_to_bug: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """A fresh model: Glorot-uniform kernels, zero offsets, embeddings uniform within 0.05.

    Args:
        i_tokens: source vocabulary, special symbols included (their `i_tokens.num()`).
        o_tokens: target vocabulary.
        len_limit: rows of the position table; sequences have at most one token less.
        d_model: width of every representation.
        d_inner_hid: inner width of the feed-forward block.
        n_head: heads, each d_model / n_head wide.
        layers: of each stack.
        dropout: on the source embedding and every sub-layer; attention dropout is 0.1 always.
        share_word_emb: one table of words for both sides.
        mode: 0, one matrix for all heads; 1, one per head.
        faithful_to_bug: `misaligned_masks` (mode 0 only), or none.
        dtype: of the weights.

    Raises:
        ConfigError: the heads do not divide d_model, two vocabularies to be shared differ, or there is no such mode
            or bug.
    """
    _check(i_tokens, o_tokens, d_model, n_head, share_word_emb, mode, faithful_to_bug)
    table = position_table(len_limit, d_model).to(dtype)
    source = _words(i_tokens, d_model)
    target = source if share_word_emb else _words(o_tokens, d_model)

    def attention() -> MultiHeadAttention:
        return _attention(d_model, n_head, mode, misaligned=faithful_to_bug is not None)

    def feed_forward() -> FeedForward:
        return FeedForward(d_model, d_inner_hid)

    def residual() -> PostNorm:
        return PostNorm(d_model, dropout, DeviationNorm)

    return Transformer(
        PositionedEmbedding(source, table, dropout),
        PositionedEmbedding(target, table),
        *stacks((layers, layers), attention, feed_forward, residual),
        Generator(d_model, o_tokens),
        pad=PAD,
    ).to(dtype)


def load(
    state: Mapping[str, Any] | Sequence[Any],
    n_head: int = 4,
    dropout: float = 0.1,
    *,
    mode: int = 0,
    faithful_to_bug: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """Their weights in a model of ours, in evaluation mode. Sizes are read off the weights.

    Args:
        state: either Keras names to arrays (`dense_3/kernel:0`, or as in an HDF5 file `dense_3/dense_3/kernel:0`;
            layers of a class count in the order of their numbers, whatever the first is), or the ordered list that
            `s2s.model.get_weights()` gives.
        n_head: as in `build`.
        dropout: as in `build`.
        mode: as in `build`.
        faithful_to_bug: as in `build`.
        dtype: as in `build`; the position table is taken as it was stored.

    Raises:
        ModelError: an entry is missing, left over or misshapen.
        ConfigError: as in `build`.
    """
    layout, weights = recognise(state, n_head, mode, dtype)
    tables = [weights.matrix(f"embedding_{n}/embeddings") for n in range(2 if layout.share else 3)]
    (len_limit, d_model), (i_tokens, _), (o_tokens, _) = tables[0], tables[1], tables[-1]
    d_inner_hid = (0, *weights.shape("conv1d_0/kernel"))[-1]
    model = build(
        i_tokens, o_tokens, len_limit, d_model, d_inner_hid, n_head, layout.layers, dropout, layout.share,
        mode=mode, faithful_to_bug=faithful_to_bug, dtype=dtype,
    )  # fmt: skip
    _fill(model, weights, layout)
    weights.finish()
    return model.eval()


def loss(logits: Float[Tensor, "batch labels vocab"], labels: Int[Tensor, "batch labels"]) -> Float[Tensor, ""]:
    """Cross-entropy without smoothing: the mean over a sentence's real tokens, then the mean over sentences."""
    return _sentence_mean(F.cross_entropy(logits.transpose(1, 2), labels, reduction="none"), labels)


def accuracy(logits: Float[Tensor, "batch labels vocab"], labels: Int[Tensor, "batch labels"]) -> Float[Tensor, ""]:
    """The share of labels that are the likeliest token, averaged like `loss`."""
    return _sentence_mean((logits.argmax(-1) == labels).to(logits.dtype), labels)


def learning_rate(step: int, d_model: int, warmup: int = 4000) -> float:
    """Of update `step`, counted from 1: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def beam_log_probabilities(logits: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows vocab"]:
    """What their beam search adds up: log(softmax + 1e-8), so never below -18.4."""
    return (logits.softmax(-1) + 1e-8).log()


def beam_prunes(total: float, best: float | None) -> bool:
    """Whether their beam search drops a candidate: below five times the best finished sum of the sentence, so far."""
    return total < 5 * (-1e5 if best is None else best)


def beam_score(total: float, length: int, length_penalty: float = 1.0) -> float:
    """What their finished hypotheses are sorted by; `length` counts neither `<S>` nor `</S>`."""
    return total / (length + 1) ** length_penalty


def _sentence_mean(values: Tensor, labels: Tensor) -> Tensor:
    real = labels != PAD
    return ((values * real).sum(-1) / real.sum(-1)).mean()


def _check(i_tokens: int, o_tokens: int, d_model: int, n_head: int, share: bool, mode: int, bug: str | None) -> None:
    if d_model % n_head:
        raise ConfigError("d_model does not divide into n_head heads", expected=f"a divisor of {d_model}", found=n_head)
    if share and i_tokens != o_tokens:
        raise ConfigError("one table needs one vocabulary", expected=f"o_tokens {i_tokens}", found=o_tokens)
    if mode not in (0, 1):
        raise ConfigError("there is no such mode", expected="0 or 1", found=mode)
    if bug is not None and (bug not in BUGS or mode != 0):
        raise ConfigError("there is no such bug in this mode", expected=f"None, or {BUGS[0]} in mode 0", found=bug)


def _words(count: int, d_model: int) -> nn.Embedding:
    words = nn.Embedding(count, d_model)
    nn.init.uniform_(words.weight, -0.05, 0.05)
    return words


def _attention(d_model: int, n_head: int, mode: int, misaligned: bool) -> MultiHeadAttention:
    kind = MisalignedAttention if misaligned else MultiHeadAttention
    attention = kind(d_model, n_head, dropout=0.1, bias=False, weigh=added_mask)
    attention.output = Generator(d_model, d_model, bias=True)  # Glorot and zeros, as a Keras Dense
    if mode == 1:
        for matrix in attention.projection.weight.split(attention.d_k):
            nn.init.xavier_uniform_(matrix)
    return attention


@torch.no_grad()
def _fill(model: Any, weights: KerasWeights, layout: KerasLayout) -> None:
    weights.fill(model.source_embedding.table, "embedding_0/embeddings")
    weights.fill(model.source_embedding.tokens.weight, "embedding_1/embeddings")
    if not layout.share:
        weights.fill(model.target_embedding.tokens.weight, "embedding_2/embeddings")
    for index, layer in enumerate([*model.encoder.layers, *model.decoder.layers]):
        sides = ("self_attention", "cross_attention")[: 1 if index < layout.layers else 2]
        for side, names in zip(sides, layout.attentions(index), strict=True):
            _fill_attention(getattr(layer, side), weights, names)
        connections = [getattr(layer, f"{part}_residual") for part in ("feed_forward", *sides)]
        for connection, name in zip(connections, layout.norms(index), strict=True):
            weights.fill(connection.norm.gamma, f"{name}/gamma")
            weights.fill(connection.norm.beta, f"{name}/beta")
        convolutions = (layer.feed_forward.inner, layer.feed_forward.outer)
        for linear, name in zip(convolutions, layout.feed_forward(index), strict=True):
            linear.weight.copy_(weights.take(f"{name}/kernel", (1, *linear.weight.shape), transpose=True)[0])
            weights.fill(linear.bias, f"{name}/bias")
    weights.linear(model.generator, f"{layout.output}/kernel", transpose=True)


def _fill_attention(
    attention: MultiHeadAttention, weights: KerasWeights, names: tuple[list[str], list[str], list[str], str]
) -> None:
    query, key, value, output = names
    shape = (attention.d_model // len(query), attention.d_model)
    weights.attention(
        attention, [weights.take(f"{name}/kernel", shape, transpose=True) for name in (*query, *key, *value)]
    )
    weights.linear(attention.output, f"{output}/kernel", f"{output}/bias", transpose=True)
