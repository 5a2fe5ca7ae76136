"""What a service answers where it does not translate: one error type, with a status that every interface words."""

from __future__ import annotations

import logging

from dragoman.errors import DragomanError
from dragoman.translation import OverloadError


class RequestError(DragomanError):
    """A request is not answered with what it asked for.

    Args:
        status: of HTTP.
        code: one word for programs.
        message: one sentence for people, without a full stop.
        hint: what to do.
        wait: seconds after which it is worth another try, or None.
        param: the field of the request that is wrong, or None.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        wait: int | float | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status, self.code, self.wait, self.param = status, code, wait, param

    @property
    def headers(self) -> dict[str, str]:
        """Of the answer."""
        headers = {} if self.wait is None else {"Retry-After": str(max(1, round(self.wait)))}
        return headers | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})

    def to_dict(self) -> dict[str, object]:
        """Return it as the own interface tells it."""
        told: dict[str, object] = {"code": self.code, "message": self.message}
        return {"error": told | ({"hint": self.hint} if self.hint else {})}


def in_words(error: DragomanError) -> str:
    """Return what an error says, with what was expected and found, and without its file."""
    found = [(name, value) for name, value in (("expected", error.expected), ("found", error.found)) if value]
    details = "; ".join(f"{name}: {value}" for name, value in found)
    return f"{error.message} ({details})" if details else error.message


def as_request_error(error: BaseException) -> RequestError:
    """Return what went wrong in a translation as the answer to the request; what nobody foresaw is logged."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, OverloadError):
        return RequestError(503, "overloaded", error.message, hint=error.hint, wait=error.wait)
    if isinstance(error, TimeoutError):
        return RequestError(504, "too_slow", "translating took too long", hint="send less text at once")
    if isinstance(error, DragomanError):
        if error.file is None:
            return RequestError(422, "wrong_value", in_words(error))
        # Paths of this machine are nobody's business.
        return RequestError(503, "model_failed", "the model cannot be used")
    logging.getLogger("dragoman.serving").error("a request failed", exc_info=error)
    return RequestError(503, "failed", "the translation was interrupted by a fault", hint="send it again", wait=1.0)
