# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Outbox: send path of one connection. Messages in, batches out.

Each priority has an open batch. A message is appended to the open frame of its lane, or begins a new frame if the
reliability changes; a message too large for an empty batch is fragmented. Full batches are ready at once, open ones
when the owner requests everything (`pop_all`), the most urgent priority first. Nothing here blocks and nothing is
dropped: the owner limits the backlog.

Compiled, because every `put()` passes here: two appends to a bytearray and a few comparisons. Compiled, each of these
methods is also atomic under the GIL. So during bulk sending publishers append without the owner's lock
(`try_append_lockfree`) while the owner allows it.
"""

from __future__ import annotations

import sys

import cython

from zenspark.errors import LimitExceeded
from zenspark.transport.counters import MessageKind
from zenspark.transport.framing import compress
from zenspark.wire._bytes import encode_vle
from zenspark.wire.columns import BatchEncoder, Framing, OutgoingRows, RowForwarder, StopReason
from zenspark.wire.values import Priority

if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
    from cython.cimports.cpython.bytearray import PyByteArray_Resize
else:
    from zenspark.wire._bytes import append_vle
    from zenspark.wire.columns.layout import (
        DEFAULT_PRIORITY,
        FIRST_EXTENSION,
        FRAGMENT_ID,
        FRAME_ID,
        FRAME_QOS_EXTENSION,
        LANE_EXPRESS,
        LANE_PRIORITY,
        LANE_RELIABLE,
        MORE_FLAG,
        RELIABLE_FLAG,
        Z_FLAG,
    )

ID_MASK, RESPONSE_FINAL_ID = 0x1F, 0x1A
"""Bits of a header that are the message id, and the id of RESPONSE_FINAL."""
Payload = bytes | bytearray | memoryview
EncodedBatch = bytearray | memoryview

GIL_ATOMIC = cython.compiled and getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether a method here is atomic for all other threads."""
APPEND_REFUSED, APPENDED, BATCH_FULL = 0, 1, 2
"""Results of `try_append_lockfree`."""
FRAME_HEADER_RESERVE: cython.Py_ssize_t = 16
"""Bytes reserved for a length prefix, a compression byte, and the head of a FRAME: header, sequence number
and extensions."""


@cython.cfunc
def _reserve(memory: bytearray, size: cython.Py_ssize_t) -> cython.void:
    """Grow a bytearray by `size` bytes that are about to be overwritten: zero-filling them would be wasted."""
    if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
        PyByteArray_Resize(memory, len(memory) + size)
    else:
        memory += bytes(size)


@cython.cclass
class PriorityLanes:
    """The two lanes of one priority, best effort and reliable: their open batch and next sequence numbers."""

    priority: cython.int
    batch: bytearray
    open_frame_reliability: cython.int  # 1: reliable, 0: best effort, -1: there is no open frame
    sn: list[int]

    def __init__(self, priority: cython.int, initial_sn: cython.ulonglong) -> None:
        self.priority = priority
        self.batch = bytearray()
        self.open_frame_reliability = -1
        self.sn = [initial_sn, initial_sn]


