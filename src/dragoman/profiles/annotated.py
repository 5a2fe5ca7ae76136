"""The Annotated Transformer (harvardnlp/annotated-transformer, 2022), and the article that builds it class by class.

What differs from `dragoman.models.build_model`:

| part | The Annotated Transformer |
|---|---|
| norm | pre: x + dropout(f(norm(x))), and one more at the end of each stack |
| layer norm | a·(x − mean)/(std + 1e-6) + b, the deviation **unbiased** (n − 1), epsilon **outside** the root |
| attention | offsets on all four maps; its dropout is **0.1 whatever the model's dropout** |
| masks | masked scores are set to −1e9: a query that may see no key weighs **all** keys alike, future and padding too |
| scale | scores/√d_k, not (q/√d_k)·k: the same to rounding |
| feed-forward | dropout after the ReLU too |
| embeddings | × √d_model; no row is kept at zero |
| positions | interleaved, from `exp` in float32; 5000 rows (4e-4 off the float64 table at their end) |
| generator | with an offset; theirs returns the log-softmax of our logits |
| initialisation | Xavier-uniform for every matrix, embeddings too; offsets as below |
| special ids | `<s>` 0, `</s>` 1, `<blank>` 2, `<unk>` 3; source and target framed by `<s>` and `</s>` |

Offsets start as `torch.nn.Linear`'s do, but layers are deep copies: all attention maps of a model share one draw, all
`w_1` another, all `w_2` a third.

`variant="article"` is the article's own listing: inside the residual connections the norm is `torch.nn.LayerNorm`
(biased, 1e-5 inside the root); only the norms that end the stacks are as above. Other names: see `_NAMES`; inferred are
those of what the two have in common (`self_attn.linears`, `src_attn.linears`, `feed_forward.w_1`, `feed_forward.w_2`,
`1.pe`): the repository's. What it calls `source_vocab`, `target_vocab` and `head` are here `src_vocab`, `tgt_vocab` and
`h`. It prints 63,372,800 parameters for vocabularies of 10,000 and 8,000; its listing has 57,460,544.

Known traits of its script, which change no number of a model: the rates of updates 1 and 2 are the same (see
`learning_rate`); with `accum_iter` k, update 1 is made of the first micro-batch alone, gradients of left-over
micro-batches reach into the next epoch, and losses are not divided by k; vocabularies are built from train,
validation and test. Its copy demo trains with padding 0, then decodes a source that begins with 0 from a start symbol
0, unmasked: `pad=-1` hides nothing.

The weights of a checkpoint, made readable where it was trained:

    python -c "import torch; from safetensors.torch import save_file; state = torch.load('multi30k_model_final.pt',
    map_location='cpu'); save_file({name: tensor.clone() for name, tensor in state.items()}, 'annotated.safetensors')"
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.nn import (
    FeedForward,
    Generator,
    InputEmbedding,
    MultiHeadAttention,
    PreNorm,
    TokenEmbedding,
    Transformer,
)
from dragoman.profiles.conclusions import check_given, concluding
from dragoman.profiles.parts import PositionTable, check_choice, check_heads, filling, interleaved, stacks
from dragoman.profiles.parts import StdNorm as StdNorm
from dragoman.profiles.weights import LayerNames, Weights

MASKED_SCORE = -1e9
ATTENTION_DROPOUT = 0.1


@dataclass(frozen=True)
class _Names:
    """What the two variants name differently, and what the names of a layer follow from."""

    source: str
    target: str
    encoder_norm: str
    generator: str
    affine: tuple[str, str]

    def layers(self) -> tuple[LayerNames, LayerNames]:
        """Of the encoder and of the decoder."""
        projections = tuple(f"linears.{number}.{{}}" for number in range(4))
        feed_forward = "feed_forward.w_1.{}", "feed_forward.w_2.{}"
        kinds = ((("self_attn",), self.encoder_norm), (("self_attn", "src_attn"), "sublayer.{}.norm"))
        encoder, decoder = (
            LayerNames(
                attentions,
                projections,
                feed_forward,
                tuple(norm.format(number) + ".{}" for number in range(len(attentions) + 1)),
                self.affine,
            )
            for attentions, norm in kinds
        )
        return encoder, decoder


_NAMES = {
    "repository": _Names("src_embed", "tgt_embed", "sublayer.{}.norm", "generator.proj", ("a_2", "b_2")),
    "article": _Names(
        "source_embedding", "target_embedding", "layers.{}.norm", "generator.project", ("weight", "bias")
    ),
}  # fmt: skip


def position_table(max_len: int, d_model: int) -> Float[Tensor, "{max_len} {d_model}"]:
    """Return interleaved sinusoids in float32, wavelengths as exp(2i · −ln(10000)/d_model): that system's own route."""
    wavelengths = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    return interleaved(torch.arange(max_len)[:, None] * wavelengths, d_model)


