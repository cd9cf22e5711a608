"""Queries, publications and newest values of the page: `/_api/query`, `/_api/put`, `/_api/delete`, `/_api/value`."""

from __future__ import annotations

import base64
import binascii
import time
from http import HTTPStatus
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from zenspark.api.session import Session
from zenspark.key import KeyExpr
from zenspark.types.enums import ConsolidationMode, QueryTarget
from zenspark.types.sample import Reply, Sample
from zenspark.types.selector import Selector
from zenspark.web.body import read_json
from zenspark.web.context import WebContext, check_access
from zenspark.web.http_clients import HttpClient
from zenspark.web.http_error import HttpError
from zenspark.web.node_info import json_response
from zenspark.web.rest import check_write, may_receive
from zenspark.web.values import Document, iso, value_document

T = TypeVar("T")

DEFAULT_TIMEOUT_MS = 10_000
MAX_TIMEOUT_MS = 60_000
MAX_REPLIES = 5000
"""Replies that are sent to the page; the others are left out and counted."""
TARGETS = {
    "best_matching": QueryTarget.BEST_MATCHING,
    "all": QueryTarget.ALL,
    "all_complete": QueryTarget.ALL_COMPLETE,
}
CONSOLIDATIONS = {
    "auto": ConsolidationMode.AUTO,
    "none": ConsolidationMode.NONE,
    "monotonic": ConsolidationMode.MONOTONIC,
    "latest": ConsolidationMode.LATEST,
}


class PageQuery(msgspec.Struct, frozen=True):
    """A query of the page."""

    selector: str
    timeout_ms: float = DEFAULT_TIMEOUT_MS
    target: str | None = None
    consolidation: str | None = None
    payload: str | None = None
    encoding: str | None = None


class PagePut(msgspec.Struct, frozen=True):
    """A publication of the page."""

    key: str
    payload: str = ""
    encoding: str | None = None
    base64: bool = False


class PageDelete(msgspec.Struct, frozen=True):
    """A deletion by the page."""

    key: str


