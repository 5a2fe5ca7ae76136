"""The inspector behind HTTP: its page at `/inspect/`, and traces that it asks for, whole or array by array."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import FailFast, Field

from dragoman.errors import DataError
from dragoman.serving.context import Context, clean, notes_of, parsed, read_fields
from dragoman.serving.faults import RequestError
from dragoman.serving.keys import Key
from dragoman.serving.own import Asked, Name
from dragoman.serving.pages import INSPECTOR, page_files
from dragoman.serving.replies import described
from dragoman.serving.traces import Subjects, Traces

if TYPE_CHECKING:
    from dragoman.audio.listing import Given
    from dragoman.inspector import Inspection
    from dragoman.translation import Translator

PATH = "/inspect"
BYTES = "application/octet-stream"
MOST_PIECES = 256
MOST_NAMES = 2_000
MOST_AUDIO, MOST_SECONDS = 16 << 20, 60.0  # characters; a trace has room for some ten seconds
Head = Annotated[str, Field(pattern=r"^[\w.]{1,200}:\d{1,5}$")]
Ids = Annotated[list[Annotated[int, Field(ge=0, le=1 << 31)]], FailFast(), Field(max_length=MOST_PIECES)]


class TraceBody(Asked):
    """A text, and what is to be seen of a model's way with it."""

    text: str = Field(description="What it reads.", examples=["猫吃鱼。"])
    model: Name | None = Field(None, description="A model by name; the first one if none is named.")
    target: str | None = Field(None, description="A text whose stages are shown, and why it was not written.")
    prefix: str = Field("", description="What the output must begin with.")
    prefix_ids: Ids = Field([], description="The same as ids of the target's vocabulary.")
    beam_size: int | None = Field(None, ge=1, le=1024, description="Hypotheses of the search; 1 is greedy.")
    length_penalty: float | None = Field(None, ge=0, le=50)
    max_length: int | None = Field(None, ge=1, le=MOST_PIECES)
    heads_off: list[Head] = Field(
        [], max_length=512, description="Heads that are switched off.", examples=[["encoder.layers.0.self_attention:2"]]
    )
    causal_mask: bool = Field(True, description="False lets decoder positions see later ones.")
    padding_mask: bool = Field(True, description="False lets everybody see padding.")
    beside: str | None = Field(None, description="A longer text in the same batch.")
    convention: Name | None = Field(None, description="A system whose conventions the same weights follow.")
    precision: Literal["float32", "int8"] = "float32"
    against: Name | None = Field(None, description="A model, greedy, int8 or a system, to be set beside it.")
    source_language: Name | None = Field(None, description="Of a model for many, as the model calls it.")
    target_language: Name | None = Field(None, description="Likewise.")
    views: bool = Field(True, description="Whether each step is computed in three ways.")
    audio: str | None = Field(
        None,
        max_length=MOST_AUDIO,
        description="For a model that listens: a file in base64; `text` is its name.",
    )

    def texts(self) -> list[str]:
        """Return every text in it."""
        return [one for one in (self.text, self.target, self.prefix, self.beside) if one]


def add_inspector(
    app: FastAPI,
    context: Context,
    subjects: Subjects,
    example: str | None = None,
    recordings: Mapping[str, Given] | None = None,
) -> None:
    """Add the inspector to an application.

    Args:
        app: the application.
        context: of the service.
        subjects: the models that may be looked into.
        example: the text that the page begins with; none if None.
        recordings: sounds that a request may ask for by their names, without sending them.
    """
    traces = Traces(float(context.settings.limits.translate_seconds))

    @app.get(f"{PATH}/api", tags=["inspector"], summary="The models, and what may be asked")
    async def about(request: Request) -> Response:
        context.caller(request)
        limits = context.settings.limits
        return JSONResponse({
            "models": subjects.described(), "systems": SYSTEMS, "example": example,
            "limits": {"characters": limits.characters, "pieces": MOST_PIECES, "beam_size": limits.beam_size},
        })  # fmt: skip

    @app.post(
        f"{PATH}/api/trace", tags=["inspector"], summary="Trace a text: a safetensors file with the record in it",
        **described(TraceBody),
    )  # fmt: skip
    async def trace(request: Request) -> Response:
        body = parsed(TraceBody, await read_fields(request, forms=False), numbers=("prefix_ids",))
        key = context.caller(request)
        check_size(context, body)
        characters = sum(map(len, body.texts()))
        context.keys.spend(key, characters)
        notes = notes_of(request)
        notes.characters, notes.texts = characters, [body.text]
        found = await traces.make(partial(hold, subjects, body, recordings or {}))
        notes.models, notes.outputs = found.record["model"]["name"], [found.record["output"]["text"]]
        name = traces.keep(found, _owner(key))
        return Response(found.safetensors(found.names(1), {"id": name, "record": found.json()}), media_type=BYTES)

    @app.get(f"{PATH}/api/trace/{{name}}", tags=["inspector"], summary="The record of a trace")
    async def record(request: Request, name: str) -> Response:
        key = context.caller(request)
        return Response(traces.get(name, _owner(key)).json(), media_type="application/json")

    @app.get(f"{PATH}/api/trace/{{name}}/arrays", tags=["inspector"], summary="Arrays of a trace as safetensors")
    async def arrays(request: Request, name: str, names: str = "", level: int = 0) -> Response:
        key = context.caller(request)
        found = traces.get(name, _owner(key))
        wanted = [one for one in names.split(",") if one]
        if len(wanted) > MOST_NAMES or (missing := [one for one in wanted if one not in found.arrays]):
            told = f"there is no array {missing[0]!r}"[:200] if len(wanted) <= MOST_NAMES else "too many names"
            raise RequestError(422, "no_array", told, hint="the record's arrays have the names")
        return Response(found.safetensors([*found.names(level), *wanted]), media_type=BYTES)

    _add_files(app)


