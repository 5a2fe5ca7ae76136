"""Dragoman's service beside others that serve the same weights: latency at a given load, and throughput.

    .venv/bin/python benchmarks/serve_compare.py --run runs/sinusoids --texts dev.en --pair en de

The run must be one that CTranslate2 can express: `model.positions=interleaved`, one direction, a joint tokenizer
(`peers_convert.py` says why not otherwise). LibreTranslate and CTranslate2 are installed in `.venv-serve` the first
time. Services run one at a time, on this machine only; the clients share its processors with them.

Each row: `system`, `texts` (short: a sentence; mixed: 1 to 12 of them), `clients` that each send `--rate` requests a
second at random times whatever the answers do, `median_ms` and `p95_ms` from the time a request was due. `clients`
"busy": 64 that always wait for an answer; `characters_per_second` is then the throughput.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rows import print_row
from serve_load import Client, closed_loop, open_loop

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv-serve"
SYSTEMS = ("dragoman", "ctranslate2", "libretranslate")
CLIENTS = (1, 4, 16, 64)


def main() -> None:
    """Measure what the command line asks for."""
    asked = _arguments()
    work = ROOT / "build" / "serve"
    work.mkdir(parents=True, exist_ok=True)
    site = _install() if set(asked.systems) - {"dragoman"} else ""
    converted = work / f"{asked.run.resolve().name}-ctranslate2"
    packages = work / f"{asked.run.resolve().name}-argos"
    pair = tuple(asked.pair)
    if site:
        _convert(asked.run, converted, site)
        sys.path.insert(0, str(ROOT / "benchmarks"))
        from serve_peers import make_argos_package

        make_argos_package(asked.run, converted, packages, pair)
    kinds = _texts(asked.texts)
    for system in asked.systems:
        with _served(system, asked, converted, packages, site) as address:
            _measure(system, address, asked, kinds, pair)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True, help="lines of the source language")
    parser.add_argument("--pair", nargs=2, default=("en", "de"))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--rate", type=float, default=1.0, help="requests of a client in a second")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def _texts(path: Path) -> dict[str, list[str]]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if 4 <= len(line) <= 120]
    draw = random.Random(1)
    between = " " if lines[0].isascii() else ""
    mixed = [between.join(draw.sample(lines, draw.choice([1, 1, 2, 3, 5, 12]))) for _ in range(400)]
    return {"short": lines[:400], "mixed": mixed}


def _measure(
    system: str, address: str, asked: argparse.Namespace, kinds: dict[str, list[str]], pair: tuple[str, ...]
) -> None:
    languages = (pair[0], pair[1])
    facts = {"system": system, "threads": asked.threads, "run": asked.run.name}
    asyncio.run(closed_loop(address, languages, kinds["short"], 4, 2.0, seed=0))  # warm
    for kind, texts in kinds.items():
        for clients in CLIENTS:
            seen = asyncio.run(open_loop(address, languages, texts, clients, asked.seconds, asked.rate, clients))
            print_row("serve", {**facts, "texts": kind, "clients": clients, "rate": asked.rate, **seen.facts()})
        seen = asyncio.run(closed_loop(address, languages, texts, 64, asked.seconds, seed=9))
        print_row("serve", {**facts, "texts": kind, "clients": "busy", **seen.facts()})
    _beside_a_document(facts, address, languages, kinds["short"])
    if system == "dragoman":
        _beside_python(facts, address, languages, kinds["short"], asked)


def _beside_a_document(facts: dict[str, object], address: str, pair: tuple[str, str], lines: list[str]) -> None:
    """A sentence alone, and while 200 sentences that came before are translated."""

    async def times(other: bool) -> list[float]:
        client, found = Client(address, *pair), []
        for number in range(12):
            document = Client(address, *pair)
            waiting = None
            if other:
                text = "\n".join(lines[100:300])[:9_900]
                waiting = asyncio.create_task(document.translate(text))
                await asyncio.sleep(0.02)
            start = time.perf_counter()
            await client.translate(lines[number])
            found.append(time.perf_counter() - start)
            if waiting is not None:
                await waiting
            await document.close()
        await client.close()
        return found

    alone, beside = asyncio.run(times(False)), asyncio.run(times(True))
    medians = {"alone_ms": 1000 * statistics.median(alone), "beside_ms": 1000 * statistics.median(beside)}
    print_row("serve_beside", {**facts, **medians, "ratio": medians["beside_ms"] / medians["alone_ms"]})


def _beside_python(
    facts: dict[str, object], address: str, pair: tuple[str, str], lines: list[str], asked: argparse.Namespace
) -> None:
    """What HTTP adds to the call from Python, in turns: the same sentences, one at a time."""
    from dragoman import Translator

    translator = Translator.from_pretrained(asked.run)
    translator.translate(lines[:1])

    async def times() -> tuple[list[float], list[float]]:
        client, http, call = Client(address, *pair), [], []
        for line in lines[:200]:
            start = time.perf_counter()
            await client.translate(line)
            middle = time.perf_counter()
            translator.translate([line])
            http.append(middle - start)
            call.append(time.perf_counter() - middle)
        await client.close()
        return http, call

    http, call = asyncio.run(times())
    added = [one - other for one, other in zip(http, call, strict=True)]
    told = {"http_ms": http, "call_ms": call, "added_ms": added}
    print_row("serve_added", {**facts, **{name: 1000 * statistics.median(values) for name, values in told.items()}})


@contextlib.contextmanager
def _served(system: str, asked: argparse.Namespace, converted: Path, packages: Path, site: str) -> Iterator[str]:
    port = _free_port()
    peers, python = str(ROOT / "benchmarks" / "serve_peers.py"), sys.executable
    commands = {
        "dragoman": [
            python, "-m", "dragoman", "serve", str(asked.run), "--port", str(port), "--log", "none",
            "--threads", str(asked.threads),
        ],
        "ctranslate2": [python, peers, "ctranslate2", str(asked.run), str(converted), str(port), str(asked.threads)],
        "libretranslate": [str(VENV / "bin" / "python"), peers, "libretranslate", str(packages.resolve()), str(port)],
    }  # fmt: skip
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), site if system == "ctranslate2" else ""]))
    environment = {**os.environ, "PYTHONPATH": path, "SERVE_SITE": site}
    log = (ROOT / "build" / "serve" / f"{system}.log").open("wb")
    process = subprocess.Popen(commands[system], env=environment, stdout=log, stderr=log, cwd=ROOT / "build" / "serve")
    address = f"http://127.0.0.1:{port}"
    try:
        _await(f"{address}/languages", process)
        yield address
    finally:
        process.terminate()
        process.wait(60)
        log.close()


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            json.load(answer)
            return
        if process.poll() is not None:
            raise SystemExit(f"{process.args}: it ended; build/serve/ has what it said")
        time.sleep(0.2)
    raise SystemExit(f"{url} does not answer")


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def _install() -> str:
    """The packages of the others, in an environment of their own; where they are."""
    if not (VENV / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        needed = str(ROOT / "benchmarks" / "requirements-serve.txt")
        subprocess.run([str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", needed], check=True)
        (VENV / ".installed").touch()
    found = subprocess.run(
        [str(VENV / "bin" / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return found.stdout.strip()


def _convert(run: Path, converted: Path, site: str) -> None:
    """The run as CTranslate2's, with the pieces of its tokenizer."""
    sys.path.append(site)
    from peers_convert import convert
    from sentencepiece import SentencePieceProcessor

    tokens = SentencePieceProcessor(model_file=str(run / "tokenizer.model"))
    pieces = [tokens.id_to_piece(number) for number in range(tokens.get_piece_size())]
    pieces[:4] = ["<pad>", "<unk>", "<s>", "</s>"]
    convert(run, converted, [pieces, pieces], "int8")
    path = converted / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "add_source_eos": True}), encoding="utf-8")


if __name__ == "__main__":
    main()
