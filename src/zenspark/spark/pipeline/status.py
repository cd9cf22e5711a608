"""JobStatus: the status of the pipeline of `zenspark up`, as a line, as JSON and as metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from zenspark.spark.ingest.supervision import IngestState
from zenspark.spark.ingest.supervisor import IngestStatus
from zenspark.spark.pipeline.backlog import Backlog

RATE_WINDOW_SECONDS = 5.0
"""Time window that rates are averaged over."""


class RateMeter:
    """Computes the rate of a monotonic counter over a sliding window."""

    def __init__(self, seconds: float = RATE_WINDOW_SECONDS) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, now: float, total: int) -> None:
        """Add a sample of the counter; `now` is in seconds of a monotonic clock."""
        self._samples.append((now, total))
        while len(self._samples) > 2 and self._samples[1][0] <= now - self._seconds:
            self._samples.popleft()

    def rate(self) -> float:
        """Return the rate per second."""
        if len(self._samples) < 2:
            return 0.0
        (then, before), (now, after) = self._samples[0], self._samples[-1]
        return max(0.0, (after - before) / max(now - then, 1e-9))


class Losses(msgspec.Struct, frozen=True):
    """Messages that were sent to this node and are in no table."""

    links: dict[str, int] = msgspec.field(default_factory=dict)
    """By reason: messages lost or damaged on links."""
    recorder: int = 0
    """Messages received but not written to the journal."""
    trimmed: int = 0
    """Rows trimmed from the journal before they were ingested."""

    @property
    def total(self) -> int:
        return sum(self.links.values()) + self.recorder + self.trimmed


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a job since its start, and its current state. Field names are the keys of the status document."""

    recorded: int = 0
    """Messages written to the journals."""
    recorded_rate: float = 0.0
    """Messages recorded per second."""
    landed: int = 0
    """Rows ingested into the tables."""
    landed_rate: float = 0.0
    """Rows ingested per second."""
    waiting: Backlog = Backlog()
    bytes: int = 0
    """Bytes of the files written to the tables."""
    keys: int = 0
    """Number of keys whose newest value can be queried."""
    lost: Losses = Losses()
    quarantined: int = 0
    """Rows that could not be ingested and were moved to quarantine."""
    recording: str | None = None
    """Error of the recorder, if any."""
    landings: tuple[IngestStatus, ...] = ()

    @property
    def problem(self) -> str | None:
        """All current problems in one line: one must not hide another."""
        found = (self.recording, *(ingest.problem for ingest in self.landings))
        return "; ".join(problem for problem in found if problem) or None

    @property
    def batch_seconds(self) -> float | None:
        """Duration of the last batch, or of the current one if that is longer."""
        found = [
            seconds
            for ingest in self.landings
            for seconds in (ingest.batch_seconds, ingest.running_seconds)
            if seconds is not None
        ]
        return max(found, default=None)


def to_document(status: JobStatus) -> dict[str, object]:
    """Return the status document of the admin space."""
    document: dict[str, object] = msgspec.to_builtins(status)
    return document | {"problem": status.problem}


METRICS = {
    "recorded_rows": ("counter", "Messages written to journals."),
    "landed_rows": ("counter", "Rows committed to tables."),
    "landed_bytes": ("counter", "Bytes of the files that were committed to tables."),
    "waiting_rows": ("gauge", "Rows in journals that are not ingested yet."),
    "lag_seconds": ("gauge", "Age of the oldest row that is not ingested yet."),
    "quarantined_rows": ("counter", "Rows that could not be ingested and were moved to quarantine."),
    "lost_rows": ("counter", "Messages that arrived damaged or were lost before they were ingested."),
    "landing_up": ("gauge", "Whether ingestion into a lake is running."),
}


def format_metrics(status: JobStatus) -> Iterator[str]:
    """Yield the status in the OpenMetrics text format, line by line."""
    values: dict[str, dict[str, float]] = {
        "recorded_rows": {"": status.recorded},
        "landed_rows": {_lake_label(each): each.rows for each in status.landings},
        "landed_bytes": {_lake_label(each): each.bytes for each in status.landings},
        "waiting_rows": {"": status.waiting.rows},
        "lag_seconds": {"": status.waiting.seconds},
        "quarantined_rows": {_lake_label(each): each.quarantined for each in status.landings},
        "lost_rows": {
            **{f'{{reason="{reason}"}}': count for reason, count in status.lost.links.items()},
            '{reason="recorder"}': status.lost.recorder,
            '{reason="trimmed"}': status.lost.trimmed,
        },
        "landing_up": {_lake_label(each): float(each.state is IngestState.INGESTING) for each in status.landings},
    }
    for name, (kind, meaning) in METRICS.items():
        yield f"# HELP zenspark_{name} {meaning}"
        yield f"# TYPE zenspark_{name} {kind}"
        ending = "_total" if kind == "counter" else ""
        for labels, value in values[name].items():
            yield f"zenspark_{name}{ending}{labels} {value:g}"
    yield "# EOF"


def _lake_label(status: IngestStatus) -> str:
    escaped = status.lake.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{lake="{escaped}"}}'
