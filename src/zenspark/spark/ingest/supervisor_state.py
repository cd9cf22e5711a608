"""SupervisorState: decides when an ingest process is started, has to restart its query, or is killed.

Sans-I/O, no clock. Failed ingestion is retried forever, with a backoff that doubles from one second to one minute; a
committed batch resets it. If Java still runs, the query is restarted in the same process. A process that has ended, has
failed many times in a row or has not reported for minutes is replaced.

                 spawned             ProgressReport
    (no process) ───────► STARTING ───────────────► INGESTING ─ Drained ─► ENDED
         ▲                 │   ▲  Waiting              │
         │                 │   └────────► WAITING ─────┤
         └── retry ── FAILED ◄────── Failed, exited ───┘
"""

from __future__ import annotations

import math
from enum import Enum, StrEnum, auto

from zenspark.net.backoff import Backoff, RetryPolicy
from zenspark.spark.ingest.process_protocol import Drained, Failed, ProgressReport, Report, Waiting

RETRY_POLICY = RetryPolicy(period_init_ms=1000, period_max_ms=60_000)
MAX_FAILURES_PER_PROCESS = 10
"""Consecutive failures after which the process is replaced: the fault may be in its memory."""
REPORT_TIMEOUT_SECONDS = 300.0
"""Seconds without any report after which a process counts as hung (stopped, or starved of CPU or memory)."""


class IngestState(StrEnum):
    """State of the ingestion into one lake; the values are part of status documents."""

    STARTING = "starting"
    """The process, Java and Spark start, or the query restarts."""
    WAITING = "waiting"
    """Another process holds the lease of one of its recorders."""
    INGESTING = "ingesting"
    FAILED = "failed"
    """Ingestion failed; it is retried after a backoff."""
    ENDED = "ended"
    """Everything is ingested after a drain."""


class ProcessAction(Enum):
    """Action the supervisor takes on the process."""

    SPAWN = auto()
    RESTART_QUERY = auto()
    KILL = auto()


class ProcessState(Enum):
    """Whether the process runs."""

    NONE = auto()
    ALIVE = auto()
    KILLED = auto()
    """SIGKILL was sent, exit is pending."""


class IngestTotals:
    """Totals over all ingest processes of one lake.

    Rows are counted by the offsets stored in the table: a batch that a killed process committed but did not report is
    counted with the first report of the next process.
    """

    def __init__(self) -> None:
        self.committed_offsets: dict[str, int] = {}
        """End offset per recorder (exclusive) of ingested rows."""
        self.last = ProgressReport()
        self._start: int | None = None
        """Sum of the offsets before the first row was ingested."""
        self._before = ProgressReport()

    def add(self, report: ProgressReport) -> None:
        """Add a progress report."""
        self.last = report
        self.committed_offsets = dict(report.committed_offsets)
        if self._start is None:
            self._start = sum(report.committed_offsets.values()) - report.rows - self._not_ingested

    def end_process(self) -> None:
        """Keep the counts of a process that ended: the next one starts at 0."""
        self._before = ProgressReport(
            bytes=self.bytes, quarantined=self.quarantined, duplicates=self.duplicates, lost=self.lost
        )
        self.last = ProgressReport(batch_seconds=self.last.batch_seconds, maintenance_runs=self.last.maintenance_runs)

    @property
    def rows(self) -> int:
        """Rows added to the table since the first process started."""
        return max(0, sum(self.committed_offsets.values()) - (self._start or 0) - self._not_ingested)

    @property
    def _not_ingested(self) -> int:
        """Rows before the end offsets that are not in the table."""
        return self.quarantined + self.duplicates + self.lost

    @property
    def bytes(self) -> int:
        return self._before.bytes + self.last.bytes

    @property
    def quarantined(self) -> int:
        return self._before.quarantined + self.last.quarantined

    @property
    def duplicates(self) -> int:
        return self._before.duplicates + self.last.duplicates

    @property
    def lost(self) -> int:
        return self._before.lost + self.last.lost


