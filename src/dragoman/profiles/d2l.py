"""The Transformer of *Dive into Deep Learning*: `edition="pytorch"` (English and Chinese) and `edition="paddle"`.

What differs from the blocks of `dragoman.nn`:

| | theirs | here |
|---|---|---|
| norm | after the residual, eps 1e-5 in the root; none at the ends of the stacks | `PostNorm` |
| attention | no offsets on any projection; `use_bias` gives them to the encoder only | `MultiHeadAttention` |
| masks | by valid length: as many keys as the source has tokens; hidden scores are set to -1e6 | `ValidLengths` |
| target padding | not hidden: the target is masked causally only | `ValidLengths` |
| dropout | one rate: on attention weights, sub-layers, and embeddings after their positions | the same |
| positions | from 0, at most 1000; angles in float32, by a power, in float64 models too | `position_table` |
| output | with offsets, not tied | `Generator` |
| attention maps | [batch·heads, q_len, k_len], batch-major | [batch, heads, q_len, k_len] |
| cache | layer inputs, projected again at each step | keys and values |
| kernels | PyTorch [out, in]; Paddle [in, out] | [out, in] |
| blocks | PyTorch `blks.block0`; Paddle `blks.0` | either |
| start | PyTorch: its defaults, embeddings N(0, 1); Paddle: Xavier-uniform, zero offsets | `build` |
| source | words + `<eos>`; target `<bos>` + words + `<eos>` | given as ids |
| special ids | PyTorch: vocabularies are sorted, ids depend on the data; Paddle: `<pad>` 1 | `src_pad` |

The Chinese and Paddle editions call `num_blks` `num_layers`; their `key_size`, `query_size`, `value_size`,
`ffn_num_input` and `norm_shape` can only be `num_hiddens` in a whole model. They train with Adam at a constant rate,
0.001 in PyTorch and 0.005 in Paddle, gradients clipped to a norm of 1.

Faults of theirs, the first two in evaluation mode only:
- The causal mask is made in training only: a whole target in evaluation mode sees its future, so validation losses
  are too good. `faithful_to_bug="sees_future"`.
- Each decoding step is given the position of its own one token: 0. `faithful_to_bug="position_zero"`; then the steps
  differ from the parallel pass.
- The Paddle edition rounds masked scores to float32 in a float64 model too. `faithful_to_bug="float32_scores"`.

The table P of positions is saved with neither edition's weights. Paddle's kernels round it otherwise in the last bit
(6e-8): a state that holds `encoder.pos_encoding.P` and `decoder.pos_encoding.P` besides the weights overrides ours.

To turn a state dict saved by either edition into safetensors, in its own environment::

    python -c "import sys, torch; from safetensors.torch import save_file; save_file(
    torch.load(sys.argv[1], 'cpu', weights_only=True), sys.argv[2])" IN.params OUT.safetensors

    python -c "import paddle, sys; from safetensors.numpy import save_file; save_file(
    {k: v.numpy() for k, v in paddle.load(sys.argv[1]).items()}, sys.argv[2])" IN.pdparams OUT.safetensors
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.nn import (
    FeedForward,
    Generator,
    InputEmbedding,
    MultiHeadAttention,
    PostNorm,
    TokenEmbedding,
    Transformer,
    causal_mask,
    key_mask,
)
from dragoman.profiles.conclusions import check_given, concluding
from dragoman.profiles.parts import (
    PositionTable,
    check_choice,
    check_heads,
    filled_weights,
    filling,
    interleaved,
    stacks,
)
from dragoman.profiles.weights import LayerNames, Weights

EDITIONS = ("pytorch", "paddle")
BUGS = ("sees_future", "position_zero", "float32_scores")
_FILL = -1e6


def position_table(max_len: int, num_hiddens: int) -> Float[Tensor, "{max_len} {num_hiddens}"]:
    """Return interleaved sinusoids of position / 10000^(2i/d), all in float32: that book's own route."""
    column = torch.arange(0, num_hiddens, 2, dtype=torch.float32)
    angle = torch.arange(max_len, dtype=torch.float32)[:, None] / torch.pow(10000, column / num_hiddens)
    return interleaved(angle, num_hiddens)


