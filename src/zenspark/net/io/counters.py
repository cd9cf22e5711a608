"""Counters per neighbour: messages received, lost on reception, and dropped instead of sent.

The counters of a neighbour are kept when its link ends, and continued when it reconnects. Losses and drops are logged
once per interval with a count, not once per message.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol, TypeVar

import msgspec

from zenspark.log_throttle import LOG_INTERVAL_SECONDS
from zenspark.transport.counters import LossReason, MessageKind, ReceiveCounters
from zenspark.wire.values import ZenohId

logger = logging.getLogger("zenspark.net")

MAX_NEIGHBOURS = 1000
"""Neighbours whose counters are kept: clients with a new id each time must not fill the memory."""


class DropReason(StrEnum):
    """Reason why messages were not sent to a neighbour. They are counted, for UNRESPONSIVE in batches."""

    CONGESTION = "congestion"
    """The link had unsent bytes or was backlogged, and the message may be dropped: one with Drop or BlockFirst."""
    BLOCKED = "blocked"
    """The message, one with Block, waited for the link until the session ended, or the neighbour was closed as a slow
    consumer."""
    UNRESPONSIVE = "unresponsive"
    """The link had not taken the batch when the neighbour was closed as a slow consumer, with the protocol's reason
    UNRESPONSIVE."""
    TOO_LARGE = "too_large"
    """The message does not fit a batch of a session without fragments."""
    BACKLOG = "backlog"
    """The backlog of the link exceeded its limit, and the session is closed."""


LOSS_TEXTS = {
    LossReason.INTERRUPTED: ("fragmented messages", "a new message began before the last fragment"),
    LossReason.FIRST_FRAGMENT_MISSING: ("fragmented messages", "the first fragment did not arrive"),
    LossReason.FRAGMENT_MISSING: ("fragmented messages", "a fragment in the middle did not arrive"),
    LossReason.STOPPED_BY_SENDER: ("fragmented messages", "the sender stopped before the last fragment"),
    LossReason.TOO_LARGE: ("fragmented messages", "larger than transport/link/rx/max_message_size"),
    LossReason.MEMORY: ("fragmented messages", "more bytes in unfinished messages than limits/reassembly allows"),
    LossReason.SHARED_MEMORY: ("messages", "the payload is in shared memory, which was not negotiated"),
    LossReason.UNKNOWN_EXTENSION: ("messages", "a mandatory extension is unknown here"),
    LossReason.SEQUENCE_GAP: ("frames or fragments", "sequence numbers were skipped"),
}
"""Unit that is counted, and the reason, as logged, for each loss."""
DROP_TEXTS = {
    DropReason.CONGESTION: ("messages", "the link had unsent bytes or was backlogged"),
    DropReason.BLOCKED: ("messages", "the session ended, or the link took no bytes for too long, while they waited"),
    DropReason.UNRESPONSIVE: ("unsent batches", "the neighbour was closed as a slow consumer"),
    DropReason.TOO_LARGE: ("messages", "too large for a session without fragments"),
    DropReason.BACKLOG: ("messages", "the backlog of the link exceeded transport/link/tx/queue/max_backlog"),
}
"""Unit that is counted, and the reason, as logged, for each drop."""

R = TypeVar("R", LossReason, DropReason)
C = TypeVar("C", LossReason, DropReason, MessageKind)


class NeighbourTotals(msgspec.Struct, frozen=True):
    """The counters of one neighbour at one moment."""

    zid: ZenohId
    received: int
    lost: dict[LossReason, int]
    dropped: dict[DropReason, int]
    received_by_kind: dict[MessageKind, int] = msgspec.field(default_factory=dict)
    """`received`, by kind."""


class MessageTotals(msgspec.Struct):
    """The counters of several neighbours, added up."""

    received_by_kind: dict[MessageKind, int] = msgspec.field(default_factory=dict)
    lost: dict[LossReason, int] = msgspec.field(default_factory=dict)
    dropped: dict[DropReason, int] = msgspec.field(default_factory=dict)

    def add(self, other: NeighbourTotals | MessageTotals) -> None:
        """Add the counters of other neighbours."""
        _add_counts(self.received_by_kind, other.received_by_kind)
        _add_counts(self.lost, other.lost)
        _add_counts(self.dropped, other.dropped)


class LinkTraffic(msgspec.Struct):
    """Bytes and sent messages of links."""

    bytes_received: int = 0
    bytes_sent: int = 0
    sent_by_kind: dict[MessageKind, int] = msgspec.field(default_factory=dict)
    """Messages that were sent or wait to be sent, by kind."""

    def add(self, other: LinkTraffic) -> None:
        """Add the traffic of other links."""
        self.bytes_received += other.bytes_received
        self.bytes_sent += other.bytes_sent
        _add_counts(self.sent_by_kind, other.sent_by_kind)


def _add_counts(counts: dict[C, int], others: Mapping[C, int]) -> None:
    for name, count in others.items():
        counts[name] = counts.get(name, 0) + count


class NeighbourCounters:
    """The counters of one neighbour, over all the links it has and had; users get them as `LinkCounters`."""

    def __init__(self, zid: ZenohId) -> None:
        self.zid = zid
        self._name = str(zid)
        self._past = ReceiveCounters()
        self._open: list[ReceiveCounters] = []
        self._dropped: dict[DropReason, int] = {}
        self._lock = threading.Lock()
        self._lost_before: Mapping[LossReason, int] = {}
        self._dropped_before: Mapping[DropReason, int] = {}
        """The counts in the last report."""

    def __str__(self) -> str:
        """Return role, zid and address of the neighbour, as its latest link was opened with."""
        return self._name

    @property
    def is_open(self) -> bool:
        """Whether the neighbour has a link."""
        return bool(self._open)

    def open(self, name: str, link_counters: ReceiveCounters) -> None:
        """Add the counters of a new link; `name` is the neighbour with its role, zid and address (`Face.__str__`)."""
        self._name = name
        self._open.append(link_counters)

    def close(self, link_counters: ReceiveCounters) -> None:
        """Keep the counts of a link that has ended."""
        self._open.remove(link_counters)
        self._past.add(link_counters)

    def count_dropped(self, reason: DropReason, count: int) -> None:
        """Count messages, or batches, that were not sent to the neighbour; from any thread."""
        with self._lock:
            self._dropped[reason] = self._dropped.get(reason, 0) + count

    @property
    def totals(self) -> NeighbourTotals:
        """The counts of all links, past and open."""
        link_counters = ReceiveCounters()
        for counters in (self._past, *self._open):
            link_counters.add(counters)
        by_kind = link_counters.received_by_kind
        return NeighbourTotals(self.zid, link_counters.received, link_counters.lost, dict(self._dropped), by_kind)

    def report(self) -> None:
        """Log the losses and drops since the last report, one line per reason."""
        totals = self.totals
        neighbour = f"{self} in the last {LOG_INTERVAL_SECONDS:g} s"
        for loss, count in _increases(totals.lost, self._lost_before):
            unit, reason = LOSS_TEXTS[loss]
            logger.warning("lost %d %s from %s: %s; %d in all", count, unit, neighbour, reason, totals.lost[loss])
        for drop, count in _increases(totals.dropped, self._dropped_before):
            unit, reason = DROP_TEXTS[drop]
            logger.warning("dropped %d %s to %s: %s; %d in all", count, unit, neighbour, reason, totals.dropped[drop])
        self._lost_before, self._dropped_before = totals.lost, totals.dropped


def _increases(now: Mapping[R, int], before: Mapping[R, int]) -> list[tuple[R, int]]:
    """Return the increase of each count that has grown."""
    return [(reason, count - before.get(reason, 0)) for reason, count in now.items() if count > before.get(reason, 0)]


class Timers(Protocol):
    """The loop, as far as the registry needs it."""

    def now(self) -> float:
        """Return the monotonic time in seconds."""

    def call_at(self, when: float, task: Callable[[], object]) -> object:
        """Call a function at a time."""


class CounterRegistry:
    """The counters of the neighbours of a node, present and past.

    Guarded by `lock`, which the callers of `open` and `close` hold, in the loop.
    """

    def __init__(self, loop: Timers, lock: AbstractContextManager[object]) -> None:
        self._loop = loop
        self._lock = lock
        self._neighbours: dict[ZenohId, NeighbourCounters] = {}
        """Counters by zid, the neighbour that joined or left longest ago first."""
        self._forgotten = MessageTotals()
        """The counters of neighbours that were removed."""
        self._is_due = False
        """Whether the next report is scheduled."""

    @property
    def totals(self) -> list[NeighbourTotals]:
        """The counters of each neighbour; from any thread."""
        with self._lock:
            return [counters.totals for counters in self._neighbours.values()]

    @property
    def message_totals(self) -> MessageTotals:
        """The counters of all neighbours, those that were removed included, so that none decreases; from any thread."""
        total = MessageTotals()
        with self._lock:
            total.add(self._forgotten)
            for counters in self._neighbours.values():
                total.add(counters.totals)
        return total

    def open(self, zid: ZenohId, name: str, link_counters: ReceiveCounters) -> NeighbourCounters:
        """Return the counters of a neighbour, with those of a new link added; log lines name it `name`."""
        counters = self._latest(zid)
        counters.open(name, link_counters)
        self._forget_oldest()
        if not self._is_due:
            self._report_later()
        return counters

    def close(self, zid: ZenohId, link_counters: ReceiveCounters) -> None:
        """Keep the counts of a link that has ended, and log what was not logged yet."""
        counters = self._latest(zid)
        counters.close(link_counters)
        counters.report()
        self._forget_oldest()

    def _latest(self, zid: ZenohId) -> NeighbourCounters:
        """Return the counters of a neighbour, moved to the end."""
        counters = self._neighbours.pop(zid, None) or NeighbourCounters(zid)
        self._neighbours[zid] = counters
        return counters

    def _forget_oldest(self) -> None:
        """Remove the neighbours that left longest ago, if there are too many; never one with a link."""
        excess = len(self._neighbours) - MAX_NEIGHBOURS
        if excess > 0:
            gone = [zid for zid, counters in self._neighbours.items() if not counters.is_open]
            for zid in gone[:excess]:
                self._forgotten.add(self._neighbours.pop(zid).totals)

    def _report_later(self) -> None:
        self._is_due = True
        self._loop.call_at(self._loop.now() + LOG_INTERVAL_SECONDS, self._report)

    def _report(self) -> None:
        """Log losses and drops, in the loop, and schedule the next report while there are neighbours."""
        with self._lock:
            self._is_due = False
            for counters in self._neighbours.values():
                counters.report()
            if any(counters.is_open for counters in self._neighbours.values()):
                self._report_later()
