"""Training a Markov model: one pass over the text that counts, and a measurement on what was held out."""

from __future__ import annotations

import math
import platform
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import overload

from dragoman.config import (
    COUNTED,
    SETTINGS_FILE,
    DataConfig,
    ModelConfig,
    Setting,
    TrainConfig,
    all_settings,
    write_toml,
)
from dragoman.data import Prepared
from dragoman.data.store import TokenStore
from dragoman.errors import ConfigError
from dragoman.files import json_text, write_bytes
from dragoman.markov import RUNGS, MarkovModel, Measure, is_markov, load, measure
from dragoman.markov.table import MAX_VOCAB
from dragoman.models import Languages
from dragoman.models.description import save_config, save_tokenizers
from dragoman.pace import duration
from dragoman.runs.hub import card_head
from dragoman.training.card import data_section, typed_command, versions
from dragoman.training.log import RunLog
from dragoman.training.progress import Progress
from dragoman.training.signals import StopError, StopSignals

CARD = "README.md"
PACKAGES = ("dragoman", "torch", "numpy")
# How often each rung goes through the text.
PASSES = {"skips": 2, "masked-skips": 3, "matrix-skips": 3}
TELL_EVERY = 1000


def is_counted(family: str) -> bool:
    """Return whether a family of models is counted, not trained by gradients."""
    return family in COUNTED


def train_markov(
    config: TrainConfig, directory: Path, log: RunLog, prepare: Callable[[], Prepared], stop: StopSignals
) -> tuple[TrainConfig, Progress, int]:
    """Count a text into a run directory, which is a model directory: `complete`, `score` and `info` take it.

    A run that was interrupted starts again; one that is finished stays as it is.

    Args:
        config: settings; `model.family` is a rung of the ladder.
        directory: the run, locked by the caller.
        log: takes lines, and the measurement.
        prepare: gives the data.
        stop: signals, which end the work.

    Returns:
        The completed settings, how far it went, and the exit status: 0, or 128 + the signal that stopped it.

    Raises:
        ConfigError: the vocabulary is too large, or the run was to start from other weights.
        DataError: the text cannot be used.
    """
    if is_markov(directory) and (directory / CARD).exists():
        load(directory)
        log.line("finished already: counts do not grow by going on")
        return config, Progress(finished=True), 0
    if config.training.init_from is not None:
        hint = "leave training.init_from (--init-from) out"
        raise ConfigError("a Markov model is counted anew, not fine-tuned", found=config.training.init_from, hint=hint)
    data = prepare()
    config = _completed(config, data)
    try:
        with stop.interruptible():
            progress = _count(config, data, directory, log)
    except StopError:
        log.line("stopped before everything was counted; --resume counts again")
        return config, Progress(), stop.exit_status
    return config, progress, 0


def check_meant(config: TrainConfig, family: str) -> None:
    """Refuse settings that would change nothing: those of training for a model that is counted, and the reverse; layers
    of a stack that the family has not, where those of its own are left open.

    Args:
        config: what was given.
        family: of the model to make.

    Raises:
        ConfigError: names all of them.
    """
    counted = is_counted(family)
    own, others = stack_settings(family)
    unmeant = [one for one in all_settings() if not one.concerns(family) and (counted or one not in others)]
    if found := [one.dotted for one in unmeant if getattr(getattr(config, one.section), one.name) != one.default]:
        hint = "leave them out" + ("" if counted else ", or name a Markov model (--family first-order, skips, ...)")
        raise ConfigError(f"settings that have no effect on a {family} model", found=", ".join(found), hint=hint)
    for other in () if counted else others:
        if getattr(config.model, other.name) is not None and getattr(config.model, own[0].name) is None:
            message = f"a {family} model has one stack of layers"
            raise ConfigError(message, expected=own[0].dotted, found=other.dotted)


def stack_settings(family: str) -> tuple[list[Setting], list[Setting]]:
    """Return the settings that count the layers of the stacks a family has, and of those it has not."""
    layers = [one for one in ModelConfig.settings.values() if one.unit == "layers"]
    return [one for one in layers if one.concerns(family)], [one for one in layers if not one.concerns(family)]


def _completed(config: TrainConfig, data: Prepared) -> TrainConfig:
    size = len(data.tokenizers.target)
    if size > MAX_VOCAB:
        hint = "raise tokenizer.min_count, set tokenizer.vocab_size, or use tokenizer.kind = bpe"
        raise ConfigError(
            "the vocabulary is too large to count pairs of its words", expected=f"at most {MAX_VOCAB:,} entries",
            found=f"{size:,}", hint=hint,
        )  # fmt: skip
    languages = {f"{side}_language": code for side, code in zip(("source", "target"), data.languages, strict=True)}
    settings: DataConfig = config.data.replace(languages)
    return config.replace({"model": {**config.model.to_dict(), "target_vocab": size}, "data": settings.to_dict()})


