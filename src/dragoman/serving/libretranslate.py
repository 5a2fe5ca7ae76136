"""LibreTranslate's interface: its paths, fields, error shapes and status codes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from dragoman.jobs import Job
from dragoman.languages import language_name
from dragoman.serving.context import Context, Upload, clean, parsed, read_fields
from dragoman.serving.documents import SUFFIXES
from dragoman.serving.faults import RequestError
from dragoman.serving.replies import described, document_file
from dragoman.serving.routes import UNKNOWN
from dragoman.text.detecting import Detected

TAG = "LibreTranslate"
PATHS = ("/translate", "/languages", "/detect", "/translate_file", "/download_file/", "/frontend/settings", "/suggest")
# Its words for what we call otherwise.
STATUSES = {401: 400, 404: 400, 409: 400, 415: 400, 422: 400}
ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}


class TranslateBody(BaseModel):
    """A request for translations."""

    model_config = ConfigDict(extra="ignore")

    q: str | list[str] = Field(description="One text or several.", examples=["猫吃鱼。"])
    source: Annotated[str, Field(max_length=40)] = Field(description='Code of a language, or "auto".', examples=["zh"])
    target: Annotated[str, Field(max_length=40)] = Field(examples=["en"])
    format: str | None = Field("text", description='"text" or "html".')
    alternatives: int | None = Field(0, description="Other outputs at most.")
    api_key: str | None = ""


class DetectBody(BaseModel):
    """A text whose language is wanted."""

    q: str | list[str] = Field(examples=["猫吃鱼。"])
    api_key: str | None = ""


def add_libretranslate(app: FastAPI, context: Context) -> None:
    """Add LibreTranslate's interface to an application."""

    @app.post("/translate", tags=[TAG], summary="Translate texts", **described(TranslateBody, forms=True, error=ERROR))
    async def translate(request: Request) -> Response:
        fields = await read_fields(request)
        for name in ("q", "source", "target"):
            if not fields.get(name):
                raise _missing(name)
        key = context.caller(request, fields.get("api_key"))
        body = parsed(TranslateBody, fields)
        job = _job(context, body)
        results = await context.translate(request, job, key)
        several = isinstance(body.q, list)
        told: dict[str, Any] = {"translatedText": [one.text for one in results] if several else results[0].text}
        if body.source == "auto":
            found = [_detected(Detected(one.source, one.confidence or 1.0)) for one in results]
            told["detectedLanguage"] = found if several else found[0]
        if body.alternatives:
            others = [list(one.alternatives)[: body.alternatives] for one in results]
            told["alternatives"] = others if several else others[0]
        return JSONResponse(told)

    @app.post("/detect", tags=[TAG], summary="Tell the language", **described(DetectBody, forms=True, error=ERROR))
    async def detect(request: Request) -> Response:
        fields = await read_fields(request)
        if not fields.get("q"):
            raise _missing("q")
        context.caller(request, fields.get("api_key"))
        body = parsed(DetectBody, fields)
        text = body.q if isinstance(body.q, str) else "\n".join(body.q)
        return JSONResponse([_detected(one) for one in context.service.detect(clean(text))])

    @app.get("/languages", tags=[TAG], summary="The languages")
    async def languages() -> Response:
        return JSONResponse(_languages(context))

    _add_rest(app, context)
    _add_files(app, context)


def _add_rest(app: FastAPI, context: Context) -> None:
    @app.get("/frontend/settings", tags=[TAG], summary="Settings for pages")
    async def settings() -> Response:
        registry = context.service.registry
        sides = {"source": (*registry.sources(), UNKNOWN)[0], "target": (*registry.targets(), UNKNOWN)[0]}
        return JSONResponse({
            "charLimit": context.settings.limits.characters,
            "frontendTimeout": 500,
            "apiKeys": context.keys.are_needed,
            "keyRequired": context.keys.are_needed,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(SUFFIXES),
            "language": {side: {"code": code, "name": language_name(code)} for side, code in sides.items()},
        })  # fmt: skip

    @app.post(
        "/suggest",
        tags=[TAG],
        summary="Refused: suggestions are not taken",
        responses={403: {"description": "Always."}},
    )
    async def suggest() -> Response:
        raise RequestError(403, "no_suggestions", "Suggestions are disabled on this server.")


def _add_files(app: FastAPI, context: Context) -> None:
    form = described(None, file=True, fields=("source", "target", "api_key"), error=ERROR)

    @app.post("/translate_file", tags=[TAG], summary="Translate a document", **form)
    async def translate_file(request: Request) -> Response:
        fields = await read_fields(request)
        file = fields.get("file")
        if not isinstance(file, Upload):
            raise _missing("file")
        for name in ("source", "target"):
            if not isinstance(fields.get(name), str) or not fields[name]:
                raise _missing(name)
        key = context.caller(request, fields.get("api_key"))
        job = Job([], fields["source"], fields["target"])
        document = context.take_document(request, file, job, key)
        try:
            await document.wait()
        except asyncio.CancelledError:  # the caller has gone, and nobody else knows of it
            context.documents.remove(document)
            raise
        if document.error is not None:
            raise document.error
        base = str(request.base_url).rstrip("/")
        return JSONResponse({"translatedFileUrl": f"{base}/download_file/{document.id}.{document.key}"})

    @app.get("/download_file/{name}", tags=[TAG], summary="Fetch a translated document")
    async def download(name: str) -> Response:
        number, _, key = name.partition(".")
        return document_file(context.documents.get(number, key))


def _job(context: Context, body: TranslateBody) -> Job:
    if body.format not in (None, "", "text", "html"):
        raise RequestError(400, "format", f"{body.format} format is not supported")
    texts = [clean(text) for text in ([body.q] if isinstance(body.q, str) else body.q)]
    limits = context.settings.limits
    for size, limit in ((len(texts), limits.texts), (sum(map(len, texts)), limits.characters)):
        if size > limit:
            message = f"Invalid request: request ({size}) exceeds text limit ({limit})"
            raise RequestError(400, "too_much", message)
    most = body.alternatives or 0
    if not 0 <= most < limits.beam_size:
        message = f"Invalid value of parameter alternatives: at most {limits.beam_size - 1}"
        raise RequestError(422, "alternatives", message)
    return Job(
        texts, body.source, body.target,
        options={"beam_size": max(min(4, limits.beam_size), most + 1), "n_best": most + 1} if most else {},
        format="html" if body.format == "html" else "text",
    )  # fmt: skip


def _languages(context: Context) -> list[dict[str, object]]:
    registry = context.service.registry
    targets: dict[str, list[str]] = {code: [] for code in (*registry.sources(), *registry.targets())}
    for source, target, _ in registry.pairs():
        targets[source].append(target)
    for model in registry.many():
        for source in model.sources:
            targets[source] += model.targets
    return [
        {"code": code, "name": language_name(code), "targets": sorted({*others, code} - {UNKNOWN})}
        for code, others in targets.items()
    ]


def _detected(one: Detected) -> dict[str, object]:
    return {"confidence": round(100 * one.confidence, 1), "language": one.language}


def _missing(name: str) -> RequestError:
    return RequestError(400, "missing", f"Invalid request: missing {name} parameter")
