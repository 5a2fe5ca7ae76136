"""DeepL's interface, versions 2 and 3: its paths, fields, error shapes and status codes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.background import BackgroundTask

from dragoman.jobs import Job, Translated
from dragoman.languages import base_language, language_name
from dragoman.serving.context import Code, Context, Upload, clean, parsed, read_fields
from dragoman.serving.documents import Document
from dragoman.serving.faults import RequestError
from dragoman.serving.keys import Key
from dragoman.serving.replies import described, document_file, told_ignored
from dragoman.serving.routes import UNKNOWN

TAG = "DeepL"
PATHS = ("/v2/", "/v3/")
MOST_TEXTS = 50
UNLIMITED = 1_000_000_000_000  # characters, where a key has no quota
QUOTA_EXCEEDED = 456
# Its status codes for what has another one with us; whoever asks for a document too early gets 503.
STATUSES = {401: 403, 408: 400, 409: 503, 415: 400, 421: 400, 422: 400, 504: 503}
ERROR = {
    "type": "object",
    "properties": {"message": {"type": "string"}, "detail": {"type": "string"}},
    "required": ["message"],
}
DOCUMENT_STATUSES = {"waiting": "queued", "translating": "translating", "done": "done", "failed": "error"}
# Its clients refuse these targets without a region.
REGIONS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
# Without effect on an output; the answer names those that were sent.
IGNORED = ("context", "custom_instructions", "formality", "model_type")
# Named by requests, and not there: it would not do to translate without them as if they were.
ABSENT = {
    "glossary_id": "glossary", "glossary_ids": "glossary", "style_id": "style rule",
    "translation_memory_id": "translation memory",
}  # fmt: skip
LISTS = {
    "/v2/glossaries": "glossaries", "/v2/glossary-language-pairs": "supported_languages",
    "/v3/glossaries": "glossaries", "/v3/style_rules": "style_rules",
    "/v3/translation_memories": "translation_memories",
}  # fmt: skip
TAG_LISTS = ("ignore_tags", "splitting_tags", "non_splitting_tags")
_BARE = re.compile(r"&(?!(?:[A-Za-z_][\w.-]*|#[0-9]+|#x[0-9A-Fa-f]+);)")


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_tags(value: Any) -> Any:
    """Names in a list, in a string with commas, or in a list of such strings."""
    parts = _as_list(value)
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return value
    return [name.strip() for part in parts for name in part.split(",") if name.strip()]


def _as_word(value: Any) -> Any:
    return str(int(value)) if isinstance(value, int) else value


Tags = Annotated[list[str], BeforeValidator(_as_tags)]


class Pair(BaseModel):
    """What to translate from and to."""

    model_config = ConfigDict(extra="ignore")

    source_lang: Code | None = Field(None, description="Language of the texts; detected if absent.", examples=["ZH"])
    target_lang: Code = Field(examples=["EN-GB"])

    @property
    def source(self) -> str:
        """Code of the language to translate from, or "auto"."""
        return "auto" if self.source_lang is None or self.source_lang.lower() == "auto" else self.source_lang


class TranslateBody(Pair):
    """A request for translations."""

    text: Annotated[list[str], BeforeValidator(_as_list)] = Field(
        min_length=1,
        max_length=MOST_TEXTS,
        description="Texts; in forms the field is repeated.",
        examples=[["猫吃鱼。"]],
    )
    split_sentences: Annotated[Literal["0", "1", "nonewlines"], BeforeValidator(_as_word)] = Field(
        "1",
        description="Whether lines are split into sentences; "
        '"nonewlines": a single line break is a blank, an empty line still parts texts.',
    )
    tag_handling: Literal["xml", "html"] | None = None
    outline_detection: bool = Field(True, description="Of XML: find out which tags stand inside sentences.")
    splitting_tags: Tags = []
    non_splitting_tags: Tags = []
    ignore_tags: Tags = []
    show_billed_characters: bool = False
    context: str | None = Field(None, description="Without effect.")
    custom_instructions: Any = Field(None, description="Without effect.")
    formality: str | None = Field(None, description="Without effect.")
    model_type: str | None = Field(None, description="Without effect.")
    preserve_formatting: bool | None = Field(None, description="Formatting is always preserved.")

    def job(self) -> Job:
        """Return what is asked."""
        joins = self.split_sentences == "nonewlines"
        texts = [clean(text) for text in self.text]
        markup: dict[str, Any] = {}
        if self.tag_handling is None:
            texts = [joined_lines(text) for text in texts] if joins else texts
        else:
            markup = {name: getattr(self, name) for name in TAG_LISTS} | {"outline_detection": self.outline_detection}
        if self.tag_handling == "xml":
            markup["collapse"] = joins
            texts = [_escaped(text) for text in texts]
        return Job(
            texts, self.source, self.target_lang, sentences=self.split_sentences != "0",
            format=self.tag_handling or "text", markup=markup,
        )  # fmt: skip


def answer(error: RequestError) -> tuple[int, dict[str, object]]:
    """Return the status and the body by which DeepL tells an error."""
    status = QUOTA_EXCEEDED if error.code == "quota_exceeded" else STATUSES.get(error.status, error.status)
    told: dict[str, object] = {"message": error.message}
    return status, told | ({"detail": error.hint} if error.hint else {})


def add_deepl(app: FastAPI, context: Context) -> None:
    """Add DeepL's interface to an application."""

    # Tools that never learnt to post send their fields in the address.
    @app.get("/v2/translate", include_in_schema=False)
    @app.post("/v2/translate", tags=[TAG], summary="Translate texts", **_described(TranslateBody, forms=True))
    async def translate(request: Request) -> Response:
        fields, key = await _asked(request, context)
        _refuse_absent(fields)
        body = parsed(TranslateBody, fields)
        results = await context.translate(request, body.job(), key)
        told = [_told(body, text, one) for text, one in zip(body.text, results, strict=True)]
        return JSONResponse({"translations": told}, headers=_ignored(fields))

    @app.get("/v2/languages", tags=[TAG], summary="The languages", **_described(None))
    @app.post("/v2/languages", include_in_schema=False)
    async def languages(request: Request) -> Response:
        fields, _ = await _asked(request, context)
        side = fields.get("type", "source")
        if side not in ("source", "target"):
            raise RequestError(400, "type", "type: source or target is needed")
        return JSONResponse(_languages(context, side))

    @app.get("/v2/usage", tags=[TAG], summary="What a key has used", **_described(None))
    @app.post("/v2/usage", include_in_schema=False)
    async def usage(request: Request) -> Response:
        _, key = await _asked(request, context)
        count, limit = context.keys.used(key)
        return JSONResponse({"character_count": count, "character_limit": UNLIMITED if limit is None else limit})

    _add_documents(app, context)
    _add_absent(app, context)


