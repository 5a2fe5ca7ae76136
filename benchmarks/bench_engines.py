"""The engines against each other: `bench_engines.py [base,tiny] [sentences at once,...] [beam sizes,...]`."""

from __future__ import annotations

import sys

import torch
from bench_decoding import same_outputs
from rows import print_row, print_rows, settle
from workload import TINY

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.engines import ModuleEngine, NativeEngine, PackedEngine
from dragoman.engines.native import load_library
from dragoman.models import build_model
from dragoman.nn import CausalLM, Transformer
from dragoman.search import SearchRequest, search
from dragoman.sequences import sources_of

BASE = ModelConfig(source_vocab=8000, target_vocab=8000, tie_embeddings="all").with_paper_defaults()
MODELS = {"base": BASE, "tiny": TINY}
LENGTH = 13


def varied(config: ModelConfig) -> Transformer:
    """Random weights, sharper than at initialisation, so that outputs are no mere repetition."""
    model = build_model(config)
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)
            elif "attention" in name:
                parameter *= 2.0
    return model


def engines(model: Transformer | CausalLM) -> dict[str, ModuleEngine]:
    """Every engine and precision that runs here, the oracle first."""
    made: dict[str, ModuleEngine] = {"module": ModuleEngine(model)}
    made |= {f"packed {precision}": PackedEngine(model, precision) for precision in ("float32", "int8")}
    library = load_library()
    if isinstance(library, str):
        print_row("engines", {"what": "native", "left_out": library})
        return made
    precisions = ["float32", "int8", *(["bfloat16"] if library.kernels[-1].bfloat16 else [])]
    return made | {f"native {precision}": NativeEngine(model, precision) for precision in precisions}


def main() -> None:
    settle()
    names, batches, beams = (*sys.argv[1:], *("base,tiny", "1,32", "1,4")[len(sys.argv) - 1 :])
    for name in names.split(","):
        config = MODELS[name]
        made = engines(varied(config))
        for batch in map(int, batches.split(",")):
            sources = sources_of(torch.randint(5, config.source_vocab or 0, (batch, LENGTH)).tolist())
            for beam_size in map(int, beams.split(",")):
                options = DecodingConfig(beam_size=beam_size, min_length=LENGTH - 1, max_length=LENGTH - 1)
                asked = [SearchRequest(source, options) for source in sources]
                runs = {kind: lambda e=engine, r=asked: search(e, r) for kind, engine in made.items()}
                oracle = runs["module"]()
                same = {kind: same_outputs(oracle, run()) for kind, run in runs.items()}
                facts = {"model": name, "batch": batch, "beam_size": beam_size, "same_outputs": same}
                print_rows("engines", facts, runs, budget=10.0, work={"output_tokens": batch * LENGTH})


if __name__ == "__main__":
    main()
