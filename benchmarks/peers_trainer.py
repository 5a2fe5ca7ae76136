"""Training with Hugging Face's Trainer as its users write it: its default batches, order, optimiser and settings.

`peers_trainer.py SOURCE TARGET SIZES SECONDS FOLDER THREADS` prints the target tokens seen a second, the first update
left out.
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
from peers_marian import EOS, PAD, make_config
from torch import Tensor
from transformers import MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

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

    def __init__(self) -> None:
        self.tokens: list[int] = []

    def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        source, labels = (
            _padded([row[name] for row in rows], pad) for name, pad in (("source", PAD), ("labels", IGNORED))
        )
        self.tokens.append(int((labels != IGNORED).sum()))
        return {"input_ids": source, "attention_mask": (source != PAD).long(), "labels": labels}


class Clock(TrainerCallback):
    """Ends training after so many seconds; remembers when each update ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.ends = seconds, []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.ends.append(time.perf_counter())
        control.should_training_stop = self.ends[-1] - self.ends[0] > self.seconds


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
    collator, clock = Collator(), Clock(float(seconds))
    settings = Seq2SeqTrainingArguments(
        folder, max_steps=10**6, report_to="none", use_cpu=True, save_strategy="no", remove_unused_columns=False,
        disable_tqdm=True,
    )  # fmt: skip
    model = MarianMTModel(make_config(config, dropout=0.1))
    trainer = Seq2SeqTrainer(model, settings, train_dataset=rows, data_collator=collator, callbacks=[clock])
    trainer.train()
    done = len(clock.ends)
    rate = sum(collator.tokens[1:done]) / (clock.ends[-1] - clock.ends[0])
    print(json.dumps({"target_tokens_per_second": rate, "updates": done, "rows_per_batch": settings.train_batch_size}))


if __name__ == "__main__":
    main()
