"""How each interface words an error."""

from __future__ import annotations

from dragoman.serving import deepl, libretranslate, openai
from dragoman.serving.faults import RequestError


def interface_of(path: str) -> str:
    """Return the name of the interface that a path belongs to."""
    if path.startswith(openai.PATHS):
        return "openai"
    if path.startswith("/v1/"):
        return "v1"
    if path.startswith(deepl.PATHS):
        return "deepl"
    if path.startswith(libretranslate.PATHS):
        return "libretranslate"
    if path.startswith("/inspect"):
        return "inspector"
    return "page" if path == "/" or path.startswith("/static/") else "service"


def answer_of(path: str, error: RequestError) -> tuple[int, dict[str, object]]:
    """Return the status and the body by which the interface of a path tells an error."""
    interface = interface_of(path)
    if interface == "libretranslate":
        return libretranslate.STATUSES.get(error.status, error.status), {"error": error.message}
    if interface == "deepl":
        return deepl.answer(error)
    if interface == "openai":
        return openai.answer(error)
    return error.status, error.to_dict()
