"""The same model built from `torch.nn.Transformer`, as its own tutorial would: what ours is measured against."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.nn import Transformer, sinusoids

# Where `torch.nn.Transformer` keeps what our layers call by another name.
NAMES = (
    (".layers", "layers"), ("self_attention_residual.norm", "norm1"), ("cross_attention_residual.norm", "norm2"),
    ("self_attention.projection.", "self_attn.in_proj_"), ("self_attention.output", "self_attn.out_proj"),
    ("cross_attention.projection.", "multihead_attn.in_proj_"), ("cross_attention.output", "multihead_attn.out_proj"),
    ("feed_forward.inner", "linear1"), ("feed_forward.outer", "linear2"),
)  # fmt: skip


class TorchTransformer(nn.Module):
    """`nn.Transformer` between one embedding, shared by both sides and the generator, and sinusoidal positions."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        sizes = (config.d_model, config.num_heads, config.num_encoder_layers, config.num_decoder_layers, config.d_ff)
        d_model, heads, encoders, decoders, d_ff = (size or 0 for size in sizes)
        dropout = config.dropout or 0.0
        self.embedding = nn.Embedding(config.target_vocab or 0, d_model, padding_idx=0)
        self.positions: Tensor
        self.register_buffer("positions", sinusoids(256, d_model).float())
        self.dropout = nn.Dropout(dropout)
        with warnings.catch_warnings():  # of a path for inference that norm_first leaves out
            warnings.simplefilter("ignore", UserWarning)
            self.body = nn.Transformer(
                d_model, heads, encoders, decoders, d_ff, dropout, batch_first=True, norm_first=True
            )  # fmt: skip

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits `[batch, tgt, vocab]` of ids `[batch, src]` and `[batch, tgt]`."""
        hides_source, hides_target = source == 0, target == 0
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        hidden = self.body(
            self._embed(source), self._embed(target), tgt_mask=future, src_key_padding_mask=hides_source,
            tgt_key_padding_mask=hides_target, memory_key_padding_mask=hides_source,
        )  # fmt: skip
        return hidden @ self.embedding.weight.t()

    def _embed(self, ids: Tensor) -> Tensor:
        width = self.embedding.embedding_dim
        return self.dropout(self.embedding(ids) * math.sqrt(width) + self.positions[: ids.shape[1]])

    def load(self, model: Transformer) -> None:
        """Take the weights of a pre-norm model of ours with all embeddings tied."""
        weights = {"embedding.weight": model.generator.weight, "positions": self.positions}
        for side in ("encoder", "decoder"):
            for name, value in getattr(model, side).state_dict().items():
                last = "norm3" if side == "decoder" else "norm2"
                name = name.replace("feed_forward_residual.norm", last)
                for ours, theirs in NAMES:
                    name = name.replace(ours, theirs)
                weights[f"body.{side}.{name}"] = value
        self.load_state_dict(weights)
