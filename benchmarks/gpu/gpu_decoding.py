"""Decoding of equal work: every output is as long as its source, by weights that never end one by themselves."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from gpu_training import peak_memory, wait
from peers_dragoman import Peer
from peers_work import MODELS, sizes

from dragoman.config import DecodingConfig, Placement
from dragoman.engines import choose_engine
from dragoman.models import load_pretrained
from dragoman.search import SearchRequest, search
from dragoman.sequences import sources_of

STEPS, SECONDS = 27, 5.0
Run = Callable[[], object]


def decoding_rows(name: str, device: torch.device, batch: int, *, tiny: bool) -> Iterator[dict[str, Any]]:
    """Yield sentences a second, greedily and with a beam of 4, beside CTranslate2 where that runs on the device.

    Args:
        name: `base`, or anything with `tiny`.
        device: where.
        batch: sentences at once.
        tiny: a small model, for a moment.
    """
    shape = sizes(32, 2, 64, 1, 60) if tiny else MODELS[name]
    steps, seconds = (5, 0.1) if tiny else (STEPS, SECONDS)
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(4, shape["target_vocab"], (batch, steps), generator=draw).tolist()
    with tempfile.TemporaryDirectory() as folder:
        Peer({"threads": torch.get_num_threads()}).make_model(folder, shape, True)
        for beam in (1, 4):
            facts = {"model": name, "batch": batch, "beam_size": beam, "steps": steps}
            for what, told, run in runs(folder, device, ids, steps, beam):
                yield {**facts, "what": what, "told": told, **timed(run, batch, device, seconds)}


def runs(folder: str, device: torch.device, ids: list[list[int]], steps: int, beam: int) -> Iterator[tuple[Any, ...]]:
    """Yield who decodes, how, and a call that does."""
    model: Any = load_pretrained(folder).model.to(device).eval()
    engine, why = choose_engine(model, Placement(device=device.type))
    options = DecodingConfig(beam_size=beam, min_length=steps - 1, max_length=steps - 1)
    requests = [SearchRequest(source, options) for source in sources_of(ids)]
    yield "dragoman", f"{engine.name}: {why}", lambda: search(engine, requests)
    try:
        import ctranslate2  # pyrefly: ignore[missing-import]
        from peers_ctranslate2 import _tokens, convert
    except ImportError:
        return
    if device.type == "cuda" and not ctranslate2.get_cuda_device_count():
        return
    convert(Path(folder), Path(folder) / "ctranslate2")
    work = [_tokens(row) for row in ids]
    for kind in ("float16", "int8_float16") if device.type == "cuda" else ("float32",):
        translator = ctranslate2.Translator(str(Path(folder) / "ctranslate2"), device=device.type, compute_type=kind)
        ways = {"beam_size": beam, "max_decoding_length": steps, "max_input_length": 0, "max_batch_size": len(work)}
        yield "ctranslate2", kind, lambda one=translator, ways=ways: one.translate_batch(work, **ways)


def timed(run: Run, batch: int, device: torch.device, seconds: float) -> dict[str, Any]:
    """Time a call for some seconds, after one that does not count."""
    run()
    wait(device)
    peak_memory(device)
    began, calls = time.perf_counter(), 0
    while not calls or time.perf_counter() - began < seconds:
        run()
        wait(device)
        calls += 1
    took = time.perf_counter() - began
    return {"sentences_per_second": calls * batch / took, "calls": calls, "peak_mib": peak_memory(device)}
