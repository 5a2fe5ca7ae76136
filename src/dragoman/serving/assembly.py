"""The ASGI application: all interfaces, the page, and what says how the service is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from dragoman.serving.context import Context
from dragoman.serving.deepl import add_deepl
from dragoman.serving.errors import answer_of
from dragoman.serving.faults import RequestError, as_request_error
from dragoman.serving.guard import Guard
from dragoman.serving.inspector import add_inspector
from dragoman.serving.libretranslate import add_libretranslate
from dragoman.serving.live import add_live
from dragoman.serving.metrics import MEDIA_TYPE
from dragoman.serving.openai import add_openai
from dragoman.serving.own import add_own
from dragoman.serving.pages import INSPECTOR, TRANSLATION, page_files
from dragoman.serving.registry import Registry
from dragoman.serving.settings import ServeSettings, make_settings
from dragoman.serving.sounds import add_sounds
from dragoman.serving.traces import Directories, Served

if TYPE_CHECKING:
    from dragoman.audio.listing import Given

AFTER_PAGE = 1.5  # seconds in which the page is fetched; loading PyTorch would keep it waiting


def make_app(models: Sequence[str | Path], settings: ServeSettings | None = None) -> Guard:
    """Return the service as an ASGI application, to be mounted in another or run by any ASGI server.

    Args:
        models: run or model directories.
        settings: all else; defaults if None. Models of theirs are served too.

    Raises:
        ConfigError: there is no model, or two have one name.
        ModelError: a directory holds no encoder-decoder.
    """
    settings = settings or make_settings(None, {})
    entries = (*make_settings(None, {"models": [{"path": path} for path in models]}).models, *settings.models)
    settings = settings.model_copy(update={"models": entries})
    registry = Registry(settings)
    context = Context.of(settings, registry)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await registry.open_all()
        # The model that detects takes a while to read.
        detecting = asyncio.create_task(asyncio.to_thread(context.service.detect, "."))
        yield
        await detecting
        await context.documents.close(settings.limits.drain_seconds)
        await registry.close()

    app = FastAPI(
        title="Dragoman", docs_url=None, redoc_url=None, lifespan=lifespan,
        description="Translation, and transcription, with models of one's own. `/translate` and its kin speak "
        "LibreTranslate, `/v2` DeepL, `/v1/audio` OpenAI.",
        version=_version(),
    )  # fmt: skip
    guard = Guard(app, context)
    _add_state(app, context, guard)
    add_libretranslate(app, context)
    add_deepl(app, context)
    add_own(app, context)
    add_sounds(app, context)
    add_live(app, context)
    add_openai(app, context)
    add_inspector(app, context, Served(registry))
    _add_page(app)
    _tell_errors(app)
    return guard


def make_inspector(
    models: Sequence[str | Path],
    settings: ServeSettings,
    *,
    device: str = "auto",
    example: str | None = None,
    recordings: Mapping[str, Given] | None = None,
) -> Guard:
    """Return the inspector alone, as an ASGI application: models of any family, opened when they are looked into.

    Args:
        models: run or model directories.
        settings: of the service; models of theirs are not looked at.
        device: where models run.
        example: the text that the page begins with.
        recordings: sounds that the page may ask for by their names.

    Raises:
        ModelError: a directory holds no model.
    """
    subjects = Directories([Path(model) for model in models], device)
    registry = Registry(settings, may_be_empty=True)
    context = Context.of(settings, registry)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.create_task(subjects.open_first(AFTER_PAGE))
        yield
        opening.cancel()

    app = FastAPI(title="Dragoman inspector", docs_url=None, redoc_url=None, lifespan=lifespan, version=_version())
    guard = Guard(app, context)
    _add_state(app, context, guard)
    add_inspector(app, context, subjects, example, recordings)

    @app.get("/", include_in_schema=False)
    async def home() -> Response:
        return RedirectResponse("inspect/")

    _tell_errors(app)
    return guard


def _tell_errors(app: FastAPI) -> None:
    for kind in (Exception, RequestError, HTTPException):
        app.add_exception_handler(kind, _told)


def _version() -> str:
    from dragoman import __version__

    return __version__


async def _told(request: Request, error: Exception) -> Response:
    """An error, as the interface of its path tells it."""
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        error = RequestError(error.status_code, "http", str(error.detail))
    else:
        headers = {}
    told = as_request_error(error)
    status, body = answer_of(request.url.path, told)
    return JSONResponse(body, status, headers=headers | told.headers)


def _add_state(app: FastAPI, context: Context, guard: Guard) -> None:
    @app.get("/livez", tags=["service"], summary="Whether the process lives")
    async def livez() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", tags=["service"], summary="Whether requests are taken")
    async def readyz() -> Response:
        is_ready = any(model.translator is not None for model in context.service.registry.models.values())
        return JSONResponse({"status": "ok" if is_ready else "starting"}, 200 if is_ready else 503)

    @app.get("/health", tags=["service"], summary="As LibreTranslate tells it")
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/metrics", tags=["service"], summary="Counts for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(context.metrics.text(), media_type=MEDIA_TYPE)

    @app.get("/spec", tags=["service"], summary="This description")
    async def spec() -> Response:
        return JSONResponse(app.openapi())

    @app.post("/v1/reload", tags=["models"], summary="Open the models' directories anew")
    async def reload(request: Request) -> Response:
        key = context.caller(request)
        if key is None or not key.admin:
            raise RequestError(403, "no_admin", "only a key with admin = true may reload models")
        return JSONResponse({"models": await context.service.registry.reload()})


def _add_page(app: FastAPI) -> None:
    """The page, and the description of the interfaces as a page; under the policy of all pages."""
    answer = page_files(TRANSLATION, INSPECTOR / "base.css")

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return answer("index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return answer("docs.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return answer(name)