def build(
    src_vocab: int,
    tgt_vocab: int,
    N: int = 6,
    d_model: int = 512,
    d_ff: int = 2048,
    h: int = 8,
    dropout: float = 0.1,
    *,
    max_len: int = 5000,
    pad: int = 2,
    variant: str = "repository",
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """Return a fresh model, as `make_model` gives it: with the same seed, the same numbers.

    Args:
        src_vocab: rows of the source table.
        tgt_vocab: rows of the target table and of the generator.
        N: layers of each stack.
        d_model: width of all vectors.
        d_ff: inner width of the feed-forward networks.
        h: heads of each attention.
        dropout: everywhere but on attention weights.
        max_len: rows of the table of positions.
        pad: id of the padding token, on both sides.
        variant: `repository` or `article`.
        dtype: type of the weights.

    Raises:
        ConfigError: the heads do not divide the width, or there is no such variant.
    """
    state = initial_weights(src_vocab, tgt_vocab, N, d_model, d_ff, variant=variant)
    return load(state, h=h, dropout=dropout, max_len=max_len, pad=pad, variant=variant, dtype=dtype).train()


@concluding({"variant": ("repository", "article")})
def load(
    state: Mapping[str, Any],
    *,
    h: int | None = None,
    dropout: float = 0.1,
    max_len: int = 5000,
    pad: int = 2,
    variant: str = "repository",
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """Return their weights in a model of ours, in evaluation mode; sizes and numbers of layers follow from them.

    Args:
        state: name -> tensor or array: its `state_dict()`.
        h: heads of each attention, which the weights do not tell; 8 in their code.
        dropout: everywhere but on attention weights.
        max_len: rows of a table of positions that is not among the weights (`src_embed.1.pe`).
        pad: id of the padding token, on both sides.
        variant: `repository` or `article`.
        dtype: type of the weights.

    Raises:
        ModelError: names every entry that is missing, left over or misshapen.
        ConfigError: the heads do not divide the width, or there is no such variant.
    """
    names = _names(variant)
    weights = Weights(state, f"The Annotated Transformer ({variant})", dtype)
    d_ff, d_model = (weights.common("*.feed_forward.w_1.weight", place) for place in (0, 1))
    h = check_given("h", h, 8)
    check_heads("h", h, d_model)
    source = _embedding(weights, names.source, d_model, max_len, dropout)
    vocab = weights.length(f"{names.generator}.bias")
    target = _embedding(weights, names.target, d_model, max_len, dropout, vocab)
    model = Transformer(
        source,
        target,
        *stacks(
            (weights.number("encoder.layers.{}."), weights.number("decoder.layers.{}.")),
            partial(MultiHeadAttention, d_model, h, dropout=ATTENTION_DROPOUT, weigh=filling(MASKED_SCORE)),
            partial(FeedForward, d_model, d_ff, dropout=dropout),
            partial(PreNorm, d_model, dropout, StdNorm if variant == "repository" else nn.LayerNorm),
            (StdNorm(d_model), StdNorm(d_model)),
        ),
        Generator(d_model, target.tokens.vocab, bias=True),
        pad,
    ).to(dtype)
    _fill(model, weights, names)
    weights.finish()
    return model.eval()


def _names(variant: str) -> _Names:
    check_choice("variant", variant, _NAMES)
    return _NAMES[variant]


def _embedding(
    weights: Weights, name: str, d_model: int, max_len: int, dropout: float, vocab: int = 1
) -> InputEmbedding:
    tokens = TokenEmbedding(weights.rows(f"{name}.0.lut.weight", d_model, vocab), d_model)
    rows = weights.table(f"{name}.1.pe", d_model)
    return InputEmbedding(tokens, PositionTable(position_table(max_len, d_model) if rows is None else rows), dropout)


# How its weights map


def _fill(model: Any, weights: Weights, names: _Names) -> None:
    weights.affine(model.source_embedding.tokens, f"{names.source}.0.lut.{{}}")
    weights.affine(model.target_embedding.tokens, f"{names.target}.0.lut.{{}}")
    for stack, layers in zip(("encoder", "decoder"), names.layers(), strict=True):
        weights.layers(getattr(model, stack), f"{stack}.layers.{{}}", layers)
        weights.affine(getattr(model, stack).norm, f"{stack}.norm.{{}}", kinds=("a_2", "b_2"))
    weights.affine(model.generator, f"{names.generator}.{{}}")


# How it starts


def initial_weights(
    src_vocab: int,
    tgt_vocab: int,
    N: int = 6,
    d_model: int = 512,
    d_ff: int = 2048,
    *,
    variant: str = "repository",
) -> dict[str, Tensor]:
    """Return what `make_model` starts from, in that system's own names; draws from PyTorch's generator as it does.

    Raises:
        ConfigError: there is no such variant.
    """
    names = _names(variant)
    # In the order in which `make_model` makes them, for each draws when it is made, though most is overwritten below.
    linear = nn.Linear(d_model, d_model)
    w_1, w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
    source, target = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
    project = nn.Linear(d_model, tgt_vocab)

    state: dict[str, Tensor] = {}
    for stack, attentions, norm_name in (
        ("encoder", ["self_attn"], names.encoder_norm),
        ("decoder", ["self_attn", "src_attn"], "sublayer.{}.norm"),
    ):
        for layer in (f"{stack}.layers.{number}" for number in range(N)):
            for part in (f"{layer}.{attention}.linears.{number}" for attention in attentions for number in range(4)):
                _copy(state, part, linear)
            _copy(state, f"{layer}.feed_forward.w_1", w_1)
            _copy(state, f"{layer}.feed_forward.w_2", w_2)
            for number in range(len(attentions) + 1):
                norm = f"{layer}.{norm_name.format(number)}"
                gain, offset = (f"{norm}.{kind}" for kind in names.affine)
                state |= {gain: torch.ones(d_model), offset: torch.zeros(d_model)}
        state |= {f"{stack}.norm.a_2": torch.ones(d_model), f"{stack}.norm.b_2": torch.zeros(d_model)}
    _copy(state, f"{names.source}.0.lut", source)
    _copy(state, f"{names.target}.0.lut", target)
    _copy(state, names.generator, project)
    for tensor in state.values():
        if tensor.dim() > 1:
            nn.init.xavier_uniform_(tensor)
    return state


def _copy(state: dict[str, Tensor], name: str, module: nn.Module) -> None:
    state |= {f"{name}.{kind}": value for kind, value in copy.deepcopy(module.state_dict()).items()}


# Its loss, its rate, its search


def smoothed_labels(
    labels: Int[Tensor, " tokens"],
    size: int,
    padding_idx: int,
    smoothing: float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "tokens {size}"]:
    """Return 1 − ε on each label and ε/(V − 2) on the others; nothing on padding, nor where padding is due."""
    wanted = torch.full((len(labels), size), smoothing / (size - 2), dtype=dtype, device=labels.device)
    wanted.scatter_(1, labels[:, None], 1.0 - smoothing)
    wanted[:, padding_idx] = 0.0
    return wanted.masked_fill(labels[:, None] == padding_idx, 0.0)


def label_smoothing(
    logits: Float[Tensor, "tokens vocab"], labels: Int[Tensor, " tokens"], padding_idx: int, smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the summed Kullback-Leibler divergence from smoothed labels: cross-entropy less the labels' entropy."""
    wanted = smoothed_labels(labels, logits.shape[-1], padding_idx, smoothing, logits.dtype)
    return F.kl_div(logits.log_softmax(-1), wanted, reduction="sum")


def simple_loss(
    logits: Float[Tensor, "batch tgt vocab"],
    labels: Int[Tensor, "batch tgt"],
    padding_idx: int,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return what `SimpleLossCompute` does: the summed loss for the log, its mean over real labels for gradients.

    That mean is over the (micro-)batch, and never divided by the number of micro-batches of an update.
    """
    loss = label_smoothing(logits.flatten(0, 1), labels.flatten(), padding_idx, smoothing)
    return loss.detach(), loss / (labels != padding_idx).sum()


def rate(step: int, model_size: int, factor: float, warmup: int) -> float:
    """Return factor · model_size^-0.5 · min(step^-0.5, step · warmup^-1.5), with 0 taken as 1."""
    step = max(step, 1)
    return factor * model_size**-0.5 * min(step**-0.5, step * warmup**-1.5)


def learning_rate(
    update: int, model_size: int = 512, factor: float = 1.0, warmup: int = 3000, accum_iter: int = 1
) -> float:
    """Return the rate that update number `update`, from 1, of the first epoch is made with.

    Theirs counts micro-batches, from 0, and sets a rate after the update: so the first two updates have the same rate,
    each later one that of the update before it; with accumulation the rate moves `accum_iter` times as fast.
    """
    return rate((update - 1) * accum_iter, model_size, factor, warmup)


@torch.no_grad()
def greedy_decode(
    model: Transformer, src: Int[Tensor, "batch src"], max_len: int, start_symbol: int
) -> Int[Tensor, "batch {max_len}"]:
    """Return the likeliest token at each step, after `start_symbol`, to `max_len` always: `</s>` stops nothing."""
    state = model.start(src)
    tokens = [torch.full_like(src[:, 0], start_symbol)]
    while len(tokens) < max_len:
        tokens.append(model.step(state, tokens[-1]).argmax(-1))
    return torch.stack(tokens, dim=1)
