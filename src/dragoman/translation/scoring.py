"""How likely models find given targets. Needs PyTorch only when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from dragoman.audio.listing import Given
from dragoman.config import DecodingConfig
from dragoman.errors import DataError
from dragoman.given import check_series
from dragoman.search.batches import BATCH_TOKENS, length_batches
from dragoman.search.hypothesis import added_up, check_numbers
from dragoman.search.outputs import PairScore
from dragoman.sequences.source import Source
from dragoman.sequences.target import Direction
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.translation.backend import Backend


def score_targets(
    engine: Backend,
    tokenizers: TokenizerPair,
    sources: Sequence[Given],
    targets: Sequence[str],
    options: DecodingConfig,
) -> list[PairScore]:
    """Return how likely models find each target, given its source, in each direction that they learned.

    A pair too long to be scored, of 4,096 tokens or more on a side, has a log-probability of NaN and no tokens.

    Args:
        engine: runs the models.
        tokenizers: of both sides.
        sources, targets: a pair each.
        options: whether datastores have weight.

    Raises:
        DataError: there are not as many targets as sources.
        ModelError: the model gives NaN.
    """
    if len(sources) != len(targets):
        raise DataError("a score needs a target for each source", expected=len(sources), found=len(targets))
    read = [tokenizers.encode_source(text, BATCH_TOKENS) for text in sources]
    wanted = [tokenizers.target.encode(text) for text in targets]
    lengths = [max(source.width, len(target)) + 1 for source, target in zip(read, wanted, strict=True)]
    named = list(map(str, sources))
    found = [PairScore.unscored(*pair) for pair in zip(named, targets, strict=True)]
    short = [row for row, length in enumerate(lengths) if length <= BATCH_TOKENS]
    for batch in length_batches([lengths[row] for row in short]):
        rows = [short[place] for place in batch]
        some, theirs = [read[row] for row in rows], [wanted[row] for row in rows]
        for row, values, other in zip(rows, *_log_probabilities(engine, some, theirs, options), strict=True):
            check_numbers(values)
            pieces = tuple(tokenizers.target.pieces(wanted[row]))
            found[row] = PairScore(named[row], targets[row], sum(values), pieces, tuple(values), other)
    return found


def score_stream(
    score: Callable[..., list[PairScore]], pairs: Iterable[tuple[Given, str] | None], chunk: int
) -> Iterator[PairScore]:
    """Yield what `score` returns for a stream of (source, target), in order, `chunk` at a time; of None, NaN."""
    from dragoman.text.lines import chunks

    for number, some in enumerate(chunks(check_series(pairs, "pairs"), chunk)):
        known = [pair for pair in some if pair is not None]
        found = iter(score([source for source, _ in known], [target for _, target in known], first=number * chunk))
        yield from (PairScore.unscored("", "") if pair is None else next(found) for pair in some)


def _log_probabilities(
    engine: Backend, sources: Sequence[Source], targets: Sequence[Sequence[int]], options: DecodingConfig
) -> tuple[list[list[float]], list[float | None]]:
    """Of each target's tokens from left to right, and their sum in the other direction if that was learned."""
    score = engine.torch.score
    values = score(sources, targets, options, Direction.LEFT_TO_RIGHT)
    if not engine.learned_right_to_left:
        return values, [None] * len(values)
    return values, [added_up(other) for other in score(sources, targets, options, Direction.RIGHT_TO_LEFT)]
