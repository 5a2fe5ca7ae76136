"""A vocabulary that goes on where it ended: for texts with words that a model to start from does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.config import TrainConfig
from dragoman.data.corpora import Corpora
from dragoman.data.splitting import choose_held_out
from dragoman.errors import ConfigError
from dragoman.text import Tokenizer, TokenizerPair, Vocabulary, read_lines
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer


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
        raise ConfigError("prepared data have the ids of a fixed vocabulary", hint=f"{hint}, or give the files")
    if tokenizers.matching is not None:
        raise ConfigError("a vocabulary with fuzzy matches cannot be extended", hint=hint)
    if not (isinstance(source, Vocabulary) and isinstance(target, Vocabulary)):
        kinds = " and ".join(dict.fromkeys((source.kind, target.kind)))
        raise ConfigError(
            "a subword vocabulary needs no new entries: it splits new words into known pieces",
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


def with_tokens_of(tokenizers: TokenizerPair, file: str | Path, report: Callable[[str], None]) -> TokenizerPair:
    """Return tokenizers that also have the tokens of a file, one a line, on the sides that lack them; no id changes.

    Args:
        tokenizers: of the model to start from.
        file: of the tokens.
        report: takes a line of plain text.

    Raises:
        ConfigError: the vocabulary's ids go on with those of fuzzy matches, or it is that of an imported model.
        DataError: the file cannot be read, or a line of it cannot be a token.
    """
    if tokenizers.matching is not None:
        hint = "leave training.add_tokens out"
        raise ConfigError("a vocabulary with fuzzy matches cannot be extended", hint=hint)
    tokens = list(dict.fromkeys(token for line in read_lines(file) if (token := line.text.strip())))
    source = _with_tokens(tokenizers.source, tokens)
    target = source if tokenizers.joint else _with_tokens(tokenizers.target, tokens)
    found = TokenizerPair(source, target)
    counts = [len(new) - len(old) for new, old in ((source, tokenizers.source), (target, tokenizers.target))]
    told = (
        f"{counts[0]:,}" if tokenizers.joint else f"{counts[0]:,} to that of sources, {counts[1]:,} to that of targets"
    )
    report(f"vocabulary: of {len(tokens):,} tokens in {file}, {told} appended; the others are entries already")
    return found


def _with_tokens(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    if isinstance(tokenizer, Vocabulary):
        return tokenizer.extended(tokens, min_count=1)
    if not isinstance(tokenizer, SentencePieceTokenizer):
        hint = "leave training.add_tokens out"
        raise ConfigError("the vocabulary of an imported model cannot be extended", found=tokenizer.stem, hint=hint)
    known = set(tokenizer.pieces(range(len(tokenizer))))
    return tokenizer.with_tokens([one for one in tokens if one not in known])


def pieces_before(old: Tokenizer, new: Tokenizer) -> list[list[int]]:
    """Return, for each entry that a tokenizer has more than before, the ids that its text was cut into before.

    Args:
        old: as it was.
        new: with entries after all others.
    """
    if isinstance(old, Vocabulary):
        return [[] for _ in range(len(old), len(new))]
    found = []
    for entry in range(len(old), len(new)):
        ids = old.encode(new.decode([entry]))
        plain = [one for one, piece in zip(ids, old.pieces(ids), strict=True) if piece != "\u2581"]
        found.append(plain or ids)
    return found
