# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Batch encoder: columns of messages into batches of frames."""

from __future__ import annotations

from sys import byteorder

import cython

from zenspark.errors import UsageError
from zenspark.wire.buffer import Reader
from zenspark.wire.codec import encode
from zenspark.wire.columns.layout import STOP_REASONS, Framing, RowKind, StopReason
from zenspark.wire.columns.memory import Buffer, IntegerBuffer, uninitialized_bytes, view_as
from zenspark.wire.messages import Del, Push, Put
from zenspark.wire.values import Encoding, Mapping, Priority, QoS, SourceInfo, Timestamp, WireExpr, ZenohId

if not cython.compiled:
    from zenspark.wire._bytes import copy_bytes, vle_size, write_vle
    from zenspark.wire.columns.binary import BinaryColumn, value_size, value_start
    from zenspark.wire.columns.layout import (
        DEFAULT_PRIORITY,
        DEL_ID,
        FRAME_QOS_EXTENSION,
        LANE_PRIORITY,
        LANE_RELIABLE,
        PUSH_ID,
        PUT_ID,
        STOP_END,
        STOP_FULL,
        STOP_MESSAGE,
        WIRE_DEFAULT_QOS,
        frame_header,
    )
    from zenspark.wire.columns.memory import check_idle, const_pointer8, const_pointer32, const_pointer64, pointer8

_TOO_LARGE = cython.declare(
    cython.const_longlong, 1 << 40
)  # the size of a row that cannot be encoded: it fits no batch


def _number(value: int | IntegerBuffer) -> IntegerBuffer:
    return value.to_bytes(4, byteorder) if isinstance(value, int) else value


