"""Seeing through a model: pictures of what its parts compute."""

from dragoman.inspection.pictures import Picture, attention_grid, attention_map
from dragoman.inspection.translation import draw_translation

__all__ = ["Picture", "attention_grid", "attention_map", "draw_translation"]
