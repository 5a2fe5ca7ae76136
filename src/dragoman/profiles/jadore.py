"""jadore801120/attention-is-all-you-need-pytorch (2021), older states of it, and the article that walks through one.

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
a mask, the decoder with the triangle of the future only. Its names are inferred: those of the repository.

`variant="early_2020"` is the repository as it stood until June 2020, under the same names, so that only the caller can
tell: no norm on embeddings, but one at the end of each stack; norms before the sub-layers, those of attention **on the
queries alone**; no `scale_emb_or_prj`: logits / √d_model if the generator is tied. Stacks and scale are from its code;
the norms of attention from what users reported of it then; that the feed-forward network has its norm in front too is
inferred from copies in other repositories. After June 2020, until there was the option, `prj` was the only scale.

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

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.nn import Decoder, Encoder, FeedForward, Generator, MultiHeadAttention, PostNorm, PreNorm
from dragoman.profiles.conclusions import check_given, concluding
from dragoman.profiles.jadore_parts import (
    NOTHING,
    NormedEmbedding,
    NormedFeedForward,
    QueryNormed,
    Scale,
    ScaledNorm,
    TwoPads,
    inner_norms,
)
from dragoman.profiles.jadore_search import beam_score as beam_score
from dragoman.profiles.jadore_search import translate_sentence as translate_sentence
from dragoman.profiles.parts import PositionTable, ScaledEmbedding, check_choice, check_heads, filling, stacks
from dragoman.profiles.weights import LayerNames, Weights, residual_norms

MASKED_SCORE = -1e9
ATTENTION_DROPOUT = 0.1
_VARIANTS = ("repository", "article", "early_2020")
_SCALES = ("emb", "prj", "none")
_BUGS = (None, "unscaled_translation")
_WORDS = {"encoder": "encoder.src_word_emb.weight", "decoder": "decoder.trg_word_emb.weight"}
_GENERATOR = "trg_word_prj.weight"


def position_table(n_position: int, d_hid: int) -> Float[Tensor, "{n_position} {d_hid}"]:
    """Return interleaved sinusoids built in float64 with NumPy, then rounded to float32: that system's own route."""
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
    """Return a fresh model, as their `Transformer` makes it: with the same seed, the same numbers.

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
    ).train()


@concluding({"variant": ("repository", "article", "early_2020")})
def load(
    state: Mapping[str, Any],
    *,
    n_head: int | None = None,
    src_pad_idx: int = 1,
    trg_pad_idx: int = 1,
    dropout: float = 0.1,
    n_position: int = 200,
    scale_emb_or_prj: str = "prj",
    variant: str = "repository",
    faithful_to_bug: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> TwoPads:
    """Return their weights in a model of ours, in evaluation mode.

    Sizes, numbers of layers, d_k and d_v follow from the weights; tables that are equal are one table.

    Args:
        state: name -> tensor or array: the `model` of its checkpoint.
        n_head: heads of each attention, which the weights do not tell; 8 in their code.
        src_pad_idx: id of padding in the source.
        trg_pad_idx: id of padding in the target.
        dropout: everywhere but on attention weights.
        n_position: rows of a table of positions that is not among the weights (`encoder.position_enc.pos_table`).
        scale_emb_or_prj: `emb`, `prj` or `none`, as in training, of the variant `repository`; of no effect unless the
            generator is tied.
        variant: `repository`, `article` or `early_2020`.
        faithful_to_bug: `unscaled_translation` for the model that their `translate.py` decodes with.
        dtype: type of the weights.

    Raises:
        ModelError: names every entry that is missing, left over or misshapen.
        ConfigError: the heads do not divide the projections, or an option is unknown.
    """
    check_choice("variant", variant, _VARIANTS)
    check_choice("scale", scale_emb_or_prj, _SCALES)
    check_choice("bug", faithful_to_bug, _BUGS)
    weights = Weights(state, f"jadore801120/attention-is-all-you-need-pytorch ({variant})", dtype)
    parts = _parts(weights, check_given("n_head", n_head, 8), dropout, variant)
    tied = weights.same(_GENERATOR, _WORDS["decoder"])
    scale = {"article": "none", "early_2020": "prj"}.get(variant, scale_emb_or_prj)
    scale = scale if tied and faithful_to_bug is None else "none"
    factor = math.sqrt(parts.d_model) if scale == "emb" else 1.0
    source = parts.embedding(weights, "encoder", src_pad_idx, n_position, factor)
    target = parts.embedding(weights, "decoder", trg_pad_idx, n_position, factor)
    if weights.same(_WORDS["encoder"], _WORDS["decoder"]):
        source.tokens.weight = target.tokens.weight
    vocab = weights.rows(_GENERATOR, parts.d_model, target.tokens.vocab)
    generator = Generator(parts.d_model, vocab, tied=target.tokens if tied else None)
    encoder, decoder = parts.stacks(weights, parts.d_model**-0.5 if scale == "prj" else 1.0)
    model = TwoPads(source, target, encoder, decoder, generator, trg_pad_idx).to(dtype)
    model.hidden_ids = (NOTHING, NOTHING) if variant == "article" else (src_pad_idx, trg_pad_idx)
    _fill(model, weights, variant)
    weights.finish()
    return model.eval()


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
    variant: str

    def embedding(self, weights: Weights, stack: str, pad: int, n_position: int, scale: float) -> NormedEmbedding:
        rows = weights.table(f"{stack}.position_enc.pos_table", self.d_model)
        positions = PositionTable(position_table(n_position, self.d_model) if rows is None else rows)
        # What is missing is complained of in the end; until then there has to be a row of padding.
        vocab = weights.rows(_WORDS[stack], self.d_model, max(pad + 1, weights.length(_GENERATOR)))
        norm = self.norm() if self.variant == "repository" else nn.Identity()
        return NormedEmbedding(ScaledEmbedding(vocab, self.d_model, scale, pad), positions, self.dropout, norm)

    def stacks(self, weights: Weights, scale: float) -> tuple[Encoder, Decoder]:
        sizes = weights.number("encoder.layer_stack.{}."), weights.number("decoder.layer_stack.{}.")
        if self.variant == "early_2020":
            no_norm = partial(PreNorm, self.d_model, self.dropout, nn.Identity)
            ends = self.norm(), ScaledNorm(self.d_model, 1e-6, scale)
            return stacks(sizes, self.query_normed, self.normed_feed_forward, no_norm, ends)
        residual = partial(PostNorm, self.d_model, self.dropout, lambda _: self.norm())
        return stacks(sizes, self.attention, self.feed_forward, residual, (None, Scale(scale)))

    def attention(self) -> MultiHeadAttention:
        width = {"d_k": self.d_k, "d_v": self.d_v}
        return MultiHeadAttention(
            self.d_model, self.n_head, **width, dropout=ATTENTION_DROPOUT, bias=False, weigh=filling(MASKED_SCORE)
        )

    def query_normed(self) -> QueryNormed:
        sizes = self.d_model, self.n_head, self.d_k, self.d_v
        return QueryNormed(self.norm(), *sizes, ATTENTION_DROPOUT, filling(MASKED_SCORE))

    def feed_forward(self) -> FeedForward:
        return FeedForward(self.d_model, self.d_inner)

    def normed_feed_forward(self) -> NormedFeedForward:
        return NormedFeedForward(self.norm(), self.d_model, self.d_inner)

    def norm(self) -> nn.LayerNorm:
        return nn.LayerNorm(self.d_model, eps=1e-6)


def _parts(weights: Weights, n_head: int, dropout: float, variant: str) -> _Parts:
    d_inner, d_model = (weights.common("*.pos_ffn.w_1.weight", place) for place in (0, 1))
    widths = [weights.common(f"*.w_{part}s.weight", 0) for part in "kv"]
    check_heads("n_head", n_head, *widths)
    return _Parts(d_model, d_inner, n_head, widths[0] // n_head, widths[1] // n_head, dropout, variant)


# How its weights map


def _fill(model: Any, weights: Weights, variant: str) -> None:
    for stack, attentions in (("encoder", ("slf_attn",)), ("decoder", ("slf_attn", "enc_attn"))):
        ours = getattr(model, stack)
        embedding = model.source_embedding if stack == "encoder" else model.target_embedding
        weights.fill(embedding.tokens.weight, _WORDS[stack])
        if variant == "repository":
            weights.affine(embedding.norm, f"{stack}.layer_norm.{{}}")
        if variant == "early_2020":
            weights.affine(ours.norm, f"{stack}.layer_norm.{{}}")
        names = LayerNames(
            attentions,
            ("w_qs.{}", "w_ks.{}", "w_vs.{}", "fc.{}"),
            ("pos_ffn.w_1.{}", "pos_ffn.w_2.{}"),
            tuple(f"{part}.layer_norm.{{}}" for part in (*attentions, "pos_ffn")),
        )
        norms = inner_norms if variant == "early_2020" else residual_norms
        weights.layers(ours, f"{stack}.layer_stack.{{}}", names, norms=norms)
    weights.affine(model.generator, "trg_word_prj.{}")


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
    """Return what their `Transformer` starts from before tables are shared, in its own names, drawn in its order."""

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
    """Return cross-entropy, summed over labels that are not padding and **divided by nothing**.

    Smoothed, a label has 0.9 on the right token and 0.1/(V − 1) on each other one, padding too.
    """
    real = gold != trg_pad_idx
    logs, labels = pred[real].log_softmax(-1), gold[real][:, None]
    right = logs.gather(1, labels).sum()
    if not smoothing:
        return -right
    return -0.9 * right - 0.1 / (pred.shape[-1] - 1) * (logs.sum() - right)


def learning_rate(step: int, lr_mul: float = 2.0, d_model: int = 512, n_warmup_steps: int = 4000) -> float:
    """Return lr_mul · d_model^-0.5 · min(step^-0.5, step · n_warmup_steps^-1.5) at update `step`, from 1.

    The defaults are those of its `train.py`; its script says `lr_mul` 0.5, its README `n_warmup_steps` 128000.
    """
    return lr_mul * d_model**-0.5 * min(step**-0.5, step * n_warmup_steps**-1.5)
