# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Runs of PUSH messages straight into columns, and columns into frames: no Python object per message, no GIL.

What differs from message to message is a **row**: where its payload starts and stops, its timestamp, and the number of
its shape. What repeats is a **shape**: key, kind, encoding, quality of service, whose clock, whose publisher. A head
equal to that of an earlier message, but for the clock reading, the publisher's sequence number and the bytes of the
attachment, takes that message's shape by comparing bytes; any other head is parsed and becomes a new shape. A
**frame** is a range of rows that came under one sequence number. Nothing is copied: every position is a position in
the buffer that was decoded, and means something only as long as that buffer is neither changed nor freed.

A `BatchDecoder` walks over batches and stops, at the first byte of the message, wherever it is not sure: at any message but
PUSH, at a PUSH with something that has no column, at every byte that is malformed. There `BatchDecoder.message` asks the
object codec. So order is kept, and what is wrong with some bytes is always said in the codec's words.

    cursor = Cursor(data, Framing.STREAM, limit)
    while (outcome := cursor.decode(columns)) is not Outcome.END: ...   # data[cursor.pos:] is an unfinished batch

Writing is the same backwards: an `BatchEncoder` turns `OutgoingRows` into batches, and stops at a row that is the object codec's
business because it has to be cut into fragments or is not valid. What only passes through a node is not written anew: a
`RowForwarder` copies rows behind heads that are made once for each shape.

