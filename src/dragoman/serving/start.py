"""The service from Python: run it here, or take it as an ASGI application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.audio.listing import Given
    from dragoman.serving.guard import Guard
    from dragoman.serving.settings import ServeSettings

_NEEDED = ("fastapi", "uvicorn", "httptools", "prometheus_client", "py3langid", "sentencex", "multipart")


def check_installed() -> None:
    """Make sure that the packages which serving needs are there.

    Raises:
        DragomanError: one is not.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise DragomanError(
            "serving needs packages that are not installed", found=f"no {', '.join(missing)}",
            hint="pip install 'dragoman[serve]'",
        )  # fmt: skip


def serve(
    models: str | Path | Sequence[str | Path] = (),
    *,
    host: str | None = None,
    port: int | None = None,
    keys: str | Path | None = None,
    config: str | Path | None = None,
    settings: dict[str, Any] | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve models over HTTP until SIGTERM or SIGINT; what was taken on by then is answered first.

    Args:
        models: run or model directories, besides those of `config`.
        host: address to listen on, 127.0.0.1 if it is said nowhere; keys are demanded of any but this machine's own.
        port: 0 takes a free one; 5000 if it is said nowhere.
        keys: file of the keys that callers must have.
        config: settings in TOML (`ServeSettings`); what is given here goes before them.
        settings: further ones by name, as in that file.
        on_ready: is told the address as soon as requests are taken; else it is printed on standard error.

    Raises:
        ConfigError: a setting is wrong, or the address cannot be listened on.
        ModelError: a directory holds no encoder-decoder.
        DragomanError: a package is missing (the extra `serve`).
    """
    check_installed()
    from dragoman.serving.settings import make_settings

    given: dict[str, Any] = {"host": host, "port": port, "keys": None if keys is None else Path(keys)}
    run(
        [models] if isinstance(models, (str, Path)) else models,
        make_settings(config, given | (settings or {})),
        on_ready,
    )


def run(models: Sequence[str | Path], settings: ServeSettings, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve as `serve` does, with all settings in one object.

    Raises:
        ConfigError: as `serve`.
        ModelError: as `serve`.
    """
    from dragoman.serving.assembly import make_app
    from dragoman.serving.server import check_exposure, run_server

    check_exposure(settings)  # before models are opened
    run_server(make_app(models, settings), on_ready)


def app(
    models: str | Path | Sequence[str | Path],
    *,
    config: str | Path | None = None,
    settings: dict[str, Any] | None = None,
) -> Guard:
    """Return the service as an ASGI application, to be mounted in another or run by any ASGI server.

    Args:
        models: run or model directories.
        config: settings in TOML (`ServeSettings`).
        settings: further ones by name, as in that file.

    Raises:
        ConfigError: a setting is wrong.
        ModelError: a directory holds no encoder-decoder.
        DragomanError: a package is missing (the extra `serve`).
    """
    check_installed()
    from dragoman.serving.assembly import make_app
    from dragoman.serving.settings import make_settings

    return make_app([models] if isinstance(models, (str, Path)) else models, make_settings(config, settings or {}))


def inspect_live(
    models: Sequence[str | Path],
    *,
    port: int = 0,
    device: str = "auto",
    example: str | None = None,
    recordings: Mapping[str, Given] | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the inspector's page to this machine until SIGTERM or SIGINT.

    Args:
        models: run or model directories of any family.
        port: 0 takes a free one.
        device: where models run.
        example: the text that the page begins with; or the name of one of the recordings.
        recordings: sounds that the page may ask for by their names.
        on_ready: is told the address of the page as soon as it is there; else it is printed on standard error.

    Raises:
        ConfigError: the address cannot be listened on.
        ModelError: a directory holds no model.
        DragomanError: a package is missing (the extra `serve`).
    """
    check_installed()
    from dragoman.serving.assembly import make_inspector
    from dragoman.serving.server import run_server
    from dragoman.serving.settings import make_settings

    # Recordings come whole, from this machine alone.
    settings = make_settings(None, {"port": port, "log": "none", "limits": {"body_bytes": 16 << 20}})
    run_server(make_inspector(models, settings, device=device, example=example, recordings=recordings), on_ready)