def _add_documents(app: FastAPI, context: Context) -> None:
    form = _described(None, file=True, fields=("source_lang", "target_lang", "filename", "output_format"))

    @app.post("/v2/document", tags=[TAG], summary="Translate a document", **form)
    async def upload(request: Request) -> Response:
        fields, key = await _asked(request, context)
        _refuse_absent(fields)
        file, name = fields.get("file"), fields.get("filename")
        if not isinstance(file, Upload):
            raise RequestError(400, "no_file", "file: a file is needed")
        pair = parsed(Pair, fields)
        file = Upload(name, file.data) if isinstance(name, str) else file
        wanted, given = fields.get("output_format"), file.name.rpartition(".")[2].lower()
        if wanted is not None and wanted != given:
            raise RequestError(400, "output_format", "documents keep their format", hint=f"output_format: {given}")
        document = context.take_document(request, file, Job([], pair.source, pair.target_lang), key)
        told = {"document_id": document.id, "document_key": document.key}
        return JSONResponse(told, headers=_ignored(fields))

    async def asked_document(request: Request, name: str) -> Document:
        fields, _ = await _asked(request, context)
        return context.documents.get(name, str(fields.get("document_key", "")))

    @app.get("/v2/document/{name}", include_in_schema=False)
    @app.post(
        "/v2/document/{name}", tags=[TAG], summary="How far a document is", **_described(DocumentBody, forms=True)
    )
    async def status(request: Request, name: str) -> Response:
        document = await asked_document(request, name)
        told: dict[str, object] = {"document_id": document.id, "status": DOCUMENT_STATUSES[document.status]}
        if document.seconds_left is not None:
            told["seconds_remaining"] = document.seconds_left
        if document.status == "done":
            told["billed_characters"] = document.characters
        if document.error is not None:
            told["error_message"] = document.error.message
        return JSONResponse(told)

    @app.get("/v2/document/{name}/result", include_in_schema=False)
    @app.post(
        "/v2/document/{name}/result", tags=[TAG], summary="Fetch a translated document, once",
        **_described(DocumentBody, forms=True),
    )  # fmt: skip
    async def result(request: Request, name: str) -> Response:
        document = await asked_document(request, name)
        reply = document_file(document)

        async def remove() -> None:  # on this thread: a function that does not wait would be run on another
            context.documents.remove(document)

        reply.background = BackgroundTask(remove)
        return reply


