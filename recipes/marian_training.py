"""Trains MarianMT of Hugging Face transformers on ids, in a hand loop, for so many seconds; then translates.

    python marian_training.py FOLDER

`FOLDER/task.json` says everything; `beside_marian.py` writes it. Runs in the environment of the peers: imports nothing
of the toolkit. SIGTERM saves where it stands, and the same command goes on from there; seconds count only while it
trains. Writes the result last, to the file that the task names.

The recipe is that of transformers' own examples: AdamW with its defaults, a linear warm-up, then a linear fall to zero
at the end of the time, gradients clipped at 1, label smoothing 0.1. Batches are those of the toolkit, sorted by length
and bounded by tokens, which wastes less padding than the Trainer's. The weights that did best on the dev set's loss of
those measured are kept, and measuring them takes none of the time.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import GenerationConfig, MarianConfig, MarianMTModel

PAD, BOS, EOS = 0, 2, 3
Rows = list[list[int]]


def make_model(task: dict[str, Any]) -> Any:
    """Of the toolkit's sizes; two vocabularies unless they are one; defaults elsewhere."""
    sizes, joint = task["model"], task["model"]["tie_embeddings"] == "all"
    return MarianMTModel(
        MarianConfig(
            vocab_size=sizes["source_vocab"], decoder_vocab_size=sizes["target_vocab"], d_model=sizes["d_model"],
            share_encoder_decoder_embeddings=joint, activation_function="relu", scale_embedding=True,
            encoder_layers=sizes["num_encoder_layers"], decoder_layers=sizes["num_decoder_layers"],
            encoder_attention_heads=sizes["num_heads"], decoder_attention_heads=sizes["num_heads"],
            encoder_ffn_dim=sizes["d_ff"], decoder_ffn_dim=sizes["d_ff"], dropout=task["dropout"],
            max_position_embeddings=512, pad_token_id=PAD, eos_token_id=EOS, bos_token_id=BOS,
            decoder_start_token_id=BOS, forced_eos_token_id=None,
        )
    )  # fmt: skip