class SupervisorState:
    """State of the supervisor of one lake's ingestion. Times are seconds of any monotonic clock."""

    def __init__(self, now: float) -> None:
        self.ingest_state = IngestState.STARTING
        self.cause: str | None = None
        """Reason of the failure, or of the wait; cleared when a batch is committed."""
        self.maintenance_error: str | None = None
        """Error of the last table maintenance."""
        self.totals = IngestTotals()
        self._backoff = Backoff(RETRY_POLICY, now)
        self._retry_at = now
        self._process_state = ProcessState.NONE
        self._last_report_at = now
        self._failures = 0
        """Consecutive failures of this process."""

    # --- decisions

    def due(self, now: float) -> ProcessAction | None:
        """Return the action that is due now."""
        if self.ingest_state is IngestState.ENDED or now < self.next_due():
            return None
        match self._process_state:
            case ProcessState.NONE:
                return ProcessAction.SPAWN
            case ProcessState.ALIVE if (
                self.ingest_state is IngestState.FAILED and self._failures < MAX_FAILURES_PER_PROCESS
            ):
                return ProcessAction.RESTART_QUERY
        return ProcessAction.KILL

    def next_due(self) -> float:
        """Return the time of the next action, if no report arrives before."""
        if self._process_state is ProcessState.KILLED or self.ingest_state is IngestState.ENDED:
            return math.inf
        if self._process_state is ProcessState.NONE or self.ingest_state is IngestState.FAILED:
            return self._retry_at
        return self._last_report_at + REPORT_TIMEOUT_SECONDS

    def retry_in(self, now: float) -> float:
        """Return the seconds until the next attempt after a failure."""
        return max(0.0, self._retry_at - now)

    def retry_now(self, now: float) -> None:
        """Make the next attempt without waiting for the backoff."""
        self._retry_at = min(self._retry_at, now)

    # --- events

    def on_spawned(self, now: float) -> None:
        """Note that a process was started."""
        self._process_state = ProcessState.ALIVE
        self._last_report_at = now
        self._failures = 0
        self.ingest_state = IngestState.STARTING

    def on_query_restarted(self) -> None:
        """Note that the query was restarted in the same process."""
        self.ingest_state = IngestState.STARTING

    def on_killed(self, now: float) -> None:
        """Note that the process was killed, after `due` returned KILL."""
        if self.ingest_state is not IngestState.FAILED:
            self._fail(f"ingest process killed: no report for {now - self._last_report_at:.0f} s", now)
        self._process_state = ProcessState.KILLED

    def receive(self, report: Report, now: float) -> None:
        """Process a report."""
        self._last_report_at = now
        match report:
            case ProgressReport():
                self._on_progress(report, now)
            case Waiting(reason):
                self.ingest_state, self.cause = IngestState.WAITING, reason
            case Failed(cause):
                self._failures += 1
                self._fail(cause, now)
            case Drained(maintenance_error):
                self.ingest_state, self.cause, self.maintenance_error = IngestState.ENDED, None, maintenance_error

    def _on_progress(self, report: ProgressReport, now: float) -> None:
        if report.batches > self.totals.last.batches:
            self._backoff.reset(now)
            self._failures = 0
            self.cause = None
        if self.ingest_state is IngestState.WAITING:
            self.cause = None
        self.totals.add(report)
        self.ingest_state, self.maintenance_error = IngestState.INGESTING, report.maintenance_error

    def on_exited(self, code: int, now: float) -> None:
        """Note that the process has exited; a negative code is the signal that killed it."""
        self._process_state = ProcessState.NONE
        self.totals.end_process()
        if self.ingest_state not in (IngestState.ENDED, IngestState.FAILED):
            self._fail(f"ingest process {_format_exit(code)}", now)

    def on_spawn_failed(self, cause: str, now: float) -> None:
        """Note that the process could not be started."""
        self._fail(f"ingest process could not be started: {cause}", now)

    def _fail(self, cause: str, now: float) -> None:
        retry_at = self._backoff.next_attempt(now)
        assert retry_at is not None  # retried forever
        self.ingest_state, self.cause, self._retry_at = IngestState.FAILED, cause, retry_at


def _format_exit(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
