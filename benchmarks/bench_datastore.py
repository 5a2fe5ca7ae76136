"""What looking up states costs a search: `bench_datastore.py [keys,...] [beam sizes,...]`."""

from __future__ import annotations

import sys
from functools import partial

import torch
from bench_engines import LENGTH, engines, varied
from rows import Run, print_rows, settle
from workload import TINY

from dragoman.config import DecodingConfig
from dragoman.memory import Datastore, KnnModel
from dragoman.memory.datastore import DIMENSIONS, centres_of
from dragoman.search import SearchRequest, search
from dragoman.sequences import sources_of

BATCH = 32


def random_store(keys: int) -> Datastore:
    """Keys as random as the model's weights; each of the model's outputs is searched for all the same."""
    width = TINY.d_model or 0
    states = torch.randn(keys, DIMENSIONS)
    directions = torch.linalg.qr(torch.randn(width, DIMENSIONS))[0].contiguous()
    tokens = torch.randint(5, TINY.target_vocab or 0, (keys,), dtype=torch.int32)
    return Datastore(
        states.half(), tokens, torch.zeros(width), directions, centres_of(states.half()),
        torch.tensor([0.4]), torch.tensor([0.8]), torch.tensor([10.0]), torch.zeros(32, dtype=torch.uint8),
    )  # fmt: skip


def main() -> None:
    settle()
    sizes, beams = (*sys.argv[1:], *("400000", "1,4")[len(sys.argv) - 1 :])
    made = engines(varied(TINY))
    sources = sources_of(torch.randint(5, TINY.source_vocab or 0, (BATCH, LENGTH)).tolist())
    for keys in map(int, sizes.split(",")):
        store = random_store(keys)
        for beam_size in map(int, beams.split(",")):
            options = DecodingConfig(beam_size=beam_size, min_length=LENGTH - 1, max_length=LENGTH - 1)
            asked = [SearchRequest(source, options) for source in sources]
            both = {name: KnnModel(engine, store, options) for name, engine in made.items()}
            runs: dict[str, Run] = {}
            for name in (name for name in ("native int8", "native float32", "module") if name in made):
                runs[name] = partial(search, made[name], asked)
                runs[f"{name}, datastore"] = partial(search, both[name], asked)
            facts = {"model": "tiny", "keys": keys, "batch": BATCH, "beam_size": beam_size}
            print_rows("datastore", facts, runs, budget=12.0, work={"output_tokens": BATCH * LENGTH})


if __name__ == "__main__":
    main()
