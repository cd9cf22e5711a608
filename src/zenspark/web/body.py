"""Request bodies, within limits of size and time."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from zenspark.web import limits
from zenspark.web.http_error import HttpError

T = TypeVar("T")


async def read_body(request: Request, max_bytes: int | None = None) -> bytes:
    """Read the whole body; raises HttpError if it is too large or too slow."""
    size_limit = limits.MAX_BODY_BYTES if max_bytes is None else max_bytes
    declared = request.headers.get("content-length", "0")
    if len(declared) > len(str(size_limit)) or int(declared) > size_limit:
        raise _too_large(size_limit, declared)
    parts: list[bytes] = []
    size, began = 0, time.monotonic()
    stream = request.stream()
    while True:
        seconds_left = began + limits.BODY_GRACE_SECONDS + size / limits.MIN_BODY_BYTES_PER_SECOND - time.monotonic()
        try:
            part = await asyncio.wait_for(anext(stream), max(seconds_left, 0.0))
        except StopAsyncIteration:
            return b"".join(parts)
        except TimeoutError as error:
            message = f"expected the body within {limits.BODY_GRACE_SECONDS:g} s, or at 10 kB/s"
            raise HttpError(HTTPStatus.REQUEST_TIMEOUT, message) from error
        size += len(part)
        if size > size_limit:
            raise _too_large(size_limit, f"at least {size}")
        parts.append(part)


async def read_json(request: Request, kind: type[T]) -> T:
    """Read the body as a JSON document of a type; raises HttpError if it is not one."""
    body = await read_body(request, limits.MAX_API_BODY_BYTES)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"expected a JSON document: {error}") from error


def _too_large(size_limit: int, found: str) -> HttpError:
    message = f"expected at most {size_limit} bytes in the body, found {found[:20]}"
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


__all__ = ["ClientDisconnect", "read_body", "read_json"]
