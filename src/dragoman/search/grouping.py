"""Requests that can be run as one batch by what runs only one kind of search at a time. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.search.request import SearchRequest


def alike(requests: Sequence[SearchRequest]) -> list[list[int]]:
    """Return the rows of requests that share options, frame and forbidden tokens, in groups."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for row, request in enumerate(requests):
        groups.setdefault((id(request.options), request.frame, request.never), []).append(row)
    return list(groups.values())
