"""LakeStats: sizes of tables, gaps by source and latencies, asked of the SQL engine and cached."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from zenspark.web.interfaces import SqlEngine
from zenspark.web.values import Document

logger = logging.getLogger("zenspark.web")

CACHE_SECONDS = 10.0
"""Time in seconds that an answer of the SQL engine is used again."""
CACHE_FACTOR = 10
"""Number of times the duration of a query that its answer is used again, where that is longer."""
QUERY_SECONDS = 20.0
"""Time in seconds that the SQL engine has for a query."""
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
    """Answers about the tables of a lake; from any thread, one question at a time."""

    def __init__(self, engine: SqlEngine | None) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[float, Any]] = {}

    def tables(self) -> list[Any]:
        """Return the tables with their sizes."""
        found = self._cached("tables", lambda engine: list(engine.tables()))
        return [] if found is None else list(found)

    def gaps(self) -> list[Document]:
        """Return missing and repeated numbers by source."""
        found = self._cached("gaps", lambda engine: engine.query(GAPS_SQL, MAX_SOURCES, QUERY_SECONDS).to_pylist())
        return [] if found is None else list(found)

    def latency(self) -> Document | None:
        """Return a histogram of the time from publication to reception, of the last minutes."""
        rows = self._cached("latency", lambda engine: engine.query(LATENCY_SQL, 64, QUERY_SECONDS).to_pylist())
        if not rows:
            return None
        counts = {row["bucket"]: row["count"] for row in rows}
        buckets = range(min(counts), max(counts) + 1)
        return {
            "buckets_us": [2 ** (bucket + 1) for bucket in buckets],
            "counts": [counts.get(bucket, 0) for bucket in buckets],
        }

    def _cached(self, name: str, ask: Any) -> Any:  # noqa: ANN401 - what the engine answers
        if self._engine is None:
            return None
        with self._lock:
            until, answer = self._answers.get(name, (0.0, None))
            began = time.monotonic()
            if began < until:
                return answer
            try:
                answer = ask(self._engine)
            except Exception as error:  # a table that is not there yet
                logger.debug("statistics %s of lake %s cannot be read: %s", name, _lake_of(self._engine), error)
                answer = None
            took = time.monotonic() - began
            self._answers[name] = (time.monotonic() + max(CACHE_SECONDS, took * CACHE_FACTOR), answer)
            return answer


def _lake_of(engine: SqlEngine) -> str:
    """Return the address of the lake of an engine, a path or URI."""
    location = getattr(getattr(engine, "lake", None), "location", None)
    return str(getattr(location, "address", "without an address"))
