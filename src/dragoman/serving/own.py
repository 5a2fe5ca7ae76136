"""The own interface, `/v1`: n-best, scores, words with alignments, forced prefixes, sampling, streaming."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dragoman.jobs import Job, Translated, TranslatedSegment
from dragoman.languages import language_name
from dragoman.serving.context import Code, Context, Upload, clean, parsed, read_fields
from dragoman.serving.faults import RequestError, as_request_error
from dragoman.serving.openai import model_list
from dragoman.serving.replies import described, document_file
from dragoman.serving.routes import Route
from dragoman.translation.spans import spans

Name = Annotated[str, Field(max_length=64)]
TAG = "translation"
TAGS = "A tag of `/v1/models`, such as `en`, or what the model calls the language."
AT_ONCE = 0.2  # seconds in which what is wrong with a request shows


class Asked(BaseModel):
    """A body of the own interface: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Pair(Asked):
    """What to translate from and to."""

    source: Code | None = Field(None, description=f'Of the texts; "auto" detects it. {TAGS}', examples=["zh"])
    target: Code | None = Field(None, description=f"Language wanted. {TAGS}", examples=["en"])
    model: Name | None = Field(None, description="A model by name, in place of the one for the languages.")


class Search(Pair):
    """How outputs are searched."""

    n_best: int = Field(1, ge=1, le=1024, description="Outputs of each sentence or part, the best first.")
    beam_size: int | None = Field(None, ge=1, le=1024, description="Hypotheses of the search; 1 is greedy.")
    length_penalty: float | None = Field(None, ge=0, le=50)
    sampling: bool = Field(False, description="Draw outputs instead of searching for the likeliest.")
    temperature: float | None = Field(None, gt=0, le=1000)
    top_k: int | None = Field(None, ge=0, le=1 << 31)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, le=(1 << 63) - 1, description="The same seed draws the same outputs.")

    def options(self) -> dict[str, Any]:
        """Return what differs from the model's own options, by their names."""
        options: dict[str, Any] = {
            "beam_size": self.beam_size,
            "length_penalty": self.length_penalty,
            "sampling": self.sampling or None,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "sampling_seed": self.seed,
            "n_best": self.n_best if self.n_best > 1 else None,
        }
        return {name: value for name, value in options.items() if value is not None}


class TranslateBody(Search):
    """Texts to translate, and how."""

    text: str | None = Field(None, description="One text, of any number of lines.", examples=["猫吃鱼。"])
    texts: list[str] | None = Field(None, description="Several texts, in place of one.")
    prefixes: list[str] | None = Field(None, description="What the output of each text must begin with.")
    words: bool = Field(False, description="Tell the words of outputs, their probability and what they came from.")
    tokens: bool = Field(False, description="Tell the tokens of sources and outputs, with log-probabilities.")
    split_sentences: bool = Field(True, description="Translate lines sentence by sentence.")
    format: Literal["text", "html", "xml"] = "text"

    @model_validator(mode="after")
    def _one_of_both(self) -> TranslateBody:
        if (self.text is None) == (self.texts is None):
            raise ValueError("either text or texts is needed")
        return self

    def job(self) -> Job:
        """Return what is asked."""
        texts = [self.text] if self.text is not None else self.texts or []
        return Job(
            [clean(text) for text in texts], self.source, self.target, self.model, self.options(),
            None if self.prefixes is None else [clean(prefix) for prefix in self.prefixes],
            self.words, self.split_sentences, self.format,
        )  # fmt: skip


class AlternativesBody(Pair):
    """One sentence and how its output begins."""

    text: str = Field(description="One sentence.", examples=["猫吃鱼。"])
    prefix: str = Field("", description="The output up to the word in question.", examples=["Cats"])
    count: int = Field(5, ge=1, le=16, description="Words at most.")


class DetectBody(Asked):
    """A text whose language is wanted."""

    text: str = Field(examples=["猫吃鱼。"])


