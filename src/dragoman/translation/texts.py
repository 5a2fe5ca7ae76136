"""Texts on their way through a search: as the requests that it is asked, and what it found as translations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.audio.listing import Given
from dragoman.errors import ConfigError
from dragoman.search.batches import length_batches
from dragoman.search.guard import is_finished
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.outputs import Alternative
from dragoman.search.request import SearchRequest
from dragoman.sequences.source import Source
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.text.unknown import count_unknown
from dragoman.translation.checks import check_texts, prefix_ids
from dragoman.translation.copying import with_copies
from dragoman.translation.plan import SearchPlan
from dragoman.translation.results import Translation, no_translation

# Which source token each token of each hypothesis of each source looked at most.
Align = Callable[[Sequence[Source], Sequence[Sequence[Hypothesis]]], list[list[list[tuple[int, int]]]]]


@dataclass(frozen=True)
class AskedTexts:
    """Texts with what is searched for each.

    Attributes:
        texts: as they were given.
        plan: the search.
        requests: of each text; None of an empty or blank one.
        truncated: whether each text was longer than the limit and was cut there.
    """

    texts: Sequence[str]
    plan: SearchPlan
    requests: Sequence[SearchRequest | None]
    truncated: Sequence[bool]

    @property
    def widths(self) -> list[int]:
        """How many tokens are read of each text."""
        return [0 if request is None else request.source.width for request in self.requests]


def ask(
    tokenizers: TokenizerPair, plan: SearchPlan, texts: Sequence[Given], prefixes: Sequence[str] | None, first: int = 0
) -> AskedTexts:
    """Return what a search is asked for some texts.

    Args:
        tokenizers: of both sides.
        plan: the search.
        texts: any number of strings.
        prefixes: one string per text that its output must begin with; "" for none.
        first: number of the first text in a longer series.

    Raises:
        DataError: one text was given in place of a list, or a text has a line break in it.
        ConfigError: there are not as many prefixes as texts, or the target vocabulary lacks a word of a prefix.
    """
    if tokenizers.sound is None:
        check_texts(list(map(str, texts)))
    if prefixes is not None and len(prefixes) != len(texts):
        raise ConfigError("one prefix per text is needed", expected=len(texts), found=len(prefixes))
    forced = [prefix_ids(tokenizers.target, prefix) for prefix in prefixes or [""] * len(texts)]
    requests: list[SearchRequest | None] = []
    truncated: list[bool] = []
    for row, (text, prefix) in enumerate(zip(texts, forced, strict=True)):
        most = plan.options.max_source_length
        source = tokenizers.encode_source(text, most) if str(text).strip() else Source(())
        cut = source.cut(most)
        requests.append(plan.request(cut, prefix, first + row) if cut.width else None)
        truncated.append(len(source) > len(cut))
    return AskedTexts(list(map(str, texts)), plan, requests, truncated)


def tell(
    tokenizers: TokenizerPair,
    align: Align,
    asked: AskedTexts,
    found: Sequence[Sequence[Hypothesis] | None],
    *,
    alignments: bool = False,
) -> list[Translation]:
    """Return what was found for some texts as translations, in their order.

    Args:
        tokenizers: of both sides.
        align: is asked where alignments, or copies of unknown words, are wanted.
        asked: the texts.
        found: the hypotheses of each, best first; None of a blank one.
        alignments: whether translations tell their alignments.
    """
    aligned = _aligned(align, asked, found) if alignments or _copies(tokenizers, asked, found) else {}
    results = [no_translation(text, alignments=alignments) for text in asked.texts]
    for row, (text, request, hypotheses) in enumerate(zip(asked.texts, asked.requests, found, strict=True)):
        if request is None or hypotheses is None:
            continue
        one = _translation(tokenizers, text, request, hypotheses, aligned.get(row), asked.truncated[row])
        results[row] = one if alignments else one.without_alignment()
    return results


def _aligned(
    align: Align, asked: AskedTexts, found: Sequence[Sequence[Hypothesis] | None]
) -> dict[int, Sequence[list[tuple[int, int]]]]:
    """The alignments of each hypothesis, by the row of its text."""
    aligned: dict[int, Sequence[list[tuple[int, int]]]] = {}
    for rows in length_batches(asked.widths):
        sources = [request.source for row in rows if (request := asked.requests[row]) is not None]
        aligned.update(zip(rows, align(sources, [found[row] or () for row in rows]), strict=True))
    return aligned


def _copies(tokenizers: TokenizerPair, asked: AskedTexts, found: Sequence[Sequence[Hypothesis] | None]) -> bool:
    """Whether an output has an unknown word for which one of its source is to be copied."""
    unk = tokenizers.target.unk
    outputs = (hypothesis for hypotheses in found for hypothesis in hypotheses or ())
    return asked.plan.options.unknown == "copy" and any(unk in output.tokens for output in outputs)


def _translation(
    tokenizers: TokenizerPair,
    text: str,
    request: SearchRequest,
    hypotheses: Sequence[Hypothesis],
    aligned: Sequence[list[tuple[int, int]]] | None,
    truncated: bool,
) -> Translation:
    target, copies = tokenizers.target, request.options.unknown == "copy"
    outputs = [
        Alternative(
            with_copies(tokenizers, text, request.source, hypothesis.tokens, pairs)
            if copies and pairs is not None
            else target.decode(hypothesis.tokens),
            hypothesis.score,
            hypothesis.log_probability,
            tuple(target.pieces(hypothesis.tokens)),
            hypothesis.token_log_probabilities,
            finished=is_finished(hypothesis, request.max_length),
            alignment=None if pairs is None else tuple(pairs),
            right_to_left=hypothesis.right_to_left,
        )
        for hypothesis, pairs in zip(hypotheses, aligned or [None] * len(hypotheses), strict=True)
    ]
    best = outputs[0]
    return Translation(
        best.text, best.score, best.log_probability, best.tokens, best.token_scores,
        source=text,
        source_tokens=tuple(tokenizers.source_pieces(request.source)),
        alternatives=tuple(outputs),
        alignment=best.alignment,
        right_to_left=best.right_to_left,
        truncated=truncated,
        finished=best.finished,
        unknown=count_unknown(tokenizers.source, request.source.ids) if request.source.ids else 0,
    )  # fmt: skip
