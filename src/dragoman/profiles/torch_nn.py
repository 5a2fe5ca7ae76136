"""`torch.nn.Transformer`, pre- and post-norm, inside a model whose embeddings and generator have any names.

What differs from `dragoman.models.build_model`:

| part | `torch.nn.Transformer` |
|---|---|
| norm | post, or pre with `norm_first`; **each stack always ends with one more norm**, even post-norm |
| layer norm | `torch.nn.LayerNorm`: biased variance, eps inside the root, 1e-5 by default |
| attention | q, k, v packed in `in_proj`, rows q, k, v and head by head: our own layout; d_k = d_v = d_model / nhead |
| feed-forward | dropout on the inner activations too; ReLU, exact GELU or any function |
| dropout | one probability for attention weights, inner activations, sub-layers and embeddings |
| `bias=False` | takes away the offsets of every linear map **and of every layer norm** |
| initialisation | Xavier-uniform for each matrix, `in_proj` as one of [3d, d]; zero offsets in attention, those of |
|  | `torch.nn.Linear` in the feed-forward: **the same in all layers of a stack**, which are copies of the first |
| masks | the caller's: hidden here are padding on both sides and the future, as its users do |
| loss | the caller's: `torch.nn.functional.cross_entropy`; its `label_smoothing` spreads eps over all V entries |

It has neither embeddings nor positions nor generator. Around it stands what PyTorch's translation tutorial wraps it in:
two tables times √d_model, one table of interleaved sinusoids (float32, exponential route) or any other table, a
generator with an offset. `Names` says what a model of your own calls them.

Known traits: in evaluation without gradients its fast path leaves the memory of padded positions at the final norm's
offset (nothing reads it: logits agree); a query that may see no key gets NaN there once weights are asked for, and
zeros here.

A checkpoint, made readable where it was trained (tied tensors are stored twice, which safetensors wants cloned):

    python -c "import torch, safetensors.torch as s; s.save_file({n: t.contiguous().clone() for n, t in
    torch.load('model.pt', weights_only=True).items()}, 'model.safetensors')"

and then `load(safetensors.torch.load_file("model.safetensors"), pad=1, nhead=8)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.errors import ModelError
from dragoman.nn import (
    Decoder,
    Encoder,
    FeedForward,
    Generator,
    InputEmbedding,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    Transformer,
)
from dragoman.profiles.conclusions import check_given, concluding
from dragoman.profiles.parts import (
    PositionTable,
    ScaledEmbedding,
    check_choice,
    check_heads,
    interleaved,
    stacks,
)
from dragoman.profiles.weights import LayerNames, Weights

Activation = str | Callable[[Tensor], Tensor]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


@dataclass(frozen=True)
class Names:
    """What a model calls its parts; the defaults are those of PyTorch's translation tutorial.

    Attributes:
        encoder: the `TransformerEncoder`.
        decoder: the `TransformerDecoder`.
        source_embedding: the table `[vocab, d_model]` of the source.
        target_embedding: the table of the target; the name of `source_embedding` if they share one.
        source_positions: a table of positions, `[length, d_model]` with any dimensions of size 1 between or before;
            held fixed here, though it may have been learned. None where nothing is added.
        target_positions: the same for the target; the same name if they share one.
        generator: the matrix `[vocab, d_model]`; the name of `target_embedding` if it is tied.
        generator_bias: its offset; None if it has none.
    """

    encoder: str = "transformer.encoder"
    decoder: str = "transformer.decoder"
    source_embedding: str = "src_tok_emb.embedding.weight"
    target_embedding: str = "tgt_tok_emb.embedding.weight"
    source_positions: str | None = "positional_encoding.pos_embedding"
    target_positions: str | None = "positional_encoding.pos_embedding"
    generator: str = "generator.weight"
    generator_bias: str | None = "generator.bias"


def exponential_sinusoids(length: int, d_model: int) -> Float[Tensor, "{length} {d_model}"]:
    """Return interleaved sinusoids in float32, wavelengths as exp(-2i·ln(10000)/d_model): the tutorial's route.

    From the table built in float64 it differs by 7e-6 within 100 positions and 4e-4 within 5000.
    """
    wavelengths = torch.exp(-torch.arange(0, d_model, 2) * math.log(10000) / d_model)
    return interleaved(torch.arange(length)[:, None] * wavelengths, d_model)


def build(
    src_vocab_size: int,
    tgt_vocab_size: int,
    *,
    pad: int,
    d_model: int = 512,
    nhead: int = 8,
    num_encoder_layers: int = 6,
    num_decoder_layers: int = 6,
    dim_feedforward: int = 2048,
    dropout: float = 0.1,
    activation: Activation = "relu",
    layer_norm_eps: float = 1e-5,
    norm_first: bool = False,
    bias: bool = True,
    maxlen: int = 5000,
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """Return a fresh model; with the same seed, the numbers PyTorch's translation tutorial starts from.

    Args:
        src_vocab_size: rows of the source table.
        tgt_vocab_size: rows of the target table and of the generator.
        pad: id of the padding token.
        maxlen: rows of the table of positions.
        dtype: type of the weights.

    The others are those of `torch.nn.Transformer`, `bias` for both its stacks.

    Raises:
        ConfigError: the heads do not divide the width, or the activation is unknown.
    """
    check_heads("nhead", nhead, d_model)
    shape = (d_model, nhead, dim_feedforward)
    # The encoder is given ready-made, for otherwise it warns where it will have no nested tensors.
    layer, norm = nn.TransformerEncoderLayer(*shape, bias=bias), nn.LayerNorm(d_model, bias=bias)
    encoder = nn.TransformerEncoder(layer, num_encoder_layers, norm, enable_nested_tensor=False)
    decoder_shape = (num_encoder_layers, num_decoder_layers, dim_feedforward)
    # In the order in which the tutorial makes them, and so draws its numbers.
    fresh = nn.ModuleDict()
    fresh["transformer"] = nn.Transformer(d_model, nhead, *decoder_shape, custom_encoder=encoder, bias=bias)
    fresh["generator"] = nn.Linear(d_model, tgt_vocab_size)
    fresh["src_tok_emb"] = nn.ModuleDict({"embedding": nn.Embedding(src_vocab_size, d_model)})
    fresh["tgt_tok_emb"] = nn.ModuleDict({"embedding": nn.Embedding(tgt_vocab_size, d_model)})
    for parameter in fresh.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return load(
        {**fresh.state_dict(), "positional_encoding.pos_embedding": exponential_sinusoids(maxlen, d_model)},
        pad=pad,
        nhead=nhead,
        dropout=dropout,
        activation=activation,
        layer_norm_eps=layer_norm_eps,
        norm_first=norm_first,
        dtype=dtype,
    ).train()


@concluding()
def load(
    state: Mapping[str, Any],
    *,
    pad: int,
    nhead: int | None = None,
    dropout: float = 0.1,
    activation: Activation = "relu",
    layer_norm_eps: float = 1e-5,
    norm_first: bool = False,
    scale_embedding: bool = True,
    names: Names | None = None,
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """Return a model with weights of `torch.nn.Transformer`, or of its two stacks alone, in evaluation mode.

    Sizes, numbers of layers, offsets and final norms follow from the weights, tying from the names.

    Args:
        state: name -> tensor or array, of the whole model.
        pad: id of the padding token.
        nhead: as given to `torch.nn.Transformer`, which the weights do not tell; 8 if it was not.
        dropout: as given to `torch.nn.Transformer`.
        activation: as given to `torch.nn.Transformer`.
        layer_norm_eps: as given to `torch.nn.Transformer`.
        norm_first: as given to `torch.nn.Transformer`.
        scale_embedding: whether the model multiplies its embeddings by √d_model.
        names: what the model calls its parts.
        dtype: type of the weights.

    Raises:
        ModelError: names every entry that is missing, left over or misshapen.
        ConfigError: the heads do not divide the width, or the activation is unknown.
    """
    names = names or Names()
    weights = Weights(state, "torch.nn.Transformer", dtype)
    if names == Names() and not weights.has("transformer.*") and weights.has("encoder.layers.*"):
        raise ModelError(
            "this is a bare torch.nn.Transformer, without embeddings: load_stacks(state, nhead=…) takes it"
        )
    heads = check_given("nhead", nhead, 8)
    encoder, decoder = _stacks(weights, names, heads, dropout, activation, layer_norm_eps, norm_first=norm_first)
    d_model = weights.common(f"{names.encoder}.layers.*.linear1.weight", 1)
    source, target, generator = _ends(weights, names, d_model, math.sqrt(d_model) if scale_embedding else 1.0, dropout)
    model = Transformer(source, target, encoder, decoder, generator, pad).to(dtype)
    _fill(model, weights, names)
    weights.finish()
    return model.eval()


@concluding()
def load_stacks(
    state: Mapping[str, Any],
    *,
    nhead: int,
    dropout: float = 0.1,
    activation: Activation = "relu",
    layer_norm_eps: float = 1e-5,
    norm_first: bool = False,
    dtype: torch.dtype = torch.float32,
) -> tuple[Encoder, Decoder]:
    """Return the stacks of a bare `torch.nn.Transformer`, without embeddings and generator, in evaluation mode.

    Args:
        state: its `state_dict()`: `encoder.layers.0…` and `decoder.layers.0…`.
        nhead: as given to it.
        dropout: as given to it.
        activation: as given to it.
        layer_norm_eps: as given to it.
        norm_first: as given to it.
        dtype: type of the weights.

    Raises:
        ModelError: names entries that are missing, left over or misshapen.
        ConfigError: the heads do not divide the width, or the activation is unknown.
    """
    weights = Weights(state, "torch.nn.Transformer", dtype)
    names = Names(encoder="encoder", decoder="decoder")
    stacks_ = _stacks(weights, names, nhead, dropout, activation, layer_norm_eps, norm_first=norm_first)
    encoder, decoder = stacks_[0].to(dtype), stacks_[1].to(dtype)
    _fill_stacks(encoder, decoder, weights, names)
    weights.finish()
    return encoder.eval(), decoder.eval()


# How it is composed


def _stacks(
    weights: Weights, names: Names, nhead: int, dropout: float, activation: Activation, eps: float, *, norm_first: bool
) -> tuple[Encoder, Decoder]:
    d_ff, d_model = (weights.common(f"{names.encoder}.layers.*.linear1.weight", place) for place in (0, 1))
    check_heads("nhead", nhead, d_model)
    norm = partial(nn.LayerNorm, eps=eps, bias=weights.has(f"{names.encoder}.layers.0.norm?.bias"))
    bias = weights.has(f"{names.encoder}.layers.0.linear?.bias")
    parts = (
        partial(MultiHeadAttention, d_model, nhead, dropout=dropout, bias=bias),
        partial(_feed_forward, d_model, d_ff, dropout, _function(activation), bias),
        partial(PreNorm if norm_first else PostNorm, d_model, dropout, norm),
    )
    sizes = weights.number(f"{names.encoder}.layers.{{}}."), weights.number(f"{names.decoder}.layers.{{}}.")
    ends = [norm(d_model) if weights.has(f"{name}.norm.*") else None for name in (names.encoder, names.decoder)]
    return stacks(sizes, *parts, (ends[0], ends[1]))


def _feed_forward(
    d_model: int, d_ff: int, dropout: float, activation: Callable[[Tensor], Tensor], bias: bool
) -> FeedForward:
    part = FeedForward(d_model, d_ff, dropout=dropout, activation=activation)
    if not bias:
        part.inner.register_parameter("bias", None)
        part.outer.register_parameter("bias", None)
    return part


def _ends(
    weights: Weights, names: Names, d_model: int, scale: float, dropout: float
) -> tuple[InputEmbedding, InputEmbedding, Generator]:
    """What stands around the two stacks; parts of the same name are one part."""
    tokens: dict[str, ScaledEmbedding] = {}
    positions: dict[str | None, nn.Module] = {None: _NoPositions()}
    sides = (names.source_embedding, names.source_positions), (names.target_embedding, names.target_positions)
    for words, table in sides:
        if words not in tokens:
            tokens[words] = ScaledEmbedding(weights.rows(words, d_model), d_model, scale)
        if table is not None and table not in positions:
            positions[table] = PositionTable(_positions(weights, table, d_model))
    source, target = (InputEmbedding(tokens[words], positions[table], dropout) for words, table in sides)
    tied = tokens.get(names.generator)
    count = 1 if names.generator_bias is None else weights.length(names.generator_bias)
    vocab = weights.rows(names.generator, d_model, count) if tied is None else tied.vocab
    return source, target, Generator(d_model, vocab, bias=names.generator_bias is not None, tied=tied)


def _positions(weights: Weights, name: str, d_model: int) -> Tensor:
    """A table with any dimensions of size 1 between or before."""
    _, found = weights.find(name)
    shape = (0,) if found is None else tuple(found.shape)
    length = math.prod(shape[:-1])
    if len(shape) < 2 or length != max(shape[:-1]) or shape[-1] != d_model:
        weights.refuse(name, f"[length, {d_model}]")
        return torch.zeros(1, d_model)
    return weights.take(name, shape).reshape(length, d_model)


class _NoPositions(nn.Module):
    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x


def _function(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    check_choice("activation", activation, _ACTIVATIONS)
    return _ACTIVATIONS[activation]


# How its weights map


def _fill(model: Any, weights: Weights, names: Names) -> None:
    tables = {
        names.source_embedding: model.source_embedding.tokens.weight,
        names.target_embedding: model.target_embedding.tokens.weight,
        names.generator: model.generator.weight,
    }
    for name, table in tables.items():
        weights.fill(table, name)
    if names.generator_bias is not None:
        weights.fill(model.generator.bias, names.generator_bias)
    _fill_stacks(model.encoder, model.decoder, weights, names)


def _fill_stacks(encoder: Any, decoder: Any, weights: Weights, names: Names) -> None:
    for stack, name, attentions in (
        (encoder, names.encoder, ("self_attn",)),
        (decoder, names.decoder, ("self_attn", "multihead_attn")),
    ):
        norms = tuple(f"norm{number}.{{}}" for number in range(1, len(attentions) + 2))
        layers = LayerNames(attentions, ("in_proj_{}", "out_proj.{}"), ("linear1.{}", "linear2.{}"), norms)
        weights.layers(stack, f"{name}.layers.{{}}", layers)
        weights.affine(stack.norm, f"{name}.norm.{{}}")
