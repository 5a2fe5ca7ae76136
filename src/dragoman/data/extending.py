"""A vocabulary that goes on where it ended: for texts with words that a model to start from does not know."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.config import TrainConfig
from dragoman.data.corpora import Corpora
from dragoman.data.splitting import choose_held_out
from dragoman.errors import ConfigError
from dragoman.text import TokenizerPair, Vocabulary


def extend_tokenizers(tokenizers: TokenizerPair, config: TrainConfig, report: Callable[[str], None]) -> TokenizerPair:
    """Return tokenizers that also know the words, or characters, of the training part; no id changes.

    Args:
        tokenizers: of the model to start from.
        config: names the files, and by `tokenizer.min_count` how often a word must occur.
        report: takes a line of plain text.

    Raises:
        ConfigError: a vocabulary cannot be extended: one of pieces, which spells what it lacks in bytes, or one whose
            ids go on with those of fuzzy matches.
    """
    source, target = tokenizers.source, tokenizers.target
    hint = "leave training.extend_vocabulary out"
    if config.data.prepared is not None:
        raise ConfigError("prepared data have the ids of one vocabulary", hint=f"{hint}, or give the files")
    if tokenizers.matching is not None:
        raise ConfigError("a vocabulary with fuzzy matches cannot be extended", hint=hint)
    if not (isinstance(source, Vocabulary) and isinstance(target, Vocabulary)):
        kinds = " and ".join(dict.fromkeys((source.kind, target.kind)))
        raise ConfigError(
            "a vocabulary of pieces lacks nothing: it spells new words in the pieces that it has",
            expected="word or character vocabularies", found=kinds, hint=hint,
        )  # fmt: skip
    corpora = Corpora.open(config)
    chosen = None if corpora.dev.files else choose_held_out(corpora.train, corpora.unit)
    kept = [pair for pair in corpora.train if chosen is None or not chosen(pair)]
    sources, targets, least = [pair.source for pair in kept], [pair.target for pair in kept], config.tokenizer.min_count
    if tokenizers.joint:
        more = source.extended([*sources, *targets], min_count=least)
        found = TokenizerPair(more, more)
    else:
        found = TokenizerPair(source.extended(sources, min_count=least), target.extended(targets, min_count=least))
    told = "" if tokenizers.joint else f" of sources, {len(found.target) - len(target):,} of targets"
    report(f"vocabulary: {len(found.source) - len(source):,} entries{told} appended to those of the model")
    return found
