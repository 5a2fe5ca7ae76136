"""The search as asked for, as one object: search, rerank by both directions, guard against loops. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.search.guard import Guarded, is_finished, without_loops
from dragoman.search.hypothesis import Hypothesis, added_up, make_hypothesis
from dragoman.search.joint import ctc_share
from dragoman.search.request import NEVER, SearchRequest, changed
from dragoman.search.reranking import reranked, right_to_left_share, scored_by_both
from dragoman.sequences.source import Source
from dragoman.sequences.target import Direction
from dragoman.translation.backend import Backend
from dragoman.translation.distinct import Decode, distinct_texts


class Need(NamedTuple):
    """What a plan needs of a model for a request: its search, or the right-to-left log-probabilities of outputs.

    Attributes:
        request: what is searched for, or whose source the outputs are of.
        outputs: to be scored, unframed, from left to right; None for a search.
    """

    request: SearchRequest
    outputs: Sequence[tuple[int, ...]] | None = None


class FoundOnce(NamedTuple):
    """What a plan finds for a request: its hypotheses, best first, and whether they are those of a second search."""

    hypotheses: list[Hypothesis]
    again: bool


# Is sent what it needs: hypotheses, best first, or for each output the log-probabilities of its tokens and its end.
Steps = Generator[Need, Any, FoundOnce]


@dataclass(frozen=True)
class SearchPlan:
    """What a search does, step by step. Made once from the options, used by whatever searches.

    Attributes:
        options: of all requests that are searched by it.
        engine: what runs them.
        right_to_left_share: of that direction in what outputs are ranked by; 0 ranks by one direction.
        datastores: whether they are asked.
        decode: makes the text of tokens; if given, lists of several outputs have each text once.
    """

    options: DecodingConfig
    engine: Backend
    right_to_left_share: float
    datastores: bool
    decode: Decode | None = None

    @classmethod
    def of(cls, options: DecodingConfig, engine: Backend, decode: Decode | None = None) -> SearchPlan:
        """Return the plan of a search by these options.

        Raises:
            ConfigError: a datastore or a head is given weight that is not there, or a direction that was not learned.
        """
        share = right_to_left_share(options, engine.learned_right_to_left)
        ctc_share(options, engine.has_heads)
        datastores = engine.has_datastore and options.knn_weight != 0
        if options.knn_weight and not datastores:
            hint = "make one with `dragoman remember`, or leave decoding.knn_weight out"
            raise ConfigError("the model has no datastore", found=f"knn_weight = {options.knn_weight:g}", hint=hint)
        return cls(options, engine, share, datastores, decode)

    @property
    def aids(self) -> tuple[str, ...]:
        """What is asked besides the left-to-right models: `datastore`, `right to left`."""
        return (*(["datastore"] if self.datastores else []), *(["right to left"] if self.right_to_left_share else []))

    def with_all_finished(self) -> SearchPlan:
        """Return the same search, giving all that its beam finishes."""
        return replace(self, options=self.options.replace({"n_best": self.options.beam_size}))

    def with_options(self, options: DecodingConfig) -> SearchPlan:
        """Return the same plan with options that differ in nothing that it was made from."""
        return replace(self, options=options)

    def request(self, source: Source, prefix: Sequence[int] = (), seed: int = 0) -> SearchRequest:
        """Return what is to be searched for one source.

        Args:
            source: what is read.
            prefix: ids that the output must begin with.
            seed: for sampling.
        """
        never = (*NEVER, source.specials.unk) if self.options.unknown == "forbid" else NEVER
        return SearchRequest(source, self.options, tuple(prefix), seed, never=never)

    def steps(self, request: SearchRequest, kept: Callable[[], tuple[int, ...]] = tuple) -> Steps:
        """Yield, one after the other, what one request needs of a model; return what is found.

        `run` answers many of these together; what schedules requests that come and go answers each when it is its turn.

        Args:
            request: options may differ from the plan's in what does not change the plan.
            kept: gives what a second search must begin with besides; asked when there is one.
        """
        found = yield from self._guarded(request, kept)
        if self.decode is None:
            return found

        def search(wider: SearchRequest) -> Generator[Need, Any, list[Hypothesis]]:
            kept()  # the first output stands: nothing is promised of what follows
            return (yield from self._guarded(wider, tuple)).hypotheses

        return found._replace(hypotheses=(yield from distinct_texts(request, found.hypotheses, self.decode, search)))

    def _guarded(self, request: SearchRequest, kept: Callable[[], tuple[int, ...]]) -> Steps:
        """What is found for a request, a loop searched once more without repetitions."""
        found = yield from self._ranked(request)
        again = without_loops(request, found)
        if again is None:
            return FoundOnce(found, False)
        if begin := kept():
            again = replace(again, prefix=max(again.prefix, begin, key=len))
        second = yield from self._ranked(again)
        return FoundOnce(second, True) if is_finished(second[0], request.max_length) else FoundOnce(found, False)

    def _ranked(self, request: SearchRequest) -> Generator[Need, Any, list[Hypothesis]]:
        """The hypotheses of a request, best first, as they are ranked."""
        if not self.right_to_left_share:
            return (yield Need(request))
        beam = changed(request.options, "n_best", request.options.beam_size)
        found: list[Hypothesis] = yield Need(request.with_options(beam))
        values: list[list[float]] = yield Need(request, [hypothesis.tokens for hypothesis in found])
        return reranked(found, list(map(added_up, values)), self.right_to_left_share, request.options)

    def run(self, requests: Sequence[SearchRequest], threads: int | None = None) -> Guarded:
        """Return the hypotheses of each request, best first, loops searched once more without repetitions.

        Args:
            requests: a batch; options may differ from the plan's in what does not change the plan.
            threads: at most so many work on it, where the engine can be told; all there are if None.

        Raises:
            ModelError: the model gives NaN, or zero probability to every output of a request.
        """
        going = [self.steps(request) for request in requests]
        needs = {row: next(steps) for row, steps in enumerate(going)}
        over: dict[int, FoundOnce] = {}
        while needs:
            answers, needs = self._answers(needs, threads), {}
            for row, answer in answers.items():
                try:
                    needs[row] = going[row].send(answer)
                except StopIteration as end:
                    over[row] = end.value
        found = [over[row] for row in range(len(requests))]
        return Guarded([one.hypotheses for one in found], [one.again for one in found])

    def run_all(self, batches: Sequence[Sequence[SearchRequest]]) -> Iterator[Guarded]:
        """Yield what `run` returns for each batch; each on a thread of its own where there are batches enough."""
        workers, threads = self.engine.workers(len(batches), self.options)
        search = partial(self.run, threads=threads)
        if workers == 1:
            yield from map(search, batches)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(search, batches)

    def _answers(self, needs: dict[int, Need], threads: int | None) -> dict[int, Any]:
        """What each row needs, those with like needs together."""
        searched = [row for row, need in needs.items() if need.outputs is None]
        answers: dict[int, Any] = {}
        while searched:
            # Wider beams take more memory: then fewer at once.
            size = max(needs[row].request.options.beam_size for row in searched)
            some = searched[: max(1, len(needs) * self.options.beam_size // size)]
            answers.update(zip(some, self.engine.search([needs[row].request for row in some], threads), strict=True))
            searched = searched[len(some) :]
        if forced := [row for row in needs if row not in answers]:
            sources = [needs[row].request.source for row in forced]
            outputs = [needs[row].outputs or [] for row in forced]
            values = self.engine.force(sources, outputs, self.options, Direction.RIGHT_TO_LEFT, threads)
            answers.update(zip(forced, values, strict=True))
        return answers

    def known(self, sources: Sequence[Source], targets: Sequence[Sequence[int]]) -> list[Hypothesis]:
        """Return targets as the hypotheses that they would be, had the search found them.

        Args:
            sources: a batch.
            targets: one of each, unframed.
        """
        share, options = self.right_to_left_share, self.options
        alone = [[target] for target in targets]
        forced = self.engine.force(sources, alone, options)
        found = [make_hypothesis(target, values, options) for target, [values] in zip(targets, forced, strict=True)]
        if not share:
            return found
        other = self.engine.force(sources, alone, options, Direction.RIGHT_TO_LEFT)
        return [
            scored_by_both(hypothesis, added_up(values), share, options)
            for hypothesis, [values] in zip(found, other, strict=True)
        ]