def add_own(app: FastAPI, context: Context) -> None:
    """Add the own interface to an application."""

    @app.get("/v1/models", tags=["models"], summary="The models, and what can be translated")
    async def models(request: Request) -> Response:
        context.caller(request)
        return JSONResponse(_models(context))

    @app.post("/v1/translate", tags=[TAG], summary="Translate texts", **described(TranslateBody))
    async def translate(request: Request) -> Response:
        body, started = parsed(TranslateBody, await read_fields(request, forms=False)), time.perf_counter()
        key, job = context.caller(request), body.job()
        results = await context.translate(request, job, key)
        told = [told_of(one, words=body.words, tokens=body.tokens) for one in results]
        return JSONResponse({"translations": told, "seconds": round(time.perf_counter() - started, 6)})

    @app.post(
        "/v1/translate/stream", tags=[TAG], summary="Translate a text, told as it grows", **described(TranslateBody)
    )
    async def stream(request: Request) -> Response:
        body = parsed(TranslateBody, await read_fields(request, forms=False))
        key, job = context.caller(request), body.job()
        if len(job.texts) != 1 or job.format != "text":
            raise RequestError(422, "one_text", "a stream is of one text without markup")
        context.begin(request, job, key)
        events = _events(context, request, job, body, await _begun(context.service.stream(job)))
        return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    @app.post("/v1/alternatives", tags=[TAG], summary="Other words at a place", **described(AlternativesBody))
    async def alternatives(request: Request) -> Response:
        body = parsed(AlternativesBody, await read_fields(request, forms=False))
        prefix = clean(body.prefix).rstrip()
        width = min(3 * body.count, context.settings.limits.beam_size)
        job = Job(
            [clean(body.text)], body.source, body.target, body.model, {"beam_size": width, "n_best": width},
            [prefix], sentences=False,
        )  # fmt: skip
        (found,) = await context.translate(request, job, context.caller(request))
        return JSONResponse({"alternatives": next_words(found, prefix, body.count)})

    @app.post("/v1/detect", tags=[TAG], summary="Tell the language of a text", **described(DetectBody))
    async def detect(request: Request) -> Response:
        body = parsed(DetectBody, await read_fields(request, forms=False))
        context.caller(request)
        found = context.service.detect(clean(body.text))
        told = [{"language": one.language, "confidence": round(one.confidence, 4)} for one in found]
        return JSONResponse({"languages": told})

    _add_documents(app, context)


def _add_documents(app: FastAPI, context: Context) -> None:
    form = described(None, file=True, fields=("source", "target", "model"))

    @app.post("/v1/documents", tags=["documents"], summary="Translate a document", status_code=202, **form)
    async def upload(request: Request) -> Response:
        fields = await read_fields(request)
        file = fields.pop("file", None)
        key = context.caller(request)
        if not isinstance(file, Upload):
            raise RequestError(422, "no_file", "file: a file is needed")
        pair = parsed(Pair, fields)
        job = Job([], pair.source or "auto", pair.target, pair.model)
        document = context.take_document(request, file, job, key)
        return JSONResponse({"id": document.id, "key": document.key}, 202)

    @app.get("/v1/documents/{name}", tags=["documents"], summary="How far a document is")
    async def status(request: Request, name: str, key: str = "") -> Response:
        return JSONResponse(context.documents.get(name, key).to_dict())

    @app.get("/v1/documents/{name}/result", tags=["documents"], summary="The translated document")
    async def result(request: Request, name: str, key: str = "") -> Response:
        return document_file(context.documents.get(name, key))


async def _begun(found: AsyncIterator[tuple[str, object]]) -> AsyncIterator[tuple[str, object]]:
    """Raise what goes wrong at once, so that the status tells it, which is sent first; else go on."""
    begun: list[asyncio.Future[tuple[str, object]]] = [asyncio.ensure_future(anext(found))]
    await asyncio.wait(begun)
    if begun[0].exception() is None:
        begun.append(asyncio.ensure_future(anext(found)))
    try:
        await asyncio.wait(begun, timeout=AT_ONCE)
        for one in begun:
            if one.done():
                one.result()
    except BaseException:
        begun[-1].cancel()
        raise
    return _continued(begun, found)


async def _continued(
    begun: list[asyncio.Future[tuple[str, object]]], found: AsyncIterator[tuple[str, object]]
) -> AsyncIterator[tuple[str, object]]:
    """What was waited for already, and what comes after it."""
    try:
        for one in begun:
            yield await one
    finally:
        begun[-1].cancel()
    async for event in found:
        yield event


