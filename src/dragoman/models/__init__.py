"""Models from configurations, and to and from directories.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.models.bidirectional import BidirectionalTransformer as BidirectionalTransformer
    from dragoman.models.bidirectional import for_direction as for_direction
    from dragoman.models.bidirectional import read_targets as read_targets
    from dragoman.models.blueprint import Blueprint as Blueprint
    from dragoman.models.blueprint import NotPlain as NotPlain
    from dragoman.models.build import build_model as build_model
    from dragoman.models.build import count_parameters as count_parameters
    from dragoman.models.description import Languages as Languages
    from dragoman.models.draft import blueprint_of as blueprint_of
    from dragoman.models.pretrained import Pretrained as Pretrained
    from dragoman.models.pretrained import load_pretrained as load_pretrained
    from dragoman.models.pretrained import save_pretrained as save_pretrained
    from dragoman.models.reading import read_blueprint as read_blueprint

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "bidirectional": ("BidirectionalTransformer", "for_direction", "read_targets"),
        "blueprint": ("Blueprint", "NotPlain"),
        "build": ("build_model", "count_parameters"),
        "description": ("Languages",),
        "draft": ("blueprint_of",),
        "pretrained": ("Pretrained", "load_pretrained", "save_pretrained"),
        "reading": ("read_blueprint",),
    },
)
