"""Parts of answers and of their description that several interfaces share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from fastapi.responses import Response
from pydantic import BaseModel

from dragoman.serving.documents import Document
from dragoman.serving.faults import RequestError

RAW_EXAMPLES = ("audio/wav", "audio/flac", "application/octet-stream")
JSON, FORM, FILES = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "hint": {"type": "string"}},
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}
STATUSES = {
    400: "The body cannot be read.",
    401: "A key is needed.",
    403: "The key, or the page that asks, is not known.",
    404: "There is no such thing.",
    408: "The request came in too slowly.",
    409: "It is not done yet.",
    413: "There is too much of it.",
    415: "The content type is another one.",
    421: "The host is not served here.",
    422: "A value is wrong.",
    429: "The key has used up what it may; `Retry-After` says when to come back.",
    503: "There is too much to do; `Retry-After` says when to come back.",
    504: "It took too long.",
}


def described(
    body: type[BaseModel] | None, *, forms: bool = False, file: bool = False, fields: tuple[str, ...] = (),
    error: dict[str, Any] = ERROR,
) -> dict[str, Any]:  # fmt: skip
    """Return what OpenAPI says of a request's body and its errors, as arguments of a route.

    Args:
        body: of JSON; None if a file is sent.
        forms: whether a form with the same fields is taken too.
        file: whether a form with a file is sent.
        fields: of that form, besides the file.
        error: the schema of errors.
    """
    content: dict[str, Any] = {}
    if body is not None:
        schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
        content = {kind: {"schema": schema} for kind in ((JSON, FORM) if forms else (JSON,))}
    if file:
        properties: dict[str, Any] = {name: {"type": "string"} for name in fields}
        properties["file"] = {"type": "string", "format": "binary"}
        content[FILES] = {"schema": {"type": "object", "properties": properties, "required": ["file"]}}
    responses = {
        status: {"description": meaning, "content": {JSON: {"schema": error}}} for status, meaning in STATUSES.items()
    }
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}, "responses": responses}


def described_sound(
    body: type[BaseModel], example: dict[str, Any], *, raw: bool = False, error: dict[str, Any] = ERROR
) -> dict[str, Any]:
    """Return what OpenAPI says of a request with a recording and of its errors, as arguments of a route.

    Args:
        body: the fields of the form, besides the file.
        example: an answer.
        raw: whether the file alone is taken too, with the fields in the address.
        error: the schema of errors.
    """
    schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
    fields = dict(schema["properties"])
    file = {"type": "string", "format": "binary", "description": "WAV, FLAC, OGG, MP3 or what else libsndfile reads."}
    form = schema | {"properties": {"file": file} | fields, "required": ["file", *schema.get("required", ())]}
    told = described(None, error=error)
    told["responses"][200] = {"description": "What is said.", "content": {JSON: {"example": example}}}
    told["openapi_extra"]["requestBody"]["content"] = {FILES: {"schema": form}}
    if raw:
        told["openapi_extra"]["requestBody"]["content"] |= {kind: {"schema": file} for kind in RAW_EXAMPLES}
        told["openapi_extra"]["parameters"] = [
            {"name": name, "in": "query", "required": False, "schema": one} for name, one in fields.items()
        ]
    return told


def told_ignored(names: Iterable[str]) -> dict[str, str]:
    """Return the header that names what was sent and has no effect."""
    told = ", ".join(names)
    return {"X-Ignored-Parameters": told} if told else {}


def document_file(document: Document) -> Response:
    """Return an answer that a browser saves as a file: what came out of a document.

    Raises:
        RequestError: it is not translated, or not yet (409).
    """
    if document.error is not None:
        raise document.error
    if document.status != "done":
        raise RequestError(409, "not_done", "the document is not translated yet", wait=1.0)
    return attachment(document.name, document.result)


def attachment(name: str, data: bytes) -> Response:
    """Return an answer that a browser saves as a file."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._- ") else "_" for c in name)
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return Response(data, media_type="text/plain; charset=utf-8", headers={"Content-Disposition": disposition})
