"""How gently a trained model is trained on: few updates at a small rate, by how much there is to learn from."""

from __future__ import annotations

from dataclasses import dataclass

# Times d_model it is the peak for 10,000 pairs or more; a twentieth of what is chosen for text from scratch.
RATE_TIMES_WIDTH = 0.04
# Times that rate for adapters of low rank, whose factors begin at zero.
ADAPTER_RATE = 10
# With fewer pairs it is smaller by the fourth root of their number: a third of it for 100.
MANY_PAIRS = 10_000
# Times the training pairs are seen, and updates at least.
FEW_EPOCHS, EPOCHS, MANY_EPOCHS = 10, 5, 3
LEAST_UPDATES = 40
# Validations from the first to the last update.
VALIDATIONS = 10
# Updates that the rate rises for, at most.
LONGEST_WARMUP = 100
# Fewer held-out pairs hardly tell a better model from a worse one.
FEW_HELD_OUT = 100


@dataclass(frozen=True)
class Gentle:
    """What is chosen where training goes on from a model.

    Attributes:
        rate: peak of the learning rate.
        epochs: how often the pairs are seen.
    """

    rate: float
    epochs: int


def gentle(d_model: int, pairs: int, *, adapters: bool = False) -> Gentle:
    """Return the peak rate and the epochs for a model that has learned already.

    Args:
        d_model: the model's width.
        pairs: training pairs, or lines of a text.
        adapters: whether adapters of low rank are trained, not the weights themselves.
    """
    rate = RATE_TIMES_WIDTH / d_model * min(1.0, max(pairs, 1) / MANY_PAIRS) ** 0.25
    rate *= ADAPTER_RATE if adapters else 1
    epochs = FEW_EPOCHS if pairs < MANY_PAIRS else EPOCHS if pairs < 10 * MANY_PAIRS else MANY_EPOCHS
    return Gentle(float(f"{rate:.2g}"), epochs)
