"""Transition models: the ladder from counting words up to attention.

Each rung has `fit(sequences, vocab)`, `next(history)`, the next-token protocol of the searches, `log_probability`,
`perplexity`, `save` and `load`; from `RUNGS` on top, `one_layer_transformer` learns what they count.
"""

from dragoman.markov.ladder import RUNGS, is_markov, load
from dragoman.markov.matrices import MatrixSkips
from dragoman.markov.measure import Measure, measure
from dragoman.markov.model import History, MarkovModel
from dragoman.markov.one_hot import one_hot, several_hot
from dragoman.markov.orders import FirstOrder, SecondOrder, ZerothOrder
from dragoman.markov.skips import MaskedSkips, Skips
from dragoman.markov.transformer import one_layer_transformer

__all__ = [
    "RUNGS",
    "FirstOrder",
    "History",
    "MarkovModel",
    "MaskedSkips",
    "MatrixSkips",
    "Measure",
    "SecondOrder",
    "Skips",
    "ZerothOrder",
    "is_markov",
    "load",
    "measure",
    "one_hot",
    "one_layer_transformer",
    "several_hot",
]
