"""A service over HTTP, and a page to translate on: `serve` runs it, `app` is it for other ASGI servers.

Needs the extra `serve`; nothing of it is imported before it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.serving.keys import new_key as new_key
    from dragoman.serving.settings import ServeSettings as ServeSettings
    from dragoman.serving.settings import make_settings as make_settings
    from dragoman.serving.start import app as app
    from dragoman.serving.start import check_installed as check_installed
    from dragoman.serving.start import inspect_live as inspect_live
    from dragoman.serving.start import run as run
    from dragoman.serving.start import serve as serve

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "keys": ("new_key",),
        "settings": ("ServeSettings", "make_settings"),
        "start": ("app", "check_installed", "inspect_live", "run", "serve"),
    },
)