def _count(config: TrainConfig, data: Prepared, directory: Path, log: RunLog) -> Progress:
    began = time.perf_counter()
    log.forget_after(-1)
    save_config(directory, config.model, config.decoding, Languages(target=data.languages[1]))
    save_tokenizers(directory, data.tokenizers)
    write_toml(config, directory / SETTINGS_FILE)
    rung = next(one for one in RUNGS if one.kind == config.model.family)
    labels = int(data.train.target_lengths.sum()) + len(data.train)
    log.line(f"counting {len(data.train):,} sequences, {labels:,} tokens with </s>")
    sentences = _Sentences(data.train, log, PASSES.get(rung.kind, 1))
    model = rung.fit(sentences, len(data.tokenizers.target), k=config.markov.k, backoff=config.markov.backoff)
    seconds = time.perf_counter() - began
    log.end_progress()
    log.line(f"{model.numbers:,} numbers learned in {duration(seconds)}; measuring")
    found = measure(model, list(_Sentences(data.dev, log)))
    model.save(directory)
    progress = Progress(step=1, seconds=seconds, labels=labels, validated=1, finished=True)
    _tell(found, data, log)
    card = _card(directory, config, data, model, found, progress)
    write_bytes(directory / CARD, card.encode())
    log.line(f"the model is in {directory}; its card is {directory / CARD}")
    return progress


class _Sentences(Sequence[list[int]]):
    """The texts of a store as lists of ids; tells how far they were read."""

    def __init__(self, store: TokenStore, log: RunLog, passes: int = 0) -> None:
        self._store, self._log, self._passes, self._done = store, log, passes, 0

    def __len__(self) -> int:
        return len(self._store)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...

    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        return self._store.target(index).tolist()

    def __iter__(self) -> Iterator[list[int]]:
        if self._passes and not self._done:
            self._log.start_progress(0, self._passes * len(self))
        for index in range(len(self)):
            if index % TELL_EVERY == 0:
                self._log.advance(self._done + index)
            yield self._store.target(index).tolist()
        self._done += len(self)


def _numbers(found: Measure) -> dict[str, float | None]:
    loss = -found.log_probability / found.tokens
    finite = math.isfinite(loss)
    return {
        "loss": loss if finite else None,
        "perplexity": found.perplexity if finite else None,
        "accuracy": found.accuracy,
    }


def _tell(found: Measure, data: Prepared, log: RunLog) -> None:
    log.event("validation", 1, {"of": "counts", **_numbers(found)})
    log.line(f"held-out text: perplexity {found.perplexity:.3f} per token, accuracy {100 * found.accuracy:.2f} %")
    if not math.isfinite(found.perplexity):
        log.line("something in it was impossible by the counts: markov.k above 0 makes everything possible")
    unk = data.tokenizers.target.unk
    unknown = sum(int((data.dev.target(row) == unk).sum()) for row in range(len(data.dev)))
    heard = any((data.train.target(row) == unk).any() for row in range(len(data.train)))
    if unknown and not heard:
        log.line(
            f"{unknown:,} of {found.tokens:,} held-out tokens are unknown words, and training met none: "
            "tokenizer.min_count = 2 lets the model learn where unknown words stand"
        )


def _card(
    directory: Path, config: TrainConfig, data: Prepared, model: MarkovModel, found: Measure, progress: Progress
) -> str:
    name, tokenizer = directory.resolve().name, data.tokenizers.target
    quoted = shlex.quote(name)
    numbers = {"perplexity": found.perplexity, "accuracy": 100 * found.accuracy}
    scores = {metric: value for metric, value in numbers.items() if math.isfinite(value)}
    head = card_head(
        name, model.kind, data.languages, scores, {}, lines=len(data.dev), license_name=config.training.license
    )
    return f"""{head}
# {name}: {data.languages[1] or "text"}

A Markov model, {model.kind}: {model.numbers:,} numbers counted, k {model.k:g}, backoff {model.backoff:g}. Vocabulary
{len(tokenizer):,} ({tokenizer.kind}).

## On the held-out text ({len(data.dev):,})

| metric | score | meaning |
|---|---|---|
| perplexity | {found.perplexity:.3f} | per token, `</s>` counted |
| accuracy | {100 * found.accuracy:.2f} | tokens that were the likeliest one, in percent |

## Use

```
dragoman complete {quoted} "..."
dragoman score {quoted} --text FILE
```
```python
import dragoman
dragoman.Completer.from_pretrained({json_text(name)}).complete(["..."])[0][0].text
```

{data_section(data)}
## Training

`{typed_command()}`

{progress.labels:,} tokens counted in {progress.seconds:,.1f} seconds on {platform.machine()} {platform.system()}. All
settings: `config.toml`.

{versions(*PACKAGES)}
"""
