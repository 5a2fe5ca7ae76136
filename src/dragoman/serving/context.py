"""What all interfaces of one service share: the service, its keys and counts, the notes of a request for the log."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from dragoman.jobs import Job, SoundJob, Transcribed, Translated
from dragoman.serving.documents import Document, Documents
from dragoman.serving.faults import RequestError
from dragoman.serving.keys import Key, Keys
from dragoman.serving.metrics import Metrics
from dragoman.serving.registry import Registry
from dragoman.serving.service import Service
from dragoman.serving.settings import ServeSettings
from dragoman.serving.transcribing import Transcribing

NOTES = "dragoman.notes"  # where the notes of a request stand in its scope
MOST_FIELDS = 1_000
CHARACTERS_A_SECOND = 15  # what a second of sound takes of a key's characters: about what is said in it
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # half of a surrogate pair, perhaps beside its other half
JSON_TYPES = ("application/json", "text/json")
Code = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$", max_length=40)]  # of a language
Body = TypeVar("Body", bound=BaseModel)
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")


@dataclass(frozen=True)
class Upload:
    """A file of a form: its name, and what is in it."""

    name: str
    data: bytes


@dataclass
class Notes:
    """What the log tells of a request besides its status."""

    key: str | None = None
    models: str | None = None
    characters: int = 0
    sound: float = 0.0
    texts: Sequence[str] = ()
    outputs: list[str] = field(default_factory=list)


@dataclass
class Context:
    """What the interfaces of a service share."""

    settings: ServeSettings
    service: Service
    keys: Keys
    metrics: Metrics
    documents: Documents
    transcribing: Transcribing

    @classmethod
    def of(cls, settings: ServeSettings, registry: Registry) -> Context:
        """Return what the interfaces of a service share, with its models."""
        service = Service(registry, settings)
        return cls(
            settings, service, Keys(settings.keys), Metrics(registry), Documents(service, settings),
            Transcribing(registry, settings),
        )  # fmt: skip

    def caller(self, request: Request, given: object = None) -> Key | None:
        """Return whose request it is: by the header `Authorization`, or by a key that was given otherwise.

        Raises:
            RequestError: a key is needed, and there is none or a wrong one; or it has used up what it may.
        """
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        header = key.strip() if scheme.lower() in ("bearer", "deepl-auth-key") else None
        found = self.keys.find(header or (given if isinstance(given, str) else None))
        if found is not None:
            notes_of(request).key = found.name
        return found

    async def translate(self, request: Request, job: Job, key: Key | None) -> list[Translated]:
        """Translate a job, and count it.

        Raises:
            RequestError: as `Service.translate`, and where the key has used up its characters.
        """
        self.begin(request, job, key)
        results = await self.service.translate(job)
        self.end(request, job, results)
        return results

    async def transcribe(self, request: Request, job: SoundJob, key: Key | None) -> Transcribed:
        """Write down a recording, and count it.

        Raises:
            RequestError: as `Transcribing.transcribe`, and where the key has used up its characters.
        """
        notes = notes_of(request)

        def spend(seconds: float) -> None:
            notes.sound, characters = seconds, math.ceil(seconds * CHARACTERS_A_SECOND)
            self.keys.spend(key, characters)

        found = await self.transcribing.transcribe(job, spend)
        notes.models, notes.outputs = found.model, [found.text]
        self.metrics.transcribed(found.model, found.seconds)
        return found

    def take_document(self, request: Request, file: Upload, job: Job, key: Key | None) -> Document:
        """Take an uploaded document, count its characters, and begin to translate it.

        Raises:
            RequestError: as `Documents.add`, and where the key has used up its characters.
        """
        document = self.documents.add(clean(file.name or "document.txt"), file.data, job)
        try:
            self.keys.spend(key, document.characters)
        except RequestError:
            self.documents.remove(document)
            raise
        notes_of(request).characters = document.characters
        return document

    def begin(self, request: Request, job: Job, key: Key | None) -> None:
        """Write down what a request is about to cost.

        Raises:
            RequestError: it is beyond the limits, or the key has used up its characters.
        """
        self.service.check(job)
        self.keys.spend(key, job.characters)
        notes = notes_of(request)
        notes.characters, notes.texts = job.characters, job.texts

    def end(self, request: Request, job: Job, results: Sequence[Translated]) -> None:
        """Write down what a request was answered."""
        notes = notes_of(request)
        notes.models = "+".join(results[0].models) if results else None
        notes.outputs += [one.text for one in results]
        for text, one in zip(job.texts, results, strict=True):
            self.metrics.translated("+".join(one.models), len(text))


def notes_of(request: Request) -> Notes:
    """Return the notes of a request."""
    return request.scope.setdefault(NOTES, Notes())


def clean(text: str) -> str:
    """Return a text with U+FFFD for each half of a surrogate pair, which JSON can spell and UTF-8 cannot."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parsed(kind: type[Body], fields: Mapping[str, Any], *, numbers: Sequence[str] = ()) -> Body:
    """Return the fields of a request, checked.

    Args:
        kind: what the request is.
        fields: of it.
        numbers: names of fields that may be lists of numbers; they fail fast.

    Raises:
        RequestError: 422, one is missing, wrong or unknown.
    """
    for name, value in fields.items():  # before each of a million wrong ones is told
        if isinstance(value, list) and name not in numbers and not all(isinstance(one, str) for one in value):
            raise RequestError(422, "wrong_value", f"{name}: a list of texts is needed")
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(map(str, first["loc"])) or "the body"
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(422, "wrong_value", f"{name}: {message}", param=name) from None


