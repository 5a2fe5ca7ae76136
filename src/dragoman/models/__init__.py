"""Models from configurations, and to and from directories."""

from dragoman.models.build import build_model, count_parameters
from dragoman.models.pretrained import Languages, Pretrained, load_pretrained, save_pretrained

__all__ = ["Languages", "Pretrained", "build_model", "count_parameters", "load_pretrained", "save_pretrained"]