# As the inspector has them, which would bring PyTorch before anybody asks for a trace.
SYSTEMS = ("greedy", "int8", "annotated", "jadore", "lsdefine", "d2l", "marian")


def _owner(key: Key | None) -> str | None:
    return None if key is None else key.name


def check_size(context: Context, body: TraceBody) -> None:
    """Refuse what is beyond the limits, before any work.

    Raises:
        RequestError: 413, there are too many characters, or too wide a beam.
    """
    limits = context.settings.limits
    characters = sum(map(len, body.texts()))
    if characters > limits.characters:
        message = f"{characters:,} characters, more than {limits.characters:,}"
        raise RequestError(413, "too_much", message, hint="send a sentence")
    if (body.beam_size or 0) > limits.beam_size:
        raise RequestError(413, "too_much", f"{body.beam_size} hypotheses, more than {limits.beam_size}")


@contextlib.asynccontextmanager
async def hold(
    subjects: Subjects, body: TraceBody, recordings: Mapping[str, Given]
) -> AsyncIterator[Callable[[], Inspection]]:
    """Hold the models that a request names until the block is left; give the call that makes the trace.

    Raises:
        RequestError: 404, there is no such model.
    """
    first = body.model or subjects.described()[0]["name"]
    async with contextlib.AsyncExitStack() as stack:
        model = await stack.enter_async_context(subjects.use(first))
        against: Translator | Path | str | None = body.against or None
        if body.against and body.against not in SYSTEMS:
            against = await stack.enter_async_context(subjects.use(body.against))
        yield partial(_inspect, model, body, against, recordings)


def _inspect(
    model: Translator | Path,
    body: TraceBody,
    against: Translator | Path | str | None,
    recordings: Mapping[str, Given],
) -> Inspection:
    from dragoman.inspector import inspect

    given = None if body.target is None or not body.target.strip() else clean(body.target)
    return inspect(
        model, _read(model, body, recordings), given, beam_size=body.beam_size, length_penalty=body.length_penalty,
        max_length=body.max_length, prefix=body.prefix_ids or clean(body.prefix),
        heads_off=[_head(one) for one in body.heads_off], causal_mask=body.causal_mask, padding_mask=body.padding_mask,
        beside=None if body.beside is None or not body.beside.strip() else clean(body.beside),
        convention=body.convention or None, precision=body.precision, against=against, views=body.views,
        source_language=body.source_language, target_language=body.target_language,
    )  # fmt: skip


def _read(model: Translator | Path, body: TraceBody, recordings: Mapping[str, Given]) -> Given:
    """What the model is given: a text, or the sound that was sent. A name of a file is never opened.

    Raises:
        RequestError: 422, a sound is sent to a model of texts, or none to one that listens.
    """
    if isinstance(model, Path) or model.tokenizers.sound is None:
        if body.audio is not None:
            raise RequestError(422, "no_text", "the model reads texts, and does not listen to sounds")
        return clean(body.text)
    if body.beside:
        raise RequestError(422, "no_sound", "a sound has no text beside it", hint="leave `beside` out")
    if body.audio is None:
        if body.text not in recordings:
            raise RequestError(422, "no_sound", "the model listens to sounds", hint="send one as `audio`, in base64")
        return recordings[body.text]
    from dragoman.audio import Waveform, read_audio

    try:
        data = base64.b64decode(body.audio, validate=True)
    except ValueError as error:
        raise RequestError(422, "no_sound", "the audio is not in base64") from error
    try:
        sound = read_audio(data, limit_seconds=MOST_SECONDS)
    except DataError as error:
        raise RequestError(422, "no_sound", error.message, hint=error.hint) from error
    return Waveform(sound.samples, sound.sample_rate, clean(body.text)[:100])


def _head(told: str) -> tuple[str, int]:
    name, _, number = told.rpartition(":")
    return name, int(number)


def _add_files(app: FastAPI) -> None:
    """The page's files, under the policy of all pages."""
    answer = page_files(INSPECTOR)

    @app.get(PATH, include_in_schema=False)
    async def home() -> Response:
        return RedirectResponse(f"{PATH[1:]}/")  # relative: the service may stand under a path of a proxy

    @app.get(f"{PATH}/", include_in_schema=False)
    async def page() -> Response:
        return answer("index.html")

    @app.get(f"{PATH}/{{name}}", include_in_schema=False)
    async def file(name: str) -> Response:
        return answer(name)
