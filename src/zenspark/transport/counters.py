"""Receive counters of one peer: messages received, and messages lost on the way, by reason.

Losses are counted where they are detected: lanes count gaps in their sequence numbers, defragmenters the messages they
discard, `FrameReceiver` the messages it delivers. A message that its sender drops before it gets a sequence number
leaves no trace on the wire and cannot be counted.
"""

from __future__ import annotations

from enum import StrEnum


class LossReason(StrEnum):
    """Why a message was not delivered. All but SEQUENCE_GAP count messages."""

    INTERRUPTED = "interrupted"
    """A new message or a frame began before the last fragment: eclipse-zenoh does so under congestion."""
    FIRST_FRAGMENT_MISSING = "first_fragment_missing"
    """The first fragment received was not the first of its message."""
    FRAGMENT_MISSING = "fragment_missing"
    """A fragment in the middle was not received."""
    STOPPED_BY_SENDER = "stopped_by_sender"
    """The sender aborted the message half way, and marked it as dropped."""
    TOO_LARGE = "too_large"
    """The fragments add up to more than the limit for one message."""
    MEMORY = "memory"
    """Unfinished messages of the peer, or of all peers, exceeded the reassembly memory limits."""
    SHARED_MEMORY = "shared_memory"
    """The payload is in shared memory, which no session here negotiates."""
    UNKNOWN_EXTENSION = "unknown_extension"
    """The message has an unknown mandatory extension, so that it must not be processed."""
    SEQUENCE_GAP = "sequence_gap"
    """Sequence numbers of a lane were skipped: that many frames or fragments, of one message or many, were not
    received."""


class ReceiveCounters:
    """Counters of one link: written by the receiving thread, readable from any."""

    __slots__ = ("lost", "received")

    def __init__(self) -> None:
        self.received = 0
        """Network messages delivered: publications, queries, replies and declarations."""
        self.lost: dict[LossReason, int] = {}

    def count_lost(self, reason: LossReason, count: int = 1) -> None:
        """Count losses."""
        self.lost[reason] = self.lost.get(reason, 0) + count

    def add(self, other: ReceiveCounters) -> None:
        """Add the counters of another link."""
        self.received += other.received
        for reason, count in dict(other.lost).items():
            self.count_lost(reason, count)
