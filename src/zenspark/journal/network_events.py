"""What a node sees of its network over time: neighbours that come and go, what nodes declare and undeclare, counters.

Three small journals inside that of the samples, `sessions`, `declarations` and `counters`. Neighbours are written down
as they come and go; declarations are looked at once a second, counters every ten seconds, and what has changed is
written down. What was there when the last recording ended is unknown when the next begins: so what is there is written
as new, and what ends with the recording as gone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from zenspark.api.info import NeighbourEventsListener
from zenspark.api.session import Session
from zenspark.errors import JournalError
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout
from zenspark.handlers.handler import Handler
from zenspark.journal.counters import Counters
from zenspark.journal.format import COUNTERS, DECLARATIONS, SCHEMAS, SESSIONS
from zenspark.journal.policy import Policy
from zenspark.journal.writer import JournalWriter
from zenspark.types.enums import SampleKind
from zenspark.types.network_info import Declaration, NeighbourEvent

logger = logging.getLogger("zenspark.journal")

POLL_SECONDS = 1.0
"""Seconds between looks at the declarations,"""
MIN_INTERVAL_FACTOR = 20
"""and at least so many times as long as a look takes, because the node waits for it."""
COUNTERS_SECONDS = 10.0
"""Between looks at the counters."""

OPENED, CLOSED = "OPENED", "CLOSED"
DECLARED, UNDECLARED = "DECLARED", "UNDECLARED"


class NetworkObserver:
    """Writes the journals beside one of samples, under the same name, in a thread of its own."""

    def __init__(self, session: Session, beside: JournalWriter, counters: Counters) -> None:
        policy = _side_journal_policy(beside.policy)
        name = beside.manifest.recorder
        self._session = session
        self._counters = counters
        self._waits: set[str] = set()
        """Journals that could not be written last time."""
        self._writers: dict[str, JournalWriter] = {}
        with ExitStack() as opened:  # closed again if one of them cannot be opened
            for rows in (SESSIONS, DECLARATIONS, COUNTERS):
                writer = JournalWriter(beside.path / rows, policy, recorder=name, rows=rows)
                self._writers[rows] = opened.enter_context(writer)
            opened.pop_all()
        self._open: dict[tuple[str, str, str, str], None] = {}
        self._declared: set[Declaration] = set()
        self._thread = threading.Thread(target=self._run, name="zenspark-observer", daemon=True)
        self._listener: NeighbourEventsListener[Handler[NeighbourEvent]] | None = None

    def start(self) -> None:
        self._listener = self._session.info.declare_neighbour_events_listener(history=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is left to be told; at the end everything is closed."""
        if self._listener is not None:
            self._listener.__exit__()
            self._thread.join()
            self._end()
        for writer in self._writers.values():
            try:
                writer.close()
            except JournalError as error:
                logger.warning("what was observed last is lost: %s", error)

    def _run(self) -> None:
        assert self._listener is not None, "it was started"
        events = self._listener.handler
        look_at = time.monotonic()
        count_at = look_at + COUNTERS_SECONDS
        while True:
            try:
                self._tell_session(events.recv(max(look_at - time.monotonic(), 0.0)))
            except ReceiveTimeout:
                began = time.monotonic()
                self._look()
                if began >= count_at:
                    self._tell_counters()
                    count_at = began + COUNTERS_SECONDS
                look_at = began + max(POLL_SECONDS, (time.monotonic() - began) * MIN_INTERVAL_FACTOR)
            except ChannelClosed:
                break
        self._look()

    def _look(self) -> None:
        self._tell_declarations(set() if self._session.is_closed() else set(self._session.info.declarations()))

    def _end(self) -> None:
        """Whatever is still there ends with the recording."""
        self._write(SESSIONS, [(_now_us(), CLOSED, *one) for one in self._open])
        self._tell_declarations(set())
        self._tell_counters()

    def _tell_session(self, event: NeighbourEvent) -> None:
        transport, link = event.transport, event.link
        one = (str(transport.zid), str(transport.whatami), link.src, link.dst)
        if event.kind is SampleKind.PUT:
            self._open[one] = None
        else:
            self._open.pop(one, None)
        self._write(SESSIONS, [(_now_us(), OPENED if event.kind is SampleKind.PUT else CLOSED, *one)])

    def _tell_declarations(self, declared: set[Declaration]) -> None:
        now = _now_us()
        gone, new = self._declared - declared, declared - self._declared
        rows = [*_declaration_rows(now, UNDECLARED, gone), *_declaration_rows(now, DECLARED, new)]
        self._write(DECLARATIONS, rows)
        self._declared = declared

    def _tell_counters(self) -> None:
        now = _now_us()
        self._write(COUNTERS, [(now, *counter, value) for counter, value in self._counters.take_changes().items()])

    def _write(self, rows: str, values: list[tuple[Any, ...]]) -> None:
        """Append; what cannot be written waits in the writer for the next time."""
        writer, schema = self._writers[rows], SCHEMAS[rows]
        try:
            if values:
                columns = zip(*values, strict=True)
                arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
                writer.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
            writer.flush()
            self._waits.discard(rows)
        except JournalError as error:
            if rows not in self._waits:
                logger.warning("what was observed waits: %s", error)
            self._waits.add(rows)


def _declaration_rows(now: int, event: str, found: Iterable[Declaration]) -> list[tuple[Any, ...]]:
    ordered = sorted(found, key=lambda one: (one.kind, one.key, str(one.zid)))
    return [(now, event, one.kind, one.key, str(one.zid), str(one.whatami)) for one in ordered]


def _side_journal_policy(policy: Policy) -> Policy:
    """The policy of the samples for rows that are few."""
    return Policy(
        fsync=policy.fsync,
        segment_age=policy.segment_age,
        retain_age=policy.retain_age,
        retain_read_age=policy.retain_read_age,
        reader_expiry=policy.reader_expiry,
        trim_unread=policy.trim_unread,
        compression=policy.compression,
    )


def _now_us() -> int:
    return time.time_ns() // 1000