@cython.cclass
class Outbox:
    """Encoded messages of a connection, waiting to be sent."""

    _priorities: list[PriorityLanes]
    _ready: list[EncodedBatch]
    _qos: cython.bint
    _compression: cython.bint
    _low_latency: cython.bint
    _streamed: cython.bint
    _separate_final_frames: cython.bint
    _mask: cython.ulonglong
    _capacity: cython.Py_ssize_t
    _batch_size: cython.Py_ssize_t
    _pushes: cython.ulonglong  # counts of messages, by kind
    _requests: cython.ulonglong
    _responses: cython.ulonglong
    _finals: cython.ulonglong
    _declares: cython.ulonglong
    _interests: cython.ulonglong
    _oams: cython.ulonglong
    lockfree_append_allowed = cython.declare(cython.bint, visibility="public")
    """Whether messages may be appended without the owner's lock: the owner is about to write everything in any case.

    Set by the owner under its lock, and only if GIL_ATOMIC.
    """

    def __init__(
        self,
        batch_size: int,
        initial_sn: int,
        sn_mask: int,
        qos: bool = True,
        compression: bool = False,
        low_latency: bool = False,
        streamed: bool = False,
        separate_final_frames: bool = False,
    ) -> None:
        self._priorities = [PriorityLanes(priority, initial_sn) for priority in range(8)]
        self._ready = []
        self._qos = qos
        self._compression = compression
        self._low_latency = low_latency
        self._streamed = streamed
        self._separate_final_frames = (
            separate_final_frames
            # True: every RESPONSE_FINAL gets a frame, and so a batch, of its own
        )
        self._mask = sn_mask
        self._batch_size = batch_size
        self._capacity = batch_size - FRAME_HEADER_RESERVE
        self._pushes = self._requests = self._responses = self._finals = 0
        self._declares = self._interests = self._oams = 0
        self.lockfree_append_allowed = False

    @property
    def sent_by_kind(self) -> dict[MessageKind, int]:
        """Messages appended so far, by kind; kinds that were not sent are absent."""
        counts = {
            MessageKind.PUSH: self._pushes,
            MessageKind.REQUEST: self._requests,
            MessageKind.RESPONSE: self._responses,
            MessageKind.RESPONSE_FINAL: self._finals,
            MessageKind.DECLARE: self._declares,
            MessageKind.INTEREST: self._interests,
            MessageKind.OAM: self._oams,
        }
        return {kind: count for kind, count in counts.items() if count}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not self._ready and not any(lanes.batch for lanes in self._priorities)

    @property
    def next_sns(self) -> tuple[tuple[int, int], ...]:
        """The next reliable and best-effort sequence number of each priority."""
        return tuple([(lanes.sn[1], lanes.sn[0]) for lanes in self._priorities])

    def try_append_lockfree(
        self, priority: cython.int, reliable: cython.bint, head: bytes, payload: Payload
    ) -> cython.int:
        """Append a message if `lockfree_append_allowed`: APPENDED, or BATCH_FULL if a full batch must be written; else
        APPEND_REFUSED."""
        if not self.lockfree_append_allowed:
            return APPEND_REFUSED
        return BATCH_FULL if self._append(priority, reliable, head, payload) else APPENDED

    def append(
        self, priority: cython.int, reliable: cython.bint, head: bytes, payload: Payload | None = None
    ) -> cython.bint:
        """Append a network message: its bytes, and a payload to put behind them with its length. True if a batch is
        full."""
        return self._append(priority, reliable, head, payload)

    @cython.cfunc
    def _append(self, priority: cython.int, reliable: cython.bint, head: bytes, payload: Payload | None) -> cython.bint:
        length: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = len(head)
        if payload is not None:
            length = len(payload)
            size += length + 5
        if self._low_latency:
            return self._append_bare(head, payload)
        self._count(head[0])
        lanes: PriorityLanes = self._priorities[priority if self._qos else DEFAULT_PRIORITY]
        if self._separate_final_frames and head[0] & ID_MASK == RESPONSE_FINAL_ID:
            return self._append_separately(lanes, reliable, head)
        batch: bytearray = lanes.batch
        full: cython.bint = False
        if len(batch) + size > self._capacity:
            full = self._close(lanes)
            batch = lanes.batch
            if size > self._capacity:
                self._fragment(lanes, reliable, head, payload)
                return True
        if lanes.open_frame_reliability != reliable:
            full = self._begin_frame(lanes, reliable) or full
            batch = lanes.batch
        batch += head
        if payload is not None:
            append_vle(batch, length)
            batch += payload
        return full

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _count(self, header: cython.uchar) -> cython.void:
        """Count a message by its header; compared with literals, because names are Python objects."""
        kind: cython.int = header & 0x1F
        if kind == 0x1D:
            self._pushes += 1
        elif kind == 0x1C:
            self._requests += 1
        elif kind == 0x1B:
            self._responses += 1
        elif kind == 0x1A:
            self._finals += 1
        elif kind == 0x1E:
            self._declares += 1
        elif kind == 0x19:
            self._interests += 1
        else:
            self._oams += 1

    @cython.cfunc
    def _append_separately(self, lanes: PriorityLanes, reliable: cython.bint, head: bytes) -> cython.bint:
        """Append a message in a frame of its own."""
        self._begin_frame(lanes, reliable)
        batch: bytearray = lanes.batch
        batch += head
        return self._close(lanes)

    def append_rows(
        self, priority: cython.int, reliable: cython.bint, rows: OutgoingRows, buffer: bytearray | None = None
    ) -> None:
        """Encode rows, from `rows.row` on, as batches of their own, at least one.

        In `buffer` they are contiguous, as many as fit, for one write to a stream; it is in use until that write is
        done. Without it, for a link that carries batches one by one, they are separate.
        """
        self.lockfree_append_allowed = False  # not atomic
        if self._low_latency:
            self._append_bare_rows(rows, 0 if buffer is None else len(buffer))
            return
        lanes: PriorityLanes = self._priorities[priority if self._qos else DEFAULT_PRIORITY]
        self._close(lanes)
        limit: cython.Py_ssize_t = self._batch_size - (3 if self._compression else 2)
        separate: cython.bint = buffer is None or self._compression
        out = buffer if buffer is not None and not separate else bytearray(limit + 2)
        encoder = BatchEncoder(
            Framing.STREAM,
            limit,
            reliable=reliable,
            priority=Priority(lanes.priority),
            sn=lanes.sn[reliable],
            mask=self._mask,
        )
        first: cython.Py_ssize_t = rows.row
        at: cython.Py_ssize_t = 0
        while True:
            outcome = encoder.encode(rows, memoryview(out)[at:])
            lanes.sn[reliable] = encoder.sn
            at += encoder.written
            if outcome is not StopReason.MESSAGE or (at and separate):
                break
            stop: cython.Py_ssize_t = self._append_large_row(lanes, reliable, rows, out, at)
            encoder.sn = lanes.sn[reliable]
            at = max(at, stop)
            if stop == 0 or len(out) - at < limit + 2:
                break
        self._pushes += rows.row - first
        if at and self._compression:
            self._finish(out[:at])
        elif at:
            self._ready.append(memoryview(out)[:at])

    def append_forwarded(self, rows: RowForwarder) -> None:
        """Append the next rows that are forwarded, as if each was appended; call again while there are rows left."""
        reliable: cython.bint = rows.lane & LANE_RELIABLE != 0
        self.lockfree_append_allowed = False  # not atomic
        if self._low_latency:
            self._append_bare(bytes(rows.message()), None)
            return
        lanes: PriorityLanes = self._priorities[rows.lane & LANE_PRIORITY if self._qos else DEFAULT_PRIORITY]
        if len(lanes.batch) + rows.size > self._capacity:
            self._close(lanes)
            if rows.size > self._capacity:
                self._fragment(lanes, reliable, bytes(rows.message()), None)
                self._pushes += 1
                return
        if lanes.open_frame_reliability != reliable:
            self._begin_frame(lanes, reliable)
        batch: bytearray = lanes.batch
        at: cython.Py_ssize_t = len(batch)
        size: cython.Py_ssize_t = rows.measure(0 if rows.lane & LANE_EXPRESS else self._capacity - at)
        self._pushes += rows.measured_rows
        _reserve(batch, size)
        rows.write(batch, at)

    @cython.cfunc
    def _append_large_row(
        self, lanes: PriorityLanes, reliable: cython.bint, rows: OutgoingRows, out: bytearray, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write one row as fragments behind the bytes in `out`; returns where they end, 0 if they do not fit."""
        head, payload = rows.head_and_payload(rows.row)
        size: cython.Py_ssize_t = len(head) + (0 if payload is None else len(payload))
        if len(out) - at >= self._fragmented_size(size):
            rows.advance()
            return self._write_fragments(lanes, reliable, head, payload, out, at)
        if at == 0:  # will never fit
            self._fragment(lanes, reliable, head, payload)
            rows.advance()
        return 0

    @cython.cfunc
    def _append_bare_rows(self, rows: OutgoingRows, size: cython.Py_ssize_t) -> cython.void:
        """Append message by message, because in a low-latency session each is a batch."""
        written: cython.Py_ssize_t = 0
        while rows.row < rows.count and written <= size:
            head, payload = rows.head_and_payload(rows.row)
            self._append_bare(head, payload)
            rows.advance()
            written += len(head) + (0 if payload is None else len(payload))

    @cython.cfunc
    def _join_payload(self, head: bytes, payload: Payload | None) -> bytes:
        return head if payload is None else b"".join((head, encode_vle(len(payload)), payload))

    @cython.cfunc
    def _append_bare(self, head: bytes, payload: Payload | None) -> cython.bint:
        message = self._join_payload(head, payload)
        if len(message) > self._batch_size:
            raise LimitExceeded(len(message), self._batch_size, "bytes of a message in a low-latency session")
        self._count(message[0])
        self._finish(bytearray(b"\0\0\0\0" + message))
        return True

    @cython.cfunc
    def _begin_frame(self, lanes: PriorityLanes, reliable: cython.bint) -> cython.bint:
        """Begin a batch with a frame of this reliability; True if there was another, which is ready now.

        A frame extends to the end of its batch, so a batch holds messages of one reliability.
        """
        full: cython.bint = self._close(lanes)
        batch: bytearray = lanes.batch
        batch += b"\0\0"
        self._append_header(batch, FRAME_ID | (RELIABLE_FLAG if reliable else 0), lanes, reliable, False)
        lanes.open_frame_reliability = reliable
        return full

    @cython.cfunc
    def _append_header(
        self, out: bytearray, header: cython.int, lanes: PriorityLanes, reliable: cython.bint, first: cython.bint
    ) -> cython.void:
        sn: cython.ulonglong = lanes.sn[reliable]
        lanes.sn[reliable] = (sn + 1) & self._mask
        has_priority: cython.bint = self._qos and lanes.priority != DEFAULT_PRIORITY
        out.append(cython.cast(cython.uchar, header | (Z_FLAG if has_priority or first else 0)))
        append_vle(out, sn)
        if has_priority:
            out.append(cython.cast(cython.uchar, FRAME_QOS_EXTENSION | (Z_FLAG if first else 0)))
            out.append(cython.cast(cython.uchar, lanes.priority))
        if first:
            out.append(FIRST_EXTENSION)

    @cython.cfunc
    def _fragment(
        self, lanes: PriorityLanes, reliable: cython.bint, head: bytes, payload: Payload | None
    ) -> cython.void:
        """Split a message into fragments, each a batch of its own. The payload is copied only into its fragments."""
        out = bytearray()
        _reserve(out, self._fragmented_size(len(head) + (0 if payload is None else len(payload))))
        stop: cython.Py_ssize_t = self._write_fragments(lanes, reliable, head, payload, out, 0)
        if self._streamed and not self._compression:  # the last fragment, often small, is not worth a write of its own
            self._ready.append(memoryview(out)[:stop])
            return
        at: cython.Py_ssize_t = 0
        while at < stop:
            end: cython.Py_ssize_t = at + 2 + int.from_bytes(out[at : at + 2], "little")
            self._finish(out[at:end])
            at = end

    @cython.cfunc
    def _fragmented_size(self, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Upper bound of the bytes of a fragmented message; `size` excludes the length of its payload."""
        size += FRAME_HEADER_RESERVE
        return size + (size // self._capacity + 1) * FRAME_HEADER_RESERVE

    @cython.cfunc
    def _write_fragments(
        self,
        lanes: PriorityLanes,
        reliable: cython.bint,
        head: bytes,
        payload: Payload | None,
        out: bytearray,
        at: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the fragments of a message, each behind its length, from position `at`; returns where they end."""
        first = head if payload is None else head + encode_vle(len(payload))
        rest = memoryview(b"" if payload is None else payload).cast("B")
        first_size: cython.Py_ssize_t = len(first)
        size: cython.Py_ssize_t = first_size + len(rest)
        pos: cython.Py_ssize_t = 0
        view = memoryview(out)
        while pos < size:
            stop: cython.Py_ssize_t = min(pos + self._capacity, size)
            start = bytearray(b"\0\0")
            header: cython.int = FRAGMENT_ID | (RELIABLE_FLAG if reliable else 0) | (MORE_FLAG if stop < size else 0)
            self._append_header(start, header, lanes, reliable, pos == 0)
            start += first[pos:stop]
            chunk = rest[max(pos - first_size, 0) : max(stop - first_size, 0)]
            start[:2] = (len(start) + len(chunk) - 2).to_bytes(2, "little")
            view[at : at + len(start)] = start
            at += len(start)
            view[at : at + len(chunk)] = chunk
            at += len(chunk)
            pos = stop
        return at

    @cython.cfunc
    def _close(self, lanes: PriorityLanes) -> cython.bint:
        """Finish the open batch of a priority; False if there is none."""
        if not lanes.batch:
            return False
        self._finish(lanes.batch)
        lanes.batch = bytearray()
        lanes.open_frame_reliability = -1
        return True

    @cython.cfunc
    def _finish(self, batch: bytearray) -> cython.void:
        """Fill in the length and queue the batch as ready."""
        width: cython.int = 4 if self._low_latency else 2
        if self._compression:
            batch = bytearray(b"\0\0") + compress(memoryview(batch)[2:])
        length: cython.Py_ssize_t = len(batch) - width
        batch[:width] = length.to_bytes(width, "little")
        self._ready.append(batch)

    def pop_all(self) -> list[EncodedBatch]:
        """Remove and return everything there is to send, in order."""
        for lanes in self._priorities:
            self._close(lanes)
        return self._pop_ready()

    def pop_full_batches(self) -> list[EncodedBatch]:
        """Remove and return the full batches."""
        return self._pop_ready()

    def count_batches(self, buffer: EncodedBatch, sent: cython.Py_ssize_t = 0) -> cython.Py_ssize_t:
        """Count the batches in a buffer of `pop_all` that are not within its first `sent` bytes."""
        if not self._streamed:
            return 1
        width: cython.Py_ssize_t = 4 if self._low_latency else 2
        count: cython.Py_ssize_t = 0
        at: cython.Py_ssize_t = 0
        while at < len(buffer):
            at += width + int.from_bytes(buffer[at : at + width], "little")
            if at > sent:
                count += 1
        return count

    @cython.cfunc
    def _pop_ready(self) -> list[EncodedBatch]:
        ready: list[EncodedBatch] = self._ready
        self._ready = []
        return ready
