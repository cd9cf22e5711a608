"""The recorded past of keys: `_time` queries, to which any storage of the network may reply.

Storages of zenspark send only the newest samples of a range if `_limit` is set; others send all, and more are read.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from zenspark.api.cancellation import CancellationToken
from zenspark.errors import UsageError, ZError
from zenspark.key import KeyExpr
from zenspark.types.enums import ConsolidationMode, QueryTarget
from zenspark.types.sample import Sample
from zenspark.types.selector import Selector
from zenspark.types.time_range import TimeRange
from zenspark.web.context import WebContext, check_access
from zenspark.web.export import DOWNLOAD_FORMATS, export
from zenspark.web.http_clients import HttpClient
from zenspark.web.http_error import HttpError
from zenspark.web.lake_stats import lake_of
from zenspark.web.node_info import json_response
from zenspark.web.query import required_parameter, sample_reply_document
from zenspark.web.rest import may_receive
from zenspark.web.values import Document, decode_json
from zenspark.wire import values as wire

logger = logging.getLogger("zenspark.web")

STORAGE_QUERY_TIMEOUT_SECONDS = 30.0
"""Timeout of a query to storages, in seconds."""
DEFAULT_SHOWN_SAMPLES, MAX_SHOWN_SAMPLES = 500, 5000
"""Samples of one response: without the parameter `limit`, and at most."""
MAX_SERIES_SAMPLES = 50_000
"""Samples that are read for a chart."""
MAX_EXPORT_SAMPLES = 200_000
"""Samples that are read for an export."""
MAX_TOTAL_PAYLOAD_BYTES = 256 << 20
"""Bytes of all payloads that are read for one request."""
DEFAULT_CHART_POINTS, MAX_CHART_POINTS = 1000, 5000
"""Points of a chart: without the parameter `points`, and at most. As many of the newest samples are searched for JSON
paths."""
MAX_JSON_PATHS = 100
"""JSON paths with numbers that are listed for a key."""
MAX_JSON_DEPTH = 6
"""Depth of JSON values in which numbers are found."""
MAX_JSON_ARRAY_ELEMENTS = 16
"""First elements of a JSON array, which are searched for numbers."""
DEFAULT_RECORDED_KEYS, MAX_RECORDED_KEYS = 500, 5000
"""Recorded keys of one response: without the parameter `limit`, and at most."""
KEYS_SQL = "select distinct key from latest where contains(lower(key), lower({})) order by key"
KEYS_QUERY_TIMEOUT_SECONDS = 20.0
"""Timeout of the SQL query for recorded keys, in seconds."""
LOOKBACK_RANGES = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=3650))
"""Ranges in which the sample before an instant is searched, the shortest first."""


class PastApi:
    """Requests `/_api/past`, `/_api/past/at`, `/_api/past/keys`, `/_api/past/series` and `/_api/export`."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def samples(self, request: Request) -> Response:
        """Return the samples of a range, newest last; if there are too many, the newest of them."""
        limit = int_parameter(request, "limit", DEFAULT_SHOWN_SAMPLES, MAX_SHOWN_SAMPLES)
        samples = await self._context.run(self._read, request, MAX_SERIES_SAMPLES, limit + 1)
        newest = samples[-limit:]
        documents = [sample_reply_document(sample) for sample in newest]
        return json_response({"samples": documents, "truncated": len(samples) > limit})

    async def at(self, request: Request) -> Response:
        """Return the sample that was the newest of a key at an instant."""
        key, instant = self._key(request), parse_http_time(request, "time")
        assert instant is not None, "it is required"
        client = self._context.client(request)
        check_access(client, "query", str(key))
        sample = await self._context.run(self._newest_before, key, instant, client)
        if sample is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"no storage has a value of {str(key)!r} up to that time")
        return json_response(sample_reply_document(sample))

    def _newest_before(self, key: KeyExpr, instant: datetime, client: HttpClient) -> Sample | None:
        for lookback in LOOKBACK_RANGES:
            samples = self._query(key, instant - lookback, instant, client, MAX_SERIES_SAMPLES, 1)
            if samples:
                return samples[-1]
        return None

    async def keys(self, request: Request) -> Response:
        """Return recorded keys that contain a text, in order; none where the node has no table `latest`."""
        limit = int_parameter(request, "limit", DEFAULT_RECORDED_KEYS, MAX_RECORDED_KEYS)
        client = self._context.client(request)
        recorded = await self._context.run(self._recorded_keys, request.query_params.get("search", ""))
        readable = [
            key for key in recorded if client.may_receive("reply", key) and client.is_allowed("ingress", "query", key)
        ]
        return json_response(
            {"keys": readable[:limit], "truncated": len(readable) > limit or len(recorded) > MAX_RECORDED_KEYS}
        )

    def _recorded_keys(self, part: str) -> list[str]:
        if self._context.sql is None:
            return []
        quoted = "'" + part.replace("'", "''") + "'"
        try:
            rows = self._context.sql.query(KEYS_SQL.format(quoted), MAX_RECORDED_KEYS + 1, KEYS_QUERY_TIMEOUT_SECONDS)
        except ZError as error:  # nothing was ingested yet
            logger.debug("recorded keys of lake %s cannot be listed: %s", lake_of(self._context.sql), error)
            return []
        return [str(key) for key in rows.column("key").to_pylist()]

    async def series(self, request: Request) -> Response:
        """Return a number of each sample in a range, by its JSON path, and the paths that have numbers.

        If there are too many samples, those of the newest.
        """
        points = int_parameter(request, "points", DEFAULT_CHART_POINTS, MAX_CHART_POINTS)
        samples = await self._context.run(self._read, request, MAX_SERIES_SAMPLES, MAX_SERIES_SAMPLES)
        path = request.query_params.get("path")
        series = await self._context.run(make_series, samples, path, points)
        return json_response(series | {"truncated": len(samples) >= MAX_SERIES_SAMPLES})

    async def export(self, request: Request) -> Response:
        """Return the samples of a range as a file."""
        kind = DOWNLOAD_FORMATS.get(request.query_params.get("format", "csv"))
        if kind is None:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"expected format to be one of {', '.join(DOWNLOAD_FORMATS)}")
        samples = await self._context.run(self._read, request, MAX_EXPORT_SAMPLES)
        content = await self._context.run(export, samples, kind)
        name = f"zenspark-{datetime.now(UTC):%Y%m%d-%H%M%S}.{kind.suffix}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": kind.media_type}
        return Response(content, headers=headers)

    # -- queries

    def _key(self, request: Request) -> KeyExpr:
        return KeyExpr(required_parameter(request, "key"))

    def _read(self, request: Request, limit: int, newest: int | None = None) -> list[Sample]:
        """Query the samples of the range in a request, of each key only the newest; called in a worker thread."""
        key, client = self._key(request), self._context.client(request)
        check_access(client, "query", str(key))
        start, end = parse_http_time(request, "from"), parse_http_time(request, "to")
        return self._query(key, start, end, client, limit, newest)

    def _query(
        self,
        key: KeyExpr,
        start: datetime | None,
        end: datetime | None,
        client: HttpClient,
        limit: int,
        newest: int | None = None,
    ) -> list[Sample]:
        """Return the samples of all storages in a range, each once, ordered by time.

        Storages are queried for the `newest` samples of each key only; more than `limit` samples are an error.
        """
        only_newest = "" if newest is None else f";_limit={newest}"
        selector = Selector(key, f"_time=[{time_bound(start)}..{time_bound(end)}]{only_newest}")
        token = CancellationToken()
        replies = self._context.session.get(
            selector,
            target=QueryTarget.ALL,
            consolidation=ConsolidationMode.NONE,
            timeout=STORAGE_QUERY_TIMEOUT_SECONDS,
            cancellation_token=token,
        )
        samples: dict[tuple[str, wire.Timestamp], Sample] = {}
        problem = None
        size = 0
        for reply in replies:
            size += len(reply.result.payload)
            if len(samples) > limit or size > MAX_TOTAL_PAYLOAD_BYTES:
                token.cancel()
                largest = f"{limit} samples or {MAX_TOTAL_PAYLOAD_BYTES >> 20} MiB"
                raise HttpError(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the range has more than {largest}: choose a shorter one"
                )
            sample = reply.ok
            if sample is None:
                problem = reply.result.payload.to_bytes().decode(errors="replace")
            elif sample.timestamp is not None and may_receive(client, reply, str(key)):
                samples[str(sample.key_expr), sample.timestamp.to_wire()] = sample
        if problem is not None and not samples:
            raise HttpError(HTTPStatus.BAD_GATEWAY, f"a storage replied with an error: {problem}")
        return sorted(samples.values(), key=_time_order)


