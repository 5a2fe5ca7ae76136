"""How long to train, and how gently: arithmetic on counts and seconds that needs no model."""

from dragoman.planning.fine_tuning import Gentle, gentle
from dragoman.planning.minutes import TimePlan
from dragoman.planning.prices import LONG, cheaper_plans

__all__ = ["LONG", "Gentle", "TimePlan", "cheaper_plans", "gentle"]
