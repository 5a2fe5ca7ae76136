"""Training on from a model: what of it is taken over, and what cannot be asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.config import SETTINGS_FILE, ModelConfig, TrainConfig, make_config, read_toml
from dragoman.data import Prepared, TokenStore
from dragoman.data.extending import pieces_before
from dragoman.errors import ConfigError
from dragoman.losses.ctc import frames_needed
from dragoman.models.description import load_tokenizers, read_config
from dragoman.models.growing import with_more_rows
from dragoman.planning.fine_tuning import FEW_HELD_OUT
from dragoman.text import TokenizerPair
from dragoman.training.validate import doubt

# Of a model, what may be other than in the one to start from: no weight depends on it, and no output but in training.
FREE = {"dropout", "attention_dropout", "activation_dropout", "word_dropout", "init", "family"}


def check_shape(given: ModelConfig, base: ModelConfig, start: Path) -> None:
    """Refuse another shape than that of the model to start from, before any data are read.

    Args:
        given: the settings of the new run.
        base: those of the model.
        start: where the model is.

    Raises:
        ConfigError: one was given that the model does not have.
    """
    of_base = base.as_built().to_dict()
    wanted = {key: value for key, value in given.to_dict(unset=False, none=False).items() if key not in FREE}
    differing = [f"model.{key}: {of_base[key]!r} there, {value!r} now" for key, value in sorted(wanted.items())
                 if value not in (of_base[key], "auto")]  # fmt: skip
    if differing:
        raise ConfigError(
            "the size is that of the base: a model to start from keeps its shape",
            file=start,
            found="; ".join(differing),
            hint="leave these settings out, or train from nothing (without --init-from)",
        )


def with_tokenizers_of(config: TrainConfig, start: Path, tokenizers: TokenizerPair) -> TrainConfig:
    """Return the settings with what is true of the tokenizers, which are those of the model to start from."""
    source, target = tokenizers.source.kind, tokenizers.target.kind
    stored = {}
    if (start / SETTINGS_FILE).exists():
        stored = make_config(read_toml(start / SETTINGS_FILE)).tokenizer.to_dict(none=False)
    true = {"kind": source, "target_kind": target if target != source else None, "joint": tokenizers.joint}
    if not config.model.learns_pairs:
        true = {"kind": target}
    return config.replace({"tokenizer": {**stored, **true}})


def grown(
    weights: Mapping[str, Float[Tensor, "..."]],
    model: nn.Module,
    base: Path,
    config: TrainConfig,
    tokenizers: TokenizerPair,
) -> Mapping[str, Float[Tensor, "..."]]:
    """Return the weights of the model to start from, with rows for what was appended to its vocabulary.

    Args:
        weights: of the model in `base`.
        model: of the new run.
        base: the directory of the model.
        config: of the new run.
        tokenizers: of the new run.
    """
    if config.training.extend_vocabulary:
        return with_more_rows(weights, model)
    if config.training.add_tokens is None:
        return weights
    old = load_tokenizers(base, read_config(base)[0])
    source, target = (
        pieces_before(*both) for both in ((old.source, tokenizers.source), (old.target, tokenizers.target))
    )
    return with_more_rows(weights, model, source, target)


def doubts(data: Prepared, config: TrainConfig) -> Iterator[str]:
    """Yield what speaks against a run that is about to begin.

    Args:
        data: the prepared corpus.
        config: completed.
    """
    if note := doubt(data, config):
        yield f"BLEU: {note}"
    if (count := len(data.dev)) < FEW_HELD_OUT:
        unit, share = data.counts["dev"].unit, 100 / max(1, count)
        yield (
            f"only {count} held-out {unit}, each {share:.1f} % of the score: what is kept is partly chosen by chance; "
            f"{FEW_HELD_OUT} or more tell better"
        )
    training = config.training
    if training.ctc_loss_weight and (short := _too_short(data.train)):
        yield (
            f"{short:,} of {len(data.train):,} recordings have fewer vectors than their text has tokens: only the "
            "decoder learns of them; slower speech or larger tokens (tokenizer.vocab_size) fit"
        )
    assert training.max_steps is not None
    if training.r_drop and training.r_drop_after >= training.max_steps:
        found = f"r_drop_after is {training.r_drop_after:,}, max_steps {training.max_steps:,}"
        yield f"r_drop never begins: {found}; lower training.r_drop_after"


def _too_short(store: TokenStore) -> int:
    """How many targets cannot be read off the frames of their sources."""
    return sum(frames_needed(store.target(row)) > int(length) for row, length in enumerate(store.source_lengths))
