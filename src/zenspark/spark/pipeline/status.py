"""JobStatus: how the pipeline of `zenspark up` is doing now, as a line, as JSON and as metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from zenspark.spark.ingest.supervision import State
from zenspark.spark.ingest.supervisor import LandingStatus
from zenspark.spark.pipeline.backlog import Backlog

RATE_SECONDS = 5.0
"""Rates are averages over so long."""


class RateMeter:
    """Turns a count that only grows into a rate of the last seconds."""

    def __init__(self, seconds: float = RATE_SECONDS) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, total: int) -> None:
        """Take note of the count at a time, in seconds of a monotonic clock."""
        self._seen.append((now, total))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._seconds:
            self._seen.popleft()

    def rate(self) -> float:
        """Per second."""
        if len(self._seen) < 2:
            return 0.0
        (then, before), (now, after) = self._seen[0], self._seen[-1]
        return max(0.0, (after - before) / max(now - then, 1e-9))


class Losses(msgspec.Struct, frozen=True):
    """Messages that were sent here and are in no table."""

    links: dict[str, int] = msgspec.field(default_factory=dict)
    """By reason: did not arrive whole."""
    recorder: int = 0
    """Received, and the journal could not be written before the end."""
    trimmed: int = 0
    """Trimmed from the journal before they landed."""

    @property
    def total(self) -> int:
        return sum(self.links.values()) + self.recorder + self.trimmed


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job has come since it was started, and how it is doing now."""

    recorded: int = 0
    """Messages in the journals,"""
    recorded_rate: float = 0.0
    """and how many there were a second lately."""
    landed: int = 0
    """Rows in the tables,"""
    landed_rate: float = 0.0
    """and how many there were a second lately."""
    waiting: Backlog = Backlog()
    bytes: int = 0
    """What the files of the tables took."""
    keys: int = 0
    """Of how many keys the newest value can be queried."""
    lost: Losses = Losses()
    quarantined: int = 0
    """Rows that could not be landed and were put aside."""
    recording: str | None = None
    """What is wrong with recording, if anything."""
    landings: tuple[LandingStatus, ...] = ()

    @property
    def problem(self) -> str | None:
        """Everything that is wrong, in one line: one fault must not hide another."""
        found = (self.recording, *(landing.problem for landing in self.landings))
        return "; ".join(problem for problem in found if problem) or None

    @property
    def batch_seconds(self) -> float | None:
        """How long the last batch took, or the one under way if that takes longer."""
        found = [
            seconds
            for landing in self.landings
            for seconds in (landing.batch_seconds, landing.running_seconds)
            if seconds is not None
        ]
        return max(found, default=None)


def as_document(status: JobStatus) -> dict[str, object]:
    """What the admin space answers."""
    document: dict[str, object] = msgspec.to_builtins(status)
    return document | {"problem": status.problem}


METRICS = {
    "recorded_rows": ("counter", "Messages written to journals."),
    "landed_rows": ("counter", "Rows committed to tables."),
    "landed_bytes": ("counter", "Bytes of the files that were committed to tables."),
    "waiting_rows": ("gauge", "Rows in journals that have not landed."),
    "lag_seconds": ("gauge", "Age of the oldest row that has not landed."),
    "quarantined_rows": ("counter", "Rows that could not be landed and were put aside."),
    "lost_rows": ("counter", "Messages that arrived damaged or were lost before they landed."),
    "landing_up": ("gauge", "Whether the landing of a lake is at work."),
}


def metric_lines(status: JobStatus) -> Iterator[str]:
    """The same in the OpenMetrics text format."""
    values: dict[str, dict[str, float]] = {
        "recorded_rows": {"": status.recorded},
        "landed_rows": {_lake(each): each.rows for each in status.landings},
        "landed_bytes": {_lake(each): each.bytes for each in status.landings},
        "waiting_rows": {"": status.waiting.rows},
        "lag_seconds": {"": status.waiting.seconds},
        "quarantined_rows": {_lake(each): each.quarantined for each in status.landings},
        "lost_rows": {
            **{f'{{reason="{reason}"}}': count for reason, count in status.lost.links.items()},
            '{reason="recorder"}': status.lost.recorder,
            '{reason="trimmed"}': status.lost.trimmed,
        },
        "landing_up": {_lake(each): float(each.state is State.LANDING) for each in status.landings},
    }
    for name, (kind, meaning) in METRICS.items():
        yield f"# HELP zenspark_{name} {meaning}"
        yield f"# TYPE zenspark_{name} {kind}"
        ending = "_total" if kind == "counter" else ""
        for labels, value in values[name].items():
            yield f"zenspark_{name}{ending}{labels} {value:g}"
    yield "# EOF"


def _lake(landing: LandingStatus) -> str:
    escaped = landing.lake.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{lake="{escaped}"}}'
