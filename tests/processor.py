"""Another processor, as far as this one can play it: `pytest --processor avx2` (or `plain`).

PyTorch, its products, faiss, NumPy's products and the compiled library then use no wider vectors than that one has.
What a processor rounds in its own way is the last digits of a sum, and in int8 without VNNI a whole bit of each factor:
a test must not hang on either.
"""

from __future__ import annotations

import os

# What each library reads before it is loaded. MKL takes no less than AVX2's neighbour SSE4.2.
SETTINGS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "FAISS_OPT_LEVEL": "AVX2", "OPENBLAS_CORETYPE": "Haswell",
    },
    "plain": {
        "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "FAISS_OPT_LEVEL": "generic", "OPENBLAS_CORETYPE": "Nehalem",
    },
}  # fmt: skip
# Of the compiled library's kernels, slowest first.
KERNELS = {"avx2": ("plain", "avx2"), "plain": ("plain",)}


def play(kind: str) -> None:
    """Hold this process, and those it starts, to the instructions of `kind`; before PyTorch is imported.

    The compiled library is held in this process and its forks alone.
    """
    os.environ.update(SETTINGS[kind])
    from dragoman.engines.native.library import Library
    from dragoman.fast import kernels

    load = Library.__init__

    def load_some(self: Library, *given: object) -> None:
        load(self, *given)
        self.kernels = tuple(one for one in self.kernels if one.name in KERNELS[kind])

    Library.__init__ = load_some
    kernels.SETS = tuple(name for name in kernels.SETS if name in KERNELS[kind])
