"""The search as asked for, as one object: search, rerank by both directions, guard against loops. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.search.guard import Guarded, search_without_loops
from dragoman.search.hypothesis import Hypothesis, added_up, make_hypothesis
from dragoman.search.request import NEVER, SearchRequest, changed_requests
from dragoman.search.reranking import reranked, right_to_left_share, scored_by_both
from dragoman.sequences.source import Source
from dragoman.sequences.target import Direction
from dragoman.translation.backend import Backend


@dataclass(frozen=True)
class SearchPlan:
    """What a search does, step by step. Made once from the options, used by whatever searches.

    Attributes:
        options: of all requests that are searched by it.
        engine: what runs them.
        right_to_left_share: of that direction in what outputs are ranked by; 0 ranks by one direction.
        datastores: whether they are asked.
    """

    options: DecodingConfig
    engine: Backend
    right_to_left_share: float
    datastores: bool

    @classmethod
    def of(cls, options: DecodingConfig, engine: Backend) -> SearchPlan:
        """Return the plan of a search by these options.

        Raises:
            ConfigError: a datastore is given weight that is not there, or a direction that was not learned.
        """
        share = right_to_left_share(options, engine.learned_right_to_left)
        datastores = engine.has_datastore and options.knn_weight != 0
        if options.knn_weight and not datastores:
            hint = "make one with `dragoman remember`, or leave decoding.knn_weight out"
            raise ConfigError("the model has no datastore", found=f"knn_weight = {options.knn_weight:g}", hint=hint)
        return cls(options, engine, share, datastores)

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

    def find(self, requests: Sequence[SearchRequest], threads: int | None = None) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request, best first, as they are ranked; loops are not searched again.

        Args:
            requests: a batch; options may differ from the plan's in what does not change the plan.
            threads: at most so many work on it, where the engine can be told; all there are if None.

        Raises:
            ModelError: the model gives NaN, or zero probability to every output of a request.
        """
        if not self.right_to_left_share:
            return self.engine.search(requests, threads)
        found = self.engine.search(changed_requests(requests, {"n_best": self.options.beam_size}), threads)
        outputs = [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]
        forced = self.engine.force(
            [request.source for request in requests], outputs, self.options, Direction.RIGHT_TO_LEFT, threads
        )
        return [
            reranked(hypotheses, list(map(added_up, values)), self.right_to_left_share, request.options)
            for request, hypotheses, values in zip(requests, found, forced, strict=True)
        ]

    def run(self, requests: Sequence[SearchRequest], threads: int | None = None) -> Guarded:
        """Return what `find` finds, loops searched once more without repetitions; arguments as for that."""
        return search_without_loops(lambda some: self.find(some, threads), requests)

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
