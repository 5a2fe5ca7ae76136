"""OpenAI's interface for sounds: its path, fields, answers, error shape and status codes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dragoman.jobs import SoundJob, Transcribed, TranscribedPart
from dragoman.languages import language_name
from dragoman.serving.context import Code, Context, Upload, parsed, read_fields
from dragoman.serving.faults import RequestError
from dragoman.serving.registry import Registry
from dragoman.serving.replies import described_sound, told_ignored
from dragoman.serving.routes import UNKNOWN

PATHS = ("/v1/audio/",)
OWNER = "dragoman"
EXAMPLE = {"text": "show me my files please", "usage": {"type": "duration", "seconds": 2}}
# Its status codes for what has another one with us.
STATUSES = {403: 401, 408: 400, 415: 400, 421: 400, 422: 400}
# Without effect on a transcript; the answer names those that were sent.
IGNORED = ("prompt", "chunking_strategy", "include", "known_speaker_names", "known_speaker_references")
LISTS = ("timestamp_granularities", "include", "known_speaker_names", "known_speaker_references")
ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}
# Its words for our codes, and the type where it has one of its own.
CODES = {
    "no_key": "invalid_api_key", "wrong_key": "invalid_api_key", "no_model": "model_not_found",
    "too_many_requests": "rate_limit_exceeded", "quota_exceeded": "insufficient_quota",
}  # fmt: skip
TYPES = {"too_many_requests": "requests", "quota_exceeded": "insufficient_quota"}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class TranscriptionBody(BaseModel):
    """How a recording is to be written down."""

    model_config = ConfigDict(extra="ignore")

    model: Annotated[str, Field(max_length=64)] = Field(description="A model by name.", examples=["commands"])
    language: Code | None = Field(None, description="The language that is spoken.", examples=["en"])
    prompt: str | None = Field(None, description="Without effect.")
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] = "json"
    temperature: float = Field(0.0, ge=0, le=1, description="0 searches for the likeliest, more draws.")
    timestamp_granularities: Annotated[list[Literal["word", "segment"]], BeforeValidator(_as_list)] = Field(
        ["segment"],
        alias="timestamp_granularities[]",
        description="Of `verbose_json`: whether the times of words are told, and those of segments.",
    )
    stream: bool = Field(False, description="Must be false: answers come in one piece.")


def answer(error: RequestError) -> tuple[int, dict[str, object]]:
    """Return the status and the body by which OpenAI tells an error."""
    status = STATUSES.get(error.status, error.status)
    kind = TYPES.get(error.code, "invalid_request_error" if status < 500 else "server_error")
    message = error.message + (f" ({error.hint})" if error.hint else "")
    code = CODES.get(error.code, error.code)
    return status, {"error": {"message": message, "type": kind, "param": error.param, "code": code}}


def model_list(registry: Registry) -> dict[str, object]:
    """Return the models of a service as OpenAI lists them."""
    data = [
        {"id": name, "object": "model", "created": model.created, "owned_by": OWNER}
        for name, model in registry.models.items()
    ]
    return {"object": "list", "data": data}


def add_openai(app: FastAPI, context: Context) -> None:
    """Add OpenAI's interface for sounds to an application."""

    @app.post(
        "/v1/audio/transcriptions", tags=["OpenAI"], summary="Write down a recording",
        **_described(),
    )  # fmt: skip
    async def transcriptions(request: Request) -> Response:
        fields = {
            name: value
            for name, value in (await _fields(request)).items()
            if value != ""  # as absent, which is what some clients send
        }
        key = context.caller(request)
        file = fields.pop("file", None)
        if not isinstance(file, Upload):
            raise RequestError(422, "no_file", "file: a file is needed", param="file")
        body = parsed(TranscriptionBody, fields)
        words = "word" in body.timestamp_granularities
        if body.stream:
            message = "stream: answers come in one piece"
            raise RequestError(422, "wrong_value", message, hint="leave it out", param="stream")
        if "timestamp_granularities[]" in fields and body.response_format != "verbose_json":
            message = "timestamp_granularities need response_format verbose_json"
            raise RequestError(422, "wrong_value", message, param="timestamp_granularities")
        options = {"sampling": True, "temperature": body.temperature} if body.temperature else {}
        job = SoundJob(file.data, body.language, None, body.model, options, words)
        found = await context.transcribe(request, job, key)
        ignored = told_ignored(name for name in IGNORED if name in fields or f"{name}[]" in fields)
        return _answered(found, body, ignored)


