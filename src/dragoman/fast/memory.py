"""Memory that training frees and needs again in the next step stays with the process."""

from __future__ import annotations

import ctypes
import os
import sys

# Parameters of `mallopt` (glibc's malloc.h).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_KEPT, _AT_ONCE = (1 << 31) - 1, 64 << 20
# How many compiled products oneDNN keeps, by its own 1,024. A batch of another number of rows has others.
_CACHE, _CACHE_ALIAS, _PRODUCTS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY", "16"


def keep_memory() -> bool:
    """Let the C library keep what is freed, where it is glibc; whether it does.

    As it is, each large tensor is mapped anew and its pages are filled with zeros at the first touch, in every step.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version()
        set_option = library.mallopt
    except (AttributeError, OSError):
        return False
    wanted = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _KEPT), (_TOP_PAD, _AT_ONCE))
    return all(set_option(key, value) for key, value in wanted)


def keep_few_products() -> None:
    """Let oneDNN, which multiplies in bfloat16, keep few of the products it compiles; a value set outside stands.

    What it keeps lies between the tensors, so that freed memory falls into pieces and each allocation looks through
    more of them. It reads the number when it multiplies for the first time; later this changes nothing.
    """
    if _CACHE_ALIAS not in os.environ:
        os.environ.setdefault(_CACHE, _PRODUCTS)
