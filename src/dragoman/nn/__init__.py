"""The paper's blocks, one file per section; each works alone with plain PyTorch.

Examples:
    >>> import torch
    >>> from dragoman.nn import MultiHeadAttention, causal_mask
    >>> attend = MultiHeadAttention(d_model=16, num_heads=4)
    >>> attend(torch.zeros(2, 5, 16), mask=causal_mask(5)).shape
    torch.Size([2, 5, 16])
"""

from dragoman.nn.attention import (
    AttentionRecord,
    MultiHeadAttention,
    attention_scores,
    attention_weights,
    scaled_dot_product_attention,
)
from dragoman.nn.cache import DecoderCache, FixedCache, GrowingCache, JoinedCache, LayerCache, StepCache
from dragoman.nn.decoder import Decoder, DecoderLayer
from dragoman.nn.dropout import Dropout, dropout
from dragoman.nn.embedding import Generator, InputEmbedding, SinusoidalPositions, TokenEmbedding, sinusoids
from dragoman.nn.encoder import Encoder, EncoderLayer
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.masks import causal_mask, combine_masks, key_mask, padding_mask
from dragoman.nn.positions import AlibiPositions, AttentionPositions, RelativePositions, RotaryPositions
from dragoman.nn.residual import PostNorm, PreNorm
from dragoman.nn.subsampling import FrameEmbedding, Subsampling
from dragoman.nn.transformer import CausalLM, MaskedLM, Transformer

__all__ = [
    "AlibiPositions",
    "AttentionPositions",
    "AttentionRecord",
    "CausalLM",
    "Decoder",
    "DecoderCache",
    "DecoderLayer",
    "Dropout",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "FixedCache",
    "FrameEmbedding",
    "Generator",
    "GrowingCache",
    "InputEmbedding",
    "JoinedCache",
    "LayerCache",
    "MaskedLM",
    "MultiHeadAttention",
    "PostNorm",
    "PreNorm",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "StepCache",
    "Subsampling",
    "TokenEmbedding",
    "Transformer",
    "attention_scores",
    "attention_weights",
    "causal_mask",
    "combine_masks",
    "dropout",
    "key_mask",
    "padding_mask",
    "scaled_dot_product_attention",
    "sinusoids",
]
