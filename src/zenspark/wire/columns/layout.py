"""Layout of rows, templates and lanes, for the modules of this package and those that use it.

A template record is 16 unsigned 32-bit words. A word named POS is a position in the first message of the template; what
stands behind the timestamp and differs by row is found from the end of the head, DISTANCE bytes back. Sizes are in
bytes. Compiled modules import the constants from `layout.pxd`.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from enum import IntEnum

import msgspec

from zenspark.wire.values import Encoding, EntityId, Priority, QoS, WireExpr, ZenohId


class Framing(IntEnum):
    """Arrangement of batches in a buffer."""

    STREAM = 0
    """Batches each behind a length in 16 bits; a batch contains frames."""
    BARE = 1
    """Batches each behind a length in 32 bits; a batch is one message without a frame: a low-latency session."""
    BATCH = 2
    """One batch without a length, which contains frames: a datagram, or a batch that was decompressed."""
    MESSAGE = 3
    """One network message without a frame: one that was reassembled. Encoders do not write it."""


class StopReason(IntEnum):
    """Reason why a decoder or an encoder stopped."""

    END = 0
    """The input is used up; a decoder may leave an unfinished batch."""
    FULL = 1
    """The output has no capacity left; empty it and call again."""
    MESSAGE = 2
    """The next message, or row, is one for the object codec."""
    OVERSIZED = 3
    """The next batch announces a length above the limit."""


STOP_REASONS = tuple(StopReason)


class RowKind(IntEnum):
    """The operation of a row on its key."""

    PUT = 0
    DEL = 1


class PushTemplate(msgspec.Struct, frozen=True):
    """The header fields that all rows of one template share."""

    kind: RowKind
    wire_expr: WireExpr
    qos: QoS
    node_id: int
    reliable: bool
    priority: Priority
    """Priority of the frame; the priority of the message is in `qos`."""
    timestamp_id: ZenohId | None
    encoding: Encoding
    source: EntityId | None
    has_attachment: bool


ABSENT = 0xFFFF_FFFF
"""The start of a value that is null; an empty value has a start and an equal stop."""

# -- lanes: priority and reliability of a frame, and of rows on their way to a peer

LANE_PRIORITY = 0x07
"""The bits of a lane that are its priority."""
LANE_RELIABLE = 0x08
"""The bit of a lane that is set if the lane is reliable."""
LANE_BITS = 0x0F
"""The bits of a lane that are its priority and reliability, which identify it within a session."""
LANE_CONTINUED = 0x10
"""The bit of a lane in `PushColumns.frame_lane` that is set if the frame began before `PushColumns.clear`."""
LANE_EXPRESS = 0x10
"""The bit of a lane of a `RowForwarder` that is set if each row is sent in a batch of its own."""
NO_LANE = 0xFF
"""The lane of a template in a `RowForwarder` that does not send rows of the template to the peer."""


def lane_of(priority: int, reliable: bool, express: bool = False) -> int:
    """Combine priority, reliability and the express flag to a lane."""
    return priority | (LANE_RELIABLE if reliable else 0) | (LANE_EXPRESS if express else 0)


# -- template records

HEAD_POS = 0  # POS of the message
PRE_SIZE = 1  # size of the head up to the timestamp
POST_POS = 2  # POS of the head behind the timestamp
POST_SIZE = 3  # size of the head behind the timestamp
META = 4  # flags and small numbers, see below
SCOPE = 5  # scope of the key expression, and node id from bit 16
SUFFIX_POS = 6
SUFFIX_SIZE = 7
ENCODING = 8  # id << 1 | has schema
SCHEMA_POS = 9
SIZES = 10  # of the schema, and from bit 8 of the source's sequence number
ZID_POS = 11  # of the source; its size stands in the byte before
EID = 12
SN_DISTANCE = 13  # of the source's sequence number
ATTACHMENT_DISTANCE = 14
ATTACHMENT_SIZE = 15
RECORD_WORDS = 16

# The bits of META behind those of the lane.
META_DEL = 0x10
META_BY_SENDER = 0x20
META_TIMESTAMPED = 0x40
META_SOURCED = 0x80
META_ATTACHED = 0x100
META_VARIES = 0x180  # something behind the timestamp differs by row
QOS_SHIFT = 16
QOS_BITS = 0x3F0000

# -- messages

FRAME_ID = 0x05
FRAGMENT_ID = 0x06
MAX_TRANSPORT_ID = 0x07  # that of messages.py, as loops in C need a constant: in a frame, ids up to this one end it
PUSH_ID = 0x1D
PUT_ID = 0x01
DEL_ID = 0x02
WIRE_DEFAULT_QOS = 0x05

# -- headers (the first bytes) of FRAME and FRAGMENT, and of their extensions

RELIABLE_FLAG = 0x20  # R
MORE_FLAG = 0x40  # M: more fragments follow
Z_FLAG = 0x80  # extensions follow; in the header of an extension: more of them follow
EXTENSION_BITS = 0x7F  # of the header of an extension: all but Z
FRAME_QOS_EXTENSION = 0x31  # the priority, also of a FRAGMENT
FIRST_EXTENSION = 0x02  # marks the first fragment of a message
DEFAULT_PRIORITY = 0x05  # DATA: frames of this priority carry no QoS extension


def frame_header(lane: int) -> int:
    """Header of a FRAME in a lane; with the Z flag, its QoS extension must follow."""
    z = Z_FLAG if lane & LANE_PRIORITY != DEFAULT_PRIORITY else 0
    return FRAME_ID | (lane & LANE_RELIABLE) << 2 | z


def lane_of_header(header: int) -> int:
    """Lane of a FRAME or FRAGMENT with this header and without a QoS extension."""
    return (header & RELIABLE_FLAG) >> 2 | DEFAULT_PRIORITY


def lane_with_priority(lane: int, priority: int) -> int:
    """Lane of the same reliability as `lane`, with the priority in the value of a QoS extension."""
    return lane & LANE_RELIABLE | priority & LANE_PRIORITY


# -- the values of StopReason, and one for a loop inside another

STOP_CONTINUE = -1
STOP_END = 0
STOP_FULL = 1
STOP_MESSAGE = 2
STOP_OVERSIZED = 3


def record_at(table: MutableSequence[int], index: int) -> MutableSequence[int]:
    """Return the words of one template record: in C a pointer to them."""
    return table[index * RECORD_WORDS : (index + 1) * RECORD_WORDS]
