"""Cleaning large corpora: processor time of a pair, the most memory, and room on the disk, by the number of pairs.

`python benchmarks/bench_cleaning.py 0.2 1` (million pairs). Pairs are drawn: 8 to 15 words of 30,000 on each side; of
five pairs one is like the one before it but for a word. Cleaned by one process, without comparing words and with it,
and by two workers. Each cleaning is a process of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
from rows import print_row, settle

from dragoman.cleaning import clean
from dragoman.config.cleaning import CleaningConfig
from dragoman.text import ParallelCorpus

WORDS = 30_000
WAYS = {"one": (1.0, 1), "one, near_similarity 0.8": (0.8, 1), "two workers": (1.0, 2)}


def write_corpus(folder: Path, pairs: int) -> None:
    """Lines of random words; word n of one side goes with word n of the other."""
    random = np.random.default_rng(1)
    words = ["".join(random.choice(list("abcdefghiklmnoprstuvw"), count)) for count in random.integers(2, 9, WORDS)]
    with (folder / "source.txt").open("w") as source, (folder / "target.txt").open("w") as target:
        drawn = np.zeros(8, np.int64)
        for number in range(pairs):
            if number % 5 == 1:
                drawn[3] = random.integers(WORDS)
            else:
                drawn = random.integers(0, WORDS, random.integers(8, 16))
            source.write(" ".join(words[one] for one in drawn) + "\n")
            target.write(" ".join(words[one - 7] + "en" for one in drawn) + "\n")


class Watch(threading.Thread):
    """Looks now and then how much memory is the process's own, and how much lies in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.own, self.disk, self.over = folder, 0, 0, threading.Event()

    def run(self) -> None:
        """Look until it is over."""
        while not self.over.wait(0.5):
            status = Path("/proc/self/status").read_text()
            self.own = max(self.own, int(status.partition("RssAnon:")[2].split()[0]) // 1024)
            try:
                found = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
            except OSError:  # gone meanwhile
                continue
            self.disk = max(self.disk, found)


def clean_it(folder: Path, way: str) -> None:
    """Clean what lies in a folder, and print what it took."""
    similarity, workers = WAYS[way]
    watch = Watch(folder / ".unfinished-out")
    watch.start()
    corpus = ParallelCorpus.from_files([folder / "source.txt"], [folder / "target.txt"])
    found = clean(corpus, folder / "out", settings=CleaningConfig(near_similarity=similarity), workers=workers)
    watch.over.set()
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        json.dumps(
            {
                "microseconds_a_pair": (own.ru_utime + own.ru_stime) / found.read * 1e6,
                "of_workers": (others.ru_utime + others.ru_stime) / found.read * 1e6,
                "peak_mib": own.ru_maxrss / 1024,
                "own_mib": watch.own,
                "disk_bytes_a_pair": watch.disk / found.read,
                "kept": found.kept,
            }
        )
    )


def main() -> None:
    """Measure each number of pairs that is named, in millions."""
    if len(sys.argv) == 3 and sys.argv[2] in WAYS:
        clean_it(Path(sys.argv[1]), sys.argv[2])
        return
    settle()
    for pairs in (int(float(one) * 1e6) for one in sys.argv[1:] or ["0.2"]):
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                write_corpus(Path(folder), pairs)
                command = [sys.executable, __file__, folder, way]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
            print_row("cleaning", {"pairs": pairs, "way": way, **json.loads(done.stdout.splitlines()[-1])})


if __name__ == "__main__":
    main()
