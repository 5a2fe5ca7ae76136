"""The top of the ladder: a causal Transformer of one layer, where the mask and the transitions are learned together."""

from __future__ import annotations

from torch import nn

from dragoman.markov.framing import PAD
from dragoman.nn import (
    CausalLM,
    Decoder,
    DecoderLayer,
    FeedForward,
    Generator,
    InputEmbedding,
    MultiHeadAttention,
    PreNorm,
    SinusoidalPositions,
    TokenEmbedding,
)


def one_layer_transformer(
    vocab: int, *, d_model: int = 128, num_heads: int = 4, d_ff: int = 512, dropout: float = 0.1
) -> CausalLM:
    """Make a fresh model of what the rungs below have shown: look-up, attention, feed-forward, transition.

    Embeddings stand in for one-hot vectors, softmax(QKᵀ/√d_k) for the mask, and the generator, whose matrix is the
    embedding's table, for the transitions. It is what `build_model` makes of a causal family with one decoder layer,
    normalised before each sub-layer, and is trained as such.

    Args:
        vocab: number of word ids.
        d_model: numbers per word.
        num_heads: masks at once.
        d_ff: features.
        dropout: in training.
    """
    embedding = InputEmbedding(TokenEmbedding(vocab, d_model, PAD), SinusoidalPositions(d_model), dropout)
    attention = MultiHeadAttention(d_model, num_heads)
    layer = DecoderLayer(attention, FeedForward(d_model, d_ff), lambda: PreNorm(d_model, dropout))
    generator = Generator(d_model, vocab, tied=embedding.tokens)
    return CausalLM(embedding, Decoder([layer], nn.LayerNorm(d_model)), generator, PAD)
