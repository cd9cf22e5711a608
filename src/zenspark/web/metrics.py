"""Metrics in the OpenMetrics text format, for Prometheus; docs/metrics.md lists them.

Families are declared here once, so that tests can compare documents and dashboards with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from zenspark import __version__, build_kind
from zenspark.api.adminspace.openmetrics import MEDIA_TYPE, Family, MetricSample, format_families, samples_by_label
from zenspark.api.adminspace.pipeline_metrics import PIPELINE_FAMILIES, pipeline_samples
from zenspark.api.session import runtime_of
from zenspark.net.io.counters import DropReason
from zenspark.router.limits import RefusalReason
from zenspark.transport.counters import LossReason, MessageKind
from zenspark.types.enums import WhatAmI
from zenspark.web.context import WebContext
from zenspark.web.counts import DISCONNECT_REASONS, REFUSAL_REASONS, Histogram
from zenspark.web.traffic import read_traffic

BUILD = Family("zenspark_build", "info", "Version of this node.", ("version", "build", "zid", "whatami"))
UPTIME = Family("zenspark_uptime_seconds", "gauge", "Time since the HTTP server started.")
SESSIONS = Family("zenspark_sessions", "gauge", "Sessions with other nodes.", ("whatami",))
LINKS = Family("zenspark_links", "gauge", "Open links.", ("protocol",))
ENDPOINTS = Family("zenspark_configured_endpoints", "gauge", "Endpoints to connect to, by state.", ("state",))
MESSAGES = Family("zenspark_messages", "counter", "Network messages.", ("direction", "kind"))
BYTES_FAMILY = Family("zenspark_bytes", "counter", "Bytes on links.", ("direction",))
UNSENT = Family("zenspark_unsent_bytes", "gauge", "Bytes that wait for links.")
PENDING = Family("zenspark_pending_queries", "gauge", "Queries that wait for replies of neighbours.")
LOST = Family("zenspark_lost_messages", "counter", "Messages that did not arrive whole.", ("reason",))
DROPPED = Family("zenspark_dropped_messages", "counter", "Messages that were not sent.", ("reason",))
REFUSALS = Family("zenspark_refusals", "counter", "Requests of neighbours that a limit or a rule refused.", ("limit",))
DECLARATIONS = Family("zenspark_declarations", "gauge", "Declarations of other nodes.", ("kind",))
HTTP_REQUESTS = Family("zenspark_http_requests", "counter", "HTTP responses.", ("path", "status"))
HTTP_CONNECTIONS = Family("zenspark_http_connections", "gauge", "Open HTTP connections.")
HTTP_STREAMS = Family("zenspark_http_streams", "gauge", "Event streams and WebSockets.", ("kind",))
HTTP_DROPPED = Family("zenspark_http_dropped_clients", "counter", "Disconnected HTTP clients.", ("reason",))
HTTP_REFUSED = Family("zenspark_http_refused_requests", "counter", "HTTP requests that were refused.", ("reason",))
HTTP_SKIPPED = Family("zenspark_http_skipped_messages", "counter", "Messages too fast for the lists of the page.")
QUERY_SECONDS = Family("zenspark_http_query_seconds", "histogram", "Duration of queries of HTTP clients.")
TABLE_ROWS = Family("zenspark_table_rows", "gauge", "Rows of a table.", ("table",))
TABLE_BYTES = Family("zenspark_table_bytes", "gauge", "Bytes of the files of a table.", ("table",))
TABLE_FILES = Family("zenspark_table_files", "gauge", "Files of a table.", ("table",))
GAPS_FAMILY = Family("zenspark_gaps", "gauge", "Missing and repeated sequence numbers.", ("kind",))

SERVER_FAMILIES: tuple[Family, ...] = tuple(value for value in globals().values() if isinstance(value, Family))
METRIC_FAMILIES = (*SERVER_FAMILIES, *PIPELINE_FAMILIES)
"""All families, in the order of the document."""


class MetricsApi:
    """Requests `/metrics`."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def scrape(self, request: Request) -> Response:
        """Return all metrics."""
        text = await self._context.run(self.text)
        return Response(text, headers={"Content-Type": MEDIA_TYPE})

    def text(self) -> str:
        """Return all metrics as text."""
        histograms = {QUERY_SECONDS: histogram_lines(QUERY_SECONDS.name, self._context.counts.query_seconds)}
        return "".join(f"{line}\n" for line in format_families(METRIC_FAMILIES, self._samples(), histograms))

    def _samples(self) -> Iterator[MetricSample]:
        yield from self._node_samples()
        yield from self._http_samples()
        status = self._context.overview.status
        if status is not None:
            yield from pipeline_samples(status)
        yield from self._lake_samples()

    def _node_samples(self) -> Iterator[MetricSample]:
        session = self._context.session
        identity = runtime_of(session).node.identity
        build = {"version": __version__, "build": build_kind(), "zid": str(identity.zid)}
        yield BUILD, {**build, "whatami": identity.whatami.text}, 1
        yield UPTIME, {}, self._context.uptime_seconds
        traffic = read_traffic(session)
        for direction, counts in (("in", traffic.received), ("out", traffic.sent)):
            for kind in MessageKind:
                yield MESSAGES, {"direction": direction, "kind": kind.value}, counts.get(kind.value, 0)
        yield BYTES_FAMILY, {"direction": "in"}, traffic.bytes_in
        yield BYTES_FAMILY, {"direction": "out"}, traffic.bytes_out
        yield UNSENT, {}, traffic.unsent_bytes
        yield PENDING, {}, traffic.pending_queries
        yield from samples_by_label(LOST, "reason", _from_zero(LossReason, traffic.lost))
        yield from samples_by_label(DROPPED, "reason", _from_zero(DropReason, traffic.dropped))
        if session.is_closed():
            return
        info = session.info
        sessions = _from_zero(map(str, WhatAmI), _count(str(transport.whatami) for transport in info.transports()))
        yield from samples_by_label(SESSIONS, "whatami", sessions)
        yield from samples_by_label(LINKS, "protocol", _count(link.dst.partition("/")[0] for link in info.links()))
        yield from samples_by_label(REFUSALS, "limit", _from_zero(RefusalReason, info.refusals()))
        yield from samples_by_label(
            DECLARATIONS, "kind", _count(declaration.kind for declaration in info.declarations())
        )
        states = [bool(connection["connected"]) for connection in self._context.connections()]
        yield ENDPOINTS, {"state": "connected"}, states.count(True)
        yield ENDPOINTS, {"state": "disconnected"}, states.count(False)

    def _http_samples(self) -> Iterator[MetricSample]:
        counts = self._context.counts
        for (path, status), count in sorted(counts.requests.items()):
            yield HTTP_REQUESTS, {"path": path, "status": str(status)}, count
        yield HTTP_CONNECTIONS, {}, counts.connections
        yield HTTP_STREAMS, {"kind": "events"}, counts.event_streams
        yield HTTP_STREAMS, {"kind": "page"}, counts.sockets
        yield from samples_by_label(HTTP_DROPPED, "reason", _from_zero(DISCONNECT_REASONS, counts.disconnected))
        yield from samples_by_label(HTTP_REFUSED, "reason", _from_zero(REFUSAL_REASONS, counts.refused))
        yield HTTP_SKIPPED, {}, self._context.monitors.skipped

    def _lake_samples(self) -> Iterator[MetricSample]:
        stats = self._context.lake_stats
        for table in stats.tables():
            for family, value in (
                (TABLE_ROWS, getattr(table, "rows", None)),
                (TABLE_BYTES, getattr(table, "bytes", None)),
                (TABLE_FILES, getattr(table, "files", None)),
            ):
                if value is not None:
                    yield family, {"table": table.name}, value
        gaps: list[dict[str, Any]] = stats.gaps()
        if self._context.sql is not None:
            for kind in ("missing", "repeated"):
                yield GAPS_FAMILY, {"kind": kind}, sum(source[kind] for source in gaps)


def _from_zero(names: Iterable[str], counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of all names: of one that appears with its first event, Prometheus would not see that event."""
    return dict.fromkeys(map(str, names), 0) | dict(counts)


def _count(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


def histogram_lines(name: str, histogram: Histogram) -> Iterator[str]:
    """Yield the samples of a histogram: buckets count everything up to their bound."""
    counts, total = histogram.read()
    below = 0
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), counts, strict=True):
        below += count
        yield f'{name}_bucket{{le="{bound}"}} {below}'
    yield f"{name}_count {below}"
    yield f"{name}_sum {total:.9g}"
