"""Recorder: what a session receives under key expressions, appended to a journal by a thread of its own.

Samples go from the receive buffer into packed blocks without a Python object for each. While the journal cannot be
written, nothing is taken from the session: its channels fill, links are not read, and whoever sends reliably waits. So
memory stays bounded, and recording goes on by itself when there is room.
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

from zenspark.api.batches import ArrowBatches, BatchChannel
from zenspark.api.channel import ChannelClosed, Resume
from zenspark.api.entities import Subscriber
from zenspark.api.handlers import Attached
from zenspark.api.session import Session
from zenspark.arrow.incoming import Piece
from zenspark.errors import JournalError, UsageError
from zenspark.journal.observing import Observer
from zenspark.journal.segment import Cut
from zenspark.journal.writer import JournalWriter
from zenspark.key import KeyExpr
from zenspark.key.match import intersects
from zenspark.transport.hearing import Pushes

logger = logging.getLogger("zenspark.journal")

NAP = 0.001
"""Seconds to sleep after something came, so that there is more: being woken costs more than taking it."""
IDLE = 0.2
"""Seconds between looks at what is due while nothing comes."""
RETRY = 0.25
"""Seconds between attempts to write where there was no room."""
PATIENCE = 5.0
"""Seconds that stopping waits for room."""
RATE_OVER = 5
"""Seconds over which the rate is an average."""
MAX_KEYS = 100_000
"""How many keys are remembered: more would let whoever publishes ever new keys fill the memory."""


class State(StrEnum):
    """What a recorder does."""

    READY = "ready"
    RECORDING = "recording"
    WAITING = "waiting for room"
    STOPPED = "stopped"


class Status(msgspec.Struct, frozen=True):
    """How a recorder gets on."""

    state: State
    rows: int
    """Acknowledged since it started,"""
    bytes: int
    """and the bytes they take in the journal."""
    rate: float
    """Rows a second, lately."""
    offset: int
    """Behind the last row that is acknowledged."""
    backlog: int
    """How many reads wait to be taken."""
    lost: int
    """Rows that were received and could not be written before it had to stop."""
    error: str | None
    """What was wrong last, and None when it is over."""
    cut: Cut | None
    """What a crash had left unfinished at the end of the journal."""


def reduced(keys: Iterable[KeyExpr | str]) -> list[KeyExpr]:
    """Key expressions without those that others include."""
    given = list(dict.fromkeys(KeyExpr.autocanonize(str(key)) for key in keys))
    return [key for key in given if not any(other != key and other.includes(key) for other in given)]


class Share(ArrowBatches):
    """Names a channel of what one of several key expressions brings and none before it does."""

    __slots__ = ("before", "bell")

    def __init__(self, before: Sequence[KeyExpr], bell: threading.Lock) -> None:
        super().__init__()
        self.before = [str(key) for key in before]
        self.bell = bell

    def attach(self, resume: Resume) -> Attached:
        """Makes it ready to receive."""
        channel = ShareChannel(self, resume)
        channel.ring_with(self.bell)
        return Attached(channel, channel)


class ShareChannel(BatchChannel):
    """A channel that leaves out the keys that another brings."""

    __slots__ = ("_is_own",)

    def __init__(self, share: Share, resume: Resume) -> None:
        super().__init__(share, resume)
        before = share.before

        @lru_cache(MAX_KEYS)
        def is_own(key: str) -> bool:
            return not any(intersects(other, key) for other in before)

        self._is_own = is_own if before else None

    def push_columns(self, pushes: Pushes, keys: list[str | None], via: str) -> bool:
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
        self.keys = reduced(keys) or [KeyExpr("**")]
        self._session = session
        self._writer = writer
        self._observer = Observer(session, writer) if observe else None
        self._bell = threading.Lock()
        self._subscribers: list[Subscriber[ShareChannel]] = []
        self._channels: list[ShareChannel] = []
        self._thread = threading.Thread(target=self._run, name="zenspark-recorder", daemon=True)
        self._is_stopping = threading.Event()
        self._gives_up_at = math.inf
        self._state = State.READY
        self._error: str | None = None
        self._lost = 0
        self._first = writer.acknowledged
        self._history: deque[tuple[float, int]] = deque(maxlen=RATE_OVER + 1)

    # --- life

    def start(self) -> Self:
        """Subscribe, and begin to append."""
        if self._state is not State.READY:
            raise UsageError("this recorder was started before")
        self._bell.acquire()
        self._state = State.RECORDING
        self._history.append((time.monotonic(), self._first))
        for place, key in enumerate(self.keys):
            share = Share(self.keys[:place], self._bell)
            self._subscribers.append(self._session.declare_subscriber(key, share))
        self._channels = [subscriber.handler for subscriber in self._subscribers]
        if self._observer is not None:
            self._observer.start()
        self._thread.start()
        return self

    def stop(self) -> Status:
        """End the subscription, append what was received, and acknowledge it; the writer stays open."""
        if self._state is not State.READY and not self._is_stopping.is_set():
            self._gives_up_at = time.monotonic() + PATIENCE
            self._is_stopping.set()
            for subscriber in self._subscribers:
                subscriber.__exit__()  # undeclares it unless its session did
            if self._observer is not None:
                self._observer.stop()
            self._thread.join()
            if self._lost:
                logger.error("%d rows that were received are lost: %s", self._lost, self._error)
        self._state = State.STOPPED
        return self.status()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether it was started and more may come."""
        return self._thread.is_alive()

    def status(self) -> Status:
        """How it gets on."""
        end = self._writer.acknowledged
        return Status(
            state=self._state,
            rows=end - self._first,
            bytes=self._writer.bytes,
            rate=self._rate(),
            offset=end,
            backlog=sum(channel.backlog for channel in self._channels),
            lost=self._lost,
            error=self._error,
            cut=self._writer.cut,
        )

    def _rate(self) -> float:
        history = list(self._history)
        if self._state is State.READY or not history:
            return 0.0
        then, rows = history[0]
        return (self._writer.acknowledged - rows) / max(time.monotonic() - then, 1e-9)

    # --- the thread

    def _run(self) -> None:
        try:
            while pieces := self._gathered():
                self._append(pieces)
            if not self._write(self._writer.flush):
                self._lost += self._writer.end - self._writer.acknowledged
        except Exception:
            logger.exception("recording ends")
            self._error = "an unexpected error: see the log"
        finally:
            self._state = State.STOPPED

    def _append(self, pieces: list[Piece]) -> None:
        if not self._write(lambda: self._writer.append_pieces(pieces)):
            self._lost += sum(piece.num_rows for piece in pieces)
            return
        self._write(self._writer.flush)
        now = time.monotonic()
        if now - self._history[-1][0] >= 1.0:
            self._history.append((now, self._writer.acknowledged))

    def _write(self, act: Callable[[], object]) -> bool:
        """Do something with the writer, again and again while there is no room; whether it was done."""
        while True:
            try:
                act()
            except JournalError as error:
                self._complain(error)
                if time.monotonic() >= self._gives_up_at:
                    return False
                if self._is_stopping.wait(RETRY):
                    time.sleep(RETRY)
            else:
                self._relax()
                return True

    def _complain(self, error: JournalError) -> None:
        if self._state is not State.WAITING:
            logger.error("recording waits: %s", error)
        self._state = State.WAITING
        self._error = str(error)

    def _relax(self) -> None:
        if self._state is State.WAITING:
            logger.warning("recording goes on at offset %d", self._writer.acknowledged)
            self._state = State.RECORDING
            self._error = self._error if self._lost else None

    # --- what is received

    def _gathered(self) -> list[Piece]:
        """What comes until there is enough for a block, or the first of it has waited long enough; nothing at the end.

        While nothing comes, does what is due in the journal.
        """
        pieces: list[Piece] = []
        rows = size = 0
        policy = self._writer.policy
        until = time.monotonic() + IDLE
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
                until = time.monotonic() + IDLE
        return pieces

    def _taken(self) -> Piece | None:
        """What any of the channels has; those that have ended are left out from then on."""
        for channel in list(self._channels):
            try:
                piece = channel.try_piece()
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
        time.sleep(max(min(NAP, until - time.monotonic()), 0.0))
        return True
