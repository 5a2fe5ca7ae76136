"""Training on processors without the detours: rows without padding, fused kernels, gradients written by hand.

What is computed is what `dragoman.nn` computes, which stays the oracle and takes over wherever this does not apply.
"""

from dragoman.fast.hidden import module_hidden, training_hidden
from dragoman.fast.memory import keep_few_products, keep_memory

__all__ = ["keep_few_products", "keep_memory", "module_hidden", "training_hidden"]
