"""MarianMT: the Marian models (OPUS-MT and others) as Hugging Face transformers runs them, and as Marian itself does.

What differs from `dragoman.models.build_model`:

| part | MarianMT in transformers | Marian itself |
|---|---|---|
| norm | post; none after the embeddings, **none at the end of a stack** | the same |
| layer norm | biased variance, **eps 1e-5** inside the root | **1e-6**: `layer_norm_eps=1e-6` |
| positions | from 0, all sines, then all cosines; 10000^(2i/d), float64 rounded to float32 | 10000^(i/(d/2 - 1)), |
|  | | float32: `positions="marian"` |
| embeddings | times √d_model if `scale_embedding`: in OPUS-MT, not by default | always |
| offsets | in every linear map; that of the logits (`final_logits_bias`) is not trained | trained |
| feed-forward | GELU by default; OPUS-MT has `swish`, that is SiLU | SiLU by default |
| masks | padding of the source; **in the target only the future**: its first token is `<pad>` | the same |
| ids | `</s>` 0, `<unk>` 1, `<pad>` last; source ends with `</s>`, output starts with `<pad>` | zeros for `<pad>` |
| initialisation | normal of deviation `init_std`, offsets and `<pad>` rows zero | Xavier |
| numbers | label smoothing: eps over all V entries; beams: sum / length^alpha, `</s>` counted | the same |

Known traits: the wavelengths differ, so transformers adds other positions than those a model was trained with in
Marian. `<pad>` keeps a logit (0, where its row and offset are zero) and so a share of every probability: it has to be
forbidden, and transformers does not renormalise then. Layer drop, `decoder_attention_mask` and the clamp for half
precision are not here.

Translation goes through the usual searches, with the ids of the model:

    SearchRequest(source, options, frame=Frame(pad_token_id, 0), never=(pad_token_id,))

The native engine runs it, whole searches too, where both stacks have the same heads and inner width, as in OPUS-MT.

Weights come as `model.safetensors`; an older directory with `pytorch_model.bin`, or a name on the hub, becomes one by

    python -c "from transformers import MarianMTModel as M; M.from_pretrained('DIRECTORY').save_pretrained('NEW')"

and the arguments of `load` stand in its `config.json` under the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.errors import ConfigError
from dragoman.nn import FeedForward, Generator, InputEmbedding, MultiHeadAttention, PostNorm, Transformer, causal_mask
from dragoman.profiles.conclusions import concluding
from dragoman.profiles.parts import (
    Make,
    PositionTable,
    ScaledEmbedding,
    check_choice,
    check_heads,
    decoder,
    encoder,
)
from dragoman.profiles.weights import LayerNames, Weights

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu, "swish": F.silu}
_SHARED, _HEAD = "model.shared.weight", "lm_head.weight"
_STACKS = ("encoder", "decoder")


class MarianTransformer(Transformer):
    """A `Transformer` that hides the padding of the source, but in the target only the future.

    Padding of a target comes after all its tokens, so the future hides it from them; its first token is `<pad>` too.
    """

    def decoder_mask(
        self, target: Int[Tensor, "rows tgt"], mask: Bool[Tensor, "rows tgt"] | None = None
    ) -> Bool[Tensor, "..."] | None:
        """Return the triangle that hides the future, whatever the mask."""
        return causal_mask(target.shape[1], device=target.device)


# Positions


def position_table(length: int, d_model: int) -> Float[Tensor, "{length} {d_model}"]:
    """Return the table of transformers: sines, then cosines, built by NumPy in float64 and rounded to float32."""
    angle = np.arange(length)[:, None] / np.power(10000, 2 * (np.arange(d_model) // 2) / d_model)
    table = np.concatenate([np.sin(angle[:, 0::2]), np.cos(angle[:, 1::2])], axis=1)
    return torch.from_numpy(table.astype(np.float32))


def native_position_table(length: int, d_model: int) -> Float[Tensor, "{length} {d_model}"]:
    """Return the table of Marian (and of tensor2tensor), computed in float32, for an even width of at least 4.

    The C library rounds each function once: hence the detour of `exp`, `sin` and `cos` through float64.
    """
    half = d_model // 2
    step = np.float32(np.log(10000.0)) / np.float32(half - 1)
    rate = np.exp((np.arange(half, dtype=np.float32) * -step).astype(np.float64)).astype(np.float32)
    angle = (np.arange(length, dtype=np.float32)[:, None] * rate).astype(np.float64)
    return torch.from_numpy(np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32))


_POSITIONS = {"transformers": position_table, "marian": native_position_table}


# Losses and scores


def shift_right(
    labels: Int[Tensor, "batch tgt"], pad_token_id: int, decoder_start_token_id: int
) -> Int[Tensor, "batch tgt"]:
    """Return the decoder's input for these labels: the start token, then all labels but the last, -100 as padding."""
    shifted = F.pad(labels[:, :-1], (1, 0), value=decoder_start_token_id)
    return shifted.masked_fill(shifted == -100, pad_token_id)


