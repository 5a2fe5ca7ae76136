"""Other programs, as far as they run on this machine: each translates what was exported to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.errors import ConfigError
from dragoman.export.for_nllb import layout_of
from dragoman.export.for_onnx import graph_names
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

    def greedy(self, source: Sequence[str], limit: int, begin: Sequence[str] = ()) -> list[str]:
        """Return the tokens of an output, as `Peer` says."""
        prefix = [list(begin)] if begin else None  # counted in the length
        found = self._translator.translate_batch([list(source)], prefix, max_decoding_length=limit, **self._options)
        return found[0].hypotheses[0]


class ArgosPeer(CTranslate2Peer):
    """CTranslate2 with the directory of a package of Argos Translate, which runs it so."""

    name = "CTranslate2, as Argos Translate runs it,"

    def __init__(self, given: Given, directory: Path, quantization: str) -> None:
        super().__init__(given, next(directory.iterdir()) / "model", quantization)


class MarianPeer:
    """Transformers with a MarianMT directory."""

    name = "transformers"

    def __init__(self, given: Given, directory: Path, quantization: str) -> None:
        self._model = _transformers().MarianMTModel.from_pretrained(directory, dtype="float32").eval()
        self._source, self._target = given.source.names, given.target.names
        specials = given.tokenizers.target.specials
        self._end, self._never = specials.eos, [specials.pad, specials.bos, specials.unk]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._source)}

    def greedy(self, source: Sequence[str], limit: int, begin: Sequence[str] = ()) -> list[str]:
        """Return the tokens of an output, as `Peer` says."""
        import torch

        rows = torch.tensor([[*(self._ids[token] for token in source), self._end]])
        first = {"forced_bos_token_id": self._target.index(begin[0])} if begin else {}
        # At its limit an output gets an end.
        found = self._model.generate(
            rows, attention_mask=torch.ones_like(rows), num_beams=1, do_sample=False, length_penalty=None,
            max_new_tokens=limit + 1, max_length=None, bad_words_ids=[[one] for one in self._never], **first,
        )  # fmt: skip
        ids = found[0, 1:].tolist()
        return [self._target[one] for one in (ids[: ids.index(self._end)] if self._end in ids else ids[:limit])]


class NllbPeer(MarianPeer):
    """Transformers with a directory of M2M100 or NLLB, its tokenizer too."""

    def __init__(self, given: Given, directory: Path, quantization: str) -> None:
        program = _transformers()
        self._model = program.M2M100ForConditionalGeneration.from_pretrained(directory, dtype="float32").eval()
        self._tokenizer = program.AutoTokenizer.from_pretrained(directory)
        layout = layout_of(given)
        names = tuple(given.target.names[one] for one in layout.ids)
        self._source, self._target = names, names
        specials = given.tokenizers.target.specials
        self._end, never = layout.ids.index(specials.eos), (specials.pad, specials.bos, specials.unk)
        self._never = [place for place, one in enumerate(layout.ids) if one in never]

    def cut(self, text: str) -> list[str]:
        """Return the tokens of a text, as `Cutter` says."""
        return [self._source[one] for one in self._tokenizer(text).input_ids[:-1]]


def _transformers() -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import transformers
    except ImportError as error:
        raise _missing("transformers") from error
    return transformers


def _missing(package: str) -> ConfigError:
    hint = f"pip install {package}, or give --no-check"
    return ConfigError(f"{package} is not installed, which checks what was exported", hint=hint)


class OnnxPeer:
    """ONNX Runtime with a directory of graphs."""

    name = "ONNX Runtime"

    def __init__(self, given: Given, directory: Path, quantization: str) -> None:
        try:
            from onnxruntime import InferenceSession, SessionOptions  # pyrefly: ignore[missing-import]
        except ImportError as error:
            raise _missing("onnxruntime") from error
        options = SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.encoder, self.decoder = (
            InferenceSession(str(directory / "onnx" / name), options, providers=["CPUExecutionProvider"])
            for name in graph_names(quantization)
        )
        self._ids = {name: number for number, name in enumerate(given.source.names)}
        self._names, self._specials = given.target.names, given.tokenizers.target.specials
        self._past = [one for one in self.decoder.get_inputs() if one.name.startswith("past_key_values")]

    def greedy(self, source: Sequence[str], limit: int, begin: Sequence[str] = ()) -> list[str]:
        """Return the tokens of an output, as `Peer` says."""
        specials, found = self._specials, list(begin)
        rows = np.array([[*(self._ids[token] for token in source), specials.eos]])
        state, tokens = self.start(rows, np.ones_like(rows)), [specials.bos, *map(self._names.index, begin)]
        while len(found) < limit:
            logits, state = self.step(state, np.array([tokens]))
            row = logits[0, -1]
            row[[specials.pad, specials.bos, specials.unk]] = -np.inf
            tokens = [int(row.argmax())]
            if tokens == [specials.eos]:
                break
            found.append(self._names[tokens[0]])
        return found

    def start(self, ids: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        """Return what the decoder is given besides tokens, before the first one.

        Args:
            ids: of sources, framed `[batch, src]`.
            mask: 1 where they are not padding.
        """
        (memory,) = self.encoder.run(None, {"input_ids": ids, "attention_mask": mask})
        past = {one.name: np.zeros((len(ids), one.shape[1], 0, one.shape[3]), np.float32) for one in self._past}
        return {"encoder_hidden_states": memory, "encoder_attention_mask": mask,
                "use_cache_branch": np.array([False]), **past}  # fmt: skip

    def step(self, state: dict[str, Any], tokens: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """Return logits `[batch, tgt, vocab]` after some more tokens `[batch, tgt]`, and the next state."""
        found: list[Any] = list(self.decoder.run(None, {"input_ids": tokens, **state}))
        made = dict(zip((one.name for one in self.decoder.get_outputs()), found, strict=True))
        past = {name.replace("present", "past_key_values"): one for name, one in made.items() if name != "logits"}
        return made["logits"], {**state, **past, "use_cache_branch": np.array([True])}
