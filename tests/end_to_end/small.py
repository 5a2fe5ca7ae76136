"""Models with random weights, small enough for every test, in memory and as directories."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import torch

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.engines import ModuleEngine
from dragoman.language import Completer
from dragoman.models import Languages, build_model, save_pretrained
from dragoman.nn import CausalLM, Transformer
from dragoman.text import SentencePieceTokenizer, TokenizerPair, Vocabulary
from dragoman.text.tokenizer import SPECIALS, special_tokens
from dragoman.translation import Translator

WORDS = ("ba", "ce", "di", "fo", "gu", "ha", "ki", "lo", "mu", "ne", "pa", "ri")


@cache
def word_pair(*words: str) -> TokenizerPair:
    """One vocabulary for both sides: these words, or `WORDS`."""
    vocabulary = Vocabulary("word", [*SPECIALS, *(words or WORDS)])
    return TokenizerPair(vocabulary, vocabulary)


@cache
def byte_pair() -> TokenizerPair:
    """Subwords: `WORDS`, blanks, and every byte, so that any text has ids and any ids have a text."""
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=6)) for _ in range(50)]
    tokenizer = SentencePieceTokenizer.train("bpe", lines, vocab_size=300)
    return TokenizerPair(tokenizer, tokenizer)


def shape(tokenizers: TokenizerPair, family: str = "transformer", **sizes: object) -> ModelConfig:
    """2 + 2 layers of width 16 unless `sizes` says otherwise."""
    usual = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 2, "num_decoder_layers": 2}
    vocabularies = {"source_vocab": tokenizers.source_vocab, "target_vocab": len(tokenizers.target)}
    usual |= {"dropout": 0.1, "tie_embeddings": "none", "generator_bias": True}
    return ModelConfig.from_dict({"family": family, **vocabularies, **usual, **sizes})


def model(config: ModelConfig, seed: int = 1) -> Transformer | CausalLM:
    """Float64, in evaluation mode, made more decided than chance would: different sources get different outputs."""
    torch.manual_seed(seed)
    made = build_model(config)
    assert isinstance(made, (Transformer, CausalLM))
    with torch.no_grad():
        made.generator.weight.mul_(2.5)
        for name, parameter in made.named_parameters():
            if "attention" in name and "residual" not in name:
                parameter.mul_(2.5)
    return made.double().eval()


def translator(tokenizers: TokenizerPair, seed: int = 1, members: int = 1, **sizes: object) -> Translator:
    """A translator over one random model, or over several different ones."""
    models = [model(shape(tokenizers, **sizes), seed + member) for member in range(members)]
    assert all(isinstance(one, Transformer) for one in models)
    return Translator([one for one in models if isinstance(one, Transformer)], tokenizers, DecodingConfig(max_length=8))


def completer(tokenizers: TokenizerPair, seed: int = 1) -> Completer:
    """A completer over a random decoder-only model."""
    made = model(shape(tokenizers, "causal"), seed)
    assert isinstance(made, CausalLM)
    return Completer(ModuleEngine(made), tokenizers.target, DecodingConfig(max_length=12))


def save(
    folder: Path,
    made: Transformer | CausalLM,
    config: ModelConfig,
    tokenizers: TokenizerPair,
    decoding: DecodingConfig | None = None,
) -> Path:
    """A model directory."""
    save_pretrained(folder, made, config, decoding, Languages(source="xx", target="yy"))
    tokenizers.save(folder)
    return folder


def saved(folder: Path, tokenizers: TokenizerPair, family: str = "transformer", seed: int = 1) -> Path:
    """A directory with a random model and short outputs by default."""
    config = shape(tokenizers, family)
    return save(folder, model(config, seed), config, tokenizers, DecodingConfig(max_length=8))


def masked(folder: Path, seed: int = 1) -> Path:
    """A directory with a random masked model."""
    vocabulary = Vocabulary("word", [*special_tokens(mask=True), *WORDS])
    tokenizers = TokenizerPair(vocabulary, vocabulary)
    config = shape(tokenizers, "masked")
    torch.manual_seed(seed)
    save_pretrained(folder, build_model(config), config)
    tokenizers.save(folder)
    return folder


def sentences(count: int, seed: int = 0, longest: int = 12) -> list[str]:
    """Lines of `WORDS` of any length from 1 to `longest`."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]
