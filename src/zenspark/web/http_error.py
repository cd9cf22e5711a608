"""HttpError: a request that is rejected with a status and one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from zenspark.errors import LakeError, UsageError, ZError
from zenspark.web.documents import JSON, encode_json

PLAIN_TEXT_TYPE = "text/plain; charset=utf-8"
INTERNAL_SERVER_ERROR = HTTPStatus.INTERNAL_SERVER_ERROR
STATUSES = {UsageError: HTTPStatus.BAD_REQUEST, LakeError: HTTPStatus.SERVICE_UNAVAILABLE}
"""Status of an error; a lake that cannot be read now may be there later."""


class HttpError(Exception):
    """A request that is rejected with a status and a message."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    def __str__(self) -> str:
        return self.message


def error_response(error: HttpError, *, as_json: bool) -> Response:
    """Make the response: JSON for the page's API, text for REST; a body may be left unread, so the connection ends."""
    headers = {**error.headers, "Connection": "close"}
    if as_json:
        return Response(encode_json({"error": error.message}), error.status, headers, JSON)
    return Response(f"{error.message}\n".encode(), error.status, {**headers, "Content-Type": PLAIN_TEXT_TYPE})


def as_http_error(error: HttpError | ZError) -> HttpError:
    """Convert an error of zenspark: a wrong request is the client's fault, everything else the server's."""
    if isinstance(error, HttpError):
        return error
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), INTERNAL_SERVER_ERROR)
    return HttpError(status, " ".join(str(error).split()))
