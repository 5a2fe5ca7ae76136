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
- Their beam search raises KeyError when a source finishes no hypothesis (here it has none), and its softmax overflows
  above 88 (here it does not).

Their optimiser is Keras's Adam (0.9, 0.98, epsilon 1e-9), which places epsilon otherwise than PyTorch: see
`adam_epsilon`.

This is the last state of the repository. Its early states scale by √d_model and have other norm weights.

To turn the HDF5 file that `ModelCheckpoint` or `save_weights` wrote into safetensors, without loading the model::

    python -c "import h5py, sys; from safetensors.numpy import save_file; d = {}; h5py.File(sys.argv[1]).visititems(
    lambda k, v: d.update({k: v[()]}) if isinstance(v, h5py.Dataset) else None); save_file(d, sys.argv[2])" IN OUT
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.errors import ConfigError, ModelError
from dragoman.nn import (
    DecoderCache,
    Dropout,
    FeedForward,
    FixedCache,
    Generator,
    GrowingCache,
    MultiHeadAttention,
    PostNorm,
    StepCache,
    Transformer,
    sinusoids,
)
from dragoman.profiles.conclusions import check_given, concluding
from dragoman.profiles.keras_layout import KerasLayout, KerasWeights, heads_in, recognise
from dragoman.profiles.lsdefine_search import beam_log_probabilities as beam_log_probabilities
from dragoman.profiles.lsdefine_search import beam_prunes as beam_prunes
from dragoman.profiles.lsdefine_search import beam_score as beam_score
from dragoman.profiles.lsdefine_search import beam_search as beam_search
from dragoman.profiles.lsdefine_search import decode_batch_greedy as decode_batch_greedy
from dragoman.profiles.parts import StdNorm, check_choice, check_heads, stacks

PAD = 0
BUGS = ("misaligned_masks",)


class DeviationNorm(StdNorm):
    """weight·(x - mean)/(deviation + eps) + bias, the deviation biased and `eps` outside the root."""

    unbiased = False


def position_table(len_limit: int, d_model: int) -> Float[Tensor, "{len_limit} {d_model}"]:
    """Return interleaved sinusoids in float64, row p for the p-th token from 1; row 0, for padding, is zeros."""
    table = sinusoids(len_limit, d_model)
    table[0] = 0.0
    return table


