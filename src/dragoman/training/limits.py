"""What training targets tell of outputs: how long they may be, and whether what repeats itself is a fault."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dragoman.config import DecodingConfig
from dragoman.data import Prepared
from dragoman.data.limits import LEFT_OUT, fit_limit, leaves_limit_open, own_lengths
from dragoman.data.store import TokenStore
from dragoman.models.description import CONFIG, read_config
from dragoman.search.guard import is_loop

# Targets that are looked at for repetitions.
LOOKED_AT = 20_000


class Fitted(NamedTuple):
    """Decoding settings that suit the training targets, and why."""

    reason: str
    values: dict[str, object]


def fit_outputs(options: DecodingConfig, data: Prepared, start: str | None = None) -> list[Fitted]:
    """Return the decoding settings that the training targets ask for in place of the defaults, where they are open.

    Args:
        options: the search as it is; what was given in it stays.
        data: prepared pairs.
        start: the model that training begins from, if any: outputs may be as long as its own.
    """
    found = []
    if leaves_limit_open(options):
        factor, offset = options.max_length_factor, options.max_length_offset
        if start is not None and (Path(start) / CONFIG).exists():
            before = read_config(Path(start))[1]
            factor, offset = max(factor, before.max_length_factor), max(offset, before.max_length_offset)
        sources = data.train.source_lengths if data.tokenizers.matching is None else own_lengths(data.train)
        factor, offset = fit_limit(sources, data.train.target_lengths, factor=factor, offset=offset)
        if (factor, offset) != (options.max_length_factor, options.max_length_offset):
            values = {"max_length_factor": factor, "max_length_offset": offset}
            changed: dict[str, object] = {
                name: value for name, value in values.items() if value != getattr(options, name)
            }
            found.append(Fitted("so that outputs may be as long as training targets, all but 1 in 1,000", changed))
    if options.loop_guard and "loop_guard" not in options.given:
        share = share_of_loops(data.train, options.loop_guard)
        if share > 1 / LEFT_OUT:
            why = f"{100 * share:.2g} % of the training targets repeat themselves like loops"
            found.append(Fitted(why, {"loop_guard": 0}))
    return found


def share_of_loops(store: TokenStore, size: int) -> float:
    """Return the share of a store's targets that the guard against loops would take for loops.

    Args:
        store: of pairs; an even sample of it is looked at.
        size: of the n-grams.
    """
    rows = np.linspace(0, len(store) - 1, min(len(store), LOOKED_AT)).astype(np.int64).tolist()
    return sum(is_loop(store.target(row).tolist(), size) for row in rows) / max(1, len(rows))