class DocumentBody(BaseModel):
    """What shows that a document is one's own."""

    document_key: str


def _add_absent(app: FastAPI, context: Context) -> None:
    """Empty lists of what there is none of, and words for whoever asks for one of it or wants to make it."""

    async def nothing(request: Request) -> Response:
        await _asked(request, context)
        path = request.url.path
        if request.method == "GET" and path in LISTS:
            return JSONResponse({LISTS[path]: []})
        what = path.split("/")[2].replace("_", " ")
        if what == "write":
            raise RequestError(400, "not_here", "texts are translated here, not rephrased or corrected")
        makes = request.method == "POST"
        raise RequestError(400 if makes else 404, "not_here", f"there are no {what} here", hint="go on without them")

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    for path in (*LISTS, "/v2/write"):
        app.add_api_route(path, nothing, methods=methods, include_in_schema=False)
        app.add_api_route(path + "/{rest:path}", nothing, methods=methods, include_in_schema=False)


def _described(
    body: type[BaseModel] | None, *, forms: bool = False, file: bool = False, fields: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What OpenAPI says of a route, with DeepL's status codes."""
    told = described(body, forms=forms, file=file, fields=fields, error=ERROR)
    responses = {status: said for status, said in told["responses"].items() if status not in STATUSES}
    responses[QUOTA_EXCEEDED] = responses[429] | {"description": "The key has used up its characters of this day."}
    return ({"openapi_extra": told["openapi_extra"]} if body or file else {}) | {"responses": responses}


async def _asked(request: Request, context: Context) -> tuple[dict[str, Any], Key | None]:
    """The fields of a request, from its address and its body; and whose it is. Empty ones are as if absent."""
    fields: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name == "text":
            fields.setdefault(name, []).append(value)
        else:
            fields[name] = value
    if await request.body():
        fields |= await read_fields(request, repeated=("text", *TAG_LISTS))
    key = context.caller(request, fields.get("auth_key"))
    return {name: value for name, value in fields.items() if value is not None and value != ""}, key


def _refuse_absent(fields: Iterable[str]) -> None:
    for name, what in ABSENT.items():
        if name in fields:
            raise RequestError(404, "not_here", f"there is no such {what}", hint=f"send no {name}: there are none here")


def _ignored(fields: dict[str, Any]) -> dict[str, str]:
    return told_ignored(name for name in IGNORED if fields.get(name, "default") != "default")


def _told(body: TranslateBody, text: str, one: Translated) -> dict[str, object]:
    told: dict[str, object] = {
        "detected_source_language": base_language(one.source).upper(),
        "text": one.text,
    }
    if body.show_billed_characters:
        told["billed_characters"] = len(text)
    if body.model_type is not None:
        told["model_type_used"] = "quality_optimized"
    return told


def _languages(context: Context, side: str) -> list[dict[str, object]]:
    registry, names = context.service.registry, dict[str, str]()
    for code in registry.sources() if side == "source" else registry.targets():
        names |= {base_language(code): language_name(base_language(code))} if side == "source" else _target_names(code)
    told: list[dict[str, object]] = [
        {"language": code.upper(), "name": name} for code, name in names.items() if code.lower() != UNKNOWN
    ]
    return told if side == "source" else [one | {"supports_formality": False} for one in told]


def _target_names(code: str) -> dict[str, str]:
    regions = REGIONS.get(base_language(code), {})
    if base_language(code) == code.lower() and regions:
        return regions
    return {code.upper(): regions.get(code.upper(), language_name(code))}


def _escaped(text: str) -> str:
    """XML as tools send it: what they put tags into may have an `&` that begins no entity."""
    return text if "<!" in text or "<?" in text else _BARE.sub("&amp;", text)


def joined_lines(text: str) -> str:
    """Return a text without single line breaks: each is a blank, or nothing between Chinese or Japanese characters.

    Blank lines stay.
    """
    return re.sub(r"(?<=\S)\s+(?=\S)", lambda found: _joint(text, found), text)


def _joint(text: str, found: re.Match[str]) -> str:
    if len(f"{found[0]}.".splitlines()) != 2:
        return found[0]
    return "" if all(map(_is_set_solid, (text[found.start() - 1], text[found.end()]))) else " "


def _is_set_solid(character: str) -> bool:
    """Whether a character is of a script without blanks; Hangul, which is as wide, has them."""
    return unicodedata.east_asian_width(character) in "WF" and not "\uac00" <= character <= "\ud7a3"