async def _fields(request: Request) -> dict[str, Any]:
    """The fields of a form; those that may come several times with `[]` after their names, as its clients send them."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        found = f"the content type is {kind or 'missing'}"
        raise RequestError(415, "content_type", found, hint="send multipart/form-data with a file")
    fields = await read_fields(request, repeated=[spelt for name in LISTS for spelt in (name, f"{name}[]")])
    for name in LISTS:
        if name in fields:
            fields.setdefault(f"{name}[]", []).extend(fields.pop(name))
    return fields


def _described() -> dict[str, Any]:
    told = described_sound(TranscriptionBody, EXAMPLE, error=ERROR)
    told["responses"] = {status: said for status, said in told["responses"].items() if status not in STATUSES}
    return told


def _answered(found: Transcribed, body: TranscriptionBody, headers: dict[str, str]) -> Response:
    kind = body.response_format
    if kind == "text":
        return PlainTextResponse(found.text + "\n", headers=headers)
    if kind in ("srt", "vtt"):
        return PlainTextResponse(subtitles(found.parts, kind), headers=headers)
    usage = {"usage": {"type": "duration", "seconds": math.ceil(found.seconds)}}
    if kind == "json":
        return JSONResponse({"text": found.text} | usage, headers=headers)
    told: dict[str, Any] = {
        "task": "transcribe" if found.source in (found.target, UNKNOWN) else "translate",
        "language": "unknown" if found.source == UNKNOWN else language_name(found.source).lower(),
        "duration": round(found.seconds, 3),
        "text": found.text,
    }
    if "segment" in body.timestamp_granularities:
        told["segments"] = [_segment(*one, body.temperature) for one in enumerate(found.parts)]
    if "word" in body.timestamp_granularities:
        told["words"] = [
            {"word": word.text, "start": round(word.start, 3), "end": round(word.end, 3)}
            for part in found.parts
            for word in part.said.words
        ]
    return JSONResponse(told | usage, headers=headers)


def _segment(number: int, part: TranscribedPart, temperature: float) -> dict[str, object]:
    said, output = part.said, part.output
    data = said.text.encode("utf-8")
    log_probability = output.log_probability / (len(output.tokens) + 1)
    return {
        "id": number,
        "seek": round(100 * said.start),
        "start": round(said.start, 3),
        "end": round(said.end, 3),
        "text": said.text,
        "tokens": list(part.ids),
        "temperature": temperature,
        "avg_logprob": round(log_probability, 6) if math.isfinite(log_probability) else -1e9,
        "compression_ratio": round(len(data) / len(zlib.compress(data)), 6),
        "no_speech_prob": 0.0,  # where nobody speaks there is no segment
    }


def subtitles(parts: Iterable[TranscribedPart], kind: Literal["srt", "vtt"]) -> str:
    """Return the parts of a recording as subtitles."""
    lines = [] if kind == "srt" else ["WEBVTT", ""]
    for number, part in enumerate(parts, 1):
        start, end = (_clock(seconds, "," if kind == "srt" else ".") for seconds in (part.said.start, part.said.end))
        lines += [*([str(number)] if kind == "srt" else []), f"{start} --> {end}", part.said.text, ""]
    return "\n".join(lines) + "\n"


def _clock(seconds: float, point: str) -> str:
    whole, thousandths = divmod(round(1000 * seconds), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{thousandths:03}"
