"""Errors as responses."""

from __future__ import annotations

from http import HTTPStatus

from zenspark.errors import LakeError, UsageError, ZError
from zenspark.web.http_error import HttpError, as_http_error, error_response


def test_error_response_is_text_or_json() -> None:
    error = HttpError(HTTPStatus.CONFLICT, "no", {"X": "1"})
    assert str(error) == "no"
    text, document = error_response(error, as_json=False), error_response(error, as_json=True)
    assert (text.body, text.headers["content-type"]) == (b"no\n", "text/plain; charset=utf-8")
    assert (document.body, document.media_type) == (b'{"error":"no"}', "application/json")
    assert (text.headers["connection"], text.headers["x"], text.status_code) == ("close", "1", 409)


def test_http_status_depends_on_the_class_of_the_error() -> None:
    assert as_http_error(UsageError("your\n fault")).status is HTTPStatus.BAD_REQUEST
    assert as_http_error(UsageError("your\n fault")).message == "your fault"
    assert as_http_error(LakeError("lake", "gone")).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert as_http_error(ZError("ours")).status is HTTPStatus.INTERNAL_SERVER_ERROR
    error = HttpError(HTTPStatus.CONFLICT, "no")
    assert as_http_error(error) is error
