"""The admin space of a node: the keys `@/<zid>/<role>/**`, which others read, and `config/**` below, which they write.

It is a queryable and a subscriber of the node's session like any other. Read and write are allowed by
`adminspace/permissions`. As in eclipse-zenoh 1.10.2 the configuration of a running node cannot be read, because it
contains passwords, and cannot be changed: writes are refused, with a line in the log.
"""

from __future__ import annotations

import logging

from zenspark.api.adminspace.documents import AdminDocuments
from zenspark.api.entities import Queryable, Subscriber
from zenspark.config.settings import Settings
from zenspark.engine.runtime import SessionRuntime
from zenspark.key import KeyExpr
from zenspark.log_throttle import LogThrottle
from zenspark.types.enums import Locality, SampleKind
from zenspark.types.ids import SourceInfo, format_source
from zenspark.types.query import Query
from zenspark.types.sample import Sample

logger = logging.getLogger("zenspark.api")


class AdminSpace:
    """The queryable and the subscriber of the admin space of a node; they live as long as its session."""

    def __init__(self, runtime: SessionRuntime, settings: Settings) -> None:
        self._permissions = settings.adminspace.permissions
        self._throttle = LogThrottle()
        self._documents = AdminDocuments(runtime.node, settings.metadata)
        everything = KeyExpr(f"{self._documents.root}/**")
        configuration = KeyExpr(f"{self._documents.root}/config/**")
        Queryable(runtime, everything, False, Locality.ANY, runtime.bind_handler(self._on_query))
        Subscriber(runtime, configuration, Locality.ANY, runtime.bind_handler(self._on_write))

    def _on_query(self, query: Query) -> None:
        with query:
            if not self._permissions.read:
                reason = "adminspace/permissions/read is false"
                self._log_refusal("query", query.key_expr, query.source_info, reason)
                return
            for document in self._documents.matching_documents(str(query.key_expr), dict(query.parameters)):
                query.reply(document.key, document.payload, encoding=document.encoding)

    def _on_write(self, sample: Sample) -> None:
        kind = "put" if sample.kind is SampleKind.PUT else "delete"
        is_allowed = self._permissions.write
        reason = "a running node keeps its configuration" if is_allowed else "adminspace/permissions/write is false"
        self._log_refusal(kind, sample.key_expr, sample.source_info, reason)

    def _log_refusal(self, kind: str, key: KeyExpr, source: SourceInfo | None, reason: str) -> None:
        """Log a refused query, put or delete, unless one was logged lately."""
        total = self._throttle.count(kind)
        if total is not None:
            sender = format_source(source)
            logger.warning("refused %s on admin space key %s from %s: %s; %d in all", kind, key, sender, reason, total)
