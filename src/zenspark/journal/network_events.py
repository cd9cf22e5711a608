"""NetworkEventRecorder: records sessions with neighbours, declarations and counters of a node over time.

It writes three small side journals in the directory of the samples journal: `sessions`, `declarations` and `counters`.
Sessions are recorded as they open and close. Declarations are polled at most once a second, less often if a poll is
slow, and counters about every ten seconds; changes are recorded. A recording does not continue the previous one: it
begins with rows that open all current sessions and declarations, and ends with rows that close them.
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

DECLARATIONS_POLL_INTERVAL_SECONDS = 1.0
"""Minimum interval in seconds between two polls of the declarations."""
DECLARATIONS_POLL_DURATION_FACTOR = 20
"""Minimum interval between two polls as a multiple of the duration of a poll, because a poll blocks the node."""
COUNTERS_POLL_INTERVAL_SECONDS = 10.0
"""Interval in seconds between two polls of the counters."""

OPENED, CLOSED = "OPENED", "CLOSED"
DECLARED, UNDECLARED = "DECLARED", "UNDECLARED"


class NetworkEventRecorder:
    """Writes the side journals of a samples journal, with the same recorder name, in a thread."""

    def __init__(self, session: Session, samples: JournalWriter, counters: Counters) -> None:
        policy = _side_journal_policy(samples.policy)
        name = samples.manifest.recorder
        self._path = samples.path
        self._session = session
        self._counters = counters
        self._failing: set[str] = set()
        """Row types whose last write failed."""
        self._writers: dict[str, JournalWriter] = {}
        with ExitStack() as opened:  # closes the others if one cannot be opened
            for row_type in (SESSIONS, DECLARATIONS, COUNTERS):
                writer = JournalWriter(samples.path / row_type, policy, recorder=name, row_type=row_type)
                self._writers[row_type] = opened.enter_context(writer)
            opened.pop_all()
        self._open: dict[tuple[str, str, str, str], None] = {}
        self._declared: set[Declaration] = set()
        self._thread = threading.Thread(target=self._run, name="zenspark-network-events", daemon=True)
        self._listener: NeighbourEventsListener[Handler[NeighbourEvent]] | None = None

    def start(self) -> None:
        self._listener = self._session.info.declare_neighbour_events_listener(history=True)
        self._thread.start()

    def stop(self) -> None:
        """Record the pending changes and the end of all sessions and declarations, and close the journals."""
        if self._listener is not None:
            self._listener.__exit__()
            self._thread.join()
            self._record_end()
        for row_type, writer in self._writers.items():
            try:
                writer.close()
            except JournalError as error:
                logger.warning("%s: %s rows not written at the end: %s", self._path, row_type, error)

    def _run(self) -> None:
        assert self._listener is not None, "it was started"
        events = self._listener.handler
        poll_at = time.monotonic()
        count_at = poll_at + COUNTERS_POLL_INTERVAL_SECONDS
        while True:
            try:
                self._record_session(events.recv(max(poll_at - time.monotonic(), 0.0)))
            except ReceiveTimeout:
                began = time.monotonic()
                self._poll_declarations()
                if began >= count_at:
                    self._record_counters()
                    count_at = began + COUNTERS_POLL_INTERVAL_SECONDS
                poll_at = began + max(
                    DECLARATIONS_POLL_INTERVAL_SECONDS, (time.monotonic() - began) * DECLARATIONS_POLL_DURATION_FACTOR
                )
            except ChannelClosed:
                break
        self._poll_declarations()

    def _poll_declarations(self) -> None:
        self._record_declarations(set() if self._session.is_closed() else set(self._session.info.declarations()))

    def _record_end(self) -> None:
        """Record the end of all open sessions and declarations."""
        self._write(SESSIONS, [(_now_us(), CLOSED, *session) for session in self._open])
        self._record_declarations(set())
        self._record_counters()

    def _record_session(self, event: NeighbourEvent) -> None:
        transport, link = event.transport, event.link
        session = (str(transport.zid), str(transport.whatami), link.src, link.dst)
        if event.kind is SampleKind.PUT:
            self._open[session] = None
        else:
            self._open.pop(session, None)
        self._write(SESSIONS, [(_now_us(), OPENED if event.kind is SampleKind.PUT else CLOSED, *session)])

    def _record_declarations(self, declared: set[Declaration]) -> None:
        now = _now_us()
        gone, new = self._declared - declared, declared - self._declared
        rows = [*_declaration_rows(now, UNDECLARED, gone), *_declaration_rows(now, DECLARED, new)]
        self._write(DECLARATIONS, rows)
        self._declared = declared

    def _record_counters(self) -> None:
        now = _now_us()
        self._write(COUNTERS, [(now, *counter, value) for counter, value in self._counters.take_changes().items()])

    def _write(self, row_type: str, rows: list[tuple[Any, ...]]) -> None:
        """Append and flush rows; rows that cannot be written stay in the writer for the next attempt."""
        writer, schema = self._writers[row_type], SCHEMAS[row_type]
        try:
            if rows:
                columns = zip(*rows, strict=True)
                arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
                writer.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
            writer.flush()
            self._failing.discard(row_type)
        except JournalError as error:
            if row_type not in self._failing:
                logger.warning("%s: %s rows cannot be written, retrying: %s", self._path, row_type, error)
            self._failing.add(row_type)


def _declaration_rows(now: int, event: str, declarations: Iterable[Declaration]) -> list[tuple[Any, ...]]:
    ordered = sorted(declarations, key=lambda item: (item.kind, item.key, str(item.zid)))
    return [(now, event, item.kind, item.key, str(item.zid), str(item.whatami)) for item in ordered]


def _side_journal_policy(policy: Policy) -> Policy:
    """Derive the policy of a side journal, which has few rows, from that of the samples."""
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
