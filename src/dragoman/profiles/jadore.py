"""jadore801120/attention-is-all-you-need-pytorch (2021), and the article that walks through an older state of it.

What differs from `dragoman.models.build_model`:

| part | jadore801120 |
|---|---|
| norm | post; `torch.nn.LayerNorm` with 1e-6; none at the end of a stack |
| embeddings | **a norm after** dropout(token + position), one for each side; padding starts like any other token |
| attention | no offsets; d_k and d_v are free; its dropout is **0.1 whatever the model's dropout** |
| masks | masked scores are set to −1e9: a query that may see no key weighs **all** keys alike, future and padding too |
| feed-forward | no dropout between its two maps |
| positions | interleaved, built in float64 with NumPy, kept in float32; 200 rows |
| generator | no offset |
| tying | `trg_emb_prj_weight_sharing`: generator = target table; `emb_src_trg_weight_sharing`: source = target table |
| scale | if the generator is tied: `scale_emb_or_prj` `emb` embeddings × √d_model, `prj` logits / √d_model, `none` |
| initialisation | Xavier-uniform for every matrix, embeddings too; offsets are `torch.nn.Linear`'s |
| special ids | `<unk>` 0, `<blank>` 1, `<s>` 2, `</s>` 3; source and target framed by `<s>` and `</s>` |

Here the factor of `prj` stands at the end of the decoder stack, in front of the generator, so that whoever reads the
stack (a loss that holds the generator) has it too.

`variant="article"` hides padding nowhere, has no norm on embeddings and no scale: encoder and cross-attention without
a mask, the decoder with the triangle of the future only.

Known faults: its `translate.py` does not decode with the model that was trained. It makes the model anew without the
scale option, and its search leaves out the factor of `prj`: neither embeddings nor logits are scaled, whatever the
option was in training. `faithful_to_bug="unscaled_translation"` is that model. It also frames the source by neither
`<s>` nor `</s>`, though training had both; and see `translate_sentence`.

The weights of a checkpoint, which holds the training options too, made readable where it was trained:

    python -c "import torch; from safetensors.torch import save_file; checkpoint = torch.load('model.chkpt',
    map_location='cpu', weights_only=False); print(checkpoint['settings']); save_file({name: tensor.clone() for name,
    tensor in checkpoint['model'].items()}, 'jadore.safetensors')"
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.nn import (
    Decoder,
    DecoderLayer,
    Encoder,
    FeedForward,
    Generator,
    InputEmbedding,
    MultiHeadAttention,
    PostNorm,
    Transformer,
    causal_mask,
    combine_masks,
    padding_mask,
)
from dragoman.profiles.jadore_search import beam_score as beam_score
from dragoman.profiles.jadore_search import translate_sentence as translate_sentence
from dragoman.profiles.parts import PositionTable, ScaledEmbedding, filled_weights, stacks
from dragoman.profiles.weights import Weights

MASKED_SCORE = -1e9
ATTENTION_DROPOUT = 0.1
NOTHING = -1

_VARIANTS = ("repository", "article")
_SCALES = ("emb", "prj", "none")
_BUGS = (None, "unscaled_translation")
_WORDS = {"encoder": "encoder.src_word_emb.weight", "decoder": "decoder.trg_word_emb.weight"}
_GENERATOR = "trg_word_prj.weight"


class NormedEmbedding(InputEmbedding):
    """dropout(token + position), then a norm."""

    def __init__(self, tokens: ScaledEmbedding, positions: nn.Module, dropout: float, norm: nn.Module) -> None:
        super().__init__(tokens, positions, dropout)
        self.norm = norm

    def forward(self, ids: Int[Tensor, "batch len"], start: int = 0) -> Float[Tensor, "batch len d_model"]:
        """Vectors of the tokens, the first of which stands at position `start`."""
        return self.norm(super().forward(ids, start))


class Scale(nn.Module):
    """Multiplies by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Multiply."""
        return x * self.factor


class TwoPads(Transformer):
    """Hides an id in the source and an id in the target (`NOTHING`: none); `pad` stays the one of labels."""

    hidden_ids: tuple[int, int]

    def encode(
        self, source: Int[Tensor, "batch src"]
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch 1 1 src"]]:
        """The memory, and the mask that hides its padding."""
        mask = padding_mask(source, self.hidden_ids[0])
        return self.encoder(self.source_embedding(source), mask), mask

    def hidden(
        self, source: Int[Tensor, "batch src"], target: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt d_model"]:
        """The decoder's output for teacher forcing."""
        memory, memory_mask = self.encode(source)
        future = causal_mask(target.shape[1], device=target.device)
        mask = combine_masks(padding_mask(target, self.hidden_ids[1]), future)
        return self.decoder(self.target_embedding(target), mask, memory, memory_mask)


