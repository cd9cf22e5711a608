"""StatusQueryable: the status of a pipeline in the admin space of its node.

`@/<zid>/<whatami>/zenspark/status` replies with JSON, `@/<zid>/<whatami>/zenspark/metrics` with OpenMetrics text for
Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from zenspark.api.adminspace.openmetrics import MEDIA_TYPE
from zenspark.api.entities import Queryable
from zenspark.api.session import Session, runtime_of
from zenspark.spark.pipeline.status import JobStatus, format_metrics, to_document
from zenspark.types.encoding import Encoding
from zenspark.types.query import Query


class StatusQueryable:
    """Replies to queries for the status, from `start` until `close`."""

    def __init__(self, session: Session, status: Callable[[], JobStatus]) -> None:
        node = runtime_of(session).node.identity
        self.root = f"@/{node.zid}/{node.whatami.text}/zenspark"
        self._session = session
        self._status = status
        self._queryable: Queryable[Any] | None = None

    def start(self) -> None:
        self._queryable = self._session.declare_queryable(f"{self.root}/**", self._on_query)

    def close(self) -> None:
        if self._queryable is not None and not self._session.is_closed():
            self._queryable.undeclare()
        self._queryable = None

    def _on_query(self, query: Query) -> None:
        with query:
            status = self._status()
            for key, payload, encoding in (
                (f"{self.root}/status", msgspec.json.encode(to_document(status)), Encoding.APPLICATION_JSON),
                (
                    f"{self.root}/metrics",
                    "".join(f"{line}\n" for line in format_metrics(status)).encode(),
                    Encoding(MEDIA_TYPE),
                ),
            ):
                if query.key_expr.intersects(key):
                    query.reply(key, payload, encoding=encoding)