async def read_fields(request: Request, *, forms: bool = True, repeated: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a request's body: a JSON object, or a form.

    Args:
        request: whose body is at hand.
        forms: whether forms are taken besides JSON.
        repeated: names of a form that may come several times; they are lists.

    Raises:
        RequestError: 415 another type, 400 not what its type says, 422 not an object.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in JSON_TYPES or kind.endswith("+json"):
        return await _read_json(request)
    if not forms or kind not in FORM_TYPES:
        wanted = "application/json" + (" or a form" if forms else "")
        raise RequestError(415, "content_type", f"the content type is {kind or 'missing'}", hint=f"send {wanted}")
    return await _read_form(request, repeated)


async def _read_json(request: Request) -> dict[str, Any]:
    body = await request.body()
    try:
        value = json.loads(body.decode("utf-8-sig"))
        if HALF.search(body):
            value = json.loads(clean(json.dumps(value, ensure_ascii=False)))
    except (ValueError, RecursionError):
        raise RequestError(400, "not_json", "the body is not JSON") from None
    if not isinstance(value, dict):
        raise RequestError(422, "no_object", "the body is not a JSON object")
    return value


async def _read_form(request: Request, repeated: Sequence[str]) -> dict[str, Any]:
    kind = request.headers.get("content-type", "")
    pairs = await _multipart(request) if kind.lower().startswith("multipart/") else await _urlencoded(request)
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in repeated:
            fields.setdefault(name, []).append(value)
        else:
            fields[name] = value
    return fields


async def _urlencoded(request: Request) -> list[tuple[str, Any]]:
    """The fields of such a form; text that was not encoded, as by `curl -d`, is UTF-8."""
    try:
        text = (await request.body()).decode("utf-8")
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
    except ValueError:
        raise _not_a_form() from None


async def _multipart(request: Request) -> list[tuple[str, Any]]:
    fields: list[tuple[str, Any]] = []
    try:
        async with request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=1 << 20) as form:
            for name, value in form.multi_items():
                sent = value if isinstance(value, str) else Upload(value.filename or "", await value.read())
                fields.append((name, sent))
    except (HTTPException, MultiPartException, ValueError, AssertionError, KeyError):
        raise _not_a_form() from None
    return fields


def _not_a_form() -> RequestError:
    return RequestError(400, "not_a_form", "the body is not the form that its type says")