def position_table(n_position: int, d_hid: int) -> Float[Tensor, "{n_position} {d_hid}"]:
    """Interleaved sinusoids built in float64 with NumPy, then rounded to float32: that system's own route."""
    column = np.arange(d_hid)
    table = np.arange(n_position)[:, None] / np.power(10000, 2 * (column // 2) / d_hid)
    table[:, 0::2], table[:, 1::2] = np.sin(table[:, 0::2]), np.cos(table[:, 1::2])
    return torch.from_numpy(table).float()


def build(
    n_src_vocab: int,
    n_trg_vocab: int,
    src_pad_idx: int,
    trg_pad_idx: int,
    d_word_vec: int = 512,
    d_model: int = 512,
    d_inner: int = 2048,
    n_layers: int = 6,
    n_head: int = 8,
    d_k: int = 64,
    d_v: int = 64,
    dropout: float = 0.1,
    n_position: int = 200,
    trg_emb_prj_weight_sharing: bool = True,
    emb_src_trg_weight_sharing: bool = True,
    scale_emb_or_prj: str = "prj",
    *,
    variant: str = "repository",
    dtype: torch.dtype = torch.float32,
) -> TwoPads:
    """A fresh model, as their `Transformer` makes it: with the same seed, the same numbers.

    The arguments are theirs, in their order; `variant` and `dtype` as in `load`.

    Raises:
        ConfigError: two of them contradict each other, or one is unknown.
    """
    if d_word_vec != d_model:
        raise ConfigError("vectors of words are added to those of layers", expected=d_model, found=d_word_vec)
    if emb_src_trg_weight_sharing and n_src_vocab != n_trg_vocab:
        raise ConfigError("a table for both sides needs equal vocabularies", expected=n_trg_vocab, found=n_src_vocab)
    state = initial_weights(n_src_vocab, n_trg_vocab, d_model, d_inner, n_layers, n_head, d_k, d_v, variant=variant)
    if trg_emb_prj_weight_sharing:
        state[_GENERATOR] = state[_WORDS["decoder"]]
    if emb_src_trg_weight_sharing:
        state[_WORDS["encoder"]] = state[_WORDS["decoder"]]
    return load(
        state,
        n_head=n_head,
        src_pad_idx=src_pad_idx,
        trg_pad_idx=trg_pad_idx,
        dropout=dropout,
        n_position=n_position,
        scale_emb_or_prj=scale_emb_or_prj,
        variant=variant,
        dtype=dtype,
    )


def load(
    state: Mapping[str, Any],
    *,
    n_head: int = 8,
    src_pad_idx: int = 1,
    trg_pad_idx: int = 1,
    dropout: float = 0.1,
    n_position: int = 200,
    scale_emb_or_prj: str = "prj",
    variant: str = "repository",
    faithful_to_bug: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> TwoPads:
    """A model with the weights of one of theirs.

    Sizes, numbers of layers, d_k and d_v follow from the weights; tables that are equal are one table.

    Args:
        state: name -> tensor or array: the `model` of its checkpoint.
        n_head: heads of each attention.
        src_pad_idx: id of padding in the source.
        trg_pad_idx: id of padding in the target.
        dropout: everywhere but on attention weights.
        n_position: rows of a table of positions that is not among the weights (`encoder.position_enc.pos_table`).
        scale_emb_or_prj: `emb`, `prj` or `none`, as in training; of no effect unless the generator is tied.
        variant: `repository` or `article`.
        faithful_to_bug: `unscaled_translation` for the model that their `translate.py` decodes with.
        dtype: type of the weights.

    Raises:
        ModelError: names every entry that is missing, left over or misshapen.
        ConfigError: the heads do not divide the projections, or an option is unknown.
    """
    for found, known in ((variant, _VARIANTS), (scale_emb_or_prj, _SCALES), (faithful_to_bug, _BUGS)):
        if found not in known:
            raise ConfigError("there is no such option", expected=" or ".join(map(str, known)), found=found)
    weights = Weights(state, f"jadore801120/attention-is-all-you-need-pytorch ({variant})", dtype)
    tied, article = weights.same(_GENERATOR, _WORDS["decoder"]), variant == "article"
    scale = scale_emb_or_prj if tied and not article and faithful_to_bug is None else "none"
    parts = _parts(weights, n_head, dropout, scale_embeddings=scale == "emb", norm_embeddings=not article)
    source = parts.embedding(weights, "encoder", src_pad_idx, n_position)
    target = parts.embedding(weights, "decoder", trg_pad_idx, n_position)
    if weights.same(_WORDS["encoder"], _WORDS["decoder"]):
        source.tokens.weight = target.tokens.weight
    model = TwoPads(
        source,
        target,
        *parts.stacks(weights, Scale(parts.d_model**-0.5) if scale == "prj" else None),
        Generator(parts.d_model, weights.matrix(_GENERATOR)[0], tied=target.tokens if tied else None),
        trg_pad_idx,
    ).to(dtype)
    model.hidden_ids = (NOTHING, NOTHING) if article else (src_pad_idx, trg_pad_idx)
    _fill(model, weights, norm_embeddings=not article)
    weights.finish()
    return model


# How it is composed


@dataclass(frozen=True)
class _Parts:
    """Makes fresh parts of one configuration."""

    d_model: int
    d_inner: int
    n_head: int
    d_k: int
    d_v: int
    dropout: float
    scale_embeddings: bool
    norm_embeddings: bool

    def embedding(self, weights: Weights, stack: str, pad: int, n_position: int) -> NormedEmbedding:
        vocab, table = weights.matrix(_WORDS[stack])[0], f"{stack}.position_enc.pos_table"
        rows = weights.table(table, self.d_model) if table in weights else position_table(n_position, self.d_model)
        tokens = ScaledEmbedding(vocab, self.d_model, math.sqrt(self.d_model) if self.scale_embeddings else 1.0, pad)
        norm = self.norm(self.d_model) if self.norm_embeddings else nn.Identity()
        return NormedEmbedding(tokens, PositionTable(rows), self.dropout, norm)

    def stacks(self, weights: Weights, end: nn.Module | None) -> tuple[Encoder, Decoder]:
        name = "{}.layer_stack.{{}}.pos_ffn.w_1.weight"
        sizes = weights.count(name.format("encoder")), weights.count(name.format("decoder"))
        return stacks(sizes, self.attention, self.feed_forward, self.residual, (None, end))

    def attention(self) -> MultiHeadAttention:
        return MultiHeadAttention(
            self.d_model,
            self.n_head,
            d_k=self.d_k,
            d_v=self.d_v,
            dropout=ATTENTION_DROPOUT,
            bias=False,
            weigh=functools.partial(filled_weights, fill=MASKED_SCORE),
        )

    def feed_forward(self) -> FeedForward:
        return FeedForward(self.d_model, self.d_inner)

    def residual(self) -> PostNorm:
        return PostNorm(self.d_model, self.dropout, self.norm)

    def norm(self, d_model: int) -> nn.LayerNorm:
        return nn.LayerNorm(d_model, eps=1e-6)


def _parts(weights: Weights, n_head: int, dropout: float, *, scale_embeddings: bool, norm_embeddings: bool) -> _Parts:
    first = "encoder.layer_stack.0"
    d_inner, d_model = weights.matrix(f"{first}.pos_ffn.w_1.weight")
    widths = [weights.matrix(f"{first}.slf_attn.{name}.weight")[0] for name in ("w_ks", "w_vs")]
    if n_head < 1 or any(width % n_head for width in widths):
        expected = f"n_head divides {' and '.join(map(str, widths))}"
        raise ConfigError("the heads do not divide the projections", expected=expected, found=n_head)
    d_k, d_v = (width // n_head for width in widths)
    return _Parts(d_model, d_inner, n_head, d_k, d_v, dropout, scale_embeddings, norm_embeddings)


# How its weights map


def _fill(model: Any, weights: Weights, *, norm_embeddings: bool) -> None:
    for stack, embedding in (("encoder", model.source_embedding), ("decoder", model.target_embedding)):
        weights.fill(embedding.tokens.weight, _WORDS[stack])
        if norm_embeddings:
            _fill_affine(embedding.norm, weights, f"{stack}.layer_norm")
        for number, layer in enumerate(getattr(model, stack).layers):
            _fill_layer(layer, weights, f"{stack}.layer_stack.{number}")
    weights.linear(model.generator, _GENERATOR)


def _fill_layer(layer: Any, weights: Weights, name: str) -> None:
    _fill_attention(layer.self_attention, layer.self_attention_residual, weights, f"{name}.slf_attn")
    if isinstance(layer, DecoderLayer):
        _fill_attention(layer.cross_attention, layer.cross_attention_residual, weights, f"{name}.enc_attn")
    _fill_affine(layer.feed_forward.inner, weights, f"{name}.pos_ffn.w_1")
    _fill_affine(layer.feed_forward.outer, weights, f"{name}.pos_ffn.w_2")
    _fill_affine(layer.feed_forward_residual.norm, weights, f"{name}.pos_ffn.layer_norm")


def _fill_attention(attention: Any, residual: Any, weights: Weights, name: str) -> None:
    for part, rows in zip("qkv", attention.projection.weight.data.split(attention.widths), strict=True):
        weights.fill(rows, f"{name}.w_{part}s.weight")
    weights.fill(attention.output.weight, f"{name}.fc.weight")
    _fill_affine(residual.norm, weights, f"{name}.layer_norm")


def _fill_affine(module: Any, weights: Weights, name: str) -> None:
    weights.fill(module.weight, f"{name}.weight")
    weights.fill(module.bias, f"{name}.bias")


# How it starts


def initial_weights(
    n_src_vocab: int,
    n_trg_vocab: int,
    d_model: int = 512,
    d_inner: int = 2048,
    n_layers: int = 6,
    n_head: int = 8,
    d_k: int = 64,
    d_v: int = 64,
    *,
    variant: str = "repository",
) -> dict[str, Tensor]:
    """What their `Transformer` starts from before tables are shared, in its own names, drawn in its order."""

    def attention() -> nn.ModuleDict:
        widths = {"w_qs": d_k, "w_ks": d_k, "w_vs": d_v}
        inner = {name: nn.Linear(d_model, n_head * width, bias=False) for name, width in widths.items()}
        outer = {"fc": nn.Linear(n_head * d_v, d_model, bias=False), "layer_norm": nn.LayerNorm(d_model)}
        return nn.ModuleDict(inner | outer)

    def feed_forward() -> nn.ModuleDict:
        parts = {"w_1": nn.Linear(d_model, d_inner), "w_2": nn.Linear(d_inner, d_model)}
        return nn.ModuleDict(parts | {"layer_norm": nn.LayerNorm(d_model)})

    def stack(words: str, vocab: int, *attentions: str) -> nn.ModuleDict:
        parts: dict[str, nn.Module] = {words: nn.Embedding(vocab, d_model)}
        kinds = [*((name, attention) for name in attentions), ("pos_ffn", feed_forward)]
        layers = [nn.ModuleDict({name: make() for name, make in kinds}) for _ in range(n_layers)]
        parts["layer_stack"] = nn.ModuleList(layers)
        return nn.ModuleDict(parts if variant == "article" else parts | {"layer_norm": nn.LayerNorm(d_model)})

    fresh = nn.ModuleDict({"encoder": stack("src_word_emb", n_src_vocab, "slf_attn")})
    fresh["decoder"] = stack("trg_word_emb", n_trg_vocab, "slf_attn", "enc_attn")
    fresh["trg_word_prj"] = nn.Linear(d_model, n_trg_vocab, bias=False)
    for parameter in fresh.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return fresh.state_dict()


# Its loss and its rate


def cal_loss(
    pred: Float[Tensor, "*tokens vocab"], gold: Int[Tensor, "*tokens"], trg_pad_idx: int, smoothing: bool = False
) -> Float[Tensor, ""]:
    """Cross-entropy, summed over labels that are not padding and **divided by nothing**.

    Smoothed, a label has 0.9 on the right token and 0.1/(V − 1) on each other one, padding too.
    """
    real = gold != trg_pad_idx
    logs, labels = pred[real].log_softmax(-1), gold[real][:, None]
    right = logs.gather(1, labels).sum()
    if not smoothing:
        return -right
    return -0.9 * right - 0.1 / (pred.shape[-1] - 1) * (logs.sum() - right)


def learning_rate(step: int, lr_mul: float = 2.0, d_model: int = 512, n_warmup_steps: int = 4000) -> float:
    """lr_mul · d_model^-0.5 · min(step^-0.5, step · n_warmup_steps^-1.5) at update number `step`, from 1."""
    return lr_mul * d_model**-0.5 * min(step**-0.5, step * n_warmup_steps**-1.5)
