"""Services with the same model: Dragoman's, the same one over CTranslate2's batches, and LibreTranslate's.

`serve_peers.py ctranslate2 RUN CONVERTED PORT THREADS` and `serve_peers.py libretranslate PACKAGES PORT THREADS` are
the commands that `serve_compare.py` starts. Both have a worker of one thread for each processor: with several threads
for a batch, which spin where they wait, the two served much less here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BEAM = 4


class CTranslate2Scheduler:
    """Stands where a model's scheduler does: each call is a batch for CTranslate2, which has them wait in a queue."""

    def __init__(self, run: Path, converted: Path, threads: int) -> None:
        import ctranslate2  # pyrefly: ignore[missing-import]
        import sentencepiece

        self._model = ctranslate2.Translator(
            str(converted), device="cpu", compute_type="int8", inter_threads=threads, intra_threads=1
        )
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(run / "tokenizer.model"))
        self._pool = ThreadPoolExecutor(256)
        self.translator = SimpleNamespace(engine="CTranslate2", options=lambda changes: changes)
        self.counts, self.waiting, self.searched = SimpleNamespace(), (0, 0), 0

    def submit(
        self, texts: Sequence[str], options: Any = None, *,
        prefixes: Any = None, alignments: bool = False, on_progress: Any = None,
    ) -> Any:  # fmt: skip
        """Return a call whose future gives the translations; what else is asked is not needed here."""
        future: Future[list[Any]] = Future()
        tokens = self._pieces.encode(list(texts), out_type=str)
        found = self._model.translate_batch(
            tokens, beam_size=BEAM, max_batch_size=2048, batch_type="tokens", asynchronous=True, max_input_length=0,
            max_decoding_length=max((len(row) for row in tokens), default=0) + 50,
        )  # fmt: skip
        self._pool.submit(self._settle, future, texts, found)
        return SimpleNamespace(future=future, cancel=lambda: None)

    def _settle(self, future: Future[list[Any]], texts: Sequence[str], found: Sequence[Any]) -> None:
        from dragoman.search.outputs import Alternative
        from dragoman.translation import Translation

        results = []
        for text, one in zip(texts, found, strict=True):
            tokens = tuple(one.result().hypotheses[0])
            output = self._pieces.decode(list(tokens)) if text.strip() else ""
            alternative = Alternative(output, 0.0, 0.0, tokens, ())
            results.append(
                Translation(output, 0.0, 0.0, tokens, (), source=text, source_tokens=(), alternatives=(alternative,))
            )
        future.set_result(results)

    def close(self, wait: bool = True) -> None:
        """Let the model go."""
        self._pool.shutdown(wait)


def serve_ctranslate2(run: str, converted: str, port: str, threads: str) -> None:
    """Serve with Dragoman's service and CTranslate2's model."""
    from dragoman.serving import ServeSettings, make_settings
    from dragoman.serving.assembly import make_app
    from dragoman.serving.server import run_server

    settings: ServeSettings = make_settings(None, {"port": int(port), "log": "none"})
    guard = make_app([run], settings)
    (model,) = guard.context.service.registry.models.values()
    vars(model).update(_open=lambda: CTranslate2Scheduler(Path(run), Path(converted), int(threads)))
    vars(guard.context.service.registry).update(_prepare_alignments=_nothing)
    run_server(guard)


async def _nothing() -> None:
    """There is nothing to prepare."""


def serve_libretranslate(packages: str, port: str, threads: str) -> None:
    """Serve with LibreTranslate and its defaults.

    Its sentence splitter, a model to download, is left out: it gets its lines whole, which is in its favour.
    """
    import os

    os.environ.update(ARGOS_PACKAGES_DIR=packages, ARGOS_CHUNK_TYPE="MINISBD", ARGOS_COMPUTE_TYPE="int8")
    os.environ.update(ARGOS_INTER_THREADS=threads, ARGOS_INTRA_THREADS="1")
    from argostranslate import sbd  # pyrefly: ignore[missing-import]

    sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
    import logging

    from libretranslate.main import main  # pyrefly: ignore[missing-import]

    logging.disable(logging.INFO)  # it logs every step of every text

    sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", port, "--disable-web-ui"]
    main()


def make_argos_package(run: Path, converted: Path, packages: Path, pair: tuple[str, str]) -> None:
    """Make the directory that Argos, below LibreTranslate, reads a model from."""
    package = packages / f"translate-{pair[0]}_{pair[1]}-1_0"
    package.mkdir(parents=True, exist_ok=True)
    metadata = {
        "package_version": "1.0", "argos_version": "1.9", "type": "translate", "target_prefix": "",
        "from_code": pair[0], "from_name": pair[0], "to_code": pair[1], "to_name": pair[1],
    }  # fmt: skip
    (package / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    (package / "README.md").write_text("made for a comparison\n", encoding="utf-8")
    for link, place in ((package / "model", converted), (package / "sentencepiece.model", run / "tokenizer.model")):
        if not link.is_symlink():
            link.symlink_to(place.resolve())


if __name__ == "__main__":
    kind, *given = sys.argv[1:]
    {"ctranslate2": serve_ctranslate2, "libretranslate": serve_libretranslate}[kind](*given)
