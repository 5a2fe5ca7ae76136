"""The loss of a batch, as a sum with a count: smoothed cross-entropy, and the agreement of two passes (R-Drop)."""

from dragoman.losses.loss import LossSums, smoothed_cross_entropy
from dragoman.losses.r_drop import agreeing_cross_entropy

__all__ = ["LossSums", "agreeing_cross_entropy", "smoothed_cross_entropy"]
