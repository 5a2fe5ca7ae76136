"""Directories of M2M100 and NLLB, built at random by transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from oracle.marian_directory import pieces_of, sentencepiece_model

CODES = {"m2m": ("__en__", "__fr__", "__zh__"), "nllb": ("eng_Latn", "fra_Latn", "zho_Hans")}


def make_many(
    folder: Path, family: str, *, forced_end: bool = False, codes: Sequence[str] = (), kind: str = "unigram",
    banned: bool = True, sharp: float = 1.0, **changes: Any,
) -> tuple[Any, dict[str, int]]:  # fmt: skip
    """Save a random model with its tokenizer files; return it, and ids by token.

    Args:
        folder: to make.
        family: `m2m` or `nllb`.
        forced_end: whether outputs end at their limit.
        codes: the tokens of its languages; a few if empty.
        kind: of the SentencePiece model.
        banned: whether `<pad>` is out of every distribution.
        sharp: what matrices of the layers are multiplied by: outputs that do not repeat one token want more than 1.
        changes: of `M2M100Config`.
    """
    from transformers import GenerationConfig, M2M100Config, M2M100ForConditionalGeneration

    spm, codes = sentencepiece_model(3, 60, kind), codes or CODES[family]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(spm)]
    if family == "m2m":
        tokens = [*tokens[:30], *tokens[33:], "madeup"]  # some pieces are unknown there
    known = dict(zip(tokens, range(len(tokens)), strict=True))
    vocabulary = {**known, **{code: len(known) + number for number, code in enumerate(codes)}}
    torch.manual_seed(5)
    shape = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "init_std": 0.4,
             "max_position_embeddings": 200}  # fmt: skip
    config = M2M100Config(vocab_size=len(vocabulary) + 3, **{**shape, **changes})
    model = M2M100ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, one in model.named_parameters():
            if "layers" in name and one.ndim > 1:
                one.mul_(sharp)
            elif "layers" in name or "layer_norm" in name:
                one.add_(torch.randn_like(one), alpha=0.2)
    model.generation_config = GenerationConfig(
        max_length=15, num_beams=4, decoder_start_token_id=2, eos_token_id=2, pad_token_id=1, bos_token_id=0,
        forced_eos_token_id=2 if forced_end else None,
        **({"bad_words_ids": [[1]], "renormalize_logits": True} if banned else {}),
    )  # fmt: skip
    model.save_pretrained(folder)
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": list(codes)}))
    if family == "m2m":
        (folder / "vocab.json").write_text(json.dumps(known))
    return model, vocabulary
