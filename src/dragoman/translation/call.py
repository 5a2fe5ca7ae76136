"""Texts that one caller wants translated, on their way through a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from dragoman.audio.listing import Given
from dragoman.config import DecodingConfig
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.request import SearchRequest
from dragoman.text.tokenizer import UNKNOWN_TEXT
from dragoman.translation.results import Translation
from dragoman.translation.running_batch import Task
from dragoman.translation.translator import Translator

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # of bytes that are no character, or not yet


@dataclass(frozen=True)
class Progress:
    """How far a text has come.

    Attributes:
        place: which text of the call.
        stable: the beginning of its translation; what is told later, and in the end, begins with it.
        tentative: how it goes on, as it looks now.
        is_over: whether its search is over.
    """

    place: int
    stable: str
    tentative: str
    is_over: bool = False


def cost_of(request: SearchRequest | None) -> int:
    """Return what a request takes of a budget: tokens of its source and its frame, for each hypothesis of its beam."""
    if request is None:
        return 0
    options = request.options
    return (request.source.width + 2) * (options.n_best if options.sampling else options.beam_size)


class Call:
    """Texts with their options, what was found of them so far, and the future of their translations.

    Attributes:
        future: gives the translations, in the order of the texts.
        cost: of all texts together (`cost_of`).
        requests: of each text; None of a blank one.
        found: the hypotheses of each text.
        left: how many texts are not over.
        deadline: by the monotonic clock, or None.

    Raises:
        ConfigError: as `Translator.translate_with`.
        DataError: likewise.
    """

    deadline: float | None = None
    tasks: Sequence[Task] = ()

    def __init__(
        self,
        translator: Translator,
        texts: Sequence[Given],
        options: DecodingConfig,
        prefixes: Sequence[str] | None,
        alignments: bool,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.translator, self.alignments, self.on_progress = translator, alignments, on_progress
        self.asked = translator.ask(texts, options, prefixes)
        self.plan, self.requests = self.asked.plan, self.asked.requests
        self.future: Future[list[Translation]] = Future()
        self.cost = sum(map(cost_of, self.requests))
        self.found: list[Sequence[Hypothesis] | None] = [None] * len(texts)
        self.left = sum(request is not None for request in self.requests)
        self._reported: dict[int, Progress] = {}

    def cancel(self) -> None:
        """Give up: what is searched of it leaves at the next step. Nothing happens if it is over."""
        self.future.cancel()

    def translations(self) -> list[Translation]:
        """Return the translations; aligns what is to be aligned."""
        found = self.translator.tell(self.asked, self.found, alignments=self.alignments)
        if self.copies and self.on_progress is not None:
            for place, one in enumerate(found):
                self.on_progress(Progress(place, one.text, "", is_over=True))
        return found

    @property
    def copies(self) -> bool:
        """Whether unknown words give way to words of the source, which are known at the end."""
        return self.plan.options.unknown == "copy"

    def live_tasks(self) -> Iterator[tuple[int, Task]]:
        """Yield the texts that are not over, by their place, each with its task."""
        if not self.tasks:
            return
        places = (place for place, request in enumerate(self.requests) if request is not None)
        yield from ((place, task) for place, task in zip(places, self.tasks, strict=True) if self.found[place] is None)

    def report(
        self, place: int, task: Task, rows: Sequence[tuple[int, ...]], common: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Tell how far a text has come, if that changed; return the tokens that were promised.

        Args:
            place: which text.
            task: its own.
            rows: the tokens of what its output can still come from, the likeliest first.
            common: what all of them begin with.
        """
        if not rows:
            return task.kept
        request, end = task.request, task.request.frame.end
        sure = () if task.is_again else _before_repeats(common, request.options.loop_guard)
        kept = max(task.kept, tuple(token for token in sure if token != end), key=len)
        before = self._reported.get(place, Progress(place, "", ""))
        stable = self._text(kept)
        stable = stable.partition(UNKNOWN_TEXT)[0] if self.copies else stable
        stable = stable if stable.startswith(before.stable) else before.stable
        likely = self._text([token for token in rows[0] if token != end])
        tentative = likely[len(stable) :] if likely.startswith(stable) else ""
        self._report(before, Progress(place, stable, tentative))
        return kept

    def report_over(self, place: int) -> None:
        """Tell that the search of a text is over."""
        hypotheses = self.found[place]
        if self.on_progress is None or not hypotheses or self.copies:
            return
        text = self.translator.tokenizers.target.decode(hypotheses[0].tokens)
        self._report(self._reported.get(place), Progress(place, text, "", is_over=True))

    def _report(self, before: Progress | None, progress: Progress) -> None:
        if self.on_progress is not None and progress != before:
            self._reported[progress.place] = progress
            self.on_progress(progress)

    def _text(self, tokens: Sequence[int]) -> str:
        """The text of a beginning: without a character of which bytes are still to come."""
        return self.translator.tokenizers.target.decode(list(tokens)).rstrip(REPLACEMENT)


def _before_repeats(tokens: tuple[int, ...], size: int) -> tuple[int, ...]:
    """What stands before the first n-gram of this size that was there already: a loop may be searched once more."""
    seen: set[tuple[int, ...]] = set()
    for place in range(len(tokens) - size + 1) if size else ():
        ngram = tokens[place : place + size]
        if ngram in seen:
            return tokens[: place + size - 1]
        seen.add(ngram)
    return tokens
