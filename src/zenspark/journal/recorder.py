"""Recorder: what a session receives under key expressions, appended to a journal by a thread of its own.

Samples go from the receive buffer into packed blocks without a Python object for each. While the journal cannot be
written, nothing is taken from the session for a while: its channels fill, links are not read, and publishers that block
on congestion wait. After that samples are taken and discarded, and counted (see `Outage`). So memory stays bounded, and
recording goes on by itself when there is space.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self

import msgspec

from zenspark.api.entities import Subscriber
from zenspark.api.session import Session
from zenspark.arrow.decode import RowChunk
from zenspark.errors import JournalError, UsageError
from zenspark.handlers.arrow import ArrowBatches, BatchChannel
from zenspark.handlers.channel import ChannelClosed, Resume
from zenspark.handlers.handler import BoundHandler
from zenspark.journal.counters import Counters, Counts, recorder_counters
from zenspark.journal.disk import DiskAlarm
from zenspark.journal.network_events import NetworkObserver
from zenspark.journal.outage import Outage, WriteFailure
from zenspark.journal.segment import Truncation
from zenspark.journal.writer import JournalWriter
from zenspark.key import KeyExpr
from zenspark.key.match import intersects
from zenspark.transport.receiver import PushRun

logger = logging.getLogger("zenspark.journal")

COALESCE_SECONDS = 0.001
"""Seconds to sleep after something came, so that there is more: being woken costs more than taking it."""
IDLE_POLL_SECONDS = 0.2
"""Seconds between looks at what is due while nothing comes."""
STOP_TIMEOUT_SECONDS = 5.0
"""Seconds that stopping waits for space."""
RATE_WINDOW_SECONDS = 5.0
"""Over which the rate is an average,"""
RATE_STEP_SECONDS = 1.0
"""from counts that were taken so far apart."""
MAX_CACHED_KEYS = 100_000
"""How many keys are remembered: more would let publishers of ever new keys fill the memory."""


class State(StrEnum):
    """What a recorder does."""

    READY = "ready"
    RECORDING = "recording"
    WAITING = "waiting for space"
    DISCARDING = "discarding"
    STOPPED = "stopped"


class Status(msgspec.Struct, frozen=True):
    """How a recorder is doing."""

    state: State
    rows: int
    """Acknowledged since it started,"""
    bytes: int
    """and the bytes they take in the journal."""
    rate: float
    """Rows a second that were acknowledged in the last seconds."""
    offset: int
    """Behind the last row that is acknowledged."""
    backlog: int
    """How many reads wait to be taken."""
    lost: int
    """Rows that were received and are not in the journal: those dropped, and those not written when it had to stop."""
    error: str | None
    """Why the journal cannot be written, and None when it can."""
    cut: Truncation | None
    """What a crash had left unfinished at the end of the journal."""
    dropped: dict[str, int] = {}
    """Rows that were discarded while the journal could not be written, by zid of the neighbour that brought them."""
    warning: str | None = None
    """That little space is left on the disk."""


def drop_included(keys: Iterable[KeyExpr | str]) -> list[KeyExpr]:
    """Key expressions without those that others include."""
    given = list(dict.fromkeys(KeyExpr.autocanonize(str(key)) for key in keys))
    return [key for key in given if not any(other != key and other.includes(key) for other in given)]


class DedupHandler(ArrowBatches):
    """Names a channel of what one of several key expressions brings and none before it does."""

    __slots__ = ("before", "bell")

    def __init__(self, before: Sequence[KeyExpr], bell: threading.Lock) -> None:
        super().__init__()
        self.before = [str(key) for key in before]
        self.bell = bell

    def bind(self, resume: Resume) -> BoundHandler:
        """Makes it ready to receive."""
        channel = DedupChannel(self, resume)
        channel.use_wakeup(self.bell)
        return BoundHandler(channel, channel)


class DedupChannel(BatchChannel):
    """A channel that leaves out the keys that another brings."""

    __slots__ = ("_is_own",)

    def __init__(self, share: DedupHandler, resume: Resume) -> None:
        super().__init__(share, resume)
        before = share.before

        @lru_cache(MAX_CACHED_KEYS)
        def is_own(key: str) -> bool:
            return not any(intersects(other, key) for other in before)

        self._is_own = is_own if before else None

    def push_columns(self, pushes: PushRun, keys: list[str | None], via: str) -> bool:
        is_own = self._is_own
        if is_own is None:
            return super().push_columns(pushes, keys, via)
        own = [key if key is not None and is_own(key) else None for key in keys]
        return super().push_columns(pushes, own, via) if any(own) else True

    def push_many(self, items: Iterable[Any]) -> bool:
        is_own = self._is_own
        return super().push_many(item for item in items if is_own is None or is_own(str(item.key_expr)))


class Recorder:
    """Records key expressions of a session; `**` if none is named. Each sample is recorded once.

    Unless told not to, it also writes down which neighbours come and go and what they declare.
    """

    def __init__(
        self, session: Session, keys: Iterable[KeyExpr | str], writer: JournalWriter, *, observe: bool = True
    ) -> None:
        self.keys = drop_included(keys) or [KeyExpr("**")]
        self._session = session
        self._writer = writer
        self._own_zid = str(session.zid())
        self._bell = threading.Lock()
        self._subscribers: list[Subscriber[Any]] = []
        self._channels: list[DedupChannel] = []
        self._thread = threading.Thread(target=self._run, name="zenspark-recorder", daemon=True)
        self._is_stopping = threading.Event()
        self._gives_up_at = math.inf
        self._has_started = self._has_ended = False
        self._outage = Outage(writer.policy.block_timeout)
        self._disk = DiskAlarm(writer.path, writer.policy.flush_bytes)
        self._problem: str | None = None
        """What was wrong beyond the journal."""
        self._received = 0
        """Rows that were taken from the session."""
        self._unwritten = 0
        """Rows that the writer could not write before it had to stop."""
        self._first = writer.acknowledged
        self._history: deque[tuple[float, int]] = deque(maxlen=math.ceil(RATE_WINDOW_SECONDS / RATE_STEP_SECONDS) + 2)
        self._observer = NetworkObserver(session, writer, Counters(session, self._counts)) if observe else None

    # --- life

    def start(self) -> Self:
        """Subscribe, and begin to append."""
        if self._has_started or self._has_ended:
            raise UsageError("this recorder was started before")
        self._bell.acquire()
        self._has_started = True
        self._history.append((time.monotonic(), self._first))
        try:
            for place, key in enumerate(self.keys):
                share = DedupHandler(self.keys[:place], self._bell)
                self._subscribers.append(self._session.declare_subscriber(key, share))
            self._channels = [subscriber.handler for subscriber in self._subscribers]
            if self._observer is not None:
                self._observer.start()
            self._thread.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> Status:
        """End the subscription, append what was received, and acknowledge it; the writer stays open."""
        if not self._is_stopping.is_set():
            self._gives_up_at = time.monotonic() + STOP_TIMEOUT_SECONDS
            self._is_stopping.set()
            for subscriber in self._subscribers:
                subscriber.__exit__()  # undeclares it unless its session did
            if self._thread.ident is not None:
                self._thread.join()
            if self._observer is not None:
                self._observer.stop()
            lost = self._outage.total + self._unwritten
            if lost:
                logger.error("%d rows that were received are not in the journal %s", lost, self._writer.path)
        self._has_ended = True
        return self.status()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether it was started and more may come."""
        return self._thread.is_alive()

    # --- how it is doing

    def status(self) -> Status:
        """How it is doing now."""
        end = self._writer.acknowledged
        dropped, failure = dict(self._outage.dropped), self._outage.failure
        return Status(
            state=self._state(failure),
            rows=end - self._first,
            bytes=self._writer.bytes,
            rate=self._rate(time.monotonic()),
            offset=end,
            backlog=sum(channel.backlog for channel in self._channels),
            lost=sum(dropped.values()) + self._unwritten,
            error=self._problem or (None if failure is None else failure.error),
            cut=self._writer.cut,
            dropped=dropped,
            warning=self._disk.warning,
        )

    def _state(self, failure: WriteFailure | None) -> State:
        if self._has_ended:
            return State.STOPPED
        if not self._has_started:
            return State.READY
        if failure is None:
            return State.RECORDING
        return State.DISCARDING if failure.is_discarding else State.WAITING

    def _rate(self, now: float) -> float:
        """By the newest count that is old enough, and so 0 when nothing was acknowledged for so long."""
        history = list(self._history)
        if not history:
            return 0.0
        then, rows = next((one for one in reversed(history) if one[0] <= now - RATE_WINDOW_SECONDS), history[0])
        return (self._writer.acknowledged - rows) / max(now - then, RATE_STEP_SECONDS)

    def _note(self, now: float) -> None:
        """Take a count for the rate, and look at the disk, if it is time."""
        if now - self._history[-1][0] >= RATE_STEP_SECONDS:
            self._history.append((now, self._writer.acknowledged))
        self._disk.check(now)

    def _counts(self) -> Counts:
        return recorder_counters(self._received, self._writer.acknowledged - self._first, dict(self._outage.dropped))

    # --- the thread

    def _run(self) -> None:
        try:
            while pieces := self._gathered():
                self._append(pieces)
            self._finish()
        except Exception:
            logger.exception("recording ends")
            self._problem = "an unexpected error: see the log"
        finally:
            self._has_ended = True

    def _append(self, pieces: list[RowChunk]) -> None:
        self._received += sum(piece.num_rows for piece in pieces)
        if self._write(lambda: self._writer.append_chunks(pieces)):
            self._write(self._writer.flush)
        else:
            self._outage.discard(pieces, self._own_zid)

    def _write(self, act: Callable[[], object]) -> bool:
        """Do something with the writer, again and again for as long as publishers may wait; whether it was done."""
        while True:
            now = time.monotonic()
            self._note(now)
            if not self._outage.may_try(now):
                return False
            try:
                act()
            except JournalError as error:
                if not self._outage.fail(error, time.monotonic()) or time.monotonic() >= self._gives_up_at:
                    return False
                self._pause()
            else:
                if self._writer.acknowledged == self._writer.end:
                    self._outage.end(self._writer.acknowledged)
                return True

    def _pause(self) -> None:
        seconds = self._outage.pause(time.monotonic())
        if self._is_stopping.wait(seconds):
            time.sleep(seconds)

    def _finish(self) -> None:
        """Acknowledge what was appended, trying until it has to stop."""
        while not self._write(self._writer.flush):
            if time.monotonic() >= self._gives_up_at:
                self._unwritten = self._writer.end - self._writer.acknowledged
                return
            self._pause()

    # --- what is received

    def _gathered(self) -> list[RowChunk]:
        """What comes until there is enough for a block, or the first of it has waited long enough; nothing at the end.

        While nothing comes, does what is due in the journal.
        """
        pieces: list[RowChunk] = []
        rows = size = 0
        policy = self._writer.policy
        until = time.monotonic() + IDLE_POLL_SECONDS
        while rows < policy.flush_rows and size < policy.flush_bytes:
            piece = self._taken()
            if piece is not None:
                if not pieces:
                    until = time.monotonic() + policy.flush_interval
                pieces.append(piece)
                rows += piece.num_rows
                size += piece.size
            elif not self._channels:
                break
            elif not self._waited(until):
                if pieces:
                    break
                self._write(self._writer.flush)
                until = time.monotonic() + IDLE_POLL_SECONDS
        return pieces

    def _taken(self) -> RowChunk | None:
        """What any of the channels has; those that have ended are left out from then on."""
        for channel in list(self._channels):
            try:
                piece = channel.try_chunk()
            except ChannelClosed:
                self._channels = [one for one in self._channels if one is not channel]
                continue
            if piece is not None:
                return piece
        return None

    def _waited(self, until: float) -> bool:
        """Wait for the bell; whether it rang in time."""
        left = until - time.monotonic()
        if left <= 0 or not self._bell.acquire(timeout=left):
            return False
        time.sleep(max(min(COALESCE_SECONDS, until - time.monotonic()), 0.0))
        return True
