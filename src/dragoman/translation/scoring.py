"""How likely models find given targets. Needs PyTorch only when it is asked."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.config import DecodingConfig
from dragoman.errors import DataError
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
    sources: Sequence[str],
    targets: Sequence[str],
    options: DecodingConfig,
    *,
    first: int = 0,
) -> list[PairScore]:
    """Return how likely models find each target, given its source, in each direction that they learned.

    Args:
        engine: runs the models.
        tokenizers: of both sides.
        sources, targets: a pair each.
        options: whether datastores have weight.
        first: number of the first pair in a longer series, for messages.

    Raises:
        DataError: there are not as many targets as sources, or a text is too long to be scored.
        ModelError: the model gives NaN.
    """
    if len(sources) != len(targets):
        raise DataError("a score needs a target for each source", expected=len(sources), found=len(targets))
    read = [tokenizers.encode_source(text) for text in sources]
    wanted = [tokenizers.target.encode(text) for text in targets]
    lengths = [max(source.width, len(target)) + 1 for source, target in zip(read, wanted, strict=True)]
    if lengths and max(lengths) > BATCH_TOKENS:
        number = first + 1 + lengths.index(max(lengths))
        limit = f"at most {BATCH_TOKENS - 1} tokens"
        longest, hint = max(lengths) - 1, "leave this pair out"
        raise DataError("a text is too long to be scored", line=number, expected=limit, found=longest, hint=hint)
    found: list[PairScore | None] = [None] * len(sources)
    for rows in length_batches(lengths):
        some, theirs = [read[row] for row in rows], [wanted[row] for row in rows]
        for row, values, other in zip(rows, *_log_probabilities(engine, some, theirs, options), strict=True):
            check_numbers(values)
            pieces = tuple(tokenizers.target.pieces(wanted[row]))
            found[row] = PairScore(sources[row], targets[row], sum(values), pieces, tuple(values), other)
    return [one for one in found if one is not None]


def _log_probabilities(
    engine: Backend, sources: Sequence[Source], targets: Sequence[Sequence[int]], options: DecodingConfig
) -> tuple[list[list[float]], list[float | None]]:
    """Of each target's tokens from left to right, and their sum in the other direction if that was learned."""
    score = engine.torch.score
    values = score(sources, targets, options, Direction.LEFT_TO_RIGHT)
    if not engine.learned_right_to_left:
        return values, [None] * len(values)
    return values, [added_up(other) for other in score(sources, targets, options, Direction.RIGHT_TO_LEFT)]
