"""Known targets as the hypotheses that they would be, had a search found them."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.config import DecodingConfig
from dragoman.search.batches import length_batches
from dragoman.search.hypothesis import Hypothesis, make_hypothesis
from dragoman.search.reranking import ranked_by_both, right_to_left_share
from dragoman.text.tokenizer import EOS
from dragoman.translation.translator import Translator


def as_found(
    translator: Translator, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], options: DecodingConfig
) -> list[Hypothesis]:
    """Targets as the hypotheses that they would be, had the search found them.

    Args:
        translator: of one model or several.
        sources: ids, unframed.
        targets: of each, likewise.
        options: of the search.
    """
    runner, framed = translator.runner, [[*ids, EOS] for ids in sources]
    share = right_to_left_share(options, translator.right_to_left)
    found: list[Hypothesis | None] = [None] * len(targets)
    lengths = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    for rows in length_batches(lengths):
        batch, wanted = [framed[row] for row in rows], [targets[row] for row in rows]
        values = runner.force(batch, wanted, options)
        behind = runner.read_backwards(batch, [[one] for one in wanted]) if share else [[0.0]] * len(rows)
        for row, target, each, [back] in zip(rows, wanted, values, behind, strict=True):
            one = make_hypothesis(target, each, options)
            found[row] = ranked_by_both(one, back, share, options) if share else one
    return [one for one in found if one is not None]
