"""Training with Hugging Face's Trainer as its users write it: its default batches, order, optimiser and settings.

`peers_trainer.py SOURCE TARGET SIZES SECONDS FOLDER THREADS` prints the target tokens seen a second and the
operations that they take, the first update left out.
"""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from peers_limits import Sizes
from peers_marian import EOS, PAD, make_config
from torch import Tensor
from torch.nn import Module
from transformers import MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments

IGNORED = -100


def tokenizer(files: list[str], vocab: int) -> Any:
    """One vocabulary for both sides, learned from the files."""
    model = io.BytesIO()
    lines = (line for file in files for line in Path(file).read_text(encoding="utf-8").splitlines())
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=model, model_type="bpe", vocab_size=vocab, pad_id=0, unk_id=1, bos_id=2,
        eos_id=3, hard_vocab_limit=False, minloglevel=2, byte_fallback=True,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


class Collator:
    """Pads a batch to its longest sides, and counts what goes into it."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.tokens: list[int] = []
        self.operations: list[int] = []

    def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        source, labels = (
            _padded([row[name] for row in rows], pad) for name, pad in (("source", PAD), ("labels", IGNORED))
        )
        self.tokens.append(int((labels != IGNORED).sum()))
        self.operations.append(self.sizes.update(*([len(row[name]) for row in rows] for name in ("source", "labels"))))
        return {"input_ids": source, "attention_mask": (source != PAD).long(), "labels": labels}


def stop_after(trainer: Seq2SeqTrainer, seconds: float) -> list[float]:
    """Let training end after so many seconds; the times at which updates begin, filled in as they do."""
    begins: list[float] = []
    step = trainer.training_step

    def timed(model: Module, inputs: dict[str, Any], num_items_in_batch: Tensor | int | None = None) -> Tensor:
        begins.append(time.perf_counter())
        trainer.control.should_training_stop = begins[-1] - begins[0] > seconds
        return step(model, inputs, num_items_in_batch)

    trainer.training_step = timed
    return begins


def _padded(rows: list[list[int]], pad: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])


def main() -> None:
    source, target, sizes, seconds, folder, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    config = json.loads(sizes)
    processor = tokenizer([source, target], config["target_vocab"])
    sides = [processor.encode(Path(file).read_text(encoding="utf-8").splitlines()) for file in (source, target)]
    rows = [{"source": [*one, EOS], "labels": [*other, EOS]} for one, other in zip(*sides, strict=True)]
    collator = Collator(Sizes.of(config))
    settings = Seq2SeqTrainingArguments(
        folder, max_steps=10**6, report_to="none", use_cpu=True, save_strategy="no", remove_unused_columns=False,
        disable_tqdm=True,
    )  # fmt: skip
    model = MarianMTModel(make_config(config, dropout=0.1))
    trainer = Seq2SeqTrainer(model, settings, train_dataset=rows, data_collator=collator)
    begins = stop_after(trainer, float(seconds))
    trainer.train()
    seen, took = slice(1, len(begins) - 1), begins[-1] - begins[1]
    tokens, operations = (sum(counts[seen]) / took for counts in (collator.tokens, collator.operations))
    found = {"target_tokens_per_second": tokens, "operations_per_second": operations}
    print(json.dumps({**found, "updates": len(begins), "rows_per_batch": settings.train_batch_size}))


if __name__ == "__main__":
    main()
