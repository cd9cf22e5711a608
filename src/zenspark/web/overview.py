"""Overview: rates, sessions, pipeline and problems of a node, sampled once a second and kept for ten minutes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

import msgspec

from zenspark.api.adminspace.pipeline_metrics import lost_rows
from zenspark.web.context import WebContext
from zenspark.web.pipeline_view import BatchHistory, lakes_of, status_document
from zenspark.web.traffic import TrafficTotals, read_traffic
from zenspark.web.values import Document, iso

logger = logging.getLogger("zenspark.web")

COUNTER_READ_INTERVAL_SECONDS = 1.0
"""Interval in seconds at which the counters are read."""
KEPT_SAMPLES = 600
"""Points of the series that are kept: ten minutes."""
STATUS_READ_DURATION_FACTOR = 20
"""Minimum interval between two reads of a pipeline's status, as a multiple of the duration of a read."""
STARTING = "starting"
"""State of an ingestion whose Spark starts."""


class OverviewSample(msgspec.Struct, frozen=True):
    """One point of the series."""

    t: float
    """Seconds since 1970."""
    messages: float
    bytes: float
    sessions: int
    rows_ingested: float | None
    waiting: int | None
    lag: float | None


class OverviewSampler:
    """Samples the counters of a session and of its pipeline."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self.samples: deque[OverviewSample] = deque(maxlen=KEPT_SAMPLES)
        self.totals = TrafficTotals()
        self.status: dict[str, Any] | None = None
        """Last status of the pipeline."""
        self.batches = BatchHistory()
        self._started: set[str] = set()
        """Lakes whose ingestion has been in another state than starting."""
        self._read_at = 0.0
        self._status_at = 0.0
        self._ingested_before: int | None = None

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self._context.run(self.sample)
            except Exception:  # a pipeline that fails must not end the series
                logger.debug("overview of %s: reading the counters failed", self._context.url, exc_info=True)
            self._context.monitors.close_unused(time.monotonic())
            await asyncio.sleep(max(0.05, COUNTER_READ_INTERVAL_SECONDS - (time.monotonic() - began)))

    def sample(self) -> None:
        """Take one sample; called in a worker thread."""
        now = time.monotonic()
        totals = read_traffic(self._context.session)
        if now >= self._status_at:
            self.status = status_document(self._context.pipeline)
            if self.status is not None:
                self.batches.add(self.status)
                self._record_started(self.status)
            took = time.monotonic() - now
            self._status_at = now + max(COUNTER_READ_INTERVAL_SECONDS * 0.9, took * STATUS_READ_DURATION_FACTOR)
        before, self.totals = self.totals, totals
        seconds = now - self._read_at
        is_first = self._read_at == 0.0
        self._read_at = now
        ingested = None if self.status is None else int(self.status.get("ingested", 0))
        rows = None if ingested is None or self._ingested_before is None else ingested - self._ingested_before
        self._ingested_before = ingested
        if is_first:
            return
        waiting = None if self.status is None else self.status.get("waiting", {})
        self.samples.append(
            OverviewSample(
                time.time(),
                max(totals.messages_in - before.messages_in, 0) / seconds,
                max(_bytes(totals) - _bytes(before), 0) / seconds,
                totals.sessions,
                None if rows is None else max(rows, 0) / seconds,
                None if waiting is None else waiting.get("rows", 0),
                None if waiting is None else waiting.get("seconds", 0.0),
            )
        )

    def _record_started(self, status: dict[str, Any]) -> None:
        ingestions = status.get("ingestions", ())
        self._started.update(str(ingestion["lake"]) for ingestion in ingestions if ingestion.get("state") != STARTING)

    @property
    def is_starting(self) -> bool:
        """Whether the Spark of an ingestion starts for the first time, so that rows wait for it."""
        return any(lake not in self._started for lake in lakes_of(self.status))

    # -- documents

    def document(self) -> Document:
        """Return the series and the current values."""
        samples = list(self.samples)
        names = OverviewSample.__struct_fields__
        series = {name: [getattr(sample, name) for sample in samples] for name in names}
        return {"now": iso(datetime.now(UTC)), "series": series, "current": self.current(), "problems": self.problems()}

    def current(self) -> Document:
        """Return the current values; those of a pipeline are null without one."""
        last = self.samples[-1] if self.samples else None
        status = self.status
        document: Document = {
            "t": time.time() if last is None else last.t,
            "messages_rate": 0.0 if last is None else last.messages,
            "bytes_rate": 0.0 if last is None else last.bytes,
            "keys": self._keys(),
            "sessions": self.totals.sessions,
            "starting": self.is_starting,
        }
        if status is None:
            names = ("recorded", "ingested", "waiting_rows", "lag_seconds", "disk_bytes", "quarantined")
            return document | dict.fromkeys(names) | {"lost": sum(self.totals.lost.values())}
        waiting = status.get("waiting", {})
        return document | {
            "recorded": status.get("recorded"),
            "ingested": status.get("ingested"),
            "waiting_rows": waiting.get("rows"),
            "lag_seconds": waiting.get("seconds"),
            "disk_bytes": status.get("bytes"),
            "lost": sum(lost_rows(status).values()),
            "quarantined": status.get("quarantined"),
        }

    def _keys(self) -> int | None:
        seen = self._context.monitors.key_count
        stored = 0 if self.status is None else int(self.status.get("keys", 0))
        return max(seen, stored) or None

    def problems(self) -> list[str]:
        """Return the current problems, one sentence each."""
        problems = [
            f"not connected to {connection['endpoint']}" + (f": {connection['error']}" if connection["error"] else "")
            for connection in self._context.connections()
            if not connection["connected"]
        ]
        if self._context.session.is_closed():
            problems.append("the session was closed")
        if self.status is not None and self.status.get("problem"):
            problems.append(str(self.status["problem"]))
        return problems


def _bytes(totals: TrafficTotals) -> int:
    return totals.bytes_in + totals.bytes_out
