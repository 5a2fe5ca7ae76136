"""A file translated with CTranslate2, as its users write it: SentencePiece, all lines in one call, SentencePiece.

`peers_ctranslate2_file.py CONVERTED MODEL COMPUTE_TYPE WORKERS THREADS BEAM_SIZE` reads standard input and writes
standard output.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import ctranslate2  # pyrefly: ignore[missing-import]
import sentencepiece

BATCH = 32


def load_tokenizers(directory: Any) -> list[Any]:
    """SentencePiece models of the source and of the target."""
    joint = os.path.join(directory, "tokenizer.model")
    sides = [os.path.join(directory, f"tokenizer.{side}.model") for side in ("source", "target")]
    files = [joint, joint] if os.path.exists(joint) else sides
    return [sentencepiece.SentencePieceProcessor(model_file=file) for file in files]


def open_model(converted: str, directory: Any, compute_type: str, workers: int, threads: int) -> tuple[Any, list[Any]]:
    """The model and its tokenizers."""
    options = {"compute_type": compute_type, "inter_threads": workers, "intra_threads": threads}
    return ctranslate2.Translator(converted, device="cpu", **options), load_tokenizers(directory)


def translate(model: Any, tokenizers: list[Any], texts: list[str], beam_size: int) -> list[str]:
    """In batches of 32 of like length, as its own `translate_file` makes them, all handed over at once.

    An output has 50 tokens more than a source at most. CTranslate2 takes one such limit for a call: each batch has that
    of its longest line.
    """
    source, target = tokenizers
    tokens = [[*pieces, "</s>"] for pieces in source.encode(texts, out_type=str)]
    options = {"beam_size": beam_size, "max_input_length": 0, "asynchronous": True}
    order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]), reverse=True)
    waiting: list[tuple[int, Any]] = []
    for first in range(0, len(order), BATCH):
        rows = order[first : first + BATCH]
        longest = len(tokens[rows[0]]) + 49
        found = model.translate_batch([tokens[row] for row in rows], max_decoding_length=longest, **options)
        waiting += zip(rows, found, strict=True)
    outputs = [""] * len(texts)
    for row, one in waiting:
        outputs[row] = target.decode(one.result().hypotheses[0])
    return outputs


def main() -> None:
    converted, directory, compute_type, workers, threads, beam_size = sys.argv[1:]
    model, tokenizers = open_model(converted, directory, compute_type, int(workers), int(threads))
    texts = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").split("\n")
    for line in translate(model, tokenizers, texts, int(beam_size)):
        sys.stdout.buffer.write(line.encode("utf-8") + b"\n")


if __name__ == "__main__":
    main()
