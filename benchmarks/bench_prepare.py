"""Preparing large corpora: pairs a second and the most memory, by the number of pairs; and how soon training starts.

`python benchmarks/bench_prepare.py 0.1 1 5` (million pairs; 20 takes half an hour and 6 GB). Pairs are drawn: two to
four phrases of three words out of 200,000 on each side, with `--short` one: many pairs in little time, to see that the
memory is the same. Each preparation is a process of its own.

`--sockeye PYTHON`, the interpreter of an environment that has Sockeye (`make bench-peers` makes `.venv-peers`), adds
the preparation of the same pairs by Sockeye: it reads pieces, so SentencePiece writes them first, which is told apart.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from rows import print_row, settle

from dragoman.events import Advanced, Event

VOCAB, BLOCK = 32_000, 100_000
SYLLABLES = ["".join(two) for two in zip("bdfghjklmnprstvz" * 6, "aeiouy" * 16, strict=True)]


def phrases(random: np.random.Generator, most: int = 200_000) -> list[str]:
    """Three words each, of 50,000 words, some of them much more frequent than others."""
    syllables = [random.choice(SYLLABLES, count) for count in random.integers(1, 5, 50_000)]
    words = np.array(["".join(one) for one in syllables])
    drawn = words[np.minimum(random.zipf(1.3, (most, 3)), len(words)) - 1]
    return [" ".join(row) for row in drawn]


def write_corpus(folder: Path, pairs: int, *, short: bool) -> None:
    """Lines of some 50 characters a side, short ones of 15; phrase n of one side goes with phrase n of the other."""
    random = np.random.default_rng(1)
    sides = [phrases(random), phrases(random)]
    with (folder / "source.txt").open("w") as source, (folder / "target.txt").open("w") as target:
        for start in range(0, pairs, BLOCK):
            count = min(BLOCK, pairs - start)
            lengths = random.integers(1, 2, count) if short else random.integers(2, 5, count)
            drawn = random.integers(0, len(sides[0]), int(lengths.sum())).tolist()
            ends = np.cumsum(lengths).tolist()
            for file, texts in zip((source, target), sides, strict=True):
                begins = [0, *ends]
                lines = (" ".join([texts[i] for i in drawn[a:b]]) for a, b in zip(begins, ends, strict=False))
                file.write("\n".join(lines) + "\n")


def in_process(*arguments: str) -> dict[str, float]:
    """Run this file on some work in a process of its own; return what it measured."""
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def prepare_it(folder: Path) -> None:
    """Prepare what lies in a folder, and print what it took; the tokenizer is trained by the way."""
    from dragoman.config import make_config
    from dragoman.data import prepare

    begun, told = time.perf_counter(), list[tuple[float, float, str]]()
    tree = {"source": [str(folder / "source.txt")], "target": [str(folder / "target.txt")]}
    config = make_config({"out": str(folder / "run"), "data": tree, "tokenizer": {"vocab_size": VOCAB, "kind": "bpe"}})

    def tell(line: str) -> None:
        told.append((time.perf_counter() - begun, time.process_time(), line))

    prepare(config, folder / "data", report=tell)
    wall = time.perf_counter() - begun
    trained, cpu = next(times for *times, line in told if line.startswith("tokenizer"))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "wall_seconds": wall,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
    }
    print(json.dumps({**found, "until_tokenizer": trained, "processor_until_tokenizer": cpu}))


def start_training(folder: Path) -> None:
    """Train a tiny model on the prepared data; print how long it took to the first update, and the memory."""
    begun = time.perf_counter(), time.process_time()
    from dragoman import StopTraining
    from dragoman.config import make_config
    from dragoman.training.run import train_config
    from dragoman.training.watching import Watch

    def first(event: Event) -> None:
        if isinstance(event, Advanced):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            took = time.perf_counter() - begun[0], time.process_time() - begun[1]
            print(json.dumps({"wall_seconds": took[0], "processor_seconds": took[1], "peak_mib": peak}), flush=True)
            raise StopTraining

    shape = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 1, "num_decoder_layers": 1}
    learning = {"max_steps": 100, "batch_tokens": 2048, "threads": 1, "log_every": 1}
    data = {"prepared": str(folder / "data")}
    config = make_config({"out": str(folder / "run"), "data": data, "model": shape, "training": learning})
    train_config(config, quiet=True, watch=Watch(first))


def tokenizer_alone(folder: Path) -> dict[str, float]:
    """How many pairs a second SentencePiece itself makes ids of, given all texts at once."""
    from sentencepiece import SentencePieceProcessor

    models = sorted((folder / "data").glob("tokenizer*.model"))
    processors = [SentencePieceProcessor(model_file=str(models[place])) for place in (0, -1)]
    texts = []
    for side in ("source", "target"):
        with (folder / f"{side}.txt").open() as file:
            texts.append([line.rstrip("\n").encode() for _, line in zip(range(100_000), file, strict=False)])
    found = {}
    for threads in (1, 2):
        wall, used = time.perf_counter(), time.process_time()
        for processor, side in zip(processors, texts, strict=True):
            processor.encode(side, num_threads=threads)
        found[f"pairs_per_second_{threads}"] = len(texts[0]) / (time.perf_counter() - wall)
        found[f"pairs_per_processor_second_{threads}"] = len(texts[0]) / (time.process_time() - used)
    return found


def by_sockeye(folder: Path, python: str) -> dict[str, float]:
    """What it takes Sockeye to prepare the same pairs, and SentencePiece to write the pieces that it reads."""
    from sentencepiece import SentencePieceProcessor

    models = sorted((folder / "data").glob("tokenizer*.model"))
    began = time.process_time()
    for side, place in (("source", 0), ("target", -1)):
        processor = SentencePieceProcessor(model_file=str(models[place]))
        with (folder / f"{side}.txt").open() as file, (folder / f"{side}.pieces").open("w") as pieces:
            while lines := [line.rstrip("\n") for line in islice(file, BLOCK)]:
                rows = processor.encode(lines, out_type=str, num_threads=1)
                pieces.writelines(" ".join(row) + "\n" for row in rows)
    found = {"processor_seconds_of_pieces": time.process_time() - began}
    command = [python, "-m", "sockeye.prepare_data", "--output", str(folder / "sockeye"), "--num-words", str(VOCAB)]
    files = [word for side in ("source", "target") for word in (f"--{side}", str(folder / f"{side}.pieces"))]
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, *files], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**found, "wall_seconds": time.perf_counter() - wall, "processor_seconds": used}


def main(arguments: Sequence[str]) -> None:
    settle()
    millions, python = list(arguments), None
    if "--sockeye" in millions:
        place = millions.index("--sockeye")
        _, python = millions[place : place + 2]
        del millions[place : place + 2]
    short = "--short" in millions
    for one in [one for one in millions if one != "--short"] or ("0.1", "1"):
        pairs = round(float(one) * 1e6)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_corpus(folder, pairs, short=short)
            took = in_process("--prepare", name)
            rate = pairs / took["wall_seconds"], pairs / took["processor_seconds"]
            rates = {"pairs_per_second": rate[0], "pairs_per_processor_second": rate[1]}
            print_row("preparing", {"pairs": pairs, "short": short, "vocabulary": VOCAB, **took, **rates})
            print_row("SentencePiece alone", {"vocabulary": VOCAB, **tokenizer_alone(folder)})
            if python is not None:
                print_row("Sockeye's preparation", {"pairs": pairs, **by_sockeye(folder, python)})
            print_row("start of training", {"pairs": pairs, **in_process("--train", name)})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--prepare"]:
        prepare_it(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["--train"]:
        start_training(Path(sys.argv[2]))
    else:
        main(sys.argv[1:])