def rounded_weights(
    scores: Float[Tensor, "*rows q_len k_len"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*rows q_len k_len"]:
    """Return softmax weights with that edition's fault: where there is a mask, scores pass through float32."""
    return filled_weights(scores if mask is None else scores.float().to(scores.dtype), mask, fill=_FILL)


class AlwaysFirst(PositionTable):
    """Their fault: whatever was decoded before, the first vector stands at position 0."""

    def forward(self, x: Float[Tensor, "batch len d_model"], start: int = 0) -> Float[Tensor, "batch len d_model"]:
        """Add rows 0, 1, …, wherever the vectors begin."""
        return super().forward(x)


class ValidLengths(Transformer):
    """A `Transformer` whose source mask counts tokens, and whose target mask is causal only.

    Their valid length is the number of tokens that are not padding, and hides what comes after so many keys; so
    padding among the tokens hides the last of them.
    """

    sees_future = False

    def encode(
        self, source: Int[Tensor, "batch src"], mask: Bool[Tensor, "batch src"] | None = None
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch 1 1 src"]]:
        """Return the memory, and the mask of its valid length; `mask` is where there are tokens."""
        tokens = source != self.pad if mask is None else mask
        valid_lens = tokens.sum(1, keepdim=True)
        keys = key_mask(torch.arange(source.shape[1], device=source.device) < valid_lens)
        return self.encoder(self.source_embedding(source), keys), keys

    def decoder_mask(
        self, target: Int[Tensor, "rows tgt"], mask: Bool[Tensor, "rows tgt"] | None = None
    ) -> Bool[Tensor, "..."] | None:
        """Return the triangle that hides the future, or nothing; target padding is not hidden, whatever the mask."""
        open_ = self.sees_future and not self.training
        return None if open_ else causal_mask(target.shape[1], device=target.device)


def build(
    src_vocab_size: int,
    tgt_vocab_size: int,
    num_hiddens: int = 256,
    ffn_num_hiddens: int = 64,
    num_heads: int = 4,
    num_blks: int = 2,
    dropout: float = 0.2,
    use_bias: bool = False,
    *,
    src_pad: int = 1,
    max_len: int = 1000,
    edition: str = "pytorch",
    faithful_to_bug: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> ValidLengths:
    """Return a fresh model with that edition's initialisation.

    Args:
        src_vocab_size: rows of the source table.
        tgt_vocab_size: rows of the target table and of the output.
        num_hiddens: width of every representation.
        ffn_num_hiddens: inner width of the feed-forward block.
        num_heads: heads of each attention.
        num_blks: blocks of each stack.
        dropout: everywhere.
        use_bias: offsets on the projections of the encoder's attention.
        src_pad: id of the source's `<pad>`: their `src_vocab['<pad>']`, 1 in Paddle.
        max_len: rows of the table of positions.
        edition: `pytorch` or `paddle`.
        faithful_to_bug: `sees_future`, `position_zero`, `float32_scores`, or none.
        dtype: of the weights.

    Raises:
        ConfigError: the heads do not divide the width, or there is no such edition or bug.
    """
    check_heads("num_heads", num_heads, num_hiddens)
    check_choice("edition", edition, EDITIONS)
    check_choice("bug", faithful_to_bug, (None, *BUGS))
    rows = position_table(max_len, num_hiddens)
    kind = AlwaysFirst if faithful_to_bug == "position_zero" else PositionTable
    weigh = rounded_weights if faithful_to_bug == "float32_scores" else filling(_FILL)
    attention = partial(MultiHeadAttention, num_hiddens, num_heads, dropout=dropout, bias=False, weigh=weigh)
    feed_forward = partial(FeedForward, num_hiddens, ffn_num_hiddens)
    residual = partial(PostNorm, num_hiddens, dropout)
    encoder, decoder = stacks((num_blks, num_blks), attention, feed_forward, residual)
    if use_bias:
        for layer in encoder.layers:
            layer.self_attention = attention(bias=True)
    model = ValidLengths(
        InputEmbedding(TokenEmbedding(src_vocab_size, num_hiddens), PositionTable(rows), dropout),
        InputEmbedding(TokenEmbedding(tgt_vocab_size, num_hiddens), kind(rows), dropout),
        encoder,
        decoder,
        Generator(num_hiddens, tgt_vocab_size, bias=True),
        pad=src_pad,
    )
    model.sees_future = faithful_to_bug == "sees_future"
    _start(model, edition)
    return model.to(dtype)


@concluding({"edition": ("pytorch", "paddle")})
def load(
    state: Mapping[str, Any],
    num_heads: int | None = None,
    dropout: float = 0.2,
    *,
    src_pad: int = 1,
    max_len: int = 1000,
    edition: str = "pytorch",
    faithful_to_bug: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> ValidLengths:
    """Return their weights in a model of ours, in evaluation mode. Sizes are read off the weights.

    Args:
        state: `encoder.embedding.weight` … `decoder.dense.bias` to tensors or arrays.
        num_heads: as in `build`; the weights do not tell it.
        dropout: as in `build`.
        src_pad: as in `build`.
        max_len: as in `build`, unless the state holds the tables of positions.
        edition: as in `build`: whose layout the matrices have.
        faithful_to_bug: as in `build`.
        dtype: as in `build`.

    Raises:
        ModelError: an entry is missing, left over or misshapen.
        ConfigError: as in `build`.
    """
    check_choice("edition", edition, EDITIONS)
    num_heads = check_given("num_heads", num_heads, 4)
    weights, transpose = Weights(state, f"d2l ({edition})", dtype), edition == "paddle"
    inner, outer = (1, 0) if transpose else (0, 1)
    ffn_num_hiddens, num_hiddens = (weights.common("*.ffn.dense1.weight", place) for place in (inner, outer))
    block = "{}" if weights.number("encoder.blks.{}.") else "block{}"
    model = build(
        weights.rows("encoder.embedding.weight", num_hiddens),
        weights.rows("decoder.embedding.weight", num_hiddens, weights.length("decoder.dense.bias")),
        num_hiddens, ffn_num_hiddens, num_heads, weights.number(f"encoder.blks.{block}."), dropout,
        use_bias=weights.has(f"encoder.blks.{block.format(0)}.attention.W_?.bias"),
        src_pad=src_pad, max_len=max_len, edition=edition, faithful_to_bug=faithful_to_bug, dtype=dtype,
    )  # fmt: skip
    _fill(model, weights, block, transpose)
    weights.finish()
    return model.eval()


def loss(
    logits: Float[Tensor, "batch labels vocab"], labels: Int[Tensor, "batch labels"], tgt_pad: int
) -> Float[Tensor, ""]:
    """Return the PyTorch edition's loss: summed cross-entropy of labels that are no padding, over their number."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=tgt_pad)


def sentence_losses(
    logits: Float[Tensor, "batch labels vocab"],
    labels: Int[Tensor, "batch labels"],
    valid_len: Shaped[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """Return the Paddle edition's losses: cross-entropy up to each valid length, over the padded length.

    They call `backward` on this vector, which means on its sum; the loss they show is the sum over an epoch divided by
    the number of valid labels.
    """
    nll = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return (nll * (torch.arange(labels.shape[1], device=labels.device) < valid_len[:, None])).mean(1)


def bleu(pred_seq: str, label_seq: str, k: int) -> float:
    """Return the book's BLEU of one sentence: exp(min(0, 1 - labels/predicted)) · ∏ pₙ^(1/2ⁿ), n from 1 to k.

    Tokens stand between single spaces. n-grams longer than the prediction are not counted, and no prediction at all
    has 0; the book divides by zero there.

    Args:
        pred_seq: the prediction.
        label_seq: what it should be.
        k: the longest n-grams.
    """
    predicted, labels = pred_seq.split(" "), label_seq.split(" ")
    if not pred_seq:
        return 0.0
    found = math.exp(min(0.0, 1 - len(labels) / len(predicted)))
    for n in range(1, min(k, len(predicted)) + 1):
        wanted = Counter(tuple(labels[i : i + n]) for i in range(len(labels) - n + 1))
        given = Counter(tuple(predicted[i : i + n]) for i in range(len(predicted) - n + 1))
        matches = sum((wanted & given).values())
        found *= (matches / (len(predicted) - n + 1)) ** 0.5**n
    return found


@concluding({"edition": EDITIONS})
def load_attention(
    state: Mapping[str, Any], num_heads: int, *, edition: str = "pytorch", dtype: torch.dtype = torch.float32
) -> MultiHeadAttention:
    """Return the weights of the book's `MultiHeadAttention` alone, in evaluation mode, without dropout.

    Args:
        state: `W_q.weight`, `W_k.weight`, `W_v.weight` and `W_o.weight`, perhaps with biases.
        num_heads: its heads.
        edition: whose layout the matrices have.
        dtype: of the weights.

    Raises:
        ModelError: an entry is missing, left over or misshapen.
        ConfigError: the heads do not divide the width, or there is no such edition.
    """
    check_choice("edition", edition, EDITIONS)
    weights = Weights(state, f"d2l's attention ({edition})", dtype)
    width = weights.common("W_?.weight", 1 if edition == "paddle" else 0)
    check_heads("num_heads", num_heads, width)
    attention = MultiHeadAttention(width, num_heads, bias=weights.has("W_?.bias"), weigh=filling(_FILL)).to(dtype)
    weights.attention(attention, [f"W_{part}.{{}}" for part in "qkvo"], transpose=edition == "paddle")
    weights.finish()
    return attention.eval()


def beam_score(total: float, length: int, alpha: float = 0.75) -> float:
    """Return what the book's text ranks candidates by (its code only decodes greedily): total / length^alpha.

    `total` and `length` are of the tokens before `<eos>`.
    """
    return total / length**alpha


def _start(model: ValidLengths, edition: str) -> None:
    # Our linear maps start as Paddle's do.
    for module in model.modules():
        if isinstance(module, TokenEmbedding):
            (nn.init.normal_ if edition == "pytorch" else nn.init.xavier_uniform_)(module.weight)
        elif isinstance(module, nn.Linear) and edition == "pytorch":
            module.reset_parameters()


def _fill(model: Any, weights: Weights, block: str, transpose: bool) -> None:
    projections = tuple(f"W_{part}.{{}}" for part in "qkvo")
    for side, embedding, attentions in (
        ("encoder", model.source_embedding, ("attention",)),
        ("decoder", model.target_embedding, ("attention1", "attention2")),
    ):
        weights.affine(embedding.tokens, f"{side}.embedding.{{}}")
        table = weights.table(f"{side}.pos_encoding.P", embedding.tokens.d_model)
        if table is not None:
            embedding.positions.rows = table
        norms = tuple(f"addnorm{number}.ln.{{}}" for number in range(1, len(attentions) + 2))
        names = LayerNames(attentions, projections, ("ffn.dense1.{}", "ffn.dense2.{}"), norms)
        weights.layers(getattr(model, side), f"{side}.blks.{block}", names, transpose=transpose)
    weights.affine(model.generator, "decoder.dense.{}", transpose=transpose)