def _time_order(sample: Sample) -> tuple[int, str]:
    assert sample.timestamp is not None, "samples of storages have one"
    return sample.timestamp.to_wire().ntp64, str(sample.key_expr)


def time_bound(when: datetime | None) -> str:
    """Format a bound of `_time`; none is open."""
    return "" if when is None else f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def parse_http_time(request: Request, name: str) -> datetime | None:
    """Parse a time in a parameter of a request: ISO 8601, milliseconds since 1970, or relative to now (`now(-5m)`).

    Raises HttpError if it is none of them.
    """
    text = request.query_params.get(name)
    if not text:
        if name == "time":
            raise HttpError(HTTPStatus.BAD_REQUEST, "expected the parameter time")
        return None
    try:
        if text.replace(".", "", 1).isdecimal():
            return datetime.fromtimestamp(float(text) / 1000, UTC)
        if text.startswith("now("):
            return datetime.fromtimestamp(TimeRange.parse(f"[{text}..]", time.time()).start, UTC)
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError, UsageError) as error:
        message = f"expected {name} as a time such as 2024-07-01T13:51:12Z or now(-5m), found {text!r}"
        raise HttpError(HTTPStatus.BAD_REQUEST, message) from error
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def int_parameter(request: Request, name: str, default: int, max_value: int) -> int:
    """Parse a positive number, at most `max_value`."""
    text = request.query_params.get(name)
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()) or not int(text[:12]):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"expected {name} to be a positive number, found {text!r}")
    return min(int(text[:12]), max_value)


