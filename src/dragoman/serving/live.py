"""Sounds while they are spoken: sent piece by piece, each answered with the words that are certain by then."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import ConfigDict, Field

from dragoman.errors import DataError
from dragoman.serving.context import CHARACTERS_A_SECOND, Context, notes_of, parsed
from dragoman.serving.faults import RequestError, in_words
from dragoman.serving.keys import Key
from dragoman.serving.own import Search
from dragoman.serving.registry import ServedModel

if TYPE_CHECKING:
    from dragoman.audio.streaming import Pieces
    from dragoman.audio.waveform import Waveform
    from dragoman.studies.transcribing import Partial, SpeechStream

PATH = "/v1/transcribe/live"


class LiveBody(Search):
    """How a sound is to be heard; fields of the address."""

    model_config = ConfigDict(extra="forbid", strict=False)

    rate: int = Field(16_000, description="Samples a second, where no WAV header tells.")


@dataclass
class Live:
    """A sound that is coming in."""

    model: ServedModel
    key: Key | None
    pieces: Pieces
    stream: SpeechStream
    held: contextlib.AsyncExitStack
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    ending: asyncio.TimerHandle | None = None


def add_live(app: FastAPI, context: Context) -> None:
    """Add the interface for sounds that are still coming to an application."""
    sounds: dict[str, Live] = {}
    limits = context.settings.limits
    told: dict[str, Any] = {"tags": ["transcription"]}

    def end(live: Live) -> None:
        if sounds.pop(live.id, None) is not None:
            tasks.add(task := asyncio.ensure_future(live.held.aclose()))
            task.add_done_callback(tasks.discard)
        if live.ending is not None:
            live.ending.cancel()

    def wait(live: Live) -> None:
        """Who sends nothing any more takes no place."""
        if live.ending is not None:
            live.ending.cancel()
        live.ending = asyncio.get_running_loop().call_later(limits.receive_seconds, end, live)

    tasks: set[asyncio.Future[None]] = set()

    @app.post(PATH, summary="Begin to write down what is being said", status_code=201, **told)
    async def begin(request: Request) -> Response:
        key = context.caller(request)
        body = parsed(LiveBody, dict(request.query_params))
        if len(sounds) >= limits.live_sounds:
            raise RequestError(503, "overloaded", "too many recordings are open", wait=5.0)
        live = await _opened(context, body, key)
        if len(sounds) >= limits.live_sounds:  # others came while a model was opened
            await live.held.aclose()
            raise RequestError(503, "overloaded", "too many recordings are open", wait=5.0)
        sounds[live.id] = live
        wait(live)
        return JSONResponse({"id": live.id, "model": live.model.name}, 201)

    @app.post(PATH + "/{name}", summary="Go on with a sound", **told)
    async def hear(request: Request, name: str, last: bool = False) -> Response:
        live = sounds.get(name)
        if live is None:
            raise RequestError(404, "no_sound", "there is no such sound, or it is over", hint="begin another one")
        if live.lock.locked():
            raise RequestError(409, "in_order", "the piece before is still being heard", hint="send one at a time")
        async with live.lock:
            if live.ending is not None:
                live.ending.cancel()
            try:
                async with asyncio.timeout(limits.translate_seconds):
                    found = await _heard(context, request, live, await request.body(), last)
            except BaseException:
                end(live)
                raise
            end(live) if last else wait(live)
        return JSONResponse(_told(live, found, last))


async def _opened(context: Context, body: LiveBody, key: Key | None) -> Live:
    from dragoman.audio.streaming import Pieces
    from dragoman.studies.transcribing import SpeechStream

    registry, limits = context.service.registry, context.settings.limits
    if (asked := max(body.beam_size or 0, body.n_best)) > limits.beam_size:
        raise RequestError(413, "too_much", f"a beam of {asked:,}, more than {limits.beam_size:,}")
    model = registry.listener(body.source, body.target, body.model)
    async with contextlib.AsyncExitStack() as held:
        async with asyncio.timeout(limits.translate_seconds):
            scheduler = await held.enter_async_context(registry.use(model))
        options = scheduler.translator.options(body.options())
        stream = SpeechStream(scheduler.translator, options=options)
        return Live(model, key, Pieces(body.rate), stream, held.pop_all())


async def _heard(context: Context, request: Request, live: Live, data: bytes, last: bool) -> list[Partial]:
    """What is known after a piece, within the limits of the whole sound."""
    try:
        block = live.pieces.take(data)
    except DataError as error:
        raise RequestError(422, "wrong_sound", in_words(error)) from None
    if block is not None:
        live.seconds += block.seconds
        if live.seconds > (most := context.settings.limits.audio_seconds):
            raise RequestError(413, "sound_too_long", f"the sound has more than {most:g} seconds")
        context.keys.spend(live.key, math.ceil(block.seconds * CHARACTERS_A_SECOND))
        context.metrics.transcribed(live.model.name, block.seconds)
    notes = notes_of(request)
    notes.models, notes.sound = live.model.name, 0.0 if block is None else block.seconds
    notes.key = None if live.key is None else live.key.name
    found = await asyncio.to_thread(_known, live.stream, block, last)
    live.said += [one.stable for one in found if one.final and one.stable]
    return found


def _known(stream: SpeechStream, block: Waveform | None, last: bool) -> list[Partial]:
    found = [] if block is None else list(stream.hear(block))
    return [*found, *stream.finish()] if last else found


def _told(live: Live, found: list[Partial], last: bool) -> dict[str, object]:
    """The utterances that are over, and of the one that goes on the words that stay and those that may change."""
    now = found[-1] if found and not found[-1].final else None
    over = [one for one in found if one.final and one.stable]
    return {
        "utterances": [{"start": round(o.start, 3), "end": round(o.end, 3), "text": o.stable} for o in over],
        "stable": now.stable if now else "",
        "tentative": now.tentative if now else "",
        "heard": bool(found),
        "text": " ".join(live.said),
        "duration": round(live.seconds, 3),
        "final": last,
    }
