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

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.errors import ConfigError, ModelError
from dragoman.nn import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    Generator,
    InputEmbedding,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    Transformer,
)
from dragoman.profiles.parts import PositionTable, ScaledEmbedding
from dragoman.profiles.weights import Weights

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
    """Interleaved sinusoids in float32, the wavelengths as exp(-2i·ln(10000)/d_model): the tutorial's route.

    From the table built in float64 it differs by 7e-6 within 100 positions and 4e-4 within 5000.
    """
    position = torch.arange(length)[:, None]
    angle = position * torch.exp(-torch.arange(0, d_model, 2) * math.log(10000) / d_model)
    table = torch.zeros(length, d_model)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle[:, : d_model // 2].cos()
    return table


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
    """A fresh model; with the same seed, the numbers PyTorch's translation tutorial starts from.

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
    _check_heads(d_model, nhead)
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
    )


def load(
    state: Mapping[str, Any],
    *,
    pad: int,
    nhead: int = 8,
    dropout: float = 0.1,
    activation: Activation = "relu",
    layer_norm_eps: float = 1e-5,
    norm_first: bool = False,
    scale_embedding: bool = True,
    names: Names | None = None,
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """A model with the weights of one that stands on `torch.nn.Transformer`, or on its two stacks alone.

    Sizes, numbers of layers, offsets and final norms follow from the weights, tying from the names.

    Args:
        state: name -> tensor or array, of the whole model.
        pad: id of the padding token.
        nhead, dropout, activation, layer_norm_eps, norm_first: as given to `torch.nn.Transformer`.
        scale_embedding: whether the model multiplies its embeddings by √d_model.
        names: what the model calls its parts.
        dtype: type of the weights.

    Raises:
        ModelError: names every entry that is missing, left over or misshapen.
        ConfigError: the heads do not divide the width, or the activation is unknown.
    """
    names = names or Names()
    weights = Weights(state, "torch.nn.Transformer", dtype)
    d_model = weights.matrix(names.source_embedding)[1]
    _check_heads(d_model, nhead)
    norm_bias = f"{names.encoder}.layers.0.norm1.bias" in weights
    parts = _Parts(
        weights,
        d_model=d_model,
        nhead=nhead,
        d_ff=weights.matrix(f"{names.encoder}.layers.0.linear1.weight")[0],
        dropout=dropout,
        activation=_function(activation),
        norm=functools.partial(nn.LayerNorm, eps=layer_norm_eps, bias=norm_bias),
        residual=PreNorm if norm_first else PostNorm,
        bias=f"{names.encoder}.layers.0.linear1.bias" in weights,
    )
    source, target, generator = parts.ends(names, math.sqrt(d_model) if scale_embedding else 1.0)
    encoder, decoder = parts.encoder(names.encoder), parts.decoder(names.decoder)
    model = Transformer(source, target, encoder, decoder, generator, pad).to(dtype)
    for name, parameter in _own_names(model, names):
        weights.fill(parameter, name)
    weights.finish()
    return model


# How it is composed


@dataclass(frozen=True)
class _Parts:
    """Makes fresh parts of one configuration."""

    weights: Weights
    d_model: int
    nhead: int
    d_ff: int
    dropout: float
    activation: Callable[[Tensor], Tensor]
    norm: Callable[[int], nn.Module]
    residual: type[PreNorm | PostNorm]
    bias: bool

    def encoder(self, name: str) -> Encoder:
        layers = range(self.weights.count(f"{name}.layers.{{}}.linear1.weight"))
        fresh = [EncoderLayer(self.attention(), self.feed_forward(), self.connection) for _ in layers]
        return Encoder(fresh, self.final_norm(name))

    def decoder(self, name: str) -> Decoder:
        layers = range(self.weights.count(f"{name}.layers.{{}}.linear1.weight"))
        fresh = [DecoderLayer(self.attention(), self.feed_forward(), self.connection, self.attention()) for _ in layers]
        return Decoder(fresh, self.final_norm(name))

    def attention(self) -> MultiHeadAttention:
        return MultiHeadAttention(self.d_model, self.nhead, dropout=self.dropout, bias=self.bias)

    def feed_forward(self) -> FeedForward:
        part = FeedForward(self.d_model, self.d_ff, dropout=self.dropout, activation=self.activation)
        if not self.bias:
            part.inner.register_parameter("bias", None)
            part.outer.register_parameter("bias", None)
        return part

    def connection(self) -> nn.Module:
        return self.residual(self.d_model, self.dropout, self.norm)

    def final_norm(self, stack: str) -> nn.Module | None:
        return self.norm(self.d_model) if f"{stack}.norm.weight" in self.weights else None

    def ends(self, names: Names, scale: float) -> tuple[InputEmbedding, InputEmbedding, Generator]:
        """What stands around the two stacks; parts of the same name are one part."""
        tokens: dict[str, ScaledEmbedding] = {}
        for name in (names.source_embedding, names.target_embedding):
            if name not in tokens:
                tokens[name] = ScaledEmbedding(self.weights.matrix(name)[0], self.d_model, scale)
        positions: dict[str | None, nn.Module] = {None: _NoPositions()}
        for name in (names.source_positions, names.target_positions):
            if name is not None and name not in positions:
                positions[name] = self.position_table(name)
        source, target = (
            InputEmbedding(tokens[names.source_embedding], positions[names.source_positions], self.dropout),
            InputEmbedding(tokens[names.target_embedding], positions[names.target_positions], self.dropout),
        )
        vocab, bias = self.weights.matrix(names.generator)[0], names.generator_bias is not None
        return source, target, Generator(self.d_model, vocab, bias=bias, tied=tokens.get(names.generator))

    def position_table(self, name: str) -> PositionTable:
        shape = self.weights.shape(name)
        length = math.prod(shape[:-1])
        if len(shape) < 2 or length != max(shape[:-1]) or shape[-1] != self.d_model:
            expected = f"{name}: [length, {self.d_model}]"
            raise ModelError("not a table of positions", expected=expected, found=list(shape))
        return PositionTable(self.weights.take(name, shape).reshape(length, self.d_model))


class _NoPositions(nn.Module):
    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x


def _check_heads(d_model: int, nhead: int) -> None:
    if nhead < 1 or d_model % nhead:
        raise ConfigError("the heads do not divide the width", expected=f"nhead divides {d_model}", found=nhead)


def _function(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in _ACTIVATIONS:
        raise ConfigError("there is no such activation", expected="relu, gelu or a function", found=activation)
    return _ACTIVATIONS[activation]


# How its weights map


def _own_names(model: Any, names: Names) -> Iterator[tuple[str, nn.Parameter]]:
    """Every parameter but the tables of positions, under that system's name; one that is shared comes once."""
    yield from {
        names.source_embedding: model.source_embedding.tokens.weight,
        names.target_embedding: model.target_embedding.tokens.weight,
        names.generator: model.generator.weight,
    }.items()
    if names.generator_bias is not None:
        yield names.generator_bias, model.generator.bias
    for index, layer in enumerate(model.encoder.layers):
        yield from _layer(layer, f"{names.encoder}.layers.{index}")
    for index, layer in enumerate(model.decoder.layers):
        yield from _layer(layer, f"{names.decoder}.layers.{index}")
    for stack, name in ((model.encoder, names.encoder), (model.decoder, names.decoder)):
        yield from _affine(stack.norm, f"{name}.norm")


def _layer(layer: Any, name: str) -> Iterator[tuple[str, nn.Parameter]]:
    yield from _attention(layer.self_attention, f"{name}.self_attn")
    norms = [layer.self_attention_residual.norm, layer.feed_forward_residual.norm]
    cross = getattr(layer, "cross_attention", None)
    if cross is not None:
        yield from _attention(cross, f"{name}.multihead_attn")
        norms.insert(1, layer.cross_attention_residual.norm)
    yield from _affine(layer.feed_forward.inner, f"{name}.linear1")
    yield from _affine(layer.feed_forward.outer, f"{name}.linear2")
    for number, norm in enumerate(norms, start=1):
        yield from _affine(norm, f"{name}.norm{number}")


def _attention(attention: Any, name: str) -> Iterator[tuple[str, nn.Parameter]]:
    yield from _affine(attention.projection, f"{name}.in_proj", "_")
    yield from _affine(attention.output, f"{name}.out_proj")


def _affine(module: nn.Module, name: str, joint: str = ".") -> Iterator[tuple[str, nn.Parameter]]:
    """Weight and offset, where they are."""
    yield from ((f"{name}{joint}{kind}", parameter) for kind, parameter in module.named_parameters())
