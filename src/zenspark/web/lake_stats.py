"""LakeStats: sizes of tables, gaps by source and latencies, queried from the SQL engine and cached."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from zenspark.web.protocols import SqlEngine
from zenspark.web.values import Document

logger = logging.getLogger("zenspark.web")

RESULT_CACHE_SECONDS = 10.0
"""Time in seconds that a result of the SQL engine is cached."""
CACHE_QUERY_DURATION_FACTOR = 10
"""Multiple of the duration of a query for which its result is cached, if that is longer."""
STATS_QUERY_TIMEOUT_SECONDS = 20.0
"""Timeout in seconds of a query for the statistics of the lake."""
MAX_SOURCES = 100
"""Publishers whose gaps are listed."""

GAPS_SQL = f"""
select source_zid as source,
  cast(coalesce(sum(case when kind = 'MISSING' then "count" end), 0) as bigint) as missing,
  cast(coalesce(sum(case when kind = 'REPEATED' then "count" end), 0) as bigint) as repeated
from gaps group by source_zid order by missing desc, repeated desc limit {MAX_SOURCES}"""
LATENCY_SQL = """
select cast(floor(log2(greatest(epoch_us(received_at) - epoch_us(timestamp), 1))) as integer) as bucket,
  count(*) as "count"
from samples where timestamp is not null and received_at > now() - interval 5 minutes
group by 1 order by 1"""


class LakeStats:
    """Statistics of the tables of a lake; thread-safe, one query at a time."""

    def __init__(self, engine: SqlEngine | None) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._results: dict[str, tuple[float, Any]] = {}

    def tables(self) -> list[Any]:
        """Return the tables with their sizes."""
        tables = self._cached("tables", lambda engine: list(engine.tables()))
        return [] if tables is None else list(tables)

    def gaps(self) -> list[Document]:
        """Return missing and repeated numbers by source."""
        rows = self._cached(
            "gaps", lambda engine: engine.query(GAPS_SQL, MAX_SOURCES, STATS_QUERY_TIMEOUT_SECONDS).to_pylist()
        )
        return [] if rows is None else list(rows)

    def latency(self) -> Document | None:
        """Return a histogram of the time from publication to reception, of the last minutes."""
        rows = self._cached(
            "latency", lambda engine: engine.query(LATENCY_SQL, 64, STATS_QUERY_TIMEOUT_SECONDS).to_pylist()
        )
        if not rows:
            return None
        counts = {row["bucket"]: row["count"] for row in rows}
        buckets = range(min(counts), max(counts) + 1)
        return {
            "buckets_us": [2 ** (bucket + 1) for bucket in buckets],
            "counts": [counts.get(bucket, 0) for bucket in buckets],
        }

    def _cached(self, name: str, query: Any) -> Any:  # noqa: ANN401 - any result of the engine
        if self._engine is None:
            return None
        with self._lock:
            until, result = self._results.get(name, (0.0, None))
            began = time.monotonic()
            if began < until:
                return result
            try:
                result = query(self._engine)
            except Exception as error:  # a table that does not exist yet
                logger.debug("statistics %s of lake %s cannot be read: %s", name, lake_of(self._engine), error)
                result = None
            took = time.monotonic() - began
            self._results[name] = (
                time.monotonic() + max(RESULT_CACHE_SECONDS, took * CACHE_QUERY_DURATION_FACTOR),
                result,
            )
            return result


def lake_of(engine: SqlEngine) -> str:
    """Return the address of the lake of an engine, a path or URI."""
    location = getattr(getattr(engine, "lake", None), "location", None)
    return str(getattr(location, "address", "without an address"))
