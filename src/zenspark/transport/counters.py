"""Counters of one link: messages received and sent by kind, and messages lost on the way by reason.

Losses are counted where they are detected: lanes count gaps in their sequence numbers, defragmenters the messages they
discard, `FrameReceiver` the messages it delivers. A message that its sender drops before it gets a sequence number
leaves no trace on the wire and cannot be counted. The outbox counts what is sent.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum

from zenspark.wire.messages import (
    Declare,
    Interest,
    NetworkMessage,
    NetworkOam,
    Push,
    Request,
    Response,
    ResponseFinal,
)


class MessageKind(StrEnum):
    """Kind of a network message; the values are those of metrics."""

    PUSH = "push"
    REQUEST = "request"
    RESPONSE = "response"
    RESPONSE_FINAL = "response_final"
    DECLARE = "declare"
    INTEREST = "interest"
    OAM = "oam"


KINDS: dict[type[NetworkMessage], MessageKind] = {
    Push: MessageKind.PUSH,
    Request: MessageKind.REQUEST,
    Response: MessageKind.RESPONSE,
    ResponseFinal: MessageKind.RESPONSE_FINAL,
    Declare: MessageKind.DECLARE,
    Interest: MessageKind.INTEREST,
    NetworkOam: MessageKind.OAM,
}


class LossReason(StrEnum):
    """Reason why a message was not delivered. All but SEQUENCE_GAP count messages."""

    INTERRUPTED = "interrupted"
    """A new message or a frame began before the last fragment: eclipse-zenoh does so under congestion."""
    FIRST_FRAGMENT_MISSING = "first_fragment_missing"
    """The first fragment received was not the first of its message."""
    FRAGMENT_MISSING = "fragment_missing"
    """A fragment in the middle was not received."""
    STOPPED_BY_SENDER = "stopped_by_sender"
    """The sender stopped before the last fragment, and marked the message as dropped."""
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

    __slots__ = ("decoded", "lost", "received")

    def __init__(self) -> None:
        self.received = 0
        """Network messages delivered: publications, queries, replies and declarations."""
        self.decoded: defaultdict[type[NetworkMessage], int] = defaultdict(int)
        """Messages decoded to objects, by class. `received` also counts publications left in columns."""
        self.lost: dict[LossReason, int] = {}

    def count_lost(self, reason: LossReason, count: int = 1) -> None:
        """Count losses."""
        self.lost[reason] = self.lost.get(reason, 0) + count

    @property
    def received_by_kind(self) -> dict[MessageKind, int]:
        """Messages delivered, by kind; kinds that were not received are absent."""
        decoded = dict(self.decoded)
        counts = {KINDS[cls]: count for cls, count in decoded.items()}
        in_columns = max(self.received - sum(decoded.values()), 0)
        if in_columns:
            counts[MessageKind.PUSH] = counts.get(MessageKind.PUSH, 0) + in_columns
        return counts

    def add(self, other: ReceiveCounters) -> None:
        """Add the counters of another link."""
        self.received += other.received
        for cls, count in dict(other.decoded).items():
            self.decoded[cls] += count
        for reason, count in dict(other.lost).items():
            self.count_lost(reason, count)
