"""Tokenizers for a corpus: what the configuration leaves open is chosen from the text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from dragoman.config import TokenizerConfig
from dragoman.errors import ConfigError
from dragoman.text.choices import (
    RuleEffects,
    TextStatistics,
    choose_joint,
    choose_kind,
    choose_rules,
    choose_vocab_size,
)
from dragoman.text.normalization import Normalization, normalizer, target_normalization
from dragoman.text.pair import Pair
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer
from dragoman.text.tokenizer import Kind, Tokenizer, check_symbols
from dragoman.text.vocabulary import Vocabulary

# SentencePiece holds its training text in memory: of larger corpora it sees an even sample.
MAX_TRAINING_LINES = 1_000_000


def train_sides(
    pairs: Iterable[Pair], config: TokenizerConfig, *, mask: bool, report: Callable[[str], None]
) -> tuple[Tokenizer, Tokenizer]:
    """Train tokenizers of source and target, perhaps the same one, as `TokenizerPair.train` says.

    Raises:
        ConfigError: the vocabulary size asked for does not hold the characters, or sides of different kinds were to be
            joined.
        DataError: there is no text.
    """
    rules, effects = _asked(config), (RuleEffects(), RuleEffects())
    sides = _statistics(pairs, rules, effects if config.normalize is None else None)
    wanted = (config.kind, config.target_kind or config.kind)
    kinds = [choose_kind(side.sample) if k == "auto" else k for k, side in zip(wanted, sides, strict=True)]
    _check_meant(config, kinds)
    joint = config.joint
    if joint is None:
        joint = kinds[0] == kinds[1] and choose_joint(sides[0].sample, sides[1].sample, kinds[0])
    if joint and kinds[0] != kinds[1]:
        raise ConfigError(
            "one joint vocabulary needs one kind of token",
            found=f"{kinds[0]} for the source, {kinds[1]} for the target",
            hint="set tokenizer.kind, or leave tokenizer.joint unset",
        )
    if config.normalize is None:
        rules = choose_rules(kinds, *effects, joint=joint)
        if any(one.changed[rule] for one, rule in zip(effects, rules, strict=True)):
            sides = _statistics(pairs, rules)
    if joint:
        both = sides[0].merged(sides[1])
        texts = (text for pair in pairs for text in (pair.source, pair.target))
        tokenizer = _train(kinds[0], texts, both, config, mask, rules[0], together=2)
        size = f"one {tokenizer.kind} vocabulary of {len(tokenizer)} entries for both sides"
        report(f"tokenizer: {size}{_said(rules[:1], config)}")
        return tokenizer, tokenizer
    source = _train(kinds[0], (pair.source for pair in pairs), sides[0], config, mask, rules[0])
    target = _train(kinds[1], (pair.target for pair in pairs), sides[1], config, mask, rules[1])
    sizes = f"{source.kind} of {len(source)} entries (source), {target.kind} of {len(target)} (target)"
    report(f"tokenizers: {sizes}{_said(rules, config)}")
    return source, target


def _asked(config: TokenizerConfig) -> tuple[Normalization, Normalization]:
    """The rules of both sides, if one is asked for; until it is chosen, none."""
    rule = config.normalize or "none"
    return rule, target_normalization(rule)


def _statistics(
    pairs: Iterable[Pair],
    rules: tuple[Normalization, Normalization],
    effects: tuple[RuleEffects, RuleEffects] | None = None,
) -> tuple[TextStatistics, TextStatistics]:
    """Of both sides, as the rules write them; `effects` are filled in by what was read."""
    source, target = TextStatistics(), TextStatistics()
    plain = [normalizer(rule) for rule in rules]
    for pair in pairs:
        source.add(plain[0](pair.source))
        target.add(plain[1](pair.target))
        if effects is not None:
            effects[0].add(pair.source)
            effects[1].add(pair.target)
    return source, target


def _said(rules: Sequence[Normalization], config: TokenizerConfig) -> str:
    """How texts are written alike, where that was chosen."""
    chosen = config.normalize is None and set(rules) != {"none"}
    return f"; texts are written alike by {' and '.join(rules)}" if chosen else ""


def train_target(
    lines: Iterable[Pair], config: TokenizerConfig, *, mask: bool, report: Callable[[str], None]
) -> Tokenizer:
    """Train one tokenizer for the targets, as `TokenizerPair.train_one` says.

    Raises:
        ConfigError: the vocabulary size asked for does not hold the characters.
        DataError: there is no text.
    """
    (_, rule), effects = _asked(config), (RuleEffects(), RuleEffects())
    _, statistics = _statistics(lines, ("none", rule), effects if config.normalize is None else None)
    wanted = config.target_kind or config.kind
    kind = choose_kind(statistics.sample) if wanted == "auto" else wanted
    _check_meant(config, [kind])
    if config.normalize is None:
        _, rule = choose_rules((kind, kind), *effects, joint=False)
        if effects[1].changed[rule]:
            _, statistics = _statistics(lines, ("none", rule))
    tokenizer = _train(kind, (line.target for line in lines), statistics, config, mask, rule)
    report(f"tokenizer: {tokenizer.kind} vocabulary of {len(tokenizer)} entries{_said([rule], config)}")
    return tokenizer


def _check_meant(config: TokenizerConfig, kinds: Sequence[Kind]) -> None:
    """Refuse settings that were given and do nothing for vocabularies of these kinds.

    Raises:
        ConfigError: there is one.
    """
    listed = [kind for kind in kinds if kind in ("word", "character")]
    for name, of in (("min_count", listed), ("character_coverage", kinds[len(listed) :])):
        given = name in config.given and getattr(config, name) != config.settings[name].default
        if given and not of:
            found, hint = " and ".join(sorted(set(kinds))), f"leave tokenizer.{name} out, or set tokenizer.kind"
            raise ConfigError(f"tokenizer.{name} has no effect on these vocabularies", found=found, hint=hint)


def _train(
    kind: Kind,
    texts: Iterable[str],
    statistics: TextStatistics,
    config: TokenizerConfig,
    mask: bool,
    rule: Normalization,
    together: int = 1,
) -> Tokenizer:
    """A tokenizer of one kind; of a large corpus it sees a sample, which has both sides of a pair: `together` = 2."""
    symbols = config.symbols
    check_symbols(symbols)
    if kind == "character" and symbols:
        hint = "leave tokenizer.symbols out: characters spell a tag too"
        raise ConfigError(
            "an entry of a character vocabulary is a single character", found=", ".join(symbols), hint=hint
        )
    if kind in ("word", "character"):
        size = config.vocab_size
        return Vocabulary.train(
            kind, texts, min_count=config.min_count, size=size, mask=mask, symbols=symbols, normalization=rule
        )
    coverage = config.character_coverage
    size = config.vocab_size or choose_vocab_size(statistics, character_coverage=coverage)
    stride = math.ceil(statistics.lines / MAX_TRAINING_LINES) or 1
    sample = (text for i, text in enumerate(texts) if i // together % stride == 0)
    return SentencePieceTokenizer.train(
        kind, sample, vocab_size=size, character_coverage=coverage, mask=mask, symbols=symbols, normalization=rule
    )
