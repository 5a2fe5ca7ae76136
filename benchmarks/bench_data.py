"""The data path: text into tokens, tokens onto disk, an epoch planned, batches made; and how much is padding."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rows import print_row, print_rows, settle
from sentencepiece import SentencePieceProcessor
from workload import VOCAB, lengths, write_store

from dragoman.data import TokenStore, collate, plan_epoch
from dragoman.demo.grammar import generate, load_grammar
from dragoman.text import SentencePieceTokenizer, Vocabulary

BATCH_TOKENS = 2048


def bench_tokenizers(folder: Path) -> None:
    """Sentences into ids; SentencePiece alone, in one call for all, is the floor."""
    texts = [english for _, english in generate(load_grammar()).train]
    bpe = SentencePieceTokenizer.train("bpe", texts, vocab_size=1000)
    words = Vocabulary.train("word", texts)
    bpe.save(folder / "bpe.model")
    bare = SentencePieceProcessor(model_file=str(folder / "bpe.model"))
    characters = sum(map(len, texts))
    runs: dict[str, Callable[[], object]] = {
        "SentencePiece alone, BPE": lambda: bare.encode(texts, num_threads=1),
        "dragoman, BPE": lambda: [bpe.encode(text) for text in texts],
        "dragoman, words": lambda: [words.encode(text) for text in texts],
    }
    work = {"sentences": len(texts), "characters": characters}
    print_rows("tokenising", {"sentences": len(texts), "characters": characters}, runs, budget=6.0, work=work)


def bench_store(folder: Path) -> TokenStore:
    """Ids onto disk and, batch by batch, back."""
    store = write_store(folder / "store", 20_000)
    ids = [(store.source(i).tolist(), store.target(i).tolist()) for i in range(len(store))]

    def write() -> None:
        TokenStore.write(folder / "again", ids, vocabulary_size=VOCAB)
        shutil.rmtree(folder / "again")

    facts, work = {"pairs": len(store)}, {"pairs": len(store), "target_tokens": int(store.target_lengths.sum())}
    print_rows("token store", facts, {"write": write}, budget=4.0, work=work)
    batches = [update[0] for update in plan(store.source_lengths, store.target_lengths)]
    runs = {"collate": lambda: [collate(store, batch) for batch in batches]}
    print_rows("batching", {**facts, "batch_tokens": BATCH_TOKENS}, runs, budget=4.0, work=work)
    return store


def plan(source: np.ndarray, target: np.ndarray) -> list[list[np.ndarray]]:
    return plan_epoch(source, target, batch_tokens=BATCH_TOKENS, seed=1, epoch=0)


def bench_plan() -> None:
    """All batches of an epoch over a million pairs."""
    source, target = lengths(1_000_000)
    runs = {"plan_epoch": lambda: plan(source, target)}
    print_rows("planning", {"pairs": len(source)}, runs, budget=8.0, work={"pairs": len(source)})


def report_padding(store: TokenStore) -> None:
    """The share of positions that are padding, when batches are by length and when they are by chance."""
    source, target = store.source_lengths + 1, store.target_lengths + 1
    by_length = [update[0] for update in plan(store.source_lengths, store.target_lengths)]
    shuffled = np.random.default_rng(1).permutation(len(store))
    by_chance = np.array_split(shuffled, len(by_length))
    for what, batches in (("batches by chance", by_chance), ("batches by length", by_length)):
        shares = {}
        for side, real in (("source", source), ("target", target)):
            positions = sum(len(batch) * int(real[batch].max()) for batch in batches)
            shares[f"{side}_padding"] = 1 - float(real.sum()) / positions
        print_row("padding", {"what": what, "batches": len(batches), **shares})


def main() -> None:
    settle()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench_tokenizers(folder)
        report_padding(bench_store(folder))
        bench_plan()


if __name__ == "__main__":
    main()
