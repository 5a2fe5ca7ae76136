"""Cheaper ways to train, and what they cost in quality."""

from __future__ import annotations

from dragoman.config import ModelConfig
from dragoman.pace import duration

# Seconds of a plan from which on a cheaper one is named.
LONG = 3600
# Minutes of the plan that is named last, and the share of a plan's time that it is at most.
SHORT_MINUTES = 30
# Of an update in both directions, one in a single direction takes so much (1.3 to 1.6 times as long were measured).
ONE_DIRECTION = 0.65


def cheaper_plans(model: ModelConfig, seconds: float, per_update: float) -> list[str]:
    """Return lines for people: cheaper plans than the present one, each with its time and its price.

    Args:
        model: of the present plan.
        seconds: that it takes.
        per_update: seconds of an update.
    """
    plans = []
    if model.right_to_left:
        plans.append(
            f"  --set right_to_left=false   about {duration(ONE_DIRECTION * seconds)}; costs some 1 BLEU "
            "(0.3 to 1.6 on Multi30k and Tatoeba)"
        )
    if model.d_model is not None and model.d_model >= 256:
        width = model.d_model // 2
        heads = model.num_heads or 1
        plans.append(
            f"  --set d_model={width} --set d_ff={(model.d_ff or 4 * model.d_model) // 2} "
            f"--set num_heads={max(1, heads // 2)}   about {duration(0.4 * seconds)}; learns less of many pairs"
        )
    updates = int(60 * SHORT_MINUTES * 0.9 / max(per_update, 1e-9))
    plans.append(
        f"  --time {SHORT_MINUTES}m   {SHORT_MINUTES} minutes, about {updates:,} updates; the rate falls to 0 by then, "
        "and validations tell what that reaches"
    )
    return plans