@cython.final
@cython.cclass
class OutgoingRows:
    """Messages to be encoded, column by column, and the position of a `BatchEncoder` in them.

    `key` is one wire expression for all rows, or a column with the whole key of each. A DEL has no payload and no
    encoding. `qos` has one byte for each row, as on the wire; `timestamp` is NTP64, 0 for none; `encoding` has what
    `Encoding.write` makes, nothing for the default; ids are as on the wire, the least byte first. A column that is the
    same for all rows is a plain value or `BinaryColumn.constant`. Texts are not checked: the caller, or Arrow, ensures
    that they are UTF-8.
    """

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    row = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """The next row to be encoded."""
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
    _is_plain: cython.bint
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
        timestamp: IntegerBuffer | None = None,
        timestamp_id: BinaryColumn | None = None,
        encoding: BinaryColumn | None = None,
        attachment: BinaryColumn | None = None,
        source_zid: BinaryColumn | None = None,
        source_eid: int | IntegerBuffer = 0,
        source_sn: int | IntegerBuffer = 0,
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
        has_more = self._stamped or self._sourced or self._attached or self._encoded
        self._is_plain = kind is RowKind.PUT and not has_more  # all rows have a key and a payload, and nothing else
        self._kind_step = not isinstance(kind, RowKind)
        self._qos_step = not isinstance(qos, QoS)
        self._eid_step = not isinstance(source_eid, int)
        self._sn_step = not isinstance(source_sn, int)
        self._memory = (
            view_as("B", bytes([kind]) if isinstance(kind, RowKind) else kind),
            view_as("B", bytes([qos.to_wire()]) if isinstance(qos, QoS) else qos),
            view_as("Q", b"" if timestamp is None else timestamp),
            view_as("I", _number(source_eid)),
            view_as("I", _number(source_sn)),
        )
        self._set_key(key)
        self._check_sizes()
        self._kinds = const_pointer8(self._memory[0])
        self._qos = const_pointer8(self._memory[1])
        self._timestamps = const_pointer64(self._memory[2])
        self._eids = const_pointer32(self._memory[3])
        self._sns = const_pointer32(self._memory[4])

    def _set_key(self, key: WireExpr | BinaryColumn) -> None:
        """Set the key; with one key and one QoS for all rows, encode the head up to the body here, once."""
        self._is_fixed = not (isinstance(key, BinaryColumn) or self._qos_step)
        if isinstance(key, BinaryColumn):
            self._key = key
            self._scope = 0
            self._header = PUSH_ID | 0x40
            return
        qos = QoS.DEFAULT if self._qos_step else QoS.from_wire(0, self._memory[1][0])
        fixed = encode(Push(wire_expr=key, qos=qos, body=Del()))
        self._key = BinaryColumn.constant(key.suffix.encode())
        self._scope = key.scope
        self._header = PUSH_ID | (0x40 if key.by_sender else 0)
        self._fixed = BinaryColumn.constant(fixed[: len(fixed) - 1])

    def _check_sizes(self) -> None:
        """Raise UsageError if a column has fewer values than there are rows: the encoder does not check that."""
        steps = (self._kind_step, self._qos_step, self._stamped, self._eid_step, self._sn_step)
        sizes = [len(column) for column, step in zip(self._memory, steps, strict=True) if step]
        columns = (self._key, self._payload, self._timestamp_id, self._encoding, self._attachment, self._zid)
        sizes += [column.count for column in columns if not column.is_constant]
        if min(sizes, default=self.count) < self.count:
            raise UsageError(f"a column of {min(sizes)} for {self.count} rows")

    def reset(self) -> None:
        """Move back to the first row, for another link."""
        check_idle(self._busy)
        self.row = 0

    def advance(self) -> None:
        """Move behind a row that the caller has sent."""
        check_idle(self._busy)
        if self.row >= self.count:
            raise IndexError(f"row {self.row} of {self.count}")
        self.row += 1

    def head_and_payload(self, row: cython.Py_ssize_t) -> tuple[bytes, memoryview | None]:
        """Encode a row as its head, and a view of the payload that belongs behind it with its length, if any."""
        if not 0 <= row < self.count:
            raise IndexError(f"row {row} of {self.count}")
        head = BatchEncoder().head(self, row)
        if head is None:
            return encode(self.push(row)), None
        return head, None if self._kinds[row * self._kind_step] else self._payload.view(row)

    def push(self, row: cython.Py_ssize_t) -> Push:
        """Make the message object of a row; the object codec encodes it, or raises the error."""
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
    """Encodes rows into batches of frames of one lane, and counts the sequence numbers of the frames.

    `limit` is the largest length of a batch in bytes: on a stream link the batch size less 2. `priority` is DATA on
    sessions without QoS, whose frames have no priority.
    """

    framing = cython.declare(object, visibility="readonly")
    limit = cython.declare(cython.Py_ssize_t, visibility="readonly")
    mask = cython.declare(cython.uint, visibility="readonly")
    sn = cython.declare(cython.uint, visibility="public")
    """The sequence number of the next frame; set by a caller that sends fragments in between."""
    written = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """The number of bytes the last call of `encode` wrote."""
    _busy: cython.bint
    _prefix: cython.Py_ssize_t
    _bare: cython.bint
    _lane: cython.int
    _del: cython.bint
    # Sizes of the parts of the row being encoded, in bytes; -1 for an optional part it does not have.
    _suffix: cython.Py_ssize_t
    _qos: cython.int
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
            raise UsageError("an encoder writes batches, not Framing.MESSAGE")
        max_limit = 0xFFFF if framing == Framing.STREAM else 0x7FFFFFFF
        if not 16 <= limit <= max_limit:  # less is too small for the header of a frame and a message
            raise UsageError(f"a batch can have 16 to {max_limit} bytes, not {limit}")
        self.framing = framing
        self.limit = limit
        self.mask = mask
        self.sn = sn & mask
        self.written = 0
        self._busy = False
        self._bare = framing == Framing.BARE
        self._prefix = (2, 4, 0)[framing]
        self._lane = int(priority) | (LANE_RELIABLE if reliable else 0)

    def encode(self, rows: OutgoingRows, out: bytearray | memoryview) -> StopReason:
        """Write batches to the start of `out`, with the GIL released, and move `rows.row`; returns why it stopped.

        A batch is begun only if a largest one fits. Framing.BATCH writes one batch at a time.
        """
        check_idle(self._busy or rows._busy)
        if len(out) < self._prefix + self.limit:
            raise UsageError(f"{len(out)} bytes are too few for a batch of {self._prefix + self.limit}")
        view = view_as("B", out)  # keeps `out` from being resized
        target: cython.p_uchar = pointer8(view)
        size: cython.Py_ssize_t = len(view)
        reason: cython.int
        self._busy = True
        rows._busy = True
        with cython.nogil:
            reason = self._encode(rows, target, size)
        self._busy = False
        rows._busy = False
        return STOP_REASONS[reason]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _encode(self, rows: OutgoingRows, out: cython.p_uchar, size: cython.Py_ssize_t) -> cython.int:
        at: cython.Py_ssize_t = 0
        start: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        reason: cython.int = STOP_END
        while rows.row < rows.count:
            if size - at < self._prefix + self.limit or (self._prefix == 0 and at):
                reason = STOP_FULL
                break
            start = self._open(out, at)
            stop = at + self._prefix + self.limit
            stop = self._fill_plain(rows, out, start, stop) if rows._is_plain else self._fill(rows, out, start, stop)
            if stop == start:
                reason = STOP_MESSAGE
                break
            self._close(out, at, stop)
            at = stop
        self.written = at
        return reason

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _open(self, out: cython.p_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Begin a batch, and in it a frame; returns the position of the first message."""
        priority: cython.int = self._lane & LANE_PRIORITY
        at += self._prefix
        if self._bare:
            return at
        out[at] = frame_header(self._lane)
        at = write_vle(out, at + 1, self.sn)
        if priority != DEFAULT_PRIORITY:
            out[at] = FRAME_QOS_EXTENSION
            out[at + 1] = priority
            at += 2
        return at

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _close(self, out: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.void:
        """Fill in the length of a batch, and increment the sequence number."""
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
        """Write rows as long as they fit; returns the position behind the last."""
        row: cython.Py_ssize_t = rows.row
        size: cython.longlong
        while row < rows.count:
            size = self._measure_key(rows, row) + self._measure_body(rows, row)
            if size > end - at:
                break
            at = self._write_key(rows, row, out, at)
            at = self._write_body(rows, row, out, at)
            if not self._del:
                at = write_vle(out, at, self._payload)
                at = copy_bytes(out, at, rows._payload._data, value_start(rows._payload, row), self._payload)
            row += 1
        rows.row = row
        return at

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill_plain(
        self, rows: OutgoingRows, out: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write PUTs without timestamp, encoding, source and attachment as `_fill` does."""
        row: cython.Py_ssize_t = rows.row
        while row < rows.count:
            if self._measure_key(rows, row) + self._measure_value(rows, row) + 1 > end - at:
                break
            at = self._write_key(rows, row, out, at)
            out[at] = PUT_ID
            at = write_vle(out, at + 1, self._payload)
            at = copy_bytes(out, at, rows._payload._data, value_start(rows._payload, row), self._payload)
            row += 1
        rows.row = row
        return at

    def head(self, rows: OutgoingRows, row: cython.Py_ssize_t) -> bytes | None:
        """Encode a row up to the length of its payload; None if it is one for the object codec."""
        size: cython.longlong = self._measure_key(rows, row) + self._measure_body(rows, row)
        if size >= _TOO_LARGE:
            return None
        if not self._del:
            size -= vle_size(self._payload) + self._payload
        head = uninitialized_bytes(size)
        out: cython.p_uchar = pointer8(memoryview(head))
        self._write_body(rows, row, out, self._write_key(rows, row, out, 0))
        return bytes(head)

    # -- size and parts of a row

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure_key(self, rows: OutgoingRows, row: cython.Py_ssize_t) -> cython.longlong:
        qos: cython.int
        size: cython.Py_ssize_t
        if rows._is_fixed:
            return rows._fixed._size
        qos = rows._qos[row * rows._qos_step] & 0x3F
        self._qos = qos & 0x1F if qos & 0x08 else qos  # with Block, the BlockFirst bit has no meaning
        size = value_size(rows._key, row)
        self._suffix = size
        if size < 0 or size > 0xFFFF:
            return _TOO_LARGE
        size += 1 + vle_size(rows._scope) + (vle_size(size) if size else 0)
        return size if self._qos == WIRE_DEFAULT_QOS else size + 2

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure_body(self, rows: OutgoingRows, row: cython.Py_ssize_t) -> cython.longlong:
        size: cython.longlong = 1
        self._del = rows._kinds[row * rows._kind_step] != 0
        self._stamp = 0
        self._zid = _id_size(rows._zid, row) if rows._sourced else -1
        self._attachment = value_size(rows._attachment, row) if rows._attached else -1
        if rows._stamped and rows._timestamps[row]:
            self._stamp = _id_size(rows._timestamp_id, row)
            size += vle_size(rows._timestamps[row]) + 1 + self._stamp
        if self._stamp < 0 or self._zid < -1 or self._attachment < -1:
            return _TOO_LARGE
        if self._zid > 0:
            self._source = (
                1 + self._zid + vle_size(rows._eids[row * rows._eid_step]) + vle_size(rows._sns[row * rows._sn_step])
            )
            size += 2 + self._source
        if self._attachment >= 0:
            size += 1 + vle_size(self._attachment) + self._attachment
        return size if self._del else size + self._measure_value(rows, row)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure_value(self, rows: OutgoingRows, row: cython.Py_ssize_t) -> cython.longlong:
        """Measure encoding and payload."""
        self._encoding = value_size(rows._encoding, row) if rows._encoded else -1
        self._payload = value_size(rows._payload, row)
        if self._encoding < -1 or self._payload < 0:
            return _TOO_LARGE
        if self._encoding == -1 or (
            self._encoding == 1 and rows._encoding._data[value_start(rows._encoding, row)] == 0
        ):
            self._encoding = 0  # the default is not written
        return self._encoding + vle_size(self._payload) + self._payload

    # -- the bytes of a row that was measured and fits its batch

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_key(
        self, rows: OutgoingRows, row: cython.Py_ssize_t, out: cython.p_uchar, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write all bytes before the body."""
        start: cython.Py_ssize_t = at
        if rows._is_fixed:
            return copy_bytes(out, at, rows._fixed._data, 0, rows._fixed._size)
        out[at] = rows._header
        at = write_vle(out, at + 1, rows._scope)
        if self._suffix:
            out[start] |= 0x20
            at = write_vle(out, at, self._suffix)
            at = copy_bytes(out, at, rows._key._data, value_start(rows._key, row), self._suffix)
        if self._qos != WIRE_DEFAULT_QOS:
            out[start] |= 0x80
            out[at] = 0x21
            out[at + 1] = self._qos
            at += 2
        return at

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_body(
        self, rows: OutgoingRows, row: cython.Py_ssize_t, out: cython.p_uchar, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the body up to the length of the payload."""
        start: cython.Py_ssize_t = at
        out[at] = DEL_ID if self._del else PUT_ID
        at += 1
        if self._stamp:
            out[start] |= 0x20
            at = write_vle(out, at, rows._timestamps[row])
            at = write_vle(out, at, self._stamp)
            at = copy_bytes(out, at, rows._timestamp_id._data, value_start(rows._timestamp_id, row), self._stamp)
        if not self._del and self._encoding:
            out[start] |= 0x40
            at = copy_bytes(out, at, rows._encoding._data, value_start(rows._encoding, row), self._encoding)
        if self._zid > 0:
            out[start] |= 0x80
            at = self._write_source(rows, row, out, at)
        if self._attachment >= 0:
            out[start] |= 0x80
            out[at] = 0x42 if self._del else 0x43
            at = write_vle(out, at + 1, self._attachment)
            at = copy_bytes(out, at, rows._attachment._data, value_start(rows._attachment, row), self._attachment)
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
        at = copy_bytes(out, at + 3, rows._zid._data, value_start(rows._zid, row), self._zid)
        at = write_vle(out, at, rows._eids[row * rows._eid_step])
        return write_vle(out, at, rows._sns[row * rows._sn_step])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _id_size(ids: BinaryColumn, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the size of a node id in bytes, -1 if it is null, -2 if it is not one in its shortest form."""
    size: cython.Py_ssize_t = value_size(ids, row)
    if size == -1:
        return -1
    if size < 1 or size > 16 or ids._data[value_start(ids, row) + size - 1] == 0:
        return -2
    return size