async def _events(
    context: Context, request: Request, job: Job, body: TranslateBody, found: AsyncIterator[tuple[str, object]]
) -> AsyncIterator[str]:
    try:
        async for name, value in found:
            if isinstance(value, Route):
                value = _route(value)
            elif isinstance(value, Translated):
                context.end(request, job, [value])
                value = told_of(value, words=body.words, tokens=body.tokens)
            yield f"event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"
    except Exception as error:
        yield f"event: error\ndata: {json.dumps(as_request_error(error).to_dict())}\n\n"


def _route(route: Route) -> dict[str, object]:
    names = [model.name for model in route.models]
    return {"source": route.source, "target": route.target, "models": names, "pivot": route.pivot}


def _models(context: Context) -> dict[str, object]:
    registry, limits = context.service.registry, context.settings.limits
    models = [
        {
            "name": name,
            "source": model.source,
            "target": model.target,
            "sources": _tags(model.sources),
            "targets": _tags(model.targets),
            "reads": "sound" if model.listens else "text",
            "loaded": model.translator is not None,
            "engine": None if model.translator is None else model.translator.engine,
        }
        for name, model in registry.models.items()
    ]
    names = ("characters", "texts", "document_bytes", "beam_size", "audio_bytes", "audio_seconds")
    told = {name: getattr(limits, name) for name in names}
    pairs = [_route(route) for _, _, route in registry.pairs()]
    return {"models": models, "pairs": pairs, "limits": told} | model_list(registry)


def _tags(tags: Mapping[str, str | None]) -> list[dict[str, str | None]]:
    """Languages of a model, each with its name and with what the model calls it."""
    return [{"language": tag, "name": language_name(tag), "own": own} for tag, own in tags.items()]


def told_of(one: Translated, *, words: bool = False, tokens: bool = False) -> dict[str, object]:
    """Return an output as the own interface tells it."""
    return {
        "text": one.text,
        "source": one.source,
        "target": one.target,
        "confidence": one.confidence,
        "models": list(one.models),
        "pivot": one.pivot,
        "truncated": one.truncated,
        "unknown": one.unknown,
        "finished": one.finished,
        "segments": [_segment(segment, words=words, tokens=tokens) for segment in one.segments],
        "alternatives": list(one.alternatives),
    }


def _segment(one: TranslatedSegment, *, words: bool, tokens: bool) -> dict[str, object]:
    output = one.output
    pairs = zip(output.tokens, output.token_scores, strict=False)
    return {
        "source": one.segment.text,
        "before": one.segment.before,
        "after": one.segment.after,
        "text": one.text,
        "score": number_of(output.score),
        "words": [
            {
                "start": word.start,
                "end": word.end,
                "probability": round(word.probability, 4),
                "sources": [list(span) for span in word.sources],
            }
            for word in one.words or ()
        ]
        if words
        else None,
        "tokens": [{"text": token, "log_probability": number_of(score)} for token, score in pairs] if tokens else None,
        "source_tokens": list(output.source_tokens) if tokens else None,
        "alternatives": [{"text": other.text, "score": number_of(other.score)} for other in output.alternatives],
    }


def number_of(value: float) -> float | None:
    """Return a score as it is told."""
    return round(value, 6) if math.isfinite(value) else None


def next_words(found: Translated, prefix: str, count: int) -> list[dict[str, object]]:
    """Return what different outputs go on with after a prefix: the next word, its probability, the whole output.

    Args:
        found: a translation of one sentence with its alternatives.
        prefix: what they begin with, without white space at its end.
        count: words at most.
    """
    kept: dict[str, dict[str, object]] = {}
    outputs = [(one.output, other) for one in found.segments for other in one.output.alternatives]
    for output, other in outputs:
        after = [word for word in spans(output, other) if word.end > len(prefix)]
        if not after or after[0].start < len(prefix):  # the word before goes on
            continue
        word = other.text[after[0].start : after[0].end]
        if word not in kept:
            told = {"text": other.text, "score": number_of(other.score), "probability": round(after[0].probability, 4)}
            kept[word] = {"word": word, **told}
    return list(kept.values())[:count]
