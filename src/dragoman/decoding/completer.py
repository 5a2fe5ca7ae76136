"""Continuing a prompt with a decoder-only model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dragoman.config import DecodingConfig
from dragoman.decoding.search import NextTokenModel, SearchRequest
from dragoman.decoding.translator import Alternative, changed_options, search
from dragoman.engines import choose_device, choose_engine
from dragoman.errors import ModelError
from dragoman.models import load_pretrained
from dragoman.nn import CausalLM
from dragoman.text import TokenizerPair
from dragoman.text.tokenizer import Tokenizer

ROWS = 64


class Completer:
    """Continues prompts with any next-token model that needs no source.

    Args:
        model: the next-token model.
        tokenizer: of its one vocabulary.
        decoding: options where a call gives none.
    """

    def __init__(self, model: NextTokenModel, tokenizer: Tokenizer, decoding: DecodingConfig | None = None) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.decoding = decoding or DecodingConfig()

    @classmethod
    def from_pretrained(cls, path: str | Path, *, device: str = "auto", engine: str = "auto") -> Completer:
        """Load a model directory.

        Raises:
            ModelError: it holds no decoder-only model, or is damaged.
        """
        loaded = load_pretrained(path, choose_device(device))
        if not isinstance(loaded.model, CausalLM):
            hint = "`dragoman translate` runs an encoder-decoder" if loaded.config.family == "transformer" else None
            raise ModelError("only a decoder-only model completes", file=path, found=loaded.config.family, hint=hint)
        chosen, _ = choose_engine(loaded.model, engine)
        return cls(chosen, TokenizerPair.load(path).target, loaded.decoding)

    def options(self, changes: dict[str, Any]) -> DecodingConfig:
        """The model's decoding options with some changed, checked together."""
        return changed_options(self.decoding, changes)

    def complete(self, prompts: Sequence[str], options: DecodingConfig | None = None) -> list[list[Alternative]]:
        """The `n_best` continuations of each prompt, best first; each text begins with the prompt.

        The maximum length counts the prompt's tokens. Scores count them too.
        """
        options = options or self.decoding
        return [found for start in range(0, len(prompts), ROWS) for found in self._some(prompts, start, options)]

    def _some(self, prompts: Sequence[str], start: int, options: DecodingConfig) -> list[list[Alternative]]:
        prefixes = [self.tokenizer.encode(prompt) for prompt in prompts[start : start + ROWS]]
        source = torch.empty(len(prefixes), 0, dtype=torch.long, device=self.model.device)
        lengths = [len(prefix) for prefix in prefixes]
        seeds = range(start, start + len(prefixes))
        request = SearchRequest(source, lengths, options, prefixes, seeds=seeds)
        return [
            [
                Alternative(
                    self.tokenizer.decode(found.tokens),
                    found.score,
                    found.log_probability,
                    tuple(self.tokenizer.pieces(found.tokens)),
                    found.token_log_probabilities,
                )
                for found in hypotheses
            ]
            for hypotheses in search(self.model, request)
        ]
