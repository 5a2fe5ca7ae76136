"""Continuing a prompt with a decoder-only model or a Markov model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.files import json_text
from dragoman.given import as_texts, each_text
from dragoman.language.filling import MAX_TOKENS, Filler, Filling
from dragoman.language.loading import LanguageModel, load_language_model
from dragoman.models.opened import Reopened
from dragoman.nn import MaskedLM
from dragoman.search import search
from dragoman.search.guard import is_finished
from dragoman.search.hypothesis import IMPOSSIBLE, Hypothesis
from dragoman.search.outputs import Alternative, one_line
from dragoman.search.protocol import NextTokenModel
from dragoman.search.request import SearchRequest, changed_options, output_limit
from dragoman.sequences.source import NOTHING
from dragoman.text.lines import chunks
from dragoman.text.tokenizer import Tokenizer

ROWS = 64
HINTS = {
    "transformer": "`dragoman translate` runs an encoder-decoder",
    "masked": "a masked model fills gaps: `dragoman.language.Filler`",
}
# Settings of searches with a source; completions never have a `<unk>`, and are not guarded against loops.
_OF_PAIRS = (
    "ctc_weight",
    "knn_weight",
    "knn_neighbours",
    "right_to_left_weight",
    "max_source_length",
    "loop_guard",
    "unknown",
)


class Completer(Reopened):
    """Continues prompts with any next-token model that needs no source.

    Args:
        model: the next-token model.
        tokenizer: of its one vocabulary.
        decoding: options where a call gives none.
    """

    def __init__(self, model: NextTokenModel, tokenizer: Tokenizer, decoding: DecodingConfig | None = None) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.decoding = decoding or DecodingConfig()

    def _details(self) -> Iterator[str]:
        yield f"{self.tokenizer.kind} vocabulary of {len(self.tokenizer):,}"

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, device: str = "auto", engine: str = "auto", precision: str = "auto"
    ) -> Completer:
        """Load a run or model directory.

        Raises:
            ModelError: it holds neither a decoder-only model nor a Markov model, or is damaged.
        """
        return cls.of(load_language_model(path, device=device, engine=engine, precision=precision), path)

    @classmethod
    def of(cls, loaded: LanguageModel, path: str | Path) -> Completer:
        """Make a completer of a model that is loaded already, from `path`.

        Raises:
            ModelError: it is neither a decoder-only model nor a Markov model.
        """
        if loaded.family in HINTS or isinstance(loaded.model, MaskedLM):
            message, hint = "only a decoder-only model or a Markov model completes", HINTS.get(loaded.family)
            raise ModelError(message, file=path, found=loaded.family, hint=hint)
        completer = cls(loaded.model, loaded.tokenizer, loaded.decoding)
        completer.opened = loaded.opened
        return completer

    def options(self, changes: dict[str, Any]) -> DecodingConfig:
        """Return the model's decoding options with some changed, checked together.

        Raises:
            ConfigError: one is unknown, or wrong, or for encoder-decoders.
        """
        if found := [f"decoding.{name}" for name in _OF_PAIRS if changes.get(name)]:
            raise ConfigError("only an encoder-decoder can have this", found=", ".join(found), hint="leave it out")
        return changed_options(self.decoding, changes)

    def complete(
        self, prompts: Iterable[str], options: DecodingConfig | None = None, *, first: int = 0
    ) -> list[list[Alternative]]:
        """Return the `n_best` continuations of each prompt, best first; each text begins with the prompt.

        A prompt is text and nothing else, whatever it says. `<unk>` is never written. The maximum length counts the
        prompt's tokens. Scores count them too.

        Args:
            prompts: any number of beginnings; an empty one begins a new sequence.
            options: the search; the model's own if None.
            first: number of the first prompt in a longer series; it and the seed determine what is drawn.

        Raises:
            DataError: a prompt is too long, or is no string.
        """
        options, prompts = options or self.decoding, as_texts(prompts, "prompts", first)
        return [
            found
            for start in range(0, len(prompts), ROWS)
            for found in self._some(prompts[start : start + ROWS], first + start, options)
        ]

    def complete_lines(
        self, lines: Iterable[str], options: DecodingConfig | None = None, *, chunk: int = 2048
    ) -> Iterator[list[Alternative]]:
        """Yield what `complete` returns for a stream of prompts, `chunk` at a time, in order; [] for a too long one."""
        done = 0
        for some in chunks(each_text(lines, "lines"), chunk):
            short = [len(self.tokenizer.encode(prompt)) <= MAX_TOKENS for prompt in some]
            prompts = [prompt if fits else "" for prompt, fits in zip(some, short, strict=True)]
            for fits, found in zip(short, self.complete(prompts, options, first=done), strict=True):
                yield found if fits else []
            done += len(some)

    def _some(self, prompts: Sequence[str], first: int, options: DecodingConfig) -> list[list[Alternative]]:
        prefixes = [self.tokenizer.encode(prompt) for prompt in prompts]
        for number, prefix in enumerate(prefixes, first + 1):
            if len(prefix) > MAX_TOKENS:
                limit = f"at most {MAX_TOKENS} tokens"
                raise DataError("a prompt is too long to be continued", line=number, expected=limit, found=len(prefix))
        requests = [self.request(prefix, options, seed) for seed, prefix in enumerate(prefixes, first)]
        return [
            [self._alternative(prompt, request, one) for one in hypotheses]
            for prompt, request, hypotheses in zip(prompts, requests, search(self.model, requests), strict=True)
        ]

    def request(self, prompt: Sequence[int], options: DecodingConfig, seed: int = 0) -> SearchRequest:
        """Return what is to be searched for a prompt.

        Args:
            prompt: its ids.
            options: the search.
            seed: for sampling.
        """
        specials = self.tokenizer.specials
        never = (specials.pad, specials.bos, specials.unk)
        limit = output_limit(options, len(prompt))
        return SearchRequest(NOTHING, options, tuple(prompt), seed, never=never, limit=limit)

    def _alternative(self, prompt: str, request: SearchRequest, found: Hypothesis) -> Alternative:
        values = tuple(value if value > IMPOSSIBLE else -math.inf for value in found.token_log_probabilities)
        possible = -math.inf not in values
        return Alternative(
            self.text(prompt, request.prefix, found.tokens),
            found.score if possible else -math.inf,
            found.log_probability if possible else -math.inf,
            tuple(self.tokenizer.pieces(found.tokens)),
            values,
            finished=is_finished(found, request.max_length),
        )

    def text(self, prompt: str, prefix: Sequence[int], tokens: Sequence[int]) -> str:
        """Return a completion as text: the prompt as it was written, then what its ids go on with.

        Args:
            prompt: as it was given; an unknown word of it stays what it is.
            prefix: its ids.
            tokens: ids of the completion, which begins with them.
        """
        whole, beginning = self.tokenizer.decode(tokens), self.tokenizer.decode(prefix)
        if not whole.startswith(beginning):
            return whole
        rest = whole.removeprefix(beginning)
        if self.tokenizer.kind == "word" and prompt[-1:].isspace():
            rest = rest.removeprefix(" ")
        return prompt + rest


def load_completer(
    path: str | Path, *, device: str = "auto", engine: str = "auto", precision: str = "auto"
) -> Completer | Filler:
    """Load what completes with the model of a directory: a `Filler` if it is a masked model, else a `Completer`.

    Raises:
        ModelError: it is an encoder-decoder, or damaged.
    """
    loaded = load_language_model(path, device=device, engine=engine, precision=precision)
    if isinstance(loaded.model, MaskedLM):
        return Filler.of(loaded, path)
    return Completer.of(loaded, path)


def format_outputs(
    outputs: Sequence[Alternative] | Sequence[Filling],
    number: int | None,
    *,
    n_best: bool = False,
    as_json: bool = False,
) -> Iterator[str]:
    """Yield the lines to print for one prompt, without their ends.

    A prompt from a file gives a line: its best output, or with `n_best` a line `number TAB score TAB text` for each
    (for fillings: probability). One that stands alone gives its outputs as they are, fillings with their probability
    before them if `n_best`. As JSON, an object for each output.

    Args:
        outputs: of one prompt, best first.
        number: of its line, from 1; None if it stands alone.
        n_best: print all, with their numbers.
        as_json: print objects.
    """
    for one in outputs if n_best or number is None else outputs[:1]:
        filling = isinstance(one, Filling)
        value = one.probability if isinstance(one, Filling) else one.score
        if as_json:
            line = {} if number is None else {"line": number}
            yield json_text({**line, **asdict(one)})
        elif number is None:
            yield f"{value:.4f}\t{one.text}" if n_best and filling else one.text
        else:
            yield f"{number}\t{value:.4f}\t{one_line(one.text)}" if n_best else one_line(one.text)
