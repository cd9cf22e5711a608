"""Recorder: subscribes to key expressions and appends the samples to a journal, in a thread.

Samples go from the receive buffer to encoded blocks without a Python object for each. While the journal cannot be
written, channels are not drained for a while: they fill, links are not read, and publishers with congestion control
BLOCK wait. After that samples are received, discarded and counted (see `Outage`). So memory stays bounded, and
recording resumes when there is space.
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
from zenspark.journal.network_events import NetworkEventRecorder
from zenspark.journal.outage import Outage, WriteFailure
from zenspark.journal.segment import Truncation
from zenspark.journal.writer import JournalWriter
from zenspark.key import KeyExpr
from zenspark.key.match import intersects
from zenspark.wire.columns import PushRun

logger = logging.getLogger("zenspark.journal")

COALESCE_DELAY_SECONDS = 0.001
"""Delay in seconds after a wakeup, so that more chunks arrive: a wakeup costs more than receiving a chunk."""
IDLE_POLL_INTERVAL_SECONDS = 0.2
"""Interval in seconds of flushing and maintenance while no samples arrive."""
RECORDER_STOP_TIMEOUT_SECONDS = 5.0
"""Seconds that `stop` waits for a journal that cannot be written."""
RATE_WINDOW_SECONDS = 5.0
"""Seconds over which rates are averaged: that of a recorder, and those of a pipeline."""
RATE_SAMPLE_INTERVAL_SECONDS = 1.0
"""Seconds between two of the counts from which a rate is computed."""
MAX_OVERLAP_CACHE_KEYS = 100_000
"""Keys in the cache of an `OverlapFilterChannel`: without a limit, publishers of ever new keys fill the memory."""


class State(StrEnum):
    """State of a recorder.

    Example:
        >>> recorder.status().state is State.RECORDING
        True
    """

    READY = "ready"
    RECORDING = "recording"
    WAITING = "waiting for space"
    DISCARDING = "discarding"
    STOPPED = "stopped"


class Status(msgspec.Struct, frozen=True):
    """Status of a recorder.

    Attributes:
        state: State of the recorder.
        rows: Rows acknowledged since it started.
        bytes: Bytes written to the journal since its writer was opened.
        rate: Rows per second acknowledged in the last seconds.
        offset: Offset after the last acknowledged row.
        backlog: Chunks that wait in the channels.
        lost: Rows received that are not in the journal: discarded ones, and those not written before it stopped.
        error: Reason why the journal cannot be written; None if it can.
        cut: Incomplete data after a crash that was truncated when the journal was opened; None without.
        dropped: Rows discarded while the journal could not be written, by zid of the neighbour that sent them.
        warning: Warning about low disk space; None without.

    Example:
        >>> status = recorder.status()
        >>> status.lost, status.error
        (0, None)
    """

    state: State
    rows: int
    bytes: int
    rate: float
    offset: int
    backlog: int
    lost: int
    error: str | None
    cut: Truncation | None
    dropped: dict[str, int] = {}
    warning: str | None = None


def drop_included(keys: Iterable[KeyExpr | str]) -> list[KeyExpr]:
    """Drop key expressions that are included in others."""
    unique = list(dict.fromkeys(KeyExpr.autocanonize(str(key)) for key in keys))
    return [key for key in unique if not any(other != key and other.includes(key) for other in unique)]


class OverlapFilterHandler(ArrowBatches):
    """Handler for one of several key expressions: drops samples that an earlier one of them also receives."""

    __slots__ = ("earlier_keys", "wakeup")

    def __init__(self, earlier_keys: Sequence[KeyExpr], wakeup: threading.Lock) -> None:
        super().__init__()
        self.earlier_keys = [str(key) for key in earlier_keys]
        self.wakeup = wakeup

    def bind(self, resume: Resume) -> BoundHandler:
        """Create the channel."""
        channel = OverlapFilterChannel(self, resume)
        channel.use_wakeup(self.wakeup)
        return BoundHandler(channel, channel)


class OverlapFilterChannel(BatchChannel):
    """A batch channel that drops samples whose key matches an earlier key expression."""

    __slots__ = ("_is_new",)

    def __init__(self, handler: OverlapFilterHandler, resume: Resume) -> None:
        super().__init__(handler, resume)
        earlier_keys = handler.earlier_keys

        @lru_cache(MAX_OVERLAP_CACHE_KEYS)
        def is_new(key: str) -> bool:
            return not any(intersects(other, key) for other in earlier_keys)

        self._is_new = is_new if earlier_keys else None

    def push_columns(self, pushes: PushRun, keys: list[str | None], via: str) -> bool:
        is_new = self._is_new
        if is_new is None:
            return super().push_columns(pushes, keys, via)
        new = [key if key is not None and is_new(key) else None for key in keys]
        return super().push_columns(pushes, new, via) if any(new) else True

    def push_many(self, items: Iterable[Any]) -> bool:
        is_new = self._is_new
        return super().push_many(item for item in items if is_new is None or is_new(str(item.key_expr)))


class Recorder:
    """Records the samples of key expressions, by default `**`. Each sample is recorded once.

    With `observe` it also records sessions with neighbours, declarations and counters (see `NetworkEventRecorder`).

    Args:
        session: The session that receives the samples.
        keys: Key expressions of the keys to record; `**` if there are none.
        writer: Writer of the journal; it stays open when the recorder stops.
        observe: Whether sessions, declarations and counters are recorded beside the samples.

    Raises:
        UsageError: A key expression is not valid.

    Example:
        >>> with JournalWriter("journal") as writer, Recorder(session, ["demo/**"], writer) as recorder:
        ...     print(recorder.status().rows)
    """

    def __init__(
        self, session: Session, keys: Iterable[KeyExpr | str], writer: JournalWriter, *, observe: bool = True
    ) -> None:
        self.keys = drop_included(keys) or [KeyExpr("**")]
        self._session = session
        self._writer = writer
        self._local_zid = str(session.zid())
        self._wakeup = threading.Lock()
        self._subscribers: list[Subscriber[Any]] = []
        self._channels: list[OverlapFilterChannel] = []
        self._thread = threading.Thread(target=self._run, name="zenspark-recorder", daemon=True)
        self._is_stopping = threading.Event()
        self._stop_deadline = math.inf
        self._has_started = self._has_ended = False
        self._outage = Outage(writer.path, writer.policy.block_timeout)
        self._disk = DiskAlarm(writer.path, writer.policy.flush_bytes)
        self._problem: str | None = None
        """Error other than a failed write."""
        self._received = 0
        """Rows received from the session."""
        self._unwritten = 0
        """Rows that were not written before the stop timeout."""
        self._first = writer.acknowledged
        self._history: deque[tuple[float, int]] = deque(
            maxlen=math.ceil(RATE_WINDOW_SECONDS / RATE_SAMPLE_INTERVAL_SECONDS) + 2
        )
        self._network_events = (
            NetworkEventRecorder(session, writer, Counters(session, self._counts)) if observe else None
        )

    # --- lifecycle

    def start(self) -> Self:
        """Declare the subscribers and start the thread.

        Returns:
            The recorder.

        Raises:
            UsageError: It was started before.
            SessionClosed: The session was closed.

        Example:
            >>> recorder = Recorder(session, ["demo/**"], writer).start()
        """
        if self._has_started or self._has_ended:
            raise UsageError("this recorder was started before")
        self._wakeup.acquire()
        self._has_started = True
        self._history.append((time.monotonic(), self._first))
        try:
            for index, key in enumerate(self.keys):
                handler = OverlapFilterHandler(self.keys[:index], self._wakeup)
                self._subscribers.append(self._session.declare_subscriber(key, handler))
            self._channels = [subscriber.handler for subscriber in self._subscribers]
            if self._network_events is not None:
                self._network_events.start()
            self._thread.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> Status:
        """Undeclare the subscribers, append and flush the received samples; the writer stays open.

        Returns:
            The last status. `lost` counts rows that were received but could not be written.

        Example:
            >>> lost = recorder.stop().lost
        """
        if not self._is_stopping.is_set():
            self._stop_deadline = time.monotonic() + RECORDER_STOP_TIMEOUT_SECONDS
            self._is_stopping.set()
            for subscriber in self._subscribers:
                subscriber.__exit__()  # undeclares it unless the session is closed
            if self._thread.ident is not None:
                self._thread.join()
            if self._network_events is not None:
                self._network_events.stop()
            lost = self._outage.total + self._unwritten
            if lost:
                logger.error("%s: lost %d received rows: %s", self._writer.path, lost, self._loss_reason)
        self._has_ended = True
        return self.status()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the thread of the recorder runs."""
        return self._thread.is_alive()

    # --- status

    def status(self) -> Status:
        """Return the current status.

        Returns:
            State, counts of rows and bytes, rate, backlog and errors.

        Example:
            >>> print(recorder.status().state, recorder.status().rows)
        """
        end = self._writer.acknowledged
        discarded, failure = dict(self._outage.discarded), self._outage.failure
        return Status(
            state=self._state(failure),
            rows=end - self._first,
            bytes=self._writer.bytes,
            rate=self._rate(time.monotonic()),
            offset=end,
            backlog=sum(channel.backlog for channel in self._channels),
            lost=sum(discarded.values()) + self._unwritten,
            error=self._problem or (None if failure is None else failure.error),
            cut=self._writer.cut,
            dropped=discarded,
            warning=self._disk.warning,
        )

    @property
    def _loss_reason(self) -> str:
        failure = self._outage.failure
        return self._problem or ("the journal could not be written for a while" if failure is None else failure.error)

    def _state(self, failure: WriteFailure | None) -> State:
        if self._has_ended:
            return State.STOPPED
        if not self._has_started:
            return State.READY
        if failure is None:
            return State.RECORDING
        return State.DISCARDING if failure.is_discarding else State.WAITING

    def _rate(self, now: float) -> float:
        """Rows per second since the newest count that is old enough; 0 after that time without rows."""
        history = list(self._history)
        if not history:
            return 0.0
        then, rows = next((count for count in reversed(history) if count[0] <= now - RATE_WINDOW_SECONDS), history[0])
        return (self._writer.acknowledged - rows) / max(now - then, RATE_SAMPLE_INTERVAL_SECONDS)

    def _run_periodic_checks(self, now: float) -> None:
        """Add a count for the rate, and check the disk, if they are due."""
        if now - self._history[-1][0] >= RATE_SAMPLE_INTERVAL_SECONDS:
            self._history.append((now, self._writer.acknowledged))
        self._disk.check(now)

    def _counts(self) -> Counts:
        return recorder_counters(self._received, self._writer.acknowledged - self._first, dict(self._outage.discarded))

    # --- the thread

    def _run(self) -> None:
        try:
            while chunks := self._collect_block():
                self._append(chunks)
            self._finish()
        except Exception:
            logger.exception("%s: recorder failed", self._writer.path)
            self._problem = "an unexpected error: see the log"
        finally:
            self._has_ended = True

    def _append(self, chunks: list[RowChunk]) -> None:
        self._received += sum(chunk.num_rows for chunk in chunks)
        if self._write(lambda: self._writer.append_chunks(chunks)):
            self._write(self._writer.flush)
        else:
            self._outage.count_discarded(chunks, self._local_zid)

    def _write(self, operation: Callable[[], object]) -> bool:
        """Run a write operation, with retries while publishers may be blocked. Returns whether it succeeded."""
        while True:
            now = time.monotonic()
            self._run_periodic_checks(now)
            if not self._outage.is_write_due(now):
                return False
            try:
                operation()
            except JournalError as error:
                if not self._outage.fail(error, time.monotonic()) or time.monotonic() >= self._stop_deadline:
                    return False
                self._pause()
            else:
                if self._writer.acknowledged == self._writer.end:
                    self._outage.end(self._writer.acknowledged)
                return True

    def _pause(self) -> None:
        seconds = self._outage.retry_delay(time.monotonic())
        if self._is_stopping.wait(seconds):
            time.sleep(seconds)

    def _finish(self) -> None:
        """Flush appended rows, with retries until the stop timeout."""
        while not self._write(self._writer.flush):
            if time.monotonic() >= self._stop_deadline:
                self._unwritten = self._writer.end - self._writer.acknowledged
                return
            self._pause()

    # --- received samples

    def _collect_block(self) -> list[RowChunk]:
        """Collect chunks until they fill a block, or the flush interval has passed; empty when all channels are closed.

        While no samples arrive, flushes the writer, which runs its maintenance.
        """
        chunks: list[RowChunk] = []
        rows = size = 0
        policy = self._writer.policy
        until = time.monotonic() + IDLE_POLL_INTERVAL_SECONDS
        while rows < policy.flush_rows and size < policy.flush_bytes:
            chunk = self._poll_channels()
            if chunk is not None:
                if not chunks:
                    until = time.monotonic() + policy.flush_interval
                chunks.append(chunk)
                rows += chunk.num_rows
                size += chunk.size
            elif not self._channels:
                break
            elif not self._wait_for_data(until):
                if chunks:
                    break
                self._write(self._writer.flush)
                until = time.monotonic() + IDLE_POLL_INTERVAL_SECONDS
        return chunks

    def _poll_channels(self) -> RowChunk | None:
        """Take a chunk from any channel; closed channels are removed."""
        for channel in list(self._channels):
            try:
                chunk = channel.try_chunk()
            except ChannelClosed:
                self._channels = [other for other in self._channels if other is not channel]
                continue
            if chunk is not None:
                return chunk
        return None

    def _wait_for_data(self, until: float) -> bool:
        """Wait for the wakeup of a channel; False on timeout."""
        left = until - time.monotonic()
        if left <= 0 or not self._wakeup.acquire(timeout=left):
            return False
        time.sleep(max(min(COALESCE_DELAY_SECONDS, until - time.monotonic()), 0.0))
        return True
