"""Directories of MarianMT, built at random by transformers: the models that importers are tried with."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import torch

SYLLABLES = ("ka", "lo", "mi", "ne", "ru", "sa", "to", "vi", "wu", "be", "die", "schon", "eau", "é", "猫", "Ж")


def texts(count: int, seed: int = 0, longest: int = 12) -> list[str]:
    """Lines of words made of syllables."""
    draw = random.Random(seed)
    word = lambda: "".join(draw.choices(SYLLABLES, k=draw.randint(1, 3)))  # noqa: E731
    return [" ".join(word() for _ in range(draw.randint(1, longest))) for _ in range(count)]


def sentencepiece_model(seed: int, size: int = 60, kind: str = "unigram") -> bytes:
    """A small SentencePiece model."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts(400, seed)), model_writer=model, vocab_size=size, model_type=kind,
        hard_vocab_limit=False, num_threads=1, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """All but the special ones."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(len(processor)) if not (processor.is_control(i) or i == 0)]


def make_marian(folder: Path, seed: int = 0, **changes: Any) -> Any:
    """Save a random MarianMT with its tokenizer files, and return the model.

    Args:
        folder: to make.
        seed: of everything.
        changes: of `MarianConfig`; `separate`: two vocabularies; `half`: stored in float16; `tags`: multilingual;
            `generation`: settings of generation; `kind`: of the SentencePiece models.
    """
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    separate, half, tags = (changes.pop(name, False) for name in ("separate", "half", "tags"))
    generation, kind = changes.pop("generation", {}), changes.pop("kind", "unigram")
    draw = random.Random(seed)
    models = [sentencepiece_model(seed + side, 50 + 17 * side, kind) for side in (0, 1)]
    lists = [pieces_of(model) for model in models]
    if not separate:
        lists = [sorted({*lists[0], *lists[1]})] * 2
    vocabularies = []
    for pieces in lists if separate else lists[:1]:
        pieces = [*pieces, *([">>fra<<", ">>deu<<"] if tags else [])]
        draw.shuffle(pieces)
        pieces = pieces[: max(len(lists[0]) - 5, 4)] if separate else pieces[3:]  # some are unknown then
        if tags:
            pieces = list(dict.fromkeys([*pieces, ">>fra<<", ">>deu<<"]))
        vocabularies.append({token: number for number, token in enumerate(["</s>", "<unk>", *pieces])})
    size = max(map(len, vocabularies))
    for vocabulary in vocabularies:
        for number in range(len(vocabulary), size):
            vocabulary[f"filler{number}"] = number
        vocabulary["<pad>"] = size
    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=size + 1, pad_token_id=size, decoder_start_token_id=size, eos_token_id=0, bos_token_id=0,
        forced_eos_token_id=0, share_encoder_decoder_embeddings=not separate,
        **{"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
           "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "scale_embedding": True,
           "activation_function": "swish", "init_std": 0.3, "max_position_embeddings": 128, **changes},
    )  # fmt: skip
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "layer_norm.weight")):
                parameter.add_(torch.randn_like(parameter) * 0.3)
        model.final_logits_bias.add_(torch.randn_like(model.final_logits_bias))
        model.final_logits_bias[0, size] = 0.0
        model.final_logits_bias[0, 0] += 1.0
    if half:
        model = model.half()
    model.generation_config = GenerationConfig(
        bad_words_ids=[[size]], decoder_start_token_id=size, eos_token_id=0, pad_token_id=size, bos_token_id=0,
        **{"forced_eos_token_id": 0, "max_length": 20, "num_beams": 4, "renormalize_logits": True, **generation},
    )  # fmt: skip
    model.save_pretrained(folder)
    for side, one in zip(("source", "target"), models, strict=True):
        (folder / f"{side}.spm").write_bytes(one)
    (folder / "vocab.json").write_text(json.dumps(vocabularies[0]))
    if separate:
        (folder / "target_vocab.json").write_text(json.dumps(vocabularies[1]))
    settings = {"separate_vocabs": separate, "source_lang": "en", "target_lang": "fr"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    # Anew where it was stored narrow: the tables of positions would keep what they lost.
    return MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval() if half else model
