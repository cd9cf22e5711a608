"""Supervision: when a landing process is started, told to try again, or killed. Knows no process and no clock.

A landing that fails is tried again for ever, with waits that double from one second to a minute; a batch that lands
starts them afresh. A process whose Java still runs is told to land again; one that has ended, has failed many times
or has not reported for minutes is replaced by another.

                 spawned                 Landed
    (no process) ───────► STARTING ───────────────► LANDING ── Drained ──► ENDED
         ▲                 │   ▲  Waiting              │
         │                 │   └────────► WAITING ─────┤
         └── retry ── FAILED ◄────── Failed, exited ───┘
"""

from __future__ import annotations

import math
from enum import Enum, StrEnum, auto

from zenspark.net.node.backoff import Backoff, RetryPolicy
from zenspark.spark.ingest.process_protocol import Answer, Drained, Failed, Landed, Report, Waiting

RETRIES = RetryPolicy(period_init_ms=1000, period_max_ms=60_000)
MAX_FAILURES_PER_PROCESS = 10
"""After so many in a row a new process is tried: what failed may be in the old one."""
SILENCE_SECONDS = 300.0
"""Without any report for so long, a process is taken for hung: stopped, or without a processor or memory to go on."""


class State(StrEnum):
    """What a landing does."""

    STARTING = "starting"
    """The process, Java and Spark come up, or the query starts again."""
    WAITING = "waiting"
    """Another process lands one of its recorders."""
    LANDING = "landing"
    FAILED = "failed"
    """It is tried again after a while."""
    ENDED = "ended"
    """Everything has landed, and nothing more is to."""


class Action(Enum):
    """What is to be done with the process."""

    SPAWN = auto()
    LAND = auto()
    KILL = auto()


class Life(Enum):
    """Whether there is a process."""

    NONE = auto()
    ALIVE = auto()
    KILLED = auto()
    """It will end in a moment."""


class Tally:
    """What all processes of a landing have landed together.

    Rows are counted by offsets, which the table knows: a batch that a process committed and could not report, because
    it was killed, is counted with the first report of the next one.
    """

    def __init__(self) -> None:
        self.reached: dict[str, int] = {}
        """Up to before which offset the rows of each recorder have landed."""
        self.last = Landed()
        self._start: int | None = None
        """The sum of these offsets before the first row landed."""
        self._before = Landed()

    def add(self, landed: Landed) -> None:
        """Take in a report."""
        self.last = landed
        self.reached = dict(landed.reached)
        if self._start is None:
            self._start = sum(landed.reached.values()) - landed.rows - self._left_out

    def end_process(self) -> None:
        """Keep what the process counted: the next one begins at 0."""
        self._before = Landed(
            bytes=self.bytes, quarantined=self.quarantined, duplicates=self.duplicates, lost=self.lost
        )
        self.last = Landed(batch_seconds=self.last.batch_seconds)

    @property
    def rows(self) -> int:
        """In the table since the first process began."""
        return max(0, sum(self.reached.values()) - (self._start or 0) - self._left_out)

    @property
    def _left_out(self) -> int:
        """Rows that the offsets passed and that are not in the table."""
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


class Supervision:
    """The state of one landing. Times are seconds of any monotonic clock."""

    def __init__(self, now: float) -> None:
        self.state = State.STARTING
        self.cause: str | None = None
        """Why it failed, or what it waits for; stays until a batch lands."""
        self.maintenance: str | None = None
        """What is wrong with the maintenance of the tables."""
        self.tally = Tally()
        self._backoff = Backoff(RETRIES, now)
        self._retry_at = now
        self._life = Life.NONE
        self._heard_at = now
        self._failures = 0
        """Of this process in a row."""

    # --- what is to be done

    def due(self, now: float) -> Action | None:
        """What is to be done now."""
        if self.state is State.ENDED or now < self.next_due():
            return None
        match self._life:
            case Life.NONE:
                return Action.SPAWN
            case Life.ALIVE if self.state is State.FAILED and self._failures < MAX_FAILURES_PER_PROCESS:
                return Action.LAND
        return Action.KILL

    def next_due(self) -> float:
        """When something is to be done, if nothing is reported before."""
        if self._life is Life.KILLED or self.state is State.ENDED:
            return math.inf
        if self._life is Life.NONE or self.state is State.FAILED:
            return self._retry_at
        return self._heard_at + SILENCE_SECONDS

    def retry_in(self, now: float) -> float:
        """Seconds until the next attempt, if it has failed."""
        return max(0.0, self._retry_at - now)

    def hurry(self, now: float) -> None:
        """Make the next attempt at once."""
        self._retry_at = min(self._retry_at, now)

    # --- what happens

    def spawned(self, now: float) -> None:
        """A process was started."""
        self._life = Life.ALIVE
        self._heard_at = now
        self._failures = 0
        self.state = State.STARTING

    def ordered(self) -> None:
        """The process was told to land again."""
        self.state = State.STARTING

    def killed(self, now: float) -> None:
        """The process was killed because that was due."""
        if self.state is not State.FAILED:
            self._fail(f"the landing process had not reported for {now - self._heard_at:.0f} s, and was killed", now)
        self._life = Life.KILLED

    def receive(self, report: Report, now: float) -> None:
        """The process has reported something."""
        self._heard_at = now
        match report:
            case Landed():
                self._on_landed(report, now)
            case Waiting(reason):
                self.state, self.cause = State.WAITING, reason
            case Failed(cause):
                self._failures += 1
                self._fail(cause, now)
            case Drained(maintenance):
                self.state, self.cause, self.maintenance = State.ENDED, None, maintenance
            case Answer():
                pass  # for whoever asked

    def _on_landed(self, landed: Landed, now: float) -> None:
        if landed.batches > self.tally.last.batches:
            self._backoff.succeeded(now)
            self._failures = 0
            self.cause = None
        if self.state is State.WAITING:
            self.cause = None
        self.tally.add(landed)
        self.state, self.maintenance = State.LANDING, landed.maintenance

    def exited(self, code: int, now: float) -> None:
        """The process has ended; a negative code is the signal that killed it."""
        self._life = Life.NONE
        self.tally.end_process()
        if self.state not in (State.ENDED, State.FAILED):
            self._fail(f"the landing process {_ending(code)}", now)

    def could_not_spawn(self, cause: str, now: float) -> None:
        """There is no process."""
        self._fail(f"the landing process could not be started: {cause}", now)

    def _fail(self, cause: str, now: float) -> None:
        retry_at = self._backoff.failed(now)
        assert retry_at is not None  # it is tried for ever
        self.state, self.cause, self._retry_at = State.FAILED, cause, retry_at


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
