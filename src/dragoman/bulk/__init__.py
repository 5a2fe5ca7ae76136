"""Files too long for one process: cut into parts, translated by several, put together in order."""

from dragoman.bulk.parts import BulkResult, Problem
from dragoman.bulk.running import translate_file

__all__ = ["BulkResult", "Problem", "translate_file"]
