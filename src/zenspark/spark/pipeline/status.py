"""JobStatus: the status of the pipeline of `zenspark up`, as JSON and as metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from zenspark.api.adminspace.openmetrics import format_families
from zenspark.api.adminspace.pipeline_metrics import PIPELINE_FAMILIES, pipeline_samples
from zenspark.journal.recorder import RATE_WINDOW_SECONDS
from zenspark.journal.usage import JournalUsage
from zenspark.spark.ingest.supervisor import IngestStatus
from zenspark.spark.pipeline.backlog import Backlog


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
    """Rows that were sent to this node and are in no table.

    Attributes:
        links: Messages lost or damaged on links, by reason.
        recorder: Rows received but not written to the journal.
        trimmed: Rows trimmed from the journal before they were ingested.

    Example:
        >>> print(job.status().lost.total)
    """

    links: dict[str, int] = msgspec.field(default_factory=dict)
    recorder: int = 0
    trimmed: int = 0

    @property
    def total(self) -> int:
        """Number of all of them."""
        return sum(self.links.values()) + self.recorder + self.trimmed


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a job since its start, and its current state. Field names are the keys of the status document.

    Attributes:
        recorded: Rows written to the journals.
        recorded_rate: Rows recorded per second.
        ingested: Rows ingested into the tables.
        ingested_rate: Rows ingested per second.
        waiting: Rows in the journals that are not ingested yet.
        bytes: Bytes of the files written to the tables.
        keys: Number of keys whose newest value can be queried.
        lost: Rows that were sent to this node and are in no table.
        quarantined: Rows that could not be ingested and were moved to quarantine.
        recording: Error, or else warning, of the first recorder that has one; None if all record.
        journals: Content of each journal.
        ingestions: Status of the ingestion into each lake.

    Example:
        >>> status = job.status()
        >>> print(status.recorded, status.ingested, status.problem)
    """

    recorded: int = 0
    recorded_rate: float = 0.0
    ingested: int = 0
    ingested_rate: float = 0.0
    waiting: Backlog = Backlog()
    bytes: int = 0
    keys: int = 0
    lost: Losses = Losses()
    quarantined: int = 0
    recording: str | None = None
    journals: tuple[JournalUsage, ...] = ()
    ingestions: tuple[IngestStatus, ...] = ()

    @property
    def problem(self) -> str | None:
        """All current problems in one line: one must not hide another."""
        problems = (self.recording, *(ingest.problem for ingest in self.ingestions))
        return "; ".join(problem for problem in problems if problem) or None

    @property
    def batch_seconds(self) -> float | None:
        """Duration of the last batch, or of the current one if that is longer."""
        durations = [
            seconds
            for ingest in self.ingestions
            for seconds in (ingest.batch_seconds, ingest.running_seconds)
            if seconds is not None
        ]
        return max(durations, default=None)


def to_document(status: JobStatus) -> dict[str, object]:
    """Return the status document of the admin space."""
    document: dict[str, object] = msgspec.to_builtins(status)
    return document | {"problem": status.problem}


def format_metrics(status: JobStatus) -> Iterator[str]:
    """Yield the status in the OpenMetrics text format, line by line."""
    return format_families(PIPELINE_FAMILIES, pipeline_samples(msgspec.to_builtins(status)))