Memory is what `PushColumns` reserves when made: 20 bytes a row, 64 a shape, 12 a frame. No input makes it grow.
"""

from __future__ import annotations

import struct
from array import array
from enum import IntEnum
from sys import byteorder
from typing import TypeAlias

import cython
import msgspec

from zenspark.errors import DecodeError, UsageError
from zenspark.wire.buffer import LenientReader, Reader
from zenspark.wire.codec import encode, read_network_message, read_transport_message
from zenspark.wire.declare import Message
from zenspark.wire.messages import Del, Frame, Push, Put
from zenspark.wire.values import (
    Encoding,
    EntityId,
    Mapping,
    Priority,
    QoS,
    SourceInfo,
    Timestamp,
    WireExpr,
    ZenohId,
)

if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.libc.string import memcpy, memmove

Buffer = bytes | bytearray | memoryview
Numbers: TypeAlias = "Buffer | array[int]"


class Framing(IntEnum):
    """How batches follow each other in a buffer."""

    STREAM = 0
    """Each after its length in 16 bits, holding frames."""
    BARE = 1
    """Each after its length in 32 bits, holding messages without frames: a low-latency session."""
    BATCH = 2
    """One batch without a length, holding frames: a datagram, or what was decompressed."""
    MESSAGE = 3
    """One message alone: what was joined from fragments. Nothing is written like this."""


class StopReason(IntEnum):
    """Why decoding or encoding stopped."""

    END = 0
    """Everything was done; a decoder may leave an unfinished batch."""
    FULL = 1
    """There is no room for more; make room and call again."""
    MESSAGE = 2
    """The next message, or row, is one for the object codec."""
    OVERSIZED = 3
    """The next batch claims to be larger than was agreed."""


_OUTCOMES = tuple(StopReason)


class RowKind(IntEnum):
    """What a row does to its key."""

    PUT = 0
    DEL = 1


class PushTemplate(msgspec.Struct, frozen=True):
    """What all rows of one shape have in common."""

    kind: RowKind
    wire_expr: WireExpr
    qos: QoS
    node_id: int
    reliable: bool
    priority: Priority
    """That of the frame; `qos` has that of the message."""
    timestamp_id: ZenohId | None
    encoding: Encoding
    source: EntityId | None
    has_attachment: bool


# -- constants ---------------------------------------------------------------------------------------------------

# The words of a shape. Those named POS are positions of the first message of the shape; what stands behind the
# timestamp and differs by row is found from the end of the head, DISTANCE bytes back.
_AT = cython.declare(cython.const_int, 0)  # POS of the message
_PRE = cython.declare(cython.const_int, 1)  # size of the head up to the timestamp
_POST = cython.declare(cython.const_int, 2)  # POS of the head behind the timestamp
_TAIL = cython.declare(cython.const_int, 3)  # size of the head behind the timestamp
_META = cython.declare(cython.const_int, 4)  # flags and small numbers, see below
_SCOPE = cython.declare(cython.const_int, 5)  # scope, and node id from bit 16
_SUFFIX = cython.declare(cython.const_int, 6)  # POS
_SUFFIX_SIZE = cython.declare(cython.const_int, 7)
_ENCODING = cython.declare(cython.const_int, 8)  # id << 1 | has schema
_SCHEMA = cython.declare(cython.const_int, 9)  # POS
_SIZES = cython.declare(cython.const_int, 10)  # of the schema, and from bit 8 of the source's sequence number
_ZID = cython.declare(cython.const_int, 11)  # POS of the source's id; its size stands in the byte before
_EID = cython.declare(cython.const_int, 12)
_SN = cython.declare(cython.const_int, 13)  # DISTANCE of the source's sequence number
_ATTACHMENT = cython.declare(cython.const_int, 14)  # DISTANCE
_ATTACHMENT_SIZE = cython.declare(cython.const_int, 15)
_WORDS = cython.declare(cython.const_int, 16)

# The bits of _META, and of the lane of a frame.
_PRIORITY = cython.declare(cython.const_int, 0x07)
_RELIABLE = cython.declare(cython.const_int, 0x08)
_LANE = cython.declare(cython.const_int, 0x0F)
_CONTINUED = cython.declare(cython.const_int, 0x10)  # only in the lane of a frame
_DEL = cython.declare(cython.const_int, 0x10)
_SENDER = cython.declare(cython.const_int, 0x20)
_STAMPED = cython.declare(cython.const_int, 0x40)
_SOURCED = cython.declare(cython.const_int, 0x80)
_ATTACHED = cython.declare(cython.const_int, 0x100)
_VARIES = cython.declare(cython.const_int, 0x180)  # something behind the timestamp differs by row
_QOS_SHIFT = cython.declare(cython.const_int, 16)
_QOS_BITS = cython.declare(cython.const_int, 0x3F0000)

_FRAME = cython.declare(cython.const_int, 0x05)
_FRAGMENT = cython.declare(cython.const_int, 0x06)
_LAST_TRANSPORT = cython.declare(cython.const_int, 0x07)  # in a frame, ids up to this one end it
_PUSH = cython.declare(cython.const_int, 0x1D)
_PUT_BODY = cython.declare(cython.const_int, 0x01)
_DEL_BODY = cython.declare(cython.const_int, 0x02)
_DEFAULT_QOS = cython.declare(cython.const_int, 0x05)
_DATA_LANE = cython.declare(cython.const_int, 0x05)

_GO_ON = cython.declare(cython.const_int, -1)
_END = cython.declare(cython.const_int, 0)
_FULL = cython.declare(cython.const_int, 1)
_MESSAGE = cython.declare(cython.const_int, 2)
_OVERSIZED = cython.declare(cython.const_int, 3)

_OF_SUFFIX = cython.declare(cython.const_int, 0)
_OF_PAYLOAD = cython.declare(cython.const_int, 1)
_OF_ATTACHMENT = cython.declare(cython.const_int, 2)

_MOST_AWAITED = cython.declare(cython.const_int, 1 << 18)  # bytes of a message whose rest is awaited where it lies
_RELEASED = cython.declare(cython.const_int, 1 << 22)  # bytes, by Columns, once
_NOWHERE = cython.declare(cython.const_uint, 0xFFFFFFFF)
_SLOTS = cython.declare(cython.const_int, 2048)  # of the table that finds shapes by their keys, in pairs
_SLOT_SHIFT = cython.declare(cython.const_int, 54)  # leaves as many bits as there are pairs of slots

ABSENT = 0xFFFF_FFFF
"""The start of a span that is not there; an empty one starts and stops somewhere."""

_LITTLE = cython.declare(cython.bint, byteorder == "little")

# -- bytes -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.ulonglong:
    """Eight bytes as a number, in the byte order of this machine."""
    value: cython.ulonglong = 0
    if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
        memcpy(cython.address(value), data + at, 8)
    else:
        value = int.from_bytes(data[at : at + 8], byteorder)
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _half(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.uint:
    """Four bytes as a number, in the byte order of this machine."""
    value: cython.uint = 0
    if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
        memcpy(cython.address(value), data + at, 4)
    else:
        value = int.from_bytes(data[at : at + 4], byteorder)
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: cython.p_const_uchar,
    pos: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Copy so many bytes; the position behind them."""
    if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
        if size > 16:
            memcpy(out + at, data + pos, size)
        elif size >= 8:  # a call costs more than two words that may overlap
            memcpy(out + at, data + pos, 8)
            memcpy(out + at + size - 8, data + pos + size - 8, 8)
        elif size >= 4:
            memcpy(out + at, data + pos, 4)
            memcpy(out + at + size - 4, data + pos + size - 4, 4)
        elif size > 0:
            out[at] = data[pos]
            out[at + (size >> 1)] = data[pos + (size >> 1)]
            out[at + size - 1] = data[pos + size - 1]
    else:
        out[at : at + size] = data[pos : pos + size]
    return at + size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _move(
    memory: cython.p_uchar, at: cython.Py_ssize_t, start: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.void:
    """Within one buffer; both may overlap."""
    if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
        memmove(memory + at, memory + start, size)
    else:
        memory[at : at + size] = memory[start : start + size]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _same(
    data: cython.p_const_uchar, a: cython.Py_ssize_t, b: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.bint:
    """Whether the same bytes stand at two places; not one byte beyond them is read."""
    if size < 8:
        return _same_few(data, a, b, size)
    last: cython.Py_ssize_t = size - 8
    at: cython.Py_ssize_t = 0
    while at < last:
        if _word(data, a + at) != _word(data, b + at):
            return False
        at += 8
    return _word(data, a + last) == _word(data, b + last)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _same_few(
    data: cython.p_const_uchar, a: cython.Py_ssize_t, b: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.bint:
    """The same for at most seven bytes: two or three loads that may overlap."""
    if size >= 4:
        return _half(data, a) == _half(data, b) and _half(data, a + size - 4) == _half(data, b + size - 4)
    if size == 0:
        return True
    middle: cython.Py_ssize_t = size >> 1
    last: cython.Py_ssize_t = size - 1
    return data[a] == data[b] and data[a + middle] == data[b + middle] and data[a + last] == data[b + last]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _z32(data: cython.p_const_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.ulonglong:
    """A variable-length integer of at most 32 bits in at most 5 bytes, as value << 4 | size; 0 if it is not one."""
    byte: cython.ulonglong
    if pos < end:
        byte = data[pos]
        if byte < 0x80:
            return byte << 4 | 1
    return _long_z32(data, pos, end)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _long_z32(data: cython.p_const_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.ulonglong:
    byte: cython.ulonglong
    value: cython.ulonglong = 0
    size: cython.int = 0
    while size < 5 and pos + size < end:
        byte = data[pos + size]
        value |= (byte & 0x7F) << (7 * size)
        size += 1
        if byte < 0x80:
            return value << 4 | size if value >> 32 == 0 else 0
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _z64_size(data: cython.p_const_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """How many bytes a variable-length integer of 64 bits has; 0 if they are not all there."""
    high: cython.ulonglong = 0x8080808080808080
    size: cython.Py_ssize_t = 1
    if end - pos >= 9 and _word(data, pos) & high == high:  # a clock reading
        return 9
    while size < 9 and pos + size <= end and data[pos + size - 1] >= 0x80:
        size += 1
    return size if pos + size <= end else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _z64(data: cython.p_const_uchar, pos: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.ulonglong:
    """The value of a variable-length integer of so many bytes."""
    if size == 9 and _LITTLE:
        return _z64_of_nine(data, pos)
    byte: cython.ulonglong
    value: cython.ulonglong = 0
    at: cython.int
    for at in range(size):
        byte = data[pos + at]
        value |= (byte if at == 8 else byte & 0x7F) << (7 * at)  # the ninth byte carries eight bits
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _z64_of_nine(data: cython.p_const_uchar, pos: cython.Py_ssize_t) -> cython.ulonglong:
    """The same for nine bytes, as clock readings have: seven bits of eight bytes at once, joined in pairs."""
    x: cython.ulonglong = _word(data, pos)
    low7: cython.ulonglong = 0x007F007F007F007F
    low14: cython.ulonglong = 0x00003FFF00003FFF
    low28: cython.ulonglong = 0x000000000FFFFFFF
    ninth: cython.ulonglong = data[pos + 8]
    x = (x & low7) | (x >> 8 & low7) << 7
    x = (x & low14) | (x >> 16 & low14) << 14
    x = (x & low28) | (x >> 32 & low28) << 28
    return x | ninth << 56


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _z_size(value: cython.ulonglong) -> cython.Py_ssize_t:
    """How many bytes the shortest form of a variable-length integer has."""
    size: cython.Py_ssize_t = 1
    while value > 0x7F and size < 9:
        value >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write_z(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.ulonglong) -> cython.Py_ssize_t:
    """Write a variable-length integer in its shortest form; the position behind it."""
    count: cython.int = 0
    while value > 0x7F and count < 8:
        out[at + count] = 0x80 | (value & 0x7F)
        value >>= 7
        count += 1
    out[at + count] = value  # a ninth byte carries all eight bits
    return at + count + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has_bit(data: cython.p_const_uchar, pos: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
    """Whether any of these bytes is not zero, as a node id must have one."""
    while size and data[pos] == 0:
        pos += 1
        size -= 1
    return size > 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_text(data: cython.p_const_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether these bytes are UTF-8."""
    high: cython.ulonglong = 0x8080808080808080
    bits: cython.ulonglong = 0
    at: cython.Py_ssize_t
    if end - pos < 8:
        for at in range(pos, end):
            bits |= data[at]
    else:
        for at in range(pos, end - 8, 8):
            bits |= _word(data, at)
        bits |= _word(data, end - 8)
    return bits & high == 0 or _is_long_text(data, pos, end)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_long_text(data: cython.p_const_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """The same where some characters have more than one byte."""
    size: cython.Py_ssize_t
    while pos < end:
        size = _character(data, pos, end)
        if size == 0:
            return False
        pos += size
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _character(data: cython.p_const_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The size of the UTF-8 character here; 0 if it is none, cut off, a surrogate, or longer than need be."""
    first: cython.int = data[pos]
    size: cython.Py_ssize_t = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    at: cython.Py_ssize_t
    second: cython.int
    if size == 1:
        return 1
    if first < 0xC2 or first > 0xF4 or size > end - pos:
        return 0
    for at in range(1, size):
        if data[pos + at] & 0xC0 != 0x80:
            return 0
    second = data[pos + 1]
    return 0 if _second_is_wrong(first, second) else size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _second_is_wrong(first: cython.int, second: cython.int) -> cython.bint:
    """Whether a first byte forbids this second one."""
    if first == 0xE0:
        return second < 0xA0
    if first == 0xED:
        return second > 0x9F  # surrogates
    if first == 0xF0:
        return second < 0x90
    return first == 0xF4 and second > 0x8F


# -- columns -----------------------------------------------------------------------------------------------------


@cython.cfunc
def _pointer8(memory: memoryview) -> cython.p_uchar:
    """Where a column of bytes stands; interpreted, the column itself."""
    view: cython.uchar[::1] = memory
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def _pointer32(memory: memoryview) -> cython.p_uint:
    view: cython.uint[::1] = memory
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def _pointer64(memory: memoryview) -> cython.p_ulonglong:
    view: cython.ulonglong[::1] = memory
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def _const_pointer8(memory: memoryview) -> cython.p_const_uchar:
    view: cython.const[cython.uchar][::1] = memory  # type: ignore[valid-type]
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def _const_pointer32(memory: memoryview) -> cython.p_const_uint:
    view: cython.const[cython.uint][::1] = memory  # type: ignore[valid-type]
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def _const_pointer64(memory: memoryview) -> cython.p_const_ulonglong:
    view: cython.const[cython.ulonglong][::1] = memory  # type: ignore[valid-type]
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _record(table: cython.p_uint, index: cython.Py_ssize_t) -> cython.p_uint:
    """The words of one shape."""
    return table + index * _WORDS if cython.compiled else table[index * _WORDS : (index + 1) * _WORDS]


def _zeros(form: str, count: int) -> memoryview:
    """So many zeros of a format of one letter."""
    return _as(form, bytearray(count * struct.calcsize(form)))


@cython.ccall
def uninitialized_bytes(size: cython.Py_ssize_t) -> bytearray:
    """Memory that is about to be filled: zeros would be written for nothing."""
    return PyByteArray_FromStringAndSize(cython.NULL, size) if cython.compiled else bytearray(size)


def _as(form: str, column: Numbers) -> memoryview:
    """Any contiguous buffer seen as numbers of one format, as Arrow's buffers and signed offsets must be."""
    return memoryview(column).cast("B").cast(form)  # type: ignore[call-overload]


def _check_idle(busy: bool) -> None:
    """Refuse what would pull the memory from under a thread that works without the GIL."""
    if busy:
        raise UsageError("another thread is at work on this")


class PackedBinary(msgspec.Struct, frozen=True):
    """Pieces copied one after the other, as Arrow lays out a binary column."""

    offsets: memoryview
    """One signed 32-bit number more than there are pieces."""
    data: memoryview
    validity: bytearray | None
    """One bit for each piece, the lowest first; None if all are there."""
    null_count: int


@cython.final
@cython.cclass
class BinaryColumn:
    """Pieces of one buffer, one for each row: what Arrow calls a binary column, and what `PushColumns` hands out.

    A piece is absent where its start is ABSENT, or where its bit of `validity`, counted from `first_bit`, is 0.
    """

    data = cython.declare(object, visibility="readonly")
    starts = cython.declare(object, visibility="readonly")
    stops = cython.declare(object, visibility="readonly")
    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _held: tuple[memoryview, ...]
    _data: cython.p_const_uchar
    _size: cython.Py_ssize_t
    _starts: cython.p_const_uint
    _stops: cython.p_const_uint
    _step: cython.Py_ssize_t
    _has_validity: cython.bint
    _validity: cython.p_const_uchar
    _first_bit: cython.Py_ssize_t

    def __init__(
        self,
        data: Buffer,
        starts: Numbers,
        stops: Numbers,
        validity: Buffer | None = None,
        first_bit: cython.Py_ssize_t = 0,
    ) -> None:
        self.data = _as("B", data)
        self.starts = _as("I", starts)
        self.stops = _as("I", stops)
        self.count = len(self.starts)
        if len(self.stops) != self.count:
            raise UsageError(f"{self.count} starts, but {len(self.stops)} stops")
        bits = _as("B", b"" if validity is None else validity)
        if validity is not None and not 0 <= first_bit <= len(bits) * 8 - self.count:
            raise UsageError(f"{len(bits)} bytes are too few for {self.count} bits from bit {first_bit} on")
        self._held = (_as("B", self.data), _as("I", self.starts), _as("I", self.stops), bits)
        self._data = _const_pointer8(self._held[0])
        self._size = len(self.data)
        self._starts = _const_pointer32(self._held[1])
        self._stops = _const_pointer32(self._held[2])
        self._step = 1
        self._has_validity = validity is not None
        self._validity = _const_pointer8(bits)
        self._first_bit = first_bit

    @staticmethod
    def constant(value: Buffer | None) -> BinaryColumn:
        """The same piece, or none, for every row."""
        bounds = (0, len(value)) if value is not None else (ABSENT, ABSENT)
        starts, stops = (bound.to_bytes(4, byteorder) for bound in bounds)
        spans: BinaryColumn = BinaryColumn(value or b"", starts, stops)
        spans._step = 0
        return spans

    @staticmethod
    def from_offsets(
        data: Buffer, offsets: Numbers, validity: Buffer | None = None, first_bit: int = 0
    ) -> BinaryColumn:
        """Arrow's layout: each piece stops where the next starts."""
        bounds = _as("I", offsets)
        return BinaryColumn(data, bounds[: len(bounds) - 1], bounds[1:], validity, first_bit)

    @property
    def is_constant(self) -> bool:
        return self._step == 0

    def value(self, row: cython.Py_ssize_t) -> bytes | None:
        """One piece, None if it is absent."""
        piece = self.view(row)
        return None if piece is None else bytes(piece)

    def view(self, row: cython.Py_ssize_t) -> memoryview | None:
        """One piece where it lies, None if it is absent."""
        if row < 0 or row * self._step >= self.count:
            raise IndexError(f"row {row} of {self.count}")
        size: cython.Py_ssize_t = self._length(row)
        if size < -1:
            raise UsageError(f"row {row} points outside of {self._size} bytes")
        start: cython.Py_ssize_t = self._start(row)
        piece: memoryview | None = None if size < 0 else self.data[start : start + size]
        return piece

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _start(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        return self._starts[row * self._step]

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _length(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The size of a piece, -1 if it is absent, -2 if it is not all inside the buffer."""
        start: cython.Py_ssize_t = self._starts[row * self._step]
        stop: cython.Py_ssize_t = self._stops[row * self._step]
        bit: cython.Py_ssize_t = self._first_bit + row
        if start == _NOWHERE or (self._has_validity and not self._validity[bit >> 3] >> (bit & 7) & 1):
            return -1
        return stop - start if start <= stop <= self._size else -2

    def pack(self) -> PackedBinary:
        """Copy the pieces one after the other."""
        offsets = _zeros("i", self.count + 1)
        validity = bytearray((self.count + 7) >> 3)
        places: cython.p_uint = _pointer32(_as("I", offsets))
        nulls: cython.Py_ssize_t = self._measured(places, validity)
        data = memoryview(uninitialized_bytes(offsets[self.count]))
        out: cython.p_uchar = _pointer8(data)
        with cython.nogil:
            self._gather(places, out)
        return PackedBinary(offsets, data, validity if nulls else None, nulls)

    def append_to(self, offsets: Numbers, data: memoryview) -> int:
        """Copy the pieces into memory, the first to where the first offset says, and fill in the others.

        How many bytes they have; less than 0, and nothing is copied, if one is absent or there is no room for them.
        """
        numbers = _as("I", offsets)
        if len(numbers) <= self.count:
            return -1
        places: cython.p_uint = _pointer32(numbers)
        start: cython.Py_ssize_t = places[0]
        if self._measured(places, bytearray((self.count + 7) >> 3)) or places[self.count] > len(data):
            return -1
        out: cython.p_uchar = _pointer8(data)
        with cython.nogil:
            self._gather(places, out)
        return places[self.count] - start

    def measure(self) -> int:
        """How many bytes the pieces have."""
        offsets = _zeros("i", self.count + 1)
        self._measured(_pointer32(_as("I", offsets)), bytearray((self.count + 7) >> 3))
        return offsets[self.count]

    @cython.cfunc
    def _measured(self, offsets: cython.p_uint, validity: bytearray) -> cython.Py_ssize_t:
        """Fill in the offsets behind the first, and validity; how many pieces are absent."""
        bits: cython.p_uchar = _pointer8(memoryview(validity))
        nulls: cython.Py_ssize_t
        with cython.nogil:
            nulls = self._measure(offsets, bits)
        if nulls < 0:
            raise UsageError(f"row {-1 - nulls} points outside of {self._size} bytes, or is 2 GiB behind the first")
        return nulls

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure(self, offsets: cython.p_uint, validity: cython.p_uchar) -> cython.Py_ssize_t:
        """Fill in offsets and validity; how many pieces are absent, or -1 - row at the first that cannot be copied."""
        total: cython.longlong = offsets[0]
        nulls: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t
        size: cython.Py_ssize_t
        for row in range(self.count):
            size = self._length(row)
            if size == -1:
                nulls += 1
                size = 0
            else:
                validity[row >> 3] |= 1 << (row & 7)
            total += size
            if size < 0 or total > 0x7FFFFFFF:
                return -1 - row
            offsets[row + 1] = total
        return nulls

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _gather(self, offsets: cython.p_const_uint, out: cython.p_uchar) -> cython.void:
        row: cython.Py_ssize_t
        for row in range(self.count):
            _copy(out, offsets[row], self._data, self._starts[row], offsets[row + 1] - offsets[row])


@cython.final
@cython.cclass
class PushColumns:
    """Decoded messages of one buffer; reserved once, filled by a `BatchDecoder`, and used again after `clear`.

    All columns it hands out are views of its memory, good until `clear`.
    """

    data = cython.declare(object, visibility="readonly")
    row_count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    shape_count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    frame_count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    row_limit = cython.declare(cython.Py_ssize_t, visibility="readonly")
    shape_limit = cython.declare(cython.Py_ssize_t, visibility="readonly")
    frame_limit = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _busy: cython.bint
    _starved: cython.bint  # whether a new shape was found and there was no room for it
    _current: cython.Py_ssize_t
    _held: memoryview
    _data: cython.p_const_uchar
    _memory: tuple[memoryview, ...]
    _starts: cython.p_uint
    _stops: cython.p_uint
    _timestamps: cython.p_ulonglong
    _row_shapes: cython.p_uint
    _frame_sns: cython.p_uint
    _frame_lanes: cython.p_uint
    _frame_rows: cython.p_uint
    _shapes: cython.p_uint
    _slots: cython.p_uint

    def __init__(
        self, rows: cython.Py_ssize_t = 65536, shapes: cython.Py_ssize_t = 0, frames: cython.Py_ssize_t = 0
    ) -> None:
        """Reserve room for so many rows, and for as many shapes and frames if nothing else is said."""
        self.row_limit = rows
        self.template_limit = shapes or rows
        self.frame_limit = frames or rows
        if min(rows, self.template_limit, self.frame_limit) < 1:
            raise UsageError(f"no room for {rows} rows, {self.template_limit} shapes and {self.frame_limit} frames")
        self._memory = (
            _zeros("I", rows),
            _zeros("I", rows),
            _zeros("Q", rows),
            _zeros("I", rows),
            _zeros("I", self.frame_limit),
            _zeros("I", self.frame_limit),
            _zeros("I", self.frame_limit),
            _zeros("I", (self.template_limit + 1) * _WORDS),  # the last is where a head is parsed when all are taken
            _zeros("I", _SLOTS),
        )
        self._starts = _pointer32(self._memory[0])
        self._stops = _pointer32(self._memory[1])
        self._timestamps = _pointer64(self._memory[2])
        self._row_shapes = _pointer32(self._memory[3])
        self._frame_sns = _pointer32(self._memory[4])
        self._frame_lanes = _pointer32(self._memory[5])
        self._frame_rows = _pointer32(self._memory[6])
        self._shapes = _pointer32(self._memory[7])
        self._slots = _pointer32(self._memory[8])
        self._busy = False
        self._starved = False
        # glibc learns from what it is given back to keep so much: else it gives every read's memory to the system
        uninitialized_bytes(_RELEASED)
        self.clear()

    def clear(self) -> None:
        """Forget all rows, shapes and frames, and the buffer they were about."""
        _check_idle(self._busy)
        self.data = None
        self._held = memoryview(b"")
        self._data = _const_pointer8(self._held)
        self.row_count = 0
        self.template_count = 0
        self.frame_count = 0
        self._current = -1

    def __len__(self) -> int:
        return self.row_count

    # -- one entry per row

    @property
    def payload_start(self) -> memoryview:
        return self._memory[0][: self.row_count].toreadonly()

    @property
    def payload_stop(self) -> memoryview:
        return self._memory[1][: self.row_count].toreadonly()

    @property
    def timestamp(self) -> memoryview:
        """NTP64; 0 in rows without one, which their shape tells: a clock may read 0."""
        return self._memory[2][: self.row_count].toreadonly()

    @property
    def template_index(self) -> memoryview:
        """Numbers for `template_at`."""
        return self._memory[3][: self.row_count].toreadonly()

    # -- one entry per frame, whose rows go up to the first of the next

    @property
    def frame_sn(self) -> memoryview:
        return self._memory[4][: self.frame_count].toreadonly()

    @property
    def frame_lane(self) -> memoryview:
        """Priority in bits 0 to 2; bit 3 if reliable; bit 4 if the frame goes on from before `clear`."""
        return self._memory[5][: self.frame_count].toreadonly()

    @property
    def frame_row(self) -> memoryview:
        """The first row of each frame."""
        return self._memory[6][: self.frame_count].toreadonly()

    # -- values

    def template_at(self, index: cython.Py_ssize_t) -> PushTemplate:
        """What the rows of a shape have in common."""
        if not 0 <= index < self.template_count:
            raise IndexError(f"shape {index} of {self.template_count}")
        shape: cython.p_uint = _record(self._shapes, index)
        meta: cython.uint = shape[_META]
        suffix = self._piece(shape[_SUFFIX], shape[_SUFFIX_SIZE]).decode()
        mapping = Mapping.SENDER if meta & _SENDER else Mapping.RECEIVER
        return PushTemplate(
            kind=RowKind.DEL if meta & _DEL else RowKind.PUT,
            wire_expr=WireExpr(shape[_SCOPE] & 0xFFFF, suffix, mapping),
            qos=QoS.from_wire(0, meta >> _QOS_SHIFT),
            node_id=shape[_SCOPE] >> 16,
            reliable=meta & _RELIABLE != 0,
            priority=Priority(meta & _PRIORITY),
            timestamp_id=self._timestamp_id(shape) if meta & _STAMPED else None,
            encoding=self._encoding(shape),
            source=self._source(shape) if meta & _SOURCED else None,
            has_attachment=meta & _ATTACHED != 0,
        )

    def template_key(self, index: cython.Py_ssize_t) -> tuple[object, ...]:
        """Something to recognise a shape by: two that are written alike have equal signatures, in any buffer."""
        if not 0 <= index < self.template_count:
            raise IndexError(f"shape {index} of {self.template_count}")
        shape: cython.p_uint = _record(self._shapes, index)
        meta: cython.uint = shape[_META]
        suffix = self._piece(shape[_SUFFIX], shape[_SUFFIX_SIZE])
        if not (meta & (_STAMPED | _SOURCED) or shape[_ENCODING]):
            return (meta, shape[_SCOPE], suffix)
        return (
            meta,
            shape[_SCOPE],
            suffix,
            shape[_ENCODING],
            self._piece(shape[_SCHEMA], shape[_SIZES] & 0xFF) if shape[_ENCODING] & 1 else None,
            self._piece(shape[_POST], self._held[shape[_POST]] + 1) if meta & _STAMPED else None,
            self._piece(shape[_ZID] - 1, (self._held[shape[_ZID] - 1] >> 4) + 2) if meta & _SOURCED else None,
            shape[_EID] if meta & _SOURCED else 0,
        )

    def node_id(self, index: cython.Py_ssize_t) -> int:
        """That of a shape, alone."""
        if not 0 <= index < self.template_count:
            raise IndexError(f"shape {index} of {self.template_count}")
        return _record(self._shapes, index)[_SCOPE] >> 16

    @cython.cfunc
    def _piece(self, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> bytes:
        return bytes(self._held[start : start + size])

    @cython.cfunc
    def _timestamp_id(self, shape: cython.p_uint) -> object:
        return ZenohId.from_bytes(self._piece(shape[_POST] + 1, self._held[shape[_POST]]))

    @cython.cfunc
    def _encoding(self, shape: cython.p_uint) -> object:
        number: cython.uint = shape[_ENCODING] >> 1
        if not shape[_ENCODING] & 1:
            return Encoding(number)
        return Encoding(number, self._piece(shape[_SCHEMA], shape[_SIZES] & 0xFF).decode(errors="surrogateescape"))

    @cython.cfunc
    def _source(self, shape: cython.p_uint) -> object:
        size: cython.Py_ssize_t = (self._held[shape[_ZID] - 1] >> 4) + 1
        return EntityId(ZenohId.from_bytes(self._piece(shape[_ZID], size)), shape[_EID])

    def push(self, row: cython.Py_ssize_t) -> Push:
        """The message of a row, as the object codec would have read it."""
        if not 0 <= row < self.row_count:
            raise IndexError(f"row {row} of {self.row_count}")
        record: cython.p_uint = _record(self._shapes, self._row_shapes[row])
        shape = self.template_at(self._row_shapes[row])
        timestamp = source = attachment = None
        if shape.timestamp_id is not None:
            timestamp = Timestamp(self._timestamps[row], shape.timestamp_id)
        if shape.source is not None:
            source = SourceInfo(shape.source.zid, shape.source.eid, self._source_sn(row, record))
        if shape.has_attachment:
            attachment = self._piece(self._head_end(row, record) - record[_ATTACHMENT], record[_ATTACHMENT_SIZE])
        body: Put | Del
        if shape.kind is RowKind.DEL:
            body = Del(timestamp=timestamp, source_info=source, attachment=attachment)
        else:
            body = Put(
                timestamp=timestamp,
                encoding=shape.encoding,
                source_info=source,
                attachment=attachment,
                payload=self._piece(self._starts[row], self._stops[row] - self._starts[row]),
            )
        return Push(wire_expr=shape.wire_expr, qos=shape.qos, node_id=shape.node_id, body=body)

    def payloads(self) -> BinaryColumn:
        """Where the payloads stand; absent for DEL."""
        return self._spans(_OF_PAYLOAD)

    def attachments(self) -> BinaryColumn:
        """Where the attachments stand."""
        return self._spans(_OF_ATTACHMENT)

    def suffixes(self) -> BinaryColumn:
        """Where the suffixes of the keys stand, for buffers in which almost every row has a key of its own."""
        return self._spans(_OF_SUFFIX)

    @cython.cfunc
    def _spans(self, what: cython.int) -> BinaryColumn:
        starts = _zeros("I", self.row_count)
        stops = _zeros("I", self.row_count)
        first: cython.p_uint = _pointer32(starts)
        behind: cython.p_uint = _pointer32(stops)
        self._take()
        with cython.nogil:
            self._fill_spans(what, first, behind)
        self._busy = False
        return BinaryColumn(self._held, starts, stops)

    def source_sns(self) -> memoryview:
        """The sequence number the publisher gave each row; 0 in rows of shapes without a source."""
        numbers = _zeros("I", self.row_count)
        out: cython.p_uint = _pointer32(numbers)
        self._take()
        with cython.nogil:
            self._fill_source_sns(out)
        self._busy = False
        return numbers

    def timestamp_summary(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, wanted: bytes) -> tuple[int, int]:
        """The newest timestamp of some rows, 0 if none has one, and how many have none.

        Only PUT rows count, and of them those whose shape is `wanted`: there is one byte for each shape.
        """
        self._check(start, stop, wanted)
        newest: cython.ulonglong = 0
        missing: cython.Py_ssize_t = 0
        marks: cython.p_const_uchar = _const_pointer8(memoryview(wanted))
        row: cython.Py_ssize_t
        for row in range(start, stop):
            if self._wants_stamp(row, marks):
                missing += 1
            elif marks[self._row_shapes[row]] and self._shape_of(row)[_META] & _DEL == 0:
                newest = max(newest, self._timestamps[row])
        return newest, missing

    def assign_timestamps(
        self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, wanted: bytes, first: cython.ulonglong
    ) -> None:
        """Note timestamps for the rows that `timestamp_summary` found to have none, one after the other: a `RowForwarder` adds them."""
        self._check(start, stop, wanted)
        marks: cython.p_const_uchar = _const_pointer8(memoryview(wanted))
        row: cython.Py_ssize_t
        for row in range(start, stop):
            if self._wants_stamp(row, marks):
                self._timestamps[row] = first
                first += 1

    @cython.cfunc
    def _check(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, marks: bytes) -> object:
        if not 0 <= start <= stop <= self.row_count:
            raise IndexError(f"rows {start} to {stop} of {self.row_count}")
        if len(marks) != self.template_count:
            raise UsageError(f"{len(marks)} marks for {self.template_count} shapes")
        return None

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _shape_of(self, row: cython.Py_ssize_t) -> cython.p_uint:
        return _record(self._shapes, self._row_shapes[row])

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _wants_stamp(self, row: cython.Py_ssize_t, marks: cython.p_const_uchar) -> cython.bint:
        return marks[self._row_shapes[row]] != 0 and self._shape_of(row)[_META] & (_DEL | _STAMPED) == 0

    @cython.cfunc
    def _take(self) -> object:
        """Keep other threads away while the GIL is released."""
        _check_idle(self._busy)
        self._busy = True
        return None

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _head_end(self, row: cython.Py_ssize_t, shape: cython.p_uint) -> cython.Py_ssize_t:
        """Where the head of a row ends: before the length of its payload, which is in its shortest form."""
        start: cython.Py_ssize_t = self._starts[row]
        return start if shape[_META] & _DEL else start - _z_size(self._stops[row] - start)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _source_sn(self, row: cython.Py_ssize_t, shape: cython.p_uint) -> cython.uint:
        end: cython.Py_ssize_t = self._head_end(row, shape)
        return _z32(self._data, end - shape[_SN], end) >> 4

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill_spans(self, what: cython.int, starts: cython.p_uint, stops: cython.p_uint) -> cython.void:
        row: cython.Py_ssize_t
        shape: cython.p_uint
        for row in range(self.row_count):
            shape = _record(self._shapes, self._row_shapes[row])
            starts[row] = _NOWHERE
            if what == _OF_SUFFIX:
                starts[row] = shape[_SUFFIX]
                stops[row] = shape[_SUFFIX] + shape[_SUFFIX_SIZE]
            elif what == _OF_PAYLOAD and shape[_META] & _DEL == 0:
                starts[row] = self._starts[row]
                stops[row] = self._stops[row]
            elif what == _OF_ATTACHMENT and shape[_META] & _ATTACHED:
                starts[row] = self._head_end(row, shape) - shape[_ATTACHMENT]
                stops[row] = starts[row] + shape[_ATTACHMENT_SIZE]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill_source_sns(self, numbers: cython.p_uint) -> cython.void:
        row: cython.Py_ssize_t
        shape: cython.p_uint
        for row in range(self.row_count):
            shape = _record(self._shapes, self._row_shapes[row])
            if shape[_META] & _SOURCED:
                numbers[row] = self._source_sn(row, shape)

    # -- the shape of a message
    #
    # Positions in and out: each of these reads on from `pos`, not beyond `end`, and returns the position behind what
    # it has read; or 0, which is behind nothing, where the message is for the object codec.

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _find_shape(
        self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, lane: cython.uint, row: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Make current the shape of the message here, one there is or a new one."""
        shape: cython.p_uint = _record(self._shapes, self.template_count)
        head: cython.Py_ssize_t
        key_end: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        hashed: cython.ulonglong
        tag: cython.uint
        if self._data[pos] & 0x1F != _PUSH:
            return 0
        key_end = self._parse_key(pos, end, shape)
        if key_end == 0:
            return 0
        hashed = self._hash(pos, key_end, end)
        slot = (hashed >> _SLOT_SHIFT) << 1
        tag = (hashed >> 20 & 0xFFF) << 20
        head = self._try_shape(self._slots[slot] ^ tag, pos, end, lane, row)
        if head == 0:
            head = self._try_shape(self._slots[slot + 1] ^ tag, pos, end, lane, row)
        if head:
            return head
        shape[_META] = lane
        head = self._parse_head(pos, key_end, end, shape, row)
        if head == 0:
            return 0
        self._starved = self.template_count == self.template_limit
        if self._starved:
            return 0
        self._current = self.template_count
        self._slots[slot + 1] = self._slots[slot]
        self._slots[slot] = tag | (self._current & 0xFFFFF)
        self.template_count += 1
        return head

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _hash(self, pos: cython.Py_ssize_t, key_end: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.ulonglong:
        """A number made from the key, and from the bytes behind it up to the header of the body."""
        odd: cython.ulonglong = 0x9E3779B97F4A7C15
        full: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
        hashed: cython.ulonglong = 0
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t = key_end + (3 if self._data[pos] & 0x80 else 1)  # with or without a QoS extension
        if stop > end:
            stop = end
        if stop - pos < 8:
            for at in range(pos, stop):
                hashed = hashed << 8 | self._data[at]
        else:
            for at in range(pos, stop - 8, 8):
                hashed ^= _word(self._data, at)
                hashed = (hashed << 23 | hashed >> 41) & full
            hashed ^= _word(self._data, stop - 8)
        return hashed * odd & full

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _try_shape(
        self,
        index: cython.uint,
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        lane: cython.uint,
        row: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Make this shape current if the message is of it.

        A number with the wrong tag is too large. If not, as one from before `clear` may be, the bytes differ.
        """
        head: cython.Py_ssize_t
        shape: cython.p_uint
        if index >= self.template_count:
            return 0
        shape = _record(self._shapes, index)
        if shape[_META] & _LANE != lane:
            return 0
        head = self._match(pos, end, shape, row)
        if head:
            self._current = index
        return head

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _match(
        self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, shape: cython.p_uint, row: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read a head that has this shape, its timestamp into the row; 0 if it has another."""
        size: cython.Py_ssize_t = shape[_PRE]
        if size > end - pos or not _same(self._data, pos, shape[_AT], size):
            return 0
        pos += size
        self._timestamps[row] = 0
        if shape[_META] & _STAMPED:
            size = _z64_size(self._data, pos, end)
            if size == 0:
                return 0
            self._timestamps[row] = _z64(self._data, pos, size)
            pos += size
        size = shape[_TAIL]
        if size > end - pos:
            return 0
        if shape[_META] & _VARIES:
            return pos + size if self._same_around(pos, shape) else 0
        return pos + size if _same(self._data, pos, shape[_POST], size) else 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _same_around(self, pos: cython.Py_ssize_t, shape: cython.p_uint) -> cython.bint:
        """Whether a head behind the timestamp has this shape, around a sequence number and an attachment of its own."""
        post: cython.Py_ssize_t = shape[_POST]
        tail: cython.Py_ssize_t = shape[_TAIL]
        done: cython.Py_ssize_t = 0
        stop: cython.Py_ssize_t
        size: cython.ulonglong
        if shape[_META] & _SOURCED:
            stop = tail - shape[_SN]
            size = shape[_SIZES] >> 8
            if not _same(self._data, pos, post, stop) or _z32(self._data, pos + stop, pos + tail) & 15 != size:
                return False
            done = stop + size
        if shape[_META] & _ATTACHED:
            stop = tail - shape[_ATTACHMENT]
            if not _same(self._data, pos + done, post + done, stop - done):
                return False
            done = stop + shape[_ATTACHMENT_SIZE]
        return _same(self._data, pos + done, post + done, tail - done)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_key(self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, shape: cython.p_uint) -> cython.Py_ssize_t:
        """From the header of a PUSH to the end of its key, whose text is not looked at yet."""
        named: cython.int = self._data[pos] & 0x20
        size: cython.ulonglong = 0
        z: cython.ulonglong = _z32(self._data, pos + 1, end)
        if z == 0 or z >> 20:  # more than 16 bits
            return 0
        shape[_SCOPE] = z >> 4
        pos += 1 + (z & 15)
        if named:
            z = _z32(self._data, pos, end)
            if z == 0 or z >> 20:
                return 0
            pos += z & 15
            size = z >> 4
            if size > cython.cast(cython.ulonglong, end - pos):
                return 0
        shape[_SUFFIX] = pos
        shape[_SUFFIX_SIZE] = size
        return pos + cython.cast(cython.Py_ssize_t, size)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_head(
        self,
        at: cython.Py_ssize_t,
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        shape: cython.p_uint,
        row: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """From the end of the key to the end of the head, the timestamp into the row; `_META` holds the lane."""
        header: cython.int = self._data[at]
        size: cython.Py_ssize_t = shape[_SUFFIX_SIZE]
        shape[_AT] = at
        shape[_META] |= _DEFAULT_QOS << _QOS_SHIFT | (header & 0x40) >> 1
        if not _is_text(self._data, shape[_SUFFIX], shape[_SUFFIX] + size):
            return 0
        if header & 0x80:
            pos = self._parse_push_extensions(pos, end, shape)
        if pos == 0 or pos >= end:
            return 0
        header = self._data[pos]
        if not self._parse_body_header(header, shape):
            return 0
        pos += 1
        shape[_PRE] = pos - at
        self._timestamps[row] = 0
        if header & 0x20:
            size = _z64_size(self._data, pos, end)
            if size == 0:
                return 0
            self._timestamps[row] = _z64(self._data, pos, size)
            pos += size
        return self._parse_tail(pos, end, header, shape)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_push_extensions(
        self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, shape: cython.p_uint
    ) -> cython.Py_ssize_t:
        """QoS and the node id; others have no column."""
        more: cython.int = 0x80
        ext: cython.int
        size: cython.Py_ssize_t
        z: cython.ulonglong
        while more:
            if pos >= end:
                return 0
            more = self._data[pos] & 0x80
            ext = self._data[pos] & 0x7F
            pos += 1
            if ext == 0x21:
                size = _z64_size(self._data, pos, end)
                if size == 0:
                    return 0
                shape[_META] = (shape[_META] & ~_QOS_BITS) | (self._data[pos] & 0x3F) << _QOS_SHIFT
            elif ext == 0x33:
                z = _z32(self._data, pos, end)
                if z == 0 or z >> 20:
                    return 0
                size = z & 15
                shape[_SCOPE] = (shape[_SCOPE] & 0xFFFF) | (z >> 4) << 16
            else:
                return 0
            pos += size
        return pos

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_body_header(self, header: cython.int, shape: cython.p_uint) -> cython.bint:
        """Whether this is a PUT or a DEL; notes which, and whether it is stamped."""
        if header & 0x1F == _DEL_BODY:
            shape[_META] |= _DEL
        elif header & 0x1F != _PUT_BODY:
            return False
        if header & 0x20:
            shape[_META] |= _STAMPED
        return True

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_tail(
        self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, header: cython.int, shape: cython.p_uint
    ) -> cython.Py_ssize_t:
        """From behind the clock reading to the end of the head."""
        size: cython.Py_ssize_t
        shape[_POST] = pos
        shape[_ENCODING] = 0
        shape[_SIZES] = 0
        if header & 0x20:
            if pos >= end:
                return 0
            size = self._data[pos]
            if size == 0 or size > 16 or size >= end - pos or not _has_bit(self._data, pos + 1, size):
                return 0
            pos += 1 + size
        if header & 0x5F == 0x40 | _PUT_BODY:  # DEL has no encoding
            pos = self._parse_encoding(pos, end, shape)
        if pos and header & 0x80:
            pos = self._parse_body_extensions(pos, end, shape)
        if pos == 0:
            return 0
        shape[_TAIL] = pos - shape[_POST]
        if shape[_META] & _SOURCED:
            shape[_SN] = pos - shape[_SN]
        if shape[_META] & _ATTACHED:
            shape[_ATTACHMENT] = pos - shape[_ATTACHMENT]
        return pos

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_encoding(
        self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, shape: cython.p_uint
    ) -> cython.Py_ssize_t:
        z: cython.ulonglong = _z32(self._data, pos, end)
        size: cython.ulonglong
        if z == 0:
            return 0
        pos += z & 15
        shape[_ENCODING] = z >> 4
        if z & 16 == 0:
            return pos
        z = _z32(self._data, pos, end)
        size = z >> 4
        pos += z & 15
        if z == 0 or size > 0xFF or size > cython.cast(cython.ulonglong, end - pos):
            return 0
        shape[_SCHEMA] = pos
        shape[_SIZES] = size
        return pos + cython.cast(cython.Py_ssize_t, size)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_body_extensions(
        self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, shape: cython.p_uint
    ) -> cython.Py_ssize_t:
        """The source and then the attachment, as everybody writes them; not others, nor repeated or turned round."""
        attachment: cython.int = 0x42 if shape[_META] & _DEL else 0x43
        more: cython.int = 0x80
        ext: cython.int
        size: cython.Py_ssize_t
        z: cython.ulonglong
        while more:
            if pos >= end:
                return 0
            more = self._data[pos] & 0x80
            ext = self._data[pos] & 0x7F
            z = _z32(self._data, pos + 1, end)
            pos += 1 + (z & 15)
            if z == 0 or z >> 4 > cython.cast(cython.ulonglong, end - pos):
                return 0
            size = z >> 4
            if ext == 0x41 and shape[_META] & _VARIES == 0:
                if not self._parse_source(pos, pos + size, shape):
                    return 0
            elif ext == attachment and shape[_META] & _ATTACHED == 0:
                shape[_ATTACHMENT] = pos
                shape[_ATTACHMENT_SIZE] = size
                shape[_META] |= _ATTACHED
            else:
                return 0
            pos += size
        return pos

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_source(self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, shape: cython.p_uint) -> cython.bint:
        """Whether an extension is all of a SourceInfo: whose publisher, and where its sequence number stands."""
        size: cython.Py_ssize_t
        z: cython.ulonglong
        if pos >= end:
            return False
        size = (self._data[pos] >> 4) + 1
        pos += 1
        if size > end - pos or not _has_bit(self._data, pos, size):
            return False
        shape[_ZID] = pos
        pos += size
        z = _z32(self._data, pos, end)
        if z == 0:
            return False
        shape[_EID] = z >> 4
        pos += z & 15
        z = _z32(self._data, pos, end)
        shape[_SN] = pos
        shape[_SIZES] |= (z & 15) << 8
        shape[_META] |= _SOURCED
        return z != 0 and pos + cython.cast(cython.Py_ssize_t, z & 15) == end


# -- decoding ----------------------------------------------------------------------------------------------------


class ZeroCopyReader(Reader):
    """Reads what fills the rest of a batch, the piece in a FRAGMENT, where it lies: it is copied when it is joined."""

    def rest(self) -> memoryview:  # type: ignore[override]  # a view has all that is asked of these bytes
        return memoryview(self.data)[self.skip(self.left()) : self.pos]


class ReassembledMessage(msgspec.Struct, frozen=True):
    """What was joined from fragments, besides rows."""

    sn: int
    """The number of the last fragment."""
    message: memoryview | None
    """The last message, where it lies, if it is one for the object codec."""


@cython.final
@cython.cclass
class BatchDecoder:
    """A place in a buffer of batches, and the frame it is in.

    `limit` is the largest length a batch may announce: on a stream link the batch size less 2. The buffer is held
    and must not change while rows decoded from it are in use. `reliable` and `priority` are those of messages outside
    of frames. If it `is_partial_buffer`, what is left at the end will be there again, with more behind it.
    """

    data = cython.declare(object, visibility="readonly")
    framing = cython.declare(object, visibility="readonly")
    limit = cython.declare(cython.ulonglong, visibility="readonly")
    pos = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """The next byte: of a message if it is below `batch_end`, else of the length of a batch."""
    batch_end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    in_frame = cython.declare(cython.bint, visibility="readonly")
    sn = cython.declare(cython.uint, visibility="readonly")
    """That of the frame, while `in_frame`."""
    awaits_rest = cython.declare(cython.bint, visibility="readonly")
    """Whether the message here can go on only when there are more bytes: see `join`."""
    _busy: cython.bint
    _held: memoryview
    _data: cython.p_const_uchar
    _end: cython.Py_ssize_t
    _bare: cython.bint
    _prefix: cython.Py_ssize_t
    _lane: cython.uint
    _goes_on: cython.bint
    # What is known of the fragment that was looked at last.
    _piece_sn: cython.uint
    _piece_lane: cython.uint
    _piece_first: cython.bint
    _piece_more: cython.bint
    # Where the message is that was joined last, where its last fragment ends, and the number of that.
    _whole_start: cython.Py_ssize_t
    _whole_stop: cython.Py_ssize_t
    _whole_end: cython.Py_ssize_t
    _whole_sn: cython.uint

    def __init__(
        self,
        data: Buffer,
        framing: Framing = Framing.STREAM,
        limit: cython.ulonglong = 0xFFFF,
        pos: cython.Py_ssize_t = 0,
        end: cython.Py_ssize_t = -1,
        *,
        reliable: bool = True,
        priority: Priority = Priority.DATA,
        goes_on: bool = False,
    ) -> None:
        size: cython.Py_ssize_t = len(data)
        end = size if end < 0 else end
        if not 0 <= pos <= end <= size:
            raise IndexError(f"positions {pos} to {end} are outside {size} bytes")
        if end >= ABSENT:
            raise UsageError(f"{end} bytes are more than positions of 32 bits reach")
        self.data = data
        self.framing = framing
        self.limit = limit
        self.pos = pos
        self.in_frame = False
        self.sn = 0
        self.needs_more_data = False
        self._busy = False
        self._held = _as("B", data)
        self._data = _const_pointer8(self._held)
        self._end = end
        self._bare = framing in (Framing.BARE, Framing.MESSAGE)
        self._prefix = (2, 4, 0, 0)[framing]
        self._lane = int(priority) | (_RELIABLE if reliable else 0)
        self._goes_on = goes_on
        self._piece_sn = self._piece_lane = 0
        self._piece_first = self._piece_more = False
        self._whole_start = self._whole_stop = self._whole_end = 0
        self._whole_sn = 0
        self.batch_end = pos if self._prefix else end

    @property
    def reliable(self) -> bool:
        """Whether the frame is."""
        return self._lane & _RELIABLE != 0

    @property
    def priority(self) -> Priority:
        """That of the frame."""
        return Priority(self._lane & _PRIORITY)

    def decode(self, columns: PushColumns) -> StopReason:
        """Append rows to columns as far as possible, with the GIL released; why it stopped."""
        outcome: cython.int
        self._begin(columns)
        with cython.nogil:
            outcome = self._decode(columns)
        self._busy = False
        columns._busy = False
        return _OUTCOMES[outcome]

    @cython.cfunc
    def _begin(self, columns: PushColumns) -> object:
        """Have columns for this buffer alone, and keep other threads away."""
        if columns.data is not None and columns.data is not self.data:
            raise UsageError("these columns hold rows of another buffer: clear them first")
        _check_idle(self._busy)
        columns._take()
        self._busy = True
        columns.data = self.data
        columns._held = self._held
        columns._data = self._data
        return None

    def message(self) -> Message:
        """Read the message here with the object codec, and go on behind it.

        A FRAME is read with all that is in it; the payload of a FRAGMENT is good as long as the buffer. Raises
        DecodeError, with positions in the whole buffer, where the bytes are malformed.
        """
        _check_idle(self._busy)
        if self.pos >= self.batch_end:
            raise UsageError("there is no message here: decode stopped between batches")
        reader = Reader(self._held, self.pos, self.batch_end)
        message: Message
        if not self._at_network_message():
            self.in_frame = False
            if self._data[self.pos] & 0x1F == _FRAGMENT:
                reader = ZeroCopyReader(self._held, self.pos, self.batch_end)
            message = read_transport_message(reader)
        elif self._bare:
            message = read_network_message(reader)
        else:
            try:
                message = read_network_message(reader)
            except DecodeError as error:
                error.within(Frame.NAME)  # as when the codec reads the whole frame
                raise
        self.pos = reader.pos
        return message

    def read_message_leniently(self) -> Message:
        """Read the message here as `message` does, whatever extensions it has, and go on behind it.

        For a message that must not be processed: those behind it must be.
        """
        reader = LenientReader(self._held, self.pos, self.batch_end)
        message: Message = (read_network_message if self._at_network_message() else read_transport_message)(reader)
        self.pos = reader.pos
        return message

    def skip(self, pos: cython.Py_ssize_t) -> None:
        """Go on at a place in the same batch: the message before it was read in another way."""
        if not self.pos <= pos <= self.batch_end:
            raise IndexError(f"position {pos} is not in the rest of this batch, {self.pos} to {self.batch_end}")
        self.pos = pos

    def fragment_lane(self) -> int:
        """The lane of the FRAGMENT here, as `frame_lane` has it; -1 if here is none, or one for the object codec."""
        if self._prefix != 2 or self.pos >= self.batch_end or self._parse_fragment(self.pos, self.batch_end) == 0:
            return -1
        return self._piece_lane

    def join(
        self, columns: PushColumns, sn: cython.uint, mask: cython.uint, marked: cython.bint, limit: cython.ulonglong
    ) -> ReassembledMessage | None:
        """Join the messages whose fragments are all here, append them as rows, and go on behind them; None if none is.

        The fragments follow each other in the lane of the first one, which has this number; if `marked`, the first of
        each message says so. What is in any way different, or larger than `limit`, is left to be read one by one. If
        nothing is wrong but that the rest of the first message is not here yet, and it is not a large one, the cursor
        goes back to before its first batch, and `needs_more_data`, if it goes on.

        The pieces are moved together where they lie: the buffer must be one that can be written to.
        """
        if self.fragment_lane() < 0 or self._held.readonly:
            return None
        self._begin(columns)
        out: cython.p_uchar = _pointer8(self._held)
        before: cython.Py_ssize_t = self.pos
        outcome: cython.int
        with cython.nogil:
            outcome = self._join(columns, out, sn, mask, marked, limit)
        self._busy = False
        columns._busy = False
        if self.pos == before:
            self.needs_more_data = self._goes_on and outcome == _END and self._end - self.pos < _MOST_AWAITED
            if self.needs_more_data:
                self.pos -= self._prefix
                self.batch_end = self.pos
            return None
        message = self._held[self._whole_start : self._whole_stop] if outcome == _MESSAGE else None
        return ReassembledMessage(self._whole_sn, message)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _join(
        self,
        columns: PushColumns,
        out: cython.p_uchar,
        sn: cython.uint,
        mask: cython.uint,
        marked: cython.bint,
        limit: cython.ulonglong,
    ) -> cython.int:
        """Message by message; END where the bytes end, MESSAGE behind one that is no row, else FULL."""
        lane: cython.uint = self._piece_lane
        batch: cython.Py_ssize_t = self.pos
        end: cython.Py_ssize_t = self.batch_end
        outcome: cython.int
        while columns.row_count < columns.row_limit:
            outcome = self._measure_whole(batch, end, lane, sn, mask, marked, limit)
            if outcome != _GO_ON:
                return outcome
            self._move_together(out, batch, end)
            if not self._is_row(columns, lane):
                return _MESSAGE
            sn = (self._whole_sn + 1) & mask
            batch = self.pos + 2
            end = self._batch_end_at(batch)
            if end <= 0:
                return _END if end == 0 else _FULL
        return _FULL

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _batch_end_at(self, batch: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Where a batch ends whose length stands before it; 0 if it is not all here, -1 if it is too large."""
        size: cython.Py_ssize_t
        if batch > self._end:
            return 0
        size = self._data[batch - 2] | self._data[batch - 1] << 8
        if cython.cast(cython.ulonglong, size) > self.limit:
            return -1
        return batch + size if size <= self._end - batch else 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure_whole(
        self,
        batch: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        lane: cython.uint,
        sn: cython.uint,
        mask: cython.uint,
        marked: cython.bint,
        limit: cython.ulonglong,
    ) -> cython.int:
        """Go from fragment to fragment to the last of one message; END if it is not here, FULL if something differs."""
        start: cython.Py_ssize_t
        size: cython.ulonglong = 0
        first: cython.bint = True
        while True:
            start = self._parse_fragment(batch, end)
            if start == 0 or self._piece_lane != lane or self._piece_sn != sn:
                return _FULL
            size += end - start
            if size > limit or (marked and self._piece_first != first):
                return _FULL
            if not self._piece_more:
                self._whole_end = end
                self._whole_sn = sn
                return _GO_ON
            first = False
            sn = (sn + 1) & mask
            batch = end + 2
            end = self._batch_end_at(batch)
            if end <= 0:
                return _END if end == 0 else _FULL

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _move_together(self, out: cython.p_uchar, batch: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.void:
        """Have the pieces of the message that was measured follow the first of them, and go behind it."""
        start: cython.Py_ssize_t = self._parse_fragment(batch, end)
        self._whole_start = start
        self._whole_stop = end
        while end < self._whole_end:
            batch = end + 2
            end = self._batch_end_at(batch)
            start = self._parse_fragment(batch, end)
            _move(out, self._whole_stop, start, end - start)
            self._whole_stop += end - start
        self.pos = end
        self.batch_end = end

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _is_row(self, columns: PushColumns, lane: cython.uint) -> cython.bint:
        """Append the message that was joined, if it is a row and nothing else."""
        row: cython.Py_ssize_t = columns.row_count
        behind: cython.Py_ssize_t = self.pos
        is_row: cython.bint
        self.pos = self._whole_start
        self.batch_end = self._whole_stop
        self._lane = lane
        if self.pos < self.batch_end and self._data[self.pos] & 0x1F == _PUSH:
            self._decode_rows(columns)
        is_row = columns.row_count == row + 1 and self.pos == self.batch_end
        if not is_row:
            columns.row_count = row
        self.pos = behind
        self.batch_end = behind
        return is_row

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_fragment(self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """From the header of a FRAGMENT to its piece; 0 if it is none, or says more than priority and first."""
        data: cython.p_const_uchar = self._data
        size: cython.Py_ssize_t
        if pos >= end or data[pos] & 0x1F != _FRAGMENT:
            return 0
        more: cython.int = data[pos] & 0x80
        z: cython.ulonglong = _z32(data, pos + 1, end)
        if z == 0:
            return 0
        self._piece_sn = z >> 4
        self._piece_lane = (data[pos] & 0x20) >> 2 | _DATA_LANE
        self._piece_first = False
        self._piece_more = data[pos] & 0x40 != 0
        pos += 1 + (z & 15)
        while more:
            if pos >= end:
                return 0
            more = data[pos] & 0x80
            if data[pos] & 0x7F == 0x02:
                self._piece_first = True
                pos += 1
                continue
            size = _z64_size(data, pos + 1, end) if data[pos] & 0x7F == 0x31 else 0
            if size == 0:
                return 0
            self._piece_lane = self._piece_lane & _RELIABLE | data[pos + 1] & _PRIORITY
            pos += 1 + size
        return pos

    @cython.cfunc
    def _at_network_message(self) -> cython.bint:
        return (self._bare or self.in_frame) and self._data[self.pos] & 0x1F > _LAST_TRANSPORT

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _decode(self, columns: PushColumns) -> cython.int:
        outcome: cython.int = _GO_ON
        while outcome == _GO_ON:
            outcome = self._decode_message(columns) if self.pos < self.batch_end else self._next_batch()
        return outcome

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _next_batch(self) -> cython.int:
        """Step into the next batch that is not empty."""
        pos: cython.Py_ssize_t = self.pos
        at: cython.int
        byte: cython.ulonglong
        size: cython.ulonglong
        self.in_frame = False
        while self._prefix and self._end - pos >= self._prefix:
            size = 0
            for at in range(self._prefix):
                byte = self._data[pos + at]
                size |= byte << (8 * at)
            if size > self.limit:
                return _OVERSIZED
            if size > cython.cast(cython.ulonglong, self._end - pos - self._prefix):
                return _END
            pos += self._prefix
            self.pos = pos
            self.batch_end = pos + cython.cast(cython.Py_ssize_t, size)
            if size:
                return _GO_ON
        return _END

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _decode_message(self, columns: PushColumns) -> cython.int:
        number: cython.int = self._data[self.pos] & 0x1F
        if number == _PUSH and (self.in_frame or self._bare):
            return self._decode_rows(columns)
        if number == _FRAME and not self._bare:
            return self._enter_frame(columns)
        if number <= _LAST_TRANSPORT:
            self.in_frame = False
        return _MESSAGE

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _enter_frame(self, columns: PushColumns) -> cython.int:
        pos: cython.Py_ssize_t
        self.in_frame = False
        if columns.frame_count == columns.frame_limit:
            return _FULL
        pos = self._parse_frame()
        if pos == 0:
            return _MESSAGE
        self.pos = pos
        self.in_frame = True
        self._note_frame(columns, 0)
        return _GO_ON

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _note_frame(self, columns: PushColumns, flags: cython.uint) -> cython.void:
        columns._frame_sns[columns.frame_count] = self.sn
        columns._frame_lanes[columns.frame_count] = self._lane | flags
        columns._frame_rows[columns.frame_count] = columns.row_count
        columns.frame_count += 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_frame(self) -> cython.Py_ssize_t:
        """From the header of a FRAME to its first message; 0 for one with something else than a priority."""
        data: cython.p_const_uchar = self._data
        end: cython.Py_ssize_t = self.batch_end
        pos: cython.Py_ssize_t = self.pos
        reliable: cython.uint = (data[pos] & 0x20) >> 2
        priority: cython.uint = _DATA_LANE
        more: cython.int = data[pos] & 0x80
        size: cython.Py_ssize_t
        z: cython.ulonglong = _z32(data, pos + 1, end)
        if z == 0:
            return 0
        pos += 1 + (z & 15)
        while more:
            if pos >= end or data[pos] & 0x7F != 0x31:
                return 0
            more = data[pos] & 0x80
            size = _z64_size(data, pos + 1, end)
            if size == 0:
                return 0
            priority = data[pos + 1] & _PRIORITY
            pos += 1 + size
        self.sn = z >> 4
        self._lane = reliable | priority
        return pos

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _decode_rows(self, columns: PushColumns) -> cython.int:
        """Append the PUSH messages from here to the end of the batch, or up to one that must stop it."""
        data: cython.p_const_uchar = self._data
        end: cython.Py_ssize_t = self.batch_end
        pos: cython.Py_ssize_t = self.pos
        row: cython.Py_ssize_t = columns.row_count
        shape: cython.p_uint = _record(columns._shapes, max(columns._current, 0))
        known: cython.bint = columns._current >= 0 and shape[_META] & _LANE == self._lane
        before: cython.Py_ssize_t
        head: cython.Py_ssize_t
        start: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        z: cython.ulonglong
        columns._starved = False
        if columns.frame_count == 0 and self.in_frame:
            self._note_frame(columns, _CONTINUED)
        while pos < end and row < columns.row_limit:
            head = columns._match(pos, end, shape, row) if known else 0
            if head == 0:
                before = columns._current
                head = columns._find_shape(pos, end, self._lane, row)
                if head == 0:
                    break
                shape = _record(columns._shapes, columns._current)
                known = columns._current == before  # only in a run of one shape is it worth a try before looking
            start = head
            stop = head
            if shape[_META] & _DEL == 0:
                z = _z32(data, head, end)
                start = head + (z & 15)
                stop = start + (z >> 4)
                if z == 0 or z >> 4 > cython.cast(cython.ulonglong, end - start):
                    break
                if z & 15 > 1 and data[start - 1] == 0:  # not the shortest form: see _head_end
                    break
            columns._starts[row] = start
            columns._stops[row] = stop
            columns._row_shapes[row] = columns._current
            row += 1
            pos = stop
        columns.row_count = row
        self.pos = pos
        return self._why_stopped(columns)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _why_stopped(self, columns: PushColumns) -> cython.int:
        if self.pos == self.batch_end:
            return _GO_ON
        if self._data[self.pos] & 0x1F != _PUSH:
            return _GO_ON
        return _FULL if columns._starved or columns.row_count == columns.row_limit else _MESSAGE


# -- passing on --------------------------------------------------------------------------------------------------

LANE_EXPRESS = 0x10
"""A bit of the lane of rows that are passed on, each in a batch of its own."""
NO_LANE = 0xFF
"""The lane of rows that do not go there."""
_NO_LANE = cython.declare(cython.const_int, 0xFF)


@cython.final
@cython.cclass
class RowForwarder:
    """Rows on their way to one neighbour, each behind a new head, and how far that has come; good as long as its rows.

    For each shape there is a lane, priority and reliability as in `PushColumns.frame_lane` and EXPRESS, or NO_LANE, and the
    head: all that stands before the body. The body is copied, with the timestamp that `PushColumns.assign_timestamps` noted for it, if
    any, which is of the clock of `zid`.
    """

    lane = cython.declare(cython.int, visibility="readonly")
    """That of the next row; -1 if there is none."""
    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """How many bytes the message of the next row has."""
    _row: cython.Py_ssize_t
    _stop: cython.Py_ssize_t
    _until: cython.Py_ssize_t  # the rows up to here were measured
    _columns: PushColumns
    _held: tuple[memoryview, ...]
    _lanes: cython.p_const_uchar
    _heads: cython.p_const_uchar
    _bounds: cython.p_uint
    _zid: cython.p_const_uchar
    _zid_size: cython.Py_ssize_t

    def __init__(
        self,
        columns: PushColumns,
        start: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
        lanes: bytes,
        heads: list[bytes],
        zid: bytes,
    ) -> None:
        columns._check(start, stop, lanes)
        if len(heads) != len(lanes):
            raise UsageError(f"{len(heads)} heads for {len(lanes)} shapes")
        bounds = _zeros("I", len(heads) + 1)
        self._held = (memoryview(lanes), memoryview(b"".join(heads)), bounds, memoryview(bytes([len(zid)]) + zid))
        self._columns = columns
        self._lanes = _const_pointer8(self._held[0])
        self._heads = _const_pointer8(self._held[1])
        self._bounds = _pointer32(bounds)
        self._zid = _const_pointer8(self._held[3])
        self._zid_size = 1 + len(zid)
        index: cython.Py_ssize_t
        for index in range(len(heads)):
            self._bounds[index + 1] = self._bounds[index] + len(heads[index])
        self._stop = stop
        self._go(start)

    def measure(self, uninitialized_bytes: cython.Py_ssize_t) -> int:
        """How many bytes the next rows of one lane have: the first, and as many more as have room with it."""
        self._check_rows()
        total: cython.Py_ssize_t = self.size
        row: cython.Py_ssize_t = self._row + 1
        lane: cython.int
        size: cython.Py_ssize_t
        while row < self._stop:
            lane = self._lanes[self._columns._row_shapes[row]]
            if lane == self.lane:
                size = self._size_of(self._columns, row)
                if total + size > uninitialized_bytes:
                    break
                total += size
            elif lane != _NO_LANE:
                break
            row += 1
        self._until = row
        return total

    def write(self, out: bytearray, at: cython.Py_ssize_t) -> None:
        """Write the rows that were measured, and go on behind them."""
        self._check_rows()
        target: cython.p_uchar = _pointer8(memoryview(out))
        end: cython.Py_ssize_t = len(out)
        row: cython.Py_ssize_t
        for row in range(self._row, self._until):
            if self._lanes[self._columns._row_shapes[row]] != _NO_LANE:
                if at < 0 or self._size_of(self._columns, row) > end - at:
                    raise UsageError(f"no room in {end} bytes for what was measured")
                at = self._write(self._columns, row, target, at)
        self._go(self._until)

    def message(self) -> bytearray:
        """The message of the next row alone; goes on behind it."""
        out = bytearray(self.measure(0))
        self.write(out, 0)
        return out

    @cython.cfunc
    def _check_rows(self) -> object:
        if self._stop > self._columns.row_count:
            raise UsageError("the rows to be passed on are gone")
        if self.lane < 0:
            raise IndexError("there is no row left")
        return None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _go(self, row: cython.Py_ssize_t) -> cython.void:
        """Go to the next row that goes there."""
        while row < self._stop and self._lanes[self._columns._row_shapes[row]] == _NO_LANE:
            row += 1
        self._row = row
        self._until = row
        self.lane = -1
        self.size = 0
        if row < self._stop:
            self.lane = self._lanes[self._columns._row_shapes[row]]
            self.size = self._size_of(self._columns, row)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _size_of(self, columns: PushColumns, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        number: cython.Py_ssize_t = columns._row_shapes[row]
        shape: cython.p_uint = _record(columns._shapes, number)
        size: cython.Py_ssize_t = self._bounds[number + 1] - self._bounds[number] + 1 + shape[_TAIL]
        if shape[_META] & _STAMPED:
            size += _z_size(columns._timestamps[row])
        elif columns._timestamps[row]:
            size += _z_size(columns._timestamps[row]) + self._zid_size
        return size + columns._stops[row] - columns._head_end(row, shape)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _write(
        self, columns: PushColumns, row: cython.Py_ssize_t, out: cython.p_uchar, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        number: cython.Py_ssize_t = columns._row_shapes[row]
        shape: cython.p_uint = _record(columns._shapes, number)
        body: cython.Py_ssize_t
        rest: cython.Py_ssize_t = columns._head_end(row, shape) - shape[_TAIL]
        body = _copy(out, at, self._heads, self._bounds[number], self._bounds[number + 1] - self._bounds[number])
        out[body] = columns._data[shape[_AT] + shape[_PRE] - 1]
        at = body + 1
        if shape[_META] & _STAMPED:
            at = _write_z(out, at, columns._timestamps[row])
        elif columns._timestamps[row]:
            out[body] |= 0x20
            at = _write_z(out, at, columns._timestamps[row])
            at = _copy(out, at, self._zid, 0, self._zid_size)
        return _copy(out, at, columns._data, rest, columns._stops[row] - rest)


# -- encoding ----------------------------------------------------------------------------------------------------

_NEVER = cython.declare(cython.const_longlong, 1 << 40)  # the size of what cannot be written: it fits no batch


def _number(value: int | Numbers) -> Numbers:
    return value.to_bytes(4, byteorder) if isinstance(value, int) else value


@cython.final
@cython.cclass
class OutgoingRows:
    """Messages to be written, column by column, and how far an `BatchEncoder` has come with them.

    `key` is one wire expression for all, or the whole key of each row. A DEL has no payload and no encoding. `qos` has
    one byte for each row, as on the wire; `timestamp` is NTP64, 0 for none; `encoding` has what `Encoding.write` makes,
    nothing for the default; ids are as on the wire, the least byte first. A column that is the same for all rows is a
    plain value or `BinaryColumn.constant`. Texts are not looked at: that they are UTF-8 is for the caller, or Arrow, to know.
    """

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    row = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """The next one to be written."""
    _busy: cython.bint
    _memory: tuple[memoryview, ...]
    _is_fixed: cython.bint
    _fixed: BinaryColumn
    _key: BinaryColumn
    _payload: BinaryColumn
    _timestamp_id: BinaryColumn
    _encoding: BinaryColumn
    _attachment: BinaryColumn
    _zid: BinaryColumn
    _header: cython.int
    _scope: cython.uint
    _stamped: cython.bint
    _sourced: cython.bint
    _attached: cython.bint
    _encoded: cython.bint
    _kinds: cython.p_const_uchar
    _kind_step: cython.Py_ssize_t
    _qos: cython.p_const_uchar
    _qos_step: cython.Py_ssize_t
    _timestamps: cython.p_const_ulonglong
    _eids: cython.p_const_uint
    _eid_step: cython.Py_ssize_t
    _sns: cython.p_const_uint
    _sn_step: cython.Py_ssize_t

    def __init__(
        self,
        count: cython.Py_ssize_t,
        key: WireExpr | BinaryColumn,
        payload: BinaryColumn | None = None,
        *,
        kind: RowKind | Buffer = RowKind.PUT,
        qos: QoS | Buffer = QoS.DEFAULT,
        timestamp: Numbers | None = None,
        timestamp_id: BinaryColumn | None = None,
        encoding: BinaryColumn | None = None,
        attachment: BinaryColumn | None = None,
        source_zid: BinaryColumn | None = None,
        source_eid: int | Numbers = 0,
        source_sn: int | Numbers = 0,
    ) -> None:
        if count < 0 or (timestamp is None) != (timestamp_id is None):
            raise UsageError("rows need a count, and timestamp and timestamp_id go together")
        self.count = count
        self.row = 0
        self._busy = False
        self._payload = payload or BinaryColumn.constant(None)
        self._timestamp_id = timestamp_id or BinaryColumn.constant(None)
        self._encoding = encoding or BinaryColumn.constant(None)
        self._attachment = attachment or BinaryColumn.constant(None)
        self._zid = source_zid or BinaryColumn.constant(None)
        self._stamped = timestamp is not None
        self._sourced = source_zid is not None
        self._attached = attachment is not None
        self._encoded = encoding is not None
        self._kind_step = not isinstance(kind, RowKind)
        self._qos_step = not isinstance(qos, QoS)
        self._eid_step = not isinstance(source_eid, int)
        self._sn_step = not isinstance(source_sn, int)
        self._memory = (
            _as("B", bytes([kind]) if isinstance(kind, RowKind) else kind),
            _as("B", bytes([qos.to_wire()]) if isinstance(qos, QoS) else qos),
            _as("Q", b"" if timestamp is None else timestamp),
            _as("I", _number(source_eid)),
            _as("I", _number(source_sn)),
        )
        self._set_key(key)
        self._check_sizes()
        self._kinds = _const_pointer8(self._memory[0])
        self._qos = _const_pointer8(self._memory[1])
        self._timestamps = _const_pointer64(self._memory[2])
        self._eids = _const_pointer32(self._memory[3])
        self._sns = _const_pointer32(self._memory[4])

    def _set_key(self, key: WireExpr | BinaryColumn) -> None:
        """With one key and one QoS for all rows, everything up to the body is the same, and written once, here."""
        self._is_fixed = not (isinstance(key, BinaryColumn) or self._qos_step)
        if isinstance(key, BinaryColumn):
            self._key = key
            self._scope = 0
            self._header = _PUSH | 0x40
            return
        qos = QoS.DEFAULT if self._qos_step else QoS.from_wire(0, self._memory[1][0])
        fixed = encode(Push(wire_expr=key, qos=qos, body=Del()))
        self._key = BinaryColumn.constant(key.suffix.encode())
        self._scope = key.scope
        self._header = _PUSH | (0x40 if key.by_sender else 0)
        self._fixed = BinaryColumn.constant(fixed[: len(fixed) - 1])

    def _check_sizes(self) -> None:
        """Refuse columns shorter than the rows they are for: the encoder relies on it."""
        steps = (self._kind_step, self._qos_step, self._stamped, self._eid_step, self._sn_step)
        sizes = [len(column) for column, step in zip(self._memory, steps, strict=True) if step]
        spans = (self._key, self._payload, self._timestamp_id, self._encoding, self._attachment, self._zid)
        sizes += [column.count for column in spans if not column.is_constant]
        if min(sizes, default=self.count) < self.count:
            raise UsageError(f"a column of {min(sizes)} for {self.count} rows")

    def reset(self) -> None:
        """Start again with the first row, for another link."""
        _check_idle(self._busy)
        self.row = 0

    def advance(self) -> None:
        """Step over a row that was sent by other means."""
        _check_idle(self._busy)
        if self.row >= self.count:
            raise IndexError(f"row {self.row} of {self.count}")
        self.row += 1

    def head_and_payload(self, row: cython.Py_ssize_t) -> tuple[bytes, memoryview | None]:
        """The message of a row as its bytes, and a payload to put behind them with its length, where it lies."""
        if not 0 <= row < self.count:
            raise IndexError(f"row {row} of {self.count}")
        head = BatchEncoder().head(self, row)
        if head is None:
            return encode(self.push(row)), None
        return head, None if self._kinds[row * self._kind_step] else self._payload.view(row)

    def push(self, row: cython.Py_ssize_t) -> Push:
        """The message of a row, for the object codec to write, or to say what is wrong with."""
        if not 0 <= row < self.count:
            raise IndexError(f"row {row} of {self.count}")
        timestamp = None
        if self._stamped and self._timestamps[row]:
            timestamp = Timestamp(self._timestamps[row], _id(self._timestamp_id.value(row)))
        source = None
        zid = self._zid.value(row)
        if zid is not None:
            source = SourceInfo(_id(zid), self._eids[row * self._eid_step], self._sns[row * self._sn_step])
        attachment = self._attachment.value(row)
        body: Put | Del
        if self._kinds[row * self._kind_step]:
            body = Del(timestamp=timestamp, source_info=source, attachment=attachment)
        else:
            value = self._payload.view(row)
            encoding = self._encoding.value(row)
            if value is None:
                raise UsageError(f"row {row} is a PUT without a payload")
            body = Put(
                timestamp=timestamp,
                encoding=Encoding.read(Reader(encoding)) if encoding else Encoding.BYTES,
                source_info=source,
                attachment=attachment,
                payload=bytes(value),
            )
        mapping = Mapping.SENDER if self._header & 0x40 else Mapping.RECEIVER
        wire_expr = WireExpr(self._scope, (self._key.value(row) or b"").decode(), mapping)
        return Push(wire_expr=wire_expr, qos=QoS.from_wire(0, self._qos[row * self._qos_step]), body=body)


def _id(raw: bytes | None) -> ZenohId:
    return ZenohId(int.from_bytes(raw or b"", "little"))


@cython.final
@cython.cclass
class BatchEncoder:
    """One lane on its way out: writes rows into batches of frames, under sequence numbers that it counts.

    `limit` is the largest length a batch may have: on a stream link the batch size less 2. `priority` is DATA on
    sessions without QoS, whose frames do not tell any.
    """

    framing = cython.declare(object, visibility="readonly")
    limit = cython.declare(cython.Py_ssize_t, visibility="readonly")
    mask = cython.declare(cython.uint, visibility="readonly")
    sn = cython.declare(cython.uint, visibility="public")
    """That of the next frame; whoever sends fragments in between counts on."""
    written = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """How many bytes the last call put into its buffer."""
    _busy: cython.bint
    _prefix: cython.Py_ssize_t
    _bare: cython.bint
    _lane: cython.int
    _del: cython.bint
    # The sizes of what the row being written has; those it need not have are -1 without.
    _suffix: cython.Py_ssize_t
    _quality: cython.int
    _stamp: cython.Py_ssize_t
    _encoding: cython.Py_ssize_t
    _zid: cython.Py_ssize_t
    _source: cython.Py_ssize_t
    _attachment: cython.Py_ssize_t
    _payload: cython.Py_ssize_t

    def __init__(
        self,
        framing: Framing = Framing.STREAM,
        limit: cython.Py_ssize_t = 0xFFFF,
        *,
        reliable: bool = True,
        priority: Priority = Priority.DATA,
        sn: cython.uint = 0,
        mask: cython.uint = 0x0FFFFFFF,
    ) -> None:
        if framing == Framing.MESSAGE:
            raise UsageError("nothing is written as a message alone")
        most = 0xFFFF if framing == Framing.STREAM else 0x7FFFFFFF
        if not 16 <= limit <= most:  # less has no room for the head of a frame and a message
            raise UsageError(f"a batch can have 16 to {most} bytes, not {limit}")
        self.framing = framing
        self.limit = limit
        self.mask = mask
        self.sn = sn & mask
        self.written = 0
        self._busy = False
        self._bare = framing == Framing.BARE
        self._prefix = (2, 4, 0)[framing]
        self._lane = int(priority) | (_RELIABLE if reliable else 0)

    def encode(self, rows: OutgoingRows, out: bytearray | memoryview) -> StopReason:
        """Write batches from the start of `out`, with the GIL released, moving `rows.row`; why it stopped.

        A new batch is begun only where a largest one has room. Framing.BATCH writes one batch at a time.
        """
        _check_idle(self._busy or rows._busy)
        if len(out) < self._prefix + self.limit:
            raise UsageError(f"{len(out)} bytes have no room for a batch of {self._prefix + self.limit}")
        held = _as("B", out)  # keeps `out` from being resized
        target: cython.p_uchar = _pointer8(held)
        size: cython.Py_ssize_t = len(held)
        outcome: cython.int
        self._busy = True
        rows._busy = True
        with cython.nogil:
            outcome = self._encode(rows, target, size)
        self._busy = False
        rows._busy = False
        return _OUTCOMES[outcome]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _encode(self, rows: OutgoingRows, out: cython.p_uchar, size: cython.Py_ssize_t) -> cython.int:
        at: cython.Py_ssize_t = 0
        start: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        outcome: cython.int = _END
        while rows.row < rows.count:
            if size - at < self._prefix + self.limit or (self._prefix == 0 and at):
                outcome = _FULL
                break
            start = self._open(out, at)
            stop = self._fill(rows, out, start, at + self._prefix + self.limit)
            if stop == start:
                outcome = _MESSAGE
                break
            self._close(out, at, stop)
            at = stop
        self.written = at
        return outcome

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _open(self, out: cython.p_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Begin a batch, and in it a frame; where the first message goes."""
        priority: cython.int = self._lane & _PRIORITY
        at += self._prefix
        if self._bare:
            return at
        out[at] = _FRAME | (self._lane & _RELIABLE) << 2 | (0x80 if priority != _DATA_LANE else 0)
        at = _write_z(out, at + 1, self.sn)
        if priority != _DATA_LANE:
            out[at] = 0x31
            out[at + 1] = priority
            at += 2
        return at

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _close(self, out: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.void:
        """Fill in the length of a batch and count its frame."""
        size: cython.Py_ssize_t = stop - at - self._prefix
        byte: cython.Py_ssize_t
        for byte in range(self._prefix):
            out[at + byte] = size >> (8 * byte) & 0xFF
        if not self._bare:
            self.sn = (self.sn + 1) & self.mask

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill(
        self, rows: OutgoingRows, out: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write rows as long as they fit; the position behind the last."""
        row: cython.Py_ssize_t = rows.row
        size: cython.longlong
        while row < rows.count:
            size = self._measure_key(rows, row) + self._measure_body(rows, row)
            if size > end - at:
                break
            at = self._write_key(rows, row, out, at)
            at = self._write_body(rows, row, out, at)
            if not self._del:
                at = _write_z(out, at, self._payload)
                at = _copy(out, at, rows._payload._data, rows._payload._start(row), self._payload)
            row += 1
        rows.row = row
        return at

    def head(self, rows: OutgoingRows, row: cython.Py_ssize_t) -> bytes | None:
        """A row up to the length of its payload; None if only the object codec can write it, or say what is wrong."""
        size: cython.longlong = self._measure_key(rows, row) + self._measure_body(rows, row)
        if size >= _NEVER:
            return None
        if not self._del:
            size -= _z_size(self._payload) + self._payload
        head = uninitialized_bytes(size)
        out: cython.p_uchar = _pointer8(memoryview(head))
        self._write_body(rows, row, out, self._write_key(rows, row, out, 0))
        return bytes(head)

    # -- how large a row is, and what of it there is

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure_key(self, rows: OutgoingRows, row: cython.Py_ssize_t) -> cython.longlong:
        quality: cython.int
        size: cython.Py_ssize_t
        if rows._is_fixed:
            return rows._fixed._size
        quality = rows._qos[row * rows._qos_step] & 0x3F
        self._quality = quality & 0x1F if quality & 0x08 else quality  # Block leaves nothing for BlockFirst to say
        size = rows._key._length(row)
        self._suffix = size
        if size < 0 or size > 0xFFFF:
            return _NEVER
        size += 1 + _z_size(rows._scope) + (_z_size(size) if size else 0)
        return size if self._quality == _DEFAULT_QOS else size + 2

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure_body(self, rows: OutgoingRows, row: cython.Py_ssize_t) -> cython.longlong:
        size: cython.longlong = 1
        self._del = rows._kinds[row * rows._kind_step] != 0
        self._stamp = 0
        self._zid = _id_size(rows._zid, row) if rows._sourced else -1
        self._attachment = rows._attachment._length(row) if rows._attached else -1
        if rows._stamped and rows._timestamps[row]:
            self._stamp = _id_size(rows._timestamp_id, row)
            size += _z_size(rows._timestamps[row]) + 1 + self._stamp
        if self._stamp < 0 or self._zid < -1 or self._attachment < -1:
            return _NEVER
        if self._zid > 0:
            self._source = (
                1 + self._zid + _z_size(rows._eids[row * rows._eid_step]) + _z_size(rows._sns[row * rows._sn_step])
            )
            size += 2 + self._source
        if self._attachment >= 0:
            size += 1 + _z_size(self._attachment) + self._attachment
        return size if self._del else size + self._measure_value(rows, row)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure_value(self, rows: OutgoingRows, row: cython.Py_ssize_t) -> cython.longlong:
        """Encoding and payload."""
        self._encoding = rows._encoding._length(row) if rows._encoded else -1
        self._payload = rows._payload._length(row)
        if self._encoding < -1 or self._payload < 0:
            return _NEVER
        if self._encoding == -1 or (self._encoding == 1 and rows._encoding._data[rows._encoding._start(row)] == 0):
            self._encoding = 0  # the default is not written
        return self._encoding + _z_size(self._payload) + self._payload

    # -- the bytes of a row that was measured and fits

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_key(
        self, rows: OutgoingRows, row: cython.Py_ssize_t, out: cython.p_uchar, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Everything before the body."""
        start: cython.Py_ssize_t = at
        if rows._is_fixed:
            return _copy(out, at, rows._fixed._data, 0, rows._fixed._size)
        out[at] = rows._header
        at = _write_z(out, at + 1, rows._scope)
        if self._suffix:
            out[start] |= 0x20
            at = _write_z(out, at, self._suffix)
            at = _copy(out, at, rows._key._data, rows._key._start(row), self._suffix)
        if self._quality != _DEFAULT_QOS:
            out[start] |= 0x80
            out[at] = 0x21
            out[at + 1] = self._quality
            at += 2
        return at

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_body(
        self, rows: OutgoingRows, row: cython.Py_ssize_t, out: cython.p_uchar, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Everything before the payload and its length."""
        start: cython.Py_ssize_t = at
        out[at] = _DEL_BODY if self._del else _PUT_BODY
        at += 1
        if self._stamp:
            out[start] |= 0x20
            at = _write_z(out, at, rows._timestamps[row])
            at = _write_z(out, at, self._stamp)
            at = _copy(out, at, rows._timestamp_id._data, rows._timestamp_id._start(row), self._stamp)
        if not self._del and self._encoding:
            out[start] |= 0x40
            at = _copy(out, at, rows._encoding._data, rows._encoding._start(row), self._encoding)
        if self._zid > 0:
            out[start] |= 0x80
            at = self._write_source(rows, row, out, at)
        if self._attachment >= 0:
            out[start] |= 0x80
            out[at] = 0x42 if self._del else 0x43
            at = _write_z(out, at + 1, self._attachment)
            at = _copy(out, at, rows._attachment._data, rows._attachment._start(row), self._attachment)
        return at

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_source(
        self, rows: OutgoingRows, row: cython.Py_ssize_t, out: cython.p_uchar, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        out[at] = 0x41 | (0x80 if self._attachment >= 0 else 0)
        out[at + 1] = self._source  # at most 27
        out[at + 2] = (self._zid - 1) << 4
        at = _copy(out, at + 3, rows._zid._data, rows._zid._start(row), self._zid)
        at = _write_z(out, at, rows._eids[row * rows._eid_step])
        return _write_z(out, at, rows._sns[row * rows._sn_step])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _id_size(ids: BinaryColumn, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The size of a node id, -1 if there is none, -2 if it is not one in its shortest form."""
    size: cython.Py_ssize_t = ids._length(row)
    if size == -1:
        return -1
    if size < 1 or size > 16 or ids._data[ids._start(row) + size - 1] == 0:
        return -2
    return size
