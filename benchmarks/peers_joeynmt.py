"""Training with JoeyNMT as its users write it: a configuration, its data loader, its loop.

`peers_joeynmt.py SOURCE TARGET SIZES SECONDS FOLDER THREADS` prints the target tokens seen a second and the
operations that they take, the first update left out. A batch is 4,096 tokens, as in the configurations for Transformers
that it is published with; the rest is its defaults.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from joeynmt import training  # pyrefly: ignore[missing-import]
from peers_limits import Sizes
from peers_trainer import tokenizer

BATCH_TOKENS = 4096
FOREVER = 10**6


def configuration(folder: Path, sides: tuple[Path, Path], sizes: dict[str, Any]) -> dict[str, Any]:
    """What its users write in YAML."""
    cut: dict[str, Any] = {
        "level": "bpe",
        "tokenizer_type": "sentencepiece",
        "voc_file": str(folder / "vocabulary.txt"),
    }
    cut["tokenizer_cfg"] = {"model_file": str(folder / "pieces.model"), "pretokenizer": "none"}
    shared = {
        "type": "transformer", "num_heads": sizes["num_heads"], "hidden_size": sizes["d_model"],
        "ff_size": sizes["d_ff"], "dropout": 0.1, "embeddings": {"embedding_dim": sizes["d_model"], "scale": True},
    }  # fmt: skip
    # It finds the two files by the languages at the ends of their names.
    names = {name: str(folder / name) for name in ("train", "dev")}
    layers = {side: {**shared, "num_layers": sizes[f"num_{side}_layers"]} for side in ("encoder", "decoder")}
    for side, path in zip(("xx", "yy"), sides, strict=True):
        lines = path.read_text(encoding="utf-8").splitlines()
        (folder / f"train.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / f"dev.{side}").write_text("\n".join(lines[:10]) + "\n", encoding="utf-8")
    return {
        "name": "run", "model_dir": str(folder / "run"), "use_cuda": False,
        "data": {**names, "src": {"lang": "xx", **cut}, "trg": {"lang": "yy", **cut}},
        "testing": {},
        "training": {
            "batch_size": BATCH_TOKENS, "batch_type": "token", "epochs": FOREVER, "validation_freq": FOREVER,
            "scheduling": "warmupinversesquareroot",
        },
        "model": {"tied_embeddings": True, "tied_softmax": True, **layers},
    }  # fmt: skip


def main() -> None:
    source, target, sizes, seconds, folder, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    config, where = json.loads(sizes), Path(folder)
    (where / "run").mkdir()
    pieces = tokenizer([source, target], config["target_vocab"])
    (where / "pieces.model").write_bytes(pieces.serialized_model_proto())
    entries = [pieces.id_to_piece(index) for index in range(4, len(pieces))]
    (where / "vocabulary.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")
    ends, tokens, operations, step = [], [], [], training.TrainManager._train_step

    def timed(self: Any, batch: Any) -> Any:
        """A batch begins where the update before it has ended."""
        ends.append(time.perf_counter())
        if ends[-1] - ends[min(1, len(ends) - 1)] > float(seconds):
            raise KeyboardInterrupt  # as its users stop it
        tokens.append(int(batch.ntokens))
        lengths = (mask.sum(-1).flatten().tolist() for mask in (batch.src_mask, batch.trg_mask))
        operations.append(Sizes.of(config).update(*lengths))
        return step(self, batch)

    training.TrainManager._train_step = timed
    # Newer SentencePiece has no such method; it would leave out pieces that the vocabulary lacks, and here none are.
    sentencepiece.SentencePieceProcessor.SetVocabulary = lambda self, entries: True
    settings = configuration(where, (Path(source), Path(target)), config)
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(KeyboardInterrupt):
        training.train(0, 1, settings, skip_test=True)
    rate, work = (sum(counts[1:]) / (ends[-1] - ends[1]) for counts in (tokens, operations))
    print(json.dumps({"target_tokens_per_second": rate, "operations_per_second": work, "updates": len(tokens)}))


if __name__ == "__main__":
    main()