# -- numbers in values


def make_series(samples: list[Sample], path: str | None, points: int) -> Document:
    """Return the numbers at a path, thinned to `points` points, and all paths that have numbers."""
    values = [decode_json(sample.payload.to_bytes(), str(sample.encoding)) for sample in samples]
    paths: dict[str, None] = {}
    for value in values[-MAX_CHART_POINTS:]:
        if len(paths) < MAX_JSON_PATHS:
            paths.update(dict.fromkeys(name for name, _ in numbers_in(value)))
    chosen = path if path is not None else next(iter(paths), "")
    read = path_reader(chosen)
    series = [
        (_milliseconds(sample), number)
        for sample, value in zip(samples, values, strict=True)
        if (number := read(value)) is not None
    ]
    kept = thin(series, points)
    return {
        "paths": list(paths)[:MAX_JSON_PATHS],
        "path": chosen,
        "t_ms": [at for at, _ in kept],
        "v": [number for _, number in kept],
        "samples": len(samples),
    }


def numbers_in(value: object, path: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Yield the paths of all numbers in a JSON value, such as `pose.x` or `joints[0]`; `""` for a plain number."""
    if isinstance(value, bool) or depth > MAX_JSON_DEPTH:
        return
    if isinstance(value, int | float):
        yield path, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from numbers_in(item, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value[:MAX_JSON_ARRAY_ELEMENTS]):
            yield from numbers_in(item, f"{path}[{index}]", depth + 1)


def path_reader(path: str) -> Callable[[object], float | None]:
    """Return a function that reads the number at a path; names may contain dots."""

    def read(value: object) -> float | None:
        for name, number in numbers_in(value):
            if name == path:
                return number if math.isfinite(number) else None
        return None

    return read


def thin(points: list[tuple[float, float]], max_points: int) -> list[tuple[float, float]]:
    """Thin points to at most `max_points`; of each group the smallest and the largest value stay."""
    if len(points) <= max_points:
        return points
    size = math.ceil(len(points) / max(max_points // 2, 1))
    kept: list[tuple[float, float]] = []
    for start in range(0, len(points), size):
        group = points[start : start + size]
        extremes = {min(group, key=lambda point: point[1]), max(group, key=lambda point: point[1])}
        kept += sorted(extremes)
    return kept


def _milliseconds(sample: Sample) -> float:
    assert sample.timestamp is not None, "samples of storages have one"
    return sample.timestamp.get_time().timestamp() * 1000
