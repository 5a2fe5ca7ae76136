"""Model directories with random weights, for exports to be compared with their peers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.models import build_model, save_pretrained
from dragoman.models.description import Languages, save_tokenizers
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.vocabulary import Vocabulary

TEXTS = [
    "the cat sits on the mat",
    "a dog and a cat run",
    "der Hund läuft schnell",
    "gute Nacht, Katze",
    "猫坐在垫子上",
]


@cache
def tokenizers(kind: str) -> TokenizerPair:
    """`joint`, `two` (SentencePiece of different sizes), or `listed` (characters, then words)."""
    one = SentencePieceTokenizer.train("bpe", TEXTS, vocab_size=320)
    if kind == "joint":
        return TokenizerPair(one, one)
    if kind == "two":
        return TokenizerPair(SentencePieceTokenizer.train("unigram", TEXTS, vocab_size=310), one)
    return TokenizerPair(Vocabulary.train("character", TEXTS), Vocabulary.train("word", TEXTS))


def make_directory(folder: Path, kind: str = "joint", seed: int = 1, **settings: Any) -> Path:
    """A directory with a model whose every weight is random, biases and norms too, sharp enough to have preferences."""
    pair = tokenizers(kind)
    shape: dict[str, Any] = {
        "d_model": 32, "num_heads": 4, "d_ff": 48, "num_encoder_layers": 2, "num_decoder_layers": 2,
        "source_vocab": len(pair.source), "target_vocab": len(pair.target), "matches": 0, "right_to_left": False,
        "tie_embeddings": "all" if pair.joint else "decoder", **settings,
    }  # fmt: skip
    config = ModelConfig(**shape)
    torch.manual_seed(seed)
    model = build_model(config).eval()
    with torch.no_grad():
        for name, one in model.named_parameters():
            if name.endswith("norm.weight"):
                one.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                one.normal_(0.0, 0.3)
            elif "tokens" not in name:
                one.mul_(1.5)
            else:
                one.normal_(0.0, 0.5)
    save_pretrained(folder, model, config, DecodingConfig(max_length_offset=10), Languages(source="de", target="en"))
    save_tokenizers(folder, pair)
    return folder
