"""How much a search heeds what is read off frames. Needs no PyTorch."""

from __future__ import annotations

from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError

SHARE = 0.3


def ctc_share(options: DecodingConfig, has_head: bool) -> float:
    """Return the share of CTC in each prediction.

    Args:
        options: `ctc_weight` is that share; 0.3 where unset and there is a head.
        has_head: whether all models have one.

    Raises:
        ConfigError: it is wanted and there is none.
    """
    weight = options.ctc_weight
    if weight and not has_head:
        hint = "train a speech model with training.ctc_loss_weight, or leave decoding.ctc_weight out"
        raise ConfigError(
            "the model did not learn to read off frames (CTC)", found=f"ctc_weight = {weight:g}", hint=hint
        )
    return SHARE if weight is None and has_head else weight or 0.0
