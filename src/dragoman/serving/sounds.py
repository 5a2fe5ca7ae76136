"""Sounds over the own interface: what is said in a recording, part by part, with scores, times and other outputs."""

from __future__ import annotations

import time
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import ConfigDict, Field

from dragoman.jobs import SoundJob, Transcribed, TranscribedPart
from dragoman.serving.context import Context, Upload, parsed, read_fields
from dragoman.serving.faults import RequestError
from dragoman.serving.own import Search, number_of
from dragoman.serving.replies import described_sound

RAW_TYPES = ("application/octet-stream", "audio/")
EXAMPLE = {
    "text": "show me my files please", "source": "en", "target": "en", "model": "commands", "duration": 1.91,
    "truncated": False, "finished": True,
    "segments": [{
        "start": 0.12, "end": 1.8, "text": "show me my files please", "score": -0.21,
        "words": [{"start": 0.12, "end": 0.46, "text": "show"}], "tokens": None,
        "alternatives": [{"text": "show me my files please", "score": -0.21}],
    }],
    "seconds": 0.08,
}  # fmt: skip


class TranscribeBody(Search):
    """How a recording is to be written down; the fields of a form, or of the address."""

    model_config = ConfigDict(extra="forbid", strict=False)

    words: bool = Field(False, description="Tell when each word is said; the model has learned to (CTC).")
    tokens: bool = Field(False, description="Tell the tokens of outputs, with log-probabilities.")


def add_sounds(app: FastAPI, context: Context) -> None:
    """Add the own interface for sounds to an application."""

    @app.post(
        "/v1/transcribe", tags=["transcription"], summary="Write down a recording",
        **described_sound(TranscribeBody, EXAMPLE, raw=True),
    )  # fmt: skip
    async def transcribe(request: Request) -> Response:
        started = time.perf_counter()
        file, fields = await read_sound(request)
        key = context.caller(request)
        body = parsed(TranscribeBody, fields)
        job = SoundJob(file.data, body.source, body.target, body.model, body.options(), body.words)
        found = await context.transcribe(request, job, key)
        told = transcription_of(found, words=body.words, tokens=body.tokens)
        return JSONResponse(told | {"seconds": round(time.perf_counter() - started, 6)})


async def read_sound(request: Request) -> tuple[Upload, dict[str, Any]]:
    """Return the recording of a request, a file of a form or the whole body, and its other fields.

    Raises:
        RequestError: 415 another type, 400 not the form that its type says, 422 there is no recording.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.startswith(RAW_TYPES):
        return Upload("", await request.body()), dict(request.query_params)
    if kind != "multipart/form-data":
        hint = "send multipart/form-data with a file, or the file itself as audio/wav or application/octet-stream"
        raise RequestError(415, "content_type", f"the content type is {kind or 'missing'}", hint=hint)
    fields = await read_fields(request)
    file = fields.pop("file", None)
    if not isinstance(file, Upload):
        raise RequestError(422, "no_file", "file: a file is needed", param="file")
    return file, fields


def transcription_of(found: Transcribed, *, words: bool = False, tokens: bool = False) -> dict[str, object]:
    """Return a transcript as the own interface tells it."""
    return {
        "text": found.text,
        "source": found.source,
        "target": found.target,
        "model": found.model,
        "duration": round(found.seconds, 3),
        "truncated": found.truncated,
        "finished": found.finished,
        "segments": [_segment(part, words=words, tokens=tokens) for part in found.parts],
    }


def _segment(part: TranscribedPart, *, words: bool, tokens: bool) -> dict[str, object]:
    said, output = part.said, part.output
    pairs = zip(output.tokens, output.token_scores, strict=False)
    return {
        "start": round(said.start, 3),
        "end": round(said.end, 3),
        "text": said.text,
        "score": number_of(output.score),
        "words": [{"start": round(word.start, 3), "end": round(word.end, 3), "text": word.text} for word in said.words]
        if words
        else None,
        "tokens": [{"text": token, "log_probability": number_of(score)} for token, score in pairs] if tokens else None,
        "alternatives": [{"text": other.text, "score": number_of(other.score)} for other in output.alternatives],
    }