def loss(
    logits: Float[Tensor, "batch tgt vocab"], labels: Int[Tensor, "batch tgt"], label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return cross-entropy, the mean over labels that are not -100 (padding not marked so counts as a token).

    Args:
        logits: of each next token.
        labels: the next tokens.
        label_smoothing: spread evenly over all V entries, the right one and `<pad>` included, as the trainer of
            transformers does; 0 is the loss of the model itself.
    """
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=label_smoothing)


def beam_score(token_log_probabilities: Sequence[float], length_penalty: float = 1.0, *, forced: bool = False) -> float:
    """Return what beams are ranked by: the sum of the log-probabilities divided by length^length_penalty.

    Args:
        token_log_probabilities: one per token, `</s>` at the end included; the start token has none.
        length_penalty: 0 is no penalty; above 0, longer outputs are favoured.
        forced: whether `</s>` came because the output may not be longer: it counts in the length, but adds 0.
    """
    values = token_log_probabilities[:-1] if forced else token_log_probabilities
    return sum(values) / len(token_log_probabilities) ** length_penalty


# Building and loading


def build(
    *,
    vocab_size: int = 58101,
    decoder_vocab_size: int | None = None,
    max_position_embeddings: int = 1024,
    encoder_layers: int = 12,
    encoder_ffn_dim: int = 4096,
    encoder_attention_heads: int = 16,
    decoder_layers: int = 12,
    decoder_ffn_dim: int = 4096,
    decoder_attention_heads: int = 16,
    activation_function: str = "gelu",
    d_model: int = 1024,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    activation_dropout: float = 0.0,
    init_std: float = 0.02,
    scale_embedding: bool = False,
    pad_token_id: int = 58100,
    share_encoder_decoder_embeddings: bool = True,
    tie_word_embeddings: bool = True,
    positions: str = "transformers",
    layer_norm_eps: float = 1e-5,
    dtype: torch.dtype = torch.float32,
) -> MarianTransformer:
    """Return a fresh model; the arguments are those of `MarianConfig`, except the last three.

    Without `tie_word_embeddings` nothing is tied, nor shared (transformers 5).

    Args:
        positions: the table of `transformers` or that of `marian`.
        layer_norm_eps: 1e-5 in transformers, 1e-6 in Marian.
        dtype: type of the weights.

    Raises:
        ConfigError: heads that do not divide the width, an unknown name, or a `<pad>` outside of the vocabulary.
    """
    target_vocab = vocab_size if share_encoder_decoder_embeddings else decoder_vocab_size or vocab_size
    parts = _Parts(
        d_model=d_model,
        heads=(encoder_attention_heads, decoder_attention_heads),
        dropout=(dropout, attention_dropout, activation_dropout),
        activation=activation_function,
        eps=layer_norm_eps,
        scaled=scale_embedding,
        pad=pad_token_id,
        positions=positions,
    )
    model = parts.model(
        vocab=(vocab_size, target_vocab, target_vocab),
        shared=share_encoder_decoder_embeddings and tie_word_embeddings,
        tied=tie_word_embeddings,
        sizes=((encoder_layers, encoder_ffn_dim), (decoder_layers, decoder_ffn_dim)),
        tables=[_POSITIONS[positions](max_position_embeddings, d_model)] * 2,
    )
    _initialise(model, init_std)
    return model.to(dtype)


@concluding()
def load(
    state: Mapping[str, Any],
    *,
    pad_token_id: int,
    encoder_attention_heads: int = 16,
    decoder_attention_heads: int = 16,
    activation_function: str = "gelu",
    scale_embedding: bool = False,
    max_position_embeddings: int = 1024,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    activation_dropout: float = 0.0,
    positions: str = "transformers",
    layer_norm_eps: float = 1e-5,
    dtype: torch.dtype = torch.float32,
) -> MarianTransformer:
    """Return a `MarianMTModel`'s weights in a model of ours, in evaluation mode; arguments as of `build`.

    Sizes, numbers of layers and tying follow from the weights: tables that are equal are one, as transformers reads
    them too. Tables of positions, which are seldom saved, are used if they are there, unless those of `marian` are
    asked for.

    Args:
        state: name -> tensor or array.
        pad_token_id: id of `<pad>`.
        max_position_embeddings: the longest sequence; any number, if the tables are not there.

    Raises:
        ModelError: names every entry that is missing, left over or misshapen.
        ConfigError: heads that do not divide the width, an unknown name, or a `<pad>` outside of the vocabulary.
    """
    weights = Weights(state, "MarianMTModel", dtype)
    parts = _Parts(
        d_model=weights.common("model.*.layers.*.fc1.weight", 1),
        heads=(encoder_attention_heads, decoder_attention_heads),
        dropout=(dropout, attention_dropout, activation_dropout),
        activation=activation_function,
        eps=layer_norm_eps,
        scaled=scale_embedding,
        pad=pad_token_id,
        positions=positions,
    )
    names = _table_names(weights)
    rows = {name: weights.rows(name, parts.d_model, pad_token_id + 1) for name in dict.fromkeys(names)}
    taken = {name: weights.take(name, (count, parts.d_model)) for name, count in rows.items()}
    source, target, generator = (taken[name] for name in names)
    model = parts.model(
        vocab=(len(source), len(target), len(generator)),
        shared=torch.equal(source, target),
        tied=torch.equal(target, generator),
        sizes=[_size(weights, f"model.{stack}.layers.") for stack in _STACKS],
        tables=[_table(weights, stack, parts, max_position_embeddings) for stack in _STACKS],
    ).to(dtype)
    _fill(model, weights, (source, target, generator))
    weights.finish()
    return model.eval()


# How it is composed


@dataclass(frozen=True)
class _Parts:
    """Makes fresh parts of one configuration; pairs are of the encoder and of the decoder."""

    d_model: int
    heads: tuple[int, int]
    dropout: tuple[float, float, float]
    activation: str
    eps: float
    scaled: bool
    pad: int
    positions: str

    def __post_init__(self) -> None:
        check_heads("encoder_attention_heads", self.heads[0], self.d_model)
        check_heads("decoder_attention_heads", self.heads[1], self.d_model)
        check_choice("activation", self.activation, _ACTIVATIONS)
        check_choice("positions", self.positions, _POSITIONS)
        if self.positions == "marian" and (self.d_model % 2 or self.d_model < 4):
            raise ConfigError("Marian has no positions of this width", expected="even, 4 or more", found=self.d_model)

    def model(
        self, vocab: Sequence[int], shared: bool, tied: bool, sizes: Sequence[tuple[int, int]], tables: Sequence[Tensor]
    ) -> MarianTransformer:
        """`vocab`: rows of source table, target table and generator; `sizes`: layers and inner width of each stack."""
        if not 0 <= self.pad < min(vocab):
            expected = f"pad_token_id of 0 to {min(vocab) - 1}"
            raise ConfigError("<pad> is not in the vocabulary", expected=expected, found=self.pad)
        scale = math.sqrt(self.d_model) if self.scaled else 1.0
        source = ScaledEmbedding(vocab[0], self.d_model, scale, self.pad)
        target = source if shared else ScaledEmbedding(vocab[1], self.d_model, scale, self.pad)
        generator = Generator(self.d_model, vocab[2], bias=True, tied=target if tied else None)
        generator.bias.requires_grad_(False)
        return MarianTransformer(
            InputEmbedding(source, PositionTable(tables[0]), self.dropout[0]),
            InputEmbedding(target, PositionTable(tables[1]), self.dropout[0]),
            encoder(sizes[0][0], *self.parts(0, sizes[0][1])),
            decoder(sizes[1][0], *self.parts(1, sizes[1][1])),
            generator,
            self.pad,
        )

    def parts(self, stack: int, d_ff: int) -> tuple[Make, Make, Make]:
        """Attention, feed-forward network and connection of the encoder (0) or the decoder (1)."""
        activation = _ACTIVATIONS[self.activation]
        return (
            partial(MultiHeadAttention, self.d_model, self.heads[stack], dropout=self.dropout[1]),
            partial(FeedForward, self.d_model, d_ff, dropout=self.dropout[2], activation=activation),
            partial(PostNorm, self.d_model, self.dropout[0], partial(nn.LayerNorm, eps=self.eps)),
        )


def _initialise(model: Any, std: float) -> None:
    """Offsets are zero and gains one already."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=std)
    with torch.no_grad():
        model.source_embedding.tokens.weight[model.pad].zero_()
        model.target_embedding.tokens.weight[model.pad].zero_()


# How its weights map


def _table_names(weights: Weights) -> tuple[str, str, str]:
    """The entries that hold the source table, the target table and the generator; one entry may hold all."""

    def first(*names: str) -> str:
        return next((name for name in names if name in weights), _SHARED)

    source, target = (f"model.{stack}.embed_tokens.weight" for stack in _STACKS)
    if source in weights and target in weights:
        weights.skip(_SHARED)  # nothing reads it then, though it may be there
    return first(source, _SHARED), first(target, _SHARED, _HEAD), first(_HEAD, target, _SHARED)


def _size(weights: Weights, layers: str) -> tuple[int, int]:
    return weights.number(layers + "{}."), weights.common(layers + "*.fc1.weight", 0)


def _table(weights: Weights, stack: str, parts: _Parts, length: int) -> Tensor:
    name = f"model.{stack}.embed_positions.weight"
    if name in weights and parts.positions == "transformers":
        return weights.take(name, (weights.rows(name, parts.d_model), parts.d_model))
    weights.skip(name)
    return _POSITIONS[parts.positions](length, parts.d_model)


def _fill(model: Any, weights: Weights, tables: Sequence[Tensor]) -> None:
    with torch.no_grad():
        model.source_embedding.tokens.weight.copy_(tables[0])
        model.target_embedding.tokens.weight.copy_(tables[1])
        model.generator.weight.copy_(tables[2])
    if "final_logits_bias" in weights:
        weights.fill(model.generator.bias[None], "final_logits_bias")
    projections = tuple(f"{part}_proj.{{}}" for part in ("q", "k", "v", "out"))
    for stack, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        norms = tuple(f"{part}_layer_norm.{{}}" for part in (*attentions, "final"))
        names = LayerNames(attentions, projections, ("fc1.{}", "fc2.{}"), norms)
        weights.layers(getattr(model, stack), f"model.{stack}.layers.{{}}", names)
