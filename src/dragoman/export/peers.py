"""Other programs, as far as they run on this machine: each translates what was exported to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.export.given import Given


class CTranslate2Peer:
    """CTranslate2 with a directory of its own."""

    name = "CTranslate2"

    def __init__(self, given: Given, directory: Path, quantization: str) -> None:
        import ctranslate2

        computed = {"float32": "float32", "int8": "int8"}.get(quantization, "default")
        self._translator = ctranslate2.Translator(str(directory), device="cpu", compute_type=computed, intra_threads=1)
        names, specials = given.target.names, given.tokenizers.target.specials
        never = (specials.pad, specials.bos)
        self._options: dict[str, Any] = {
            "beam_size": 1, "disable_unk": True, "suppress_sequences": [[names[i]] for i in never],
            "max_input_length": 0, "min_decoding_length": 0,
        }  # fmt: skip

    def greedy(self, source: Sequence[str], limit: int) -> list[str]:
        """Return the tokens of an output, as `Peer` says."""
        found = self._translator.translate_batch([list(source)], max_decoding_length=limit, **self._options)
        return found[0].hypotheses[0]