def added_mask(
    scores: Float[Tensor, "*rows q_len k_len"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*rows q_len k_len"]:
    """Return the softmax over the keys after -1e9 is added to the hidden ones."""
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
        """Return the vectors of the tokens, the first of which stands at position `start`; padding has row 0.

        Raises:
            ModelError: there are more tokens than the table has positions.
        """
        return self._add(ids, start, ids != PAD)

    def generated(self, ids: Int[Tensor, "batch len"], start: int) -> Float[Tensor, "batch len d_model"]:
        """Return the vectors of what the model wrote: padding has a position then.

        Raises:
            ModelError: as of `forward`.
        """
        return self._add(ids, start, torch.ones_like(ids))

    def _add(self, ids: Tensor, start: int, real: Tensor) -> Tensor:
        end = start + ids.shape[1]
        if end >= len(self.table):
            most = len(self.table) - 1
            raise ModelError("a sequence is too long for len_limit", expected=f"at most {most} tokens", found=end)
        place = torch.arange(start + 1, end + 1, device=ids.device) * real
        return self.dropout(self.tokens(ids) + self.table[place])


class KerasTransformer(Transformer):
    """A `Transformer` that gives positions to padding that it generated."""

    def step(self, state: StepCache, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocab"]:
        """As of `Transformer`."""
        return self.generator(state.step(tokens, self._generated))

    def _generated(self, cache: DecoderCache, tokens: Tensor) -> Tensor:
        embedding: Any = self.target_embedding
        return self.decoder(embedding.generated(tokens[:, None], cache.length), cache=cache)[:, 0]


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
) -> KerasTransformer:
    """Return a fresh model: Glorot-uniform kernels, zero offsets, embeddings uniform within 0.05.

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

    return KerasTransformer(
        PositionedEmbedding(source, table, dropout),
        PositionedEmbedding(target, table),
        *stacks(
            (layers, layers),
            partial(_attention, d_model, n_head, mode, misaligned=faithful_to_bug is not None),
            partial(FeedForward, d_model, d_inner_hid),
            partial(PostNorm, d_model, dropout, DeviationNorm),
        ),
        Generator(d_model, o_tokens),
        pad=PAD,
    ).to(dtype)


@concluding({"mode": (0, 1), "n_head": (1, 2, 4, 8, 16)})
def load(
    state: Mapping[str, Any] | Sequence[Any],
    n_head: int | None = None,
    dropout: float = 0.1,
    *,
    mode: int = 0,
    faithful_to_bug: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> KerasTransformer:
    """Return their weights in a model of ours, in evaluation mode. Sizes are read off the weights.

    Args:
        state: either Keras names to arrays (`dense_3/kernel:0`, or as in an HDF5 file `dense_3/dense_3/kernel:0`;
            layers of a class count in the order of their numbers, whatever the first is), or the ordered list that
            `s2s.model.get_weights()` gives.
        n_head: as in `build`; the weights of mode 1 tell it, those of mode 0 do not.
        dropout: as in `build`.
        mode: as in `build`.
        faithful_to_bug: as in `build`.
        dtype: as in `build`; the position table is taken as it was stored.

    Raises:
        ModelError: an entry is missing, left over or misshapen.
        ConfigError: as in `build`.
    """
    n_head = heads_in(state) if n_head is None and mode == 1 else n_head
    n_head = check_given("n_head", n_head, 4)
    layout, weights = recognise(state, n_head, mode, dtype)
    d_model = weights.common("*embedding*/embeddings*", 1)
    len_limit, i_tokens, o_tokens = (
        weights.rows(f"embedding_{number}/embeddings", d_model) for number in ((0, 1, 1) if layout.share else (0, 1, 2))
    )
    d_inner_hid = weights.length("conv1d_0/bias")
    model = build(
        i_tokens, o_tokens, len_limit, d_model, d_inner_hid, n_head, layout.layers, dropout, layout.share,
        mode=mode, faithful_to_bug=faithful_to_bug, dtype=dtype,
    )  # fmt: skip
    _fill(model, weights, layout)
    weights.finish()
    return model.eval()


def loss(logits: Float[Tensor, "batch labels vocab"], labels: Int[Tensor, "batch labels"]) -> Float[Tensor, ""]:
    """Return cross-entropy without smoothing: the mean over a sentence's tokens, then the mean over sentences."""
    return _sentence_mean(F.cross_entropy(logits.transpose(1, 2), labels, reduction="none"), labels)


def accuracy(logits: Float[Tensor, "batch labels vocab"], labels: Int[Tensor, "batch labels"]) -> Float[Tensor, ""]:
    """Return the share of labels that are the likeliest token, averaged like `loss`."""
    return _sentence_mean((logits.argmax(-1) == labels).to(logits.dtype), labels)


def learning_rate(step: int, d_model: int, warmup: int = 4000) -> float:
    """Return d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) of update `step`, counted from 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def adam_epsilon(step: int, epsilon: float = 1e-9, beta_2: float = 0.98) -> float:
    """Return what `eps` of `torch.optim.Adam` has to be at update `step`, from 1, to do what Keras does with `epsilon`.

    Keras adds it to the root of the second moment as it is, PyTorch to the root corrected for its bias.
    """
    return epsilon / math.sqrt(1 - beta_2**step)


def _sentence_mean(values: Tensor, labels: Tensor) -> Tensor:
    real = labels != PAD
    return ((values * real).sum(-1) / real.sum(-1)).mean()


def _check(i_tokens: int, o_tokens: int, d_model: int, n_head: int, share: bool, mode: int, bug: str | None) -> None:
    check_heads("n_head", n_head, d_model)
    if share and i_tokens != o_tokens:
        raise ConfigError("one table needs one vocabulary", expected=f"o_tokens {i_tokens}", found=o_tokens)
    check_choice("mode", mode, (0, 1))
    check_choice(f"bug in mode {mode}", bug, (None, *BUGS)[: 2 if mode == 0 else 1])


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


def _fill(model: Any, weights: KerasWeights, layout: KerasLayout) -> None:
    weights.fill(model.source_embedding.table, "embedding_0/embeddings")
    weights.fill(model.source_embedding.tokens.weight, "embedding_1/embeddings")
    if not layout.share:
        weights.fill(model.target_embedding.tokens.weight, "embedding_2/embeddings")
    for index, layer in enumerate([*model.encoder.layers, *model.decoder.layers]):
        sides = ("self_attention", "cross_attention")[: 1 if index < layout.layers else 2]
        for side, (query, key, value, output) in zip(sides, layout.attentions(index), strict=True):
            names = [f"{name}/{{}}" for name in (*query, *key, *value, output)]
            weights.attention(getattr(layer, side), names, transpose=True)
        connections = [getattr(layer, f"{part}_residual") for part in ("feed_forward", *sides)]
        for connection, name in zip(connections, layout.norms(index), strict=True):
            weights.affine(connection.norm, f"{name}/{{}}", kinds=("gamma", "beta"))
        convolutions = (layer.feed_forward.inner, layer.feed_forward.outer)
        for linear, name in zip(convolutions, layout.feed_forward(index), strict=True):
            weights.fill(linear.weight.data[None], f"{name}/kernel", transpose=True)
            weights.fill(linear.bias, f"{name}/bias")
    weights.affine(model.generator, f"{layout.output}/{{}}", transpose=True)