class QueryApi:
    """Serves `/_api/query`, `/_api/put`, `/_api/delete` and `/_api/value`."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def query(self, request: Request) -> Response:
        """Run a query and return its replies with their latency."""
        body = await read_json(request, PageQuery)
        client = self._context.client(request)
        selector = parse_selector(body.selector)
        check_access(client, "query", str(selector.key_expr))
        return json_response(await self._context.run(self._run, body, selector, client))

    def _run(self, body: PageQuery, selector: Selector, client: HttpClient) -> Document:
        timeout = min(max(body.timeout_ms, 1.0), MAX_TIMEOUT_MS) / 1000
        target = parse_choice("target", body.target, TARGETS)
        consolidation = parse_choice("consolidation", body.consolidation, CONSOLIDATIONS)
        began = time.monotonic()
        replies: list[Document] = []
        left_out = 0
        for reply in self._context.session.get(
            selector,
            timeout=timeout,
            target=target,
            consolidation=consolidation,
            payload=body.payload,
            encoding=body.encoding,
        ):
            if not may_receive(client, reply, str(selector.key_expr)):
                continue
            if len(replies) < MAX_REPLIES:
                replies.append(reply_document(reply, time.monotonic() - began))
            else:
                left_out += 1
        elapsed = time.monotonic() - began
        self._context.counts.query_seconds.add(elapsed)
        return {
            "replies": replies,
            "left_out": left_out,
            "elapsed_ms": round(elapsed * 1000, 3),
            "timed_out": elapsed >= timeout,
        }

    async def put(self, request: Request) -> Response:
        """Publish a value."""
        check_write(self._context, request)
        body = await read_json(request, PagePut)
        key = KeyExpr(body.key)
        check_access(self._context.client(request), "put", str(key))
        payload = decode_base64(body.payload) if body.base64 else body.payload.encode()
        await self._context.run(self._context.session.put, key, payload, encoding=body.encoding)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def delete(self, request: Request) -> Response:
        """Delete a value."""
        check_write(self._context, request)
        key = KeyExpr((await read_json(request, PageDelete)).key)
        check_access(self._context.client(request), "delete", str(key))
        await self._context.run(self._context.session.delete, key)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def value(self, request: Request) -> Response:
        """Return the newest value of a key: seen by a monitor, or replied by a storage; 404 if there is none."""
        key = KeyExpr(required_parameter(request, "key"))
        client = self._context.client(request)
        check_access(client, "query", str(key))
        seen = self._context.monitors.newest(str(key))
        if seen is not None and seen.payload is not None and client.may_read(str(key)):
            return json_response(seen.document())
        sample = await self._context.run(newest_reply, self._context.session, key, client)
        if sample is None:
            raise HttpError(
                HTTPStatus.NOT_FOUND, f"this node has seen no value of {str(key)!r}, and no storage has one"
            )
        return json_response(sample_reply_document(sample) | {"received_at": None})


def newest_reply(session: Session, key: KeyExpr, client: HttpClient) -> Sample | None:
    """Query all storages for a key; returns the newest sample that the client may receive."""
    replies = session.get(key, target=QueryTarget.ALL, timeout=DEFAULT_TIMEOUT_MS / 1000)
    samples = [reply.ok for reply in replies if reply.ok is not None and may_receive(client, reply, str(key))]
    return max(samples, key=lambda sample: -1 if sample.timestamp is None else _ntp64(sample), default=None)


def _ntp64(sample: Sample) -> int:
    assert sample.timestamp is not None
    return sample.timestamp.to_wire().ntp64


def reply_document(reply: Reply, seconds: float) -> Document:
    """Convert a reply to its document."""
    sample = reply.ok
    result = reply.result
    stamp = sample.timestamp if sample is not None else None
    return {
        "ok": sample is not None,
        "key": None if sample is None else str(sample.key_expr),
        "timestamp": None if stamp is None else iso(stamp.get_time()),
        "replier": None if reply.replier_id is None else str(reply.replier_id.zid),
        "latency_ms": round(seconds * 1000, 3),
        "value": value_document(result.payload.to_bytes(), error_encoding(reply)),
    }


def error_encoding(reply: Reply) -> str:
    """Return the encoding of a reply; an error without one is text."""
    encoding = str(reply.result.encoding)
    return "text/plain" if reply.ok is None and encoding == "zenoh/bytes" else encoding


def sample_reply_document(sample: Sample) -> Document:
    """Convert a sample that a storage replied with to its document."""
    stamp, source = sample.timestamp, sample.source_info
    return {
        "key": str(sample.key_expr),
        "kind": sample.kind.name,
        "timestamp": None if stamp is None else iso(stamp.get_time()),
        "timestamp_id": None if stamp is None else str(stamp.get_id()),
        "source": None if source is None else str(source.source_id.zid),
        "value": value_document(sample.payload.to_bytes(), str(sample.encoding)),
    }


def required_parameter(request: Request, name: str) -> str:
    """Return a query parameter; raises HttpError if it is absent."""
    value = request.query_params.get(name)
    if not value:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"expected the parameter {name}")
    return value


def parse_selector(text: str) -> Selector:
    """Parse `key?parameters`."""
    key, _, parameters = text.strip().partition("?")
    return Selector(KeyExpr(key), parameters)


def parse_choice(name: str, text: str | None, choices: dict[str, T]) -> T | None:
    """Return the value of a name, None without a name; raises HttpError if it is unknown."""
    if not text:
        return None
    value = choices.get(text.lower())
    if value is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"expected {name} to be one of {', '.join(choices)}, found {text!r}")
    return value


def decode_base64(text: str) -> bytes:
    """Decode base64; raises HttpError if it is not."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"expected base64 as payload: {error}") from error
