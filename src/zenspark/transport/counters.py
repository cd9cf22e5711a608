"""Counters of what one node sends to this one: messages that arrived, and what was lost on the way, by reason.

Receivers count where they notice: lanes count gaps in their sequence numbers, defragmenters the messages they give up,
`Hearing` the messages it hands over. What a sender drops before it has a number leaves no trace on the wire and cannot
be counted here.
"""

from __future__ import annotations

from enum import StrEnum


class LossReason(StrEnum):
    """Why something that a node sent is not delivered. All but SEQUENCE_GAP count messages."""

    INTERRUPTED = "interrupted"
    """A new message or a frame began before the last fragment: what eclipse-zenoh does under congestion."""
    FIRST_FRAGMENT_MISSING = "first_fragment_missing"
    """The first fragment that arrived was not the first of its message."""
    FRAGMENT_MISSING = "fragment_missing"
    """A fragment in the middle did not arrive."""
    STOPPED_BY_SENDER = "stopped_by_sender"
    """The sender gave the message up half way, and marked that."""
    TOO_LARGE = "too_large"
    """The fragments add up to more than the limit for one message."""
    MEMORY = "memory"
    """Unfinished messages of the node, or of all nodes, took more memory than the limits for reassembly allow."""
    SHARED_MEMORY = "shared_memory"
    """The payload is in shared memory, which no session here agrees on."""
    UNKNOWN_EXTENSION = "unknown_extension"
    """The message has a mandatory extension that is unknown here, so that it must not be processed."""
    SEQUENCE_GAP = "sequence_gap"
    """Sequence numbers of a lane were skipped: so many frames or fragments, of one message or many, did not arrive."""


class ReceiveCounters:
    """What came from one node over one link: written by the thread that receives, read by any."""

    __slots__ = ("lost", "received")

    def __init__(self) -> None:
        self.received = 0
        """Network messages handed over: publications, queries, replies and declarations."""
        self.lost: dict[LossReason, int] = {}

    def lose(self, reason: LossReason, count: int = 1) -> None:
        """Count something as lost."""
        self.lost[reason] = self.lost.get(reason, 0) + count

    def add(self, other: ReceiveCounters) -> None:
        """Add what came over another link."""
        self.received += other.received
        for reason, count in dict(other.lost).items():
            self.lose(reason, count)