def padded(rows: Rows) -> Tensor:
    """Rows of ids as one rectangle."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def sums(model: Any, sources: Rows, targets: Rows, smoothing: float) -> tuple[Tensor, int]:
    """Loss over a batch and its number of labels."""
    source, target = padded([[*ids, EOS] for ids in sources]), padded([[BOS, *ids, EOS] for ids in targets])
    mask = (source != PAD).long()
    inputs = {"input_ids": source, "attention_mask": mask, "decoder_input_ids": target[:, :-1]}
    logits, labels = model(**inputs, use_cache=False).logits, target[:, 1:]
    loss = nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    return loss, int((labels != PAD).sum())


class Training:
    """One training with one peak rate, and where it stands."""

    def __init__(self, folder: Path, task: dict[str, Any]) -> None:
        self.file, self.task = folder / "state.safetensors", task
        torch.manual_seed(task["seed"])
        self.model = make_model(task)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=task["rate"], weight_decay=0.0, fused=True)
        self.seconds, self.updates, self.measured, self.best = 0.0, 0, 0, math.inf
        self.kept = self.model.state_dict()
        if self.file.exists():
            self.load()

    def save(self) -> None:
        """Everything `load` needs, in one file."""
        where = [self.seconds, self.updates, self.measured, self.best]
        states = {"model": self.model.state_dict(), "kept": self.kept}
        states |= {f"moments {number}": one for number, one in self.optimizer.state_dict()["state"].items()}
        tensors = {f"{part}/{name}": one.clone() for part, state in states.items() for name, one in state.items()}
        temporary = self.file.with_suffix(".part")
        save_file(tensors, temporary, metadata={"where": json.dumps(where)})
        temporary.replace(self.file)

    def load(self) -> None:
        """Go on from what was saved."""
        states: dict[str, dict[str, Tensor]] = {}
        with safe_open(self.file, "pt") as file:
            self.seconds, self.updates, self.measured, self.best = json.loads(file.metadata()["where"])
            for key in file.keys():  # noqa: SIM118 (it is no dictionary)
                part, name = key.split("/")
                states.setdefault(part, {})[name] = file.get_tensor(key)
        self.model.load_state_dict(states.pop("model"))
        self.kept = states.pop("kept")
        moments = {int(part.split()[1]): state for part, state in states.items()}
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})

    def run(self, stop: list[int]) -> None:
        """Until the time is over, or a signal came."""
        task, budget = self.task, self.task["seconds"]
        self.model.train()
        while self.seconds < budget and not stop:
            began = time.perf_counter()
            rows = task["batches"][self.updates % len(task["batches"])]
            self.update([task["train"][0][row] for row in rows], [task["train"][1][row] for row in rows])
            self.seconds += time.perf_counter() - began
            if self.seconds >= (self.measured + 1) * budget / task["measurements"]:
                self.measure()
                self.save()
        self.save()

    def update(self, sources: Rows, targets: Rows) -> None:
        """Forward, backward, clipped, Adam, at the rate of this moment."""
        share, warm = self.seconds / self.task["seconds"], self.task["warm_up"]
        for group in self.optimizer.param_groups:
            group["lr"] = self.task["rate"] * (share / warm if share < warm else (1 - share) / (1 - warm))
        loss, count = sums(self.model, sources, targets, self.task["smoothing"])
        self.optimizer.zero_grad()
        (loss / count).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.updates += 1

    @torch.no_grad()
    def measure(self) -> None:
        """Loss of the dev set; the best weights are kept."""
        self.model.eval()
        parts = [sums(self.model, *batch, 0.0) for batch in batches_of(*self.task["dev"])]
        loss = sum(float(one) for one, _ in parts) / sum(count for _, count in parts)
        self.measured += 1
        print(f"{self.seconds:.0f} s, {self.updates} updates, dev loss {loss:.3f}", file=sys.stderr, flush=True)
        if loss < self.best:
            self.best, self.kept = loss, {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.train()

    @torch.inference_mode()
    def translate(self, sources: Rows, beam_size: int) -> Rows:
        """With the weights kept, and transformers' own search."""
        self.model.load_state_dict(self.kept)
        self.model.eval()
        options = GenerationConfig(
            num_beams=beam_size, max_new_tokens=100, do_sample=False, pad_token_id=PAD, eos_token_id=EOS,
            decoder_start_token_id=BOS, bos_token_id=BOS,
        )  # fmt: skip
        order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
        found: Rows = [[] for _ in sources]
        for start in range(0, len(order), 32):
            rows = order[start : start + 32]
            batch = padded([[*sources[row], EOS] for row in rows])
            outputs = self.model.generate(batch, options, attention_mask=(batch != PAD).long()).tolist()
            for row, ids in zip(rows, outputs, strict=True):
                found[row] = [one for one in ids if one not in (PAD, BOS, EOS)]
        return found


def batches_of(sources: Rows, targets: Rows, size: int = 64) -> list[tuple[Rows, Rows]]:
    """Pairs of like length together."""
    order = sorted(range(len(sources)), key=lambda row: len(targets[row]))
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    return [([sources[row] for row in part], [targets[row] for row in part]) for part in parts]


def main() -> None:
    """Train, translate, write the result."""
    folder = Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    torch.set_num_threads(task["threads"])
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
    training = Training(folder, task)
    training.run(stop)
    if stop:
        raise SystemExit(128 + stop[0])
    result = {
        "seconds": training.seconds, "updates": training.updates, "dev_loss": training.best,
        "parameters": sum(one.numel() for one in training.model.parameters() if one.requires_grad),
        "outputs": training.translate(task["sources"], task["beam_size"]),
    }  # fmt: skip
    (folder / task["result"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
