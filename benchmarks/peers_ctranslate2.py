"""CTranslate2 as one of those measured: the same weights, converted; its own search and threads."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import ctranslate2  # pyrefly: ignore[missing-import]
from peers_convert import SPECIALS, convert
from peers_ctranslate2_file import load_tokenizers, open_model, translate

Batches = list[list[list[int]]]


class Peer:
    def __init__(self, options: dict[str, Any]) -> None:
        self.threads, self.compute_type = options["threads"], options["compute_type"]
        self.workers = options.get("workers", 1)
        self.run: Any

    def versions(self) -> dict[str, str]:
        return {"ctranslate2": version("ctranslate2")}

    def load(self, directory: str) -> str:
        convert(Path(directory), Path(directory) / "ctranslate2")
        converted = str(Path(directory) / "ctranslate2")
        self.model = ctranslate2.Translator(
            converted, device="cpu", compute_type=self.compute_type, inter_threads=self.workers,
            intra_threads=self.threads,
        )  # fmt: skip
        return f"compute type {self.model.compute_type}"

    def prepare_decoding(self, batches: Batches, steps: int, beam_size: int) -> None:
        work = [[_tokens(ids) for ids in batch] for batch in batches]
        share = max(1, -(-len(work[0]) // self.workers))

        def run() -> list[Any]:
            options = {"beam_size": beam_size, "max_decoding_length": steps, "max_input_length": 0}
            options["max_batch_size"] = share  # each worker its part
            return [one for batch in work for one in self.model.translate_batch(batch, **options)]

        self._found, self.run = run, lambda: run() and None

    def scores(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each token of an output, without its end."""
        return self._scores([_tokens(ids) for ids in sources], [_tokens(ids)[:-1] for ids in targets])

    def score_texts(self, sources: list[str], targets: list[str]) -> list[list[float]]:
        """The same of texts, by the tokenizers of a trained model."""
        source, target = (
            one.encode(some, out_type=str) for one, some in zip(self.tokenizers, (sources, targets), strict=True)
        )
        return self._scores([[*tokens, "</s>"] for tokens in source], target)

    def _scores(self, sources: list[list[str]], targets: list[list[str]]) -> list[list[float]]:
        found = self.model.score_batch(sources, targets, max_input_length=0)
        return [one.log_probs[: len(tokens)] for one, tokens in zip(found, targets, strict=True)]

    def outputs(self, batches: Batches, steps: int, beam_size: int) -> list[list[int]]:
        self.prepare_decoding(batches, steps, beam_size)
        return [[_id(token) for token in one.hypotheses[0]] for one in self._found()]

    def load_translator(self, directory: str) -> str:
        """A trained model with SentencePiece vocabularies, from strings to strings."""
        quantization = None if self.compute_type == "float32" else self.compute_type
        converted = convert_trained(Path(directory), quantization)
        self.model, self.tokenizers = open_model(
            str(converted), directory, self.compute_type, self.workers, self.threads
        )
        return f"compute type {self.model.compute_type}"

    def prepare_texts(self, texts: list[str], beam_size: int) -> None:
        self.run = lambda: translate(self.model, self.tokenizers, texts, beam_size)


def _tokens(ids: list[int]) -> list[str]:
    return [*(SPECIALS[index] if index < len(SPECIALS) else str(index) for index in ids), "</s>"]


def _id(token: str) -> int:
    return SPECIALS.index(token) if token in SPECIALS else int(token)


def convert_trained(directory: Path, quantization: str | None = None) -> Path:
    """A trained model converted, inside of its own directory."""
    tokenizers = load_tokenizers(directory)
    pieces = [[one.id_to_piece(index) for index in range(len(one))] for one in tokenizers]
    target = directory / f"ctranslate2-{quantization or 'float32'}"
    convert(directory, target, pieces, quantization)
    return target
