"""Models as the founding systems have them, with random weights."""

from __future__ import annotations

from dragoman.nn import Transformer
from dragoman.profiles import annotated, d2l, jadore, lsdefine, marian, torch_nn
from end_to_end import small

SYSTEMS = ("annotated", "d2l", "jadore", "lsdefine", "marian", "torch_nn")


def founding_system(system: str) -> Transformer:
    """One layer on each side, over the words of `small.word_pair`."""
    size = len(small.WORDS) + 4
    build = {
        "annotated": lambda: annotated.build(size, size, 1, 16, 32, 2, pad=0),
        "d2l": lambda: d2l.build(size, size, 16, 32, 2, 1),
        "jadore": lambda: jadore.build(size, size, 0, 0, 16, 16, 32, 1, 2, 8, 8),
        "lsdefine": lambda: lsdefine.build(size, size, 70, 16, 32, 2, 1),
        "marian": lambda: marian.build(
            vocab_size=size, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32,
            encoder_attention_heads=2, decoder_attention_heads=2, d_model=16, pad_token_id=0,
        ),
        "torch_nn": lambda: torch_nn.build(
            size, size, pad=0, d_model=16, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32
        ),
    }  # fmt: skip
    return build[system]().eval()
