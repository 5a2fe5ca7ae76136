"""Directories of Marian, made at random: its archive, its settings inside, a SentencePiece model as vocabulary."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from oracle.marian_directory import texts

SETTINGS = """\
type: transformer
dim-emb: {d_model}
dim-vocabs:
  - {vocab}
  - {vocab}
enc-depth: {layers}
dec-depth: {layers}
transformer-heads: {heads}
transformer-dim-ffn: {d_ff}
transformer-ffn-depth: 2
transformer-ffn-activation: {activation}
transformer-preprocess: ""
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-decoder-autoreg: self-attention
transformer-train-position-embeddings: false
transformer-no-projection: false
transformer-tied-layers: []
transformer-dim-aan: 2048
lemma-dim-emb: 0
tied-embeddings: false
tied-embeddings-all: true
tied-embeddings-src: false
layer-normalization: false
skip: false
right-left: false
version: v1.12.42 0000000 2024-01-01 00:00:00 +0000
"""


def make_native(
    folder: Path, seed: int = 0, *, d_model: int = 16, layers: int = 2, heads: int = 2, d_ff: int = 24,
    activation: str = "swish", changes: dict[str, str] | None = None,
) -> None:  # fmt: skip
    """Write a random model of Marian into a new folder."""
    import sentencepiece

    folder.mkdir()
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts(400, seed)), model_writer=model, vocab_size=60, hard_vocab_limit=False,
        bos_id=-1, pad_id=-1, eos_id=0, unk_id=1, num_threads=1, minloglevel=2,
    )  # fmt: skip
    (folder / "vocab.spm").write_bytes(model.getvalue())
    vocab = len(sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()))
    draw = np.random.default_rng(seed)
    random = lambda *shape: draw.normal(0, 0.35, shape).astype(np.float32)  # noqa: E731
    arrays: dict[str, Any] = {"Wemb": random(vocab, d_model), "decoder_ff_logit_out_b": random(1, vocab)}
    for stack, kinds in (("encoder", ("self",)), ("decoder", ("self", "context"))):
        for layer in range(1, layers + 1):
            start = f"{stack}_l{layer}_"
            for kind in kinds:
                for one in "qkvo":
                    arrays[f"{start}{kind}_W{one}"] = random(d_model, d_model)
                    arrays[f"{start}{kind}_b{one}"] = random(1, d_model)
                arrays[f"{start}{kind}_Wo_ln_scale"] = 1 + random(1, d_model)
                arrays[f"{start}{kind}_Wo_ln_bias"] = random(1, d_model)
            arrays[f"{start}ffn_W1"], arrays[f"{start}ffn_b1"] = random(d_model, d_ff), random(1, d_ff)
            arrays[f"{start}ffn_W2"], arrays[f"{start}ffn_b2"] = random(d_ff, d_model), random(1, d_model)
            arrays[f"{start}ffn_ffn_ln_scale"] = 1 + random(1, d_model)
            arrays[f"{start}ffn_ffn_ln_bias"] = random(1, d_model)
    text = SETTINGS.format(d_model=d_model, vocab=vocab, layers=layers, heads=heads, d_ff=d_ff, activation=activation)
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    arrays["special:model.yml"] = np.frombuffer(text.encode() + b"\0", dtype=np.int8)
    np.savez(folder / "model.npz", **arrays)
