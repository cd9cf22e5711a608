# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Push columns: the PUSH messages of one buffer, as arrays of rows, templates and frames.

The table is passive: `BatchDecoder` appends to it, `RowForwarder` reads it, and users get views of its arrays.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any

import cython

from zenspark.errors import UsageError
from zenspark.wire.columns.binary import BinaryColumn
from zenspark.wire.columns.layout import PushTemplate, RowKind
from zenspark.wire.columns.memory import uninitialized_bytes, zeros
from zenspark.wire.messages import Del, Push, Put
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

if not cython.compiled:
    from zenspark.wire._bytes import read_vle32, value_of_vle32, vle_size
    from zenspark.wire.columns.layout import (
        ABSENT,
        ATTACHMENT_DISTANCE,
        ATTACHMENT_SIZE,
        EID,
        ENCODING,
        LANE_PRIORITY,
        LANE_RELIABLE,
        META,
        META_ATTACHED,
        META_BY_SENDER,
        META_DEL,
        META_SOURCED,
        META_TIMESTAMPED,
        POST_POS,
        QOS_SHIFT,
        RECORD_WORDS,
        SCHEMA_POS,
        SCOPE,
        SIZES,
        SN_DISTANCE,
        SUFFIX_POS,
        SUFFIX_SIZE,
        ZID_POS,
        record_at,
    )
    from zenspark.wire.columns.memory import check_idle, const_pointer8, pointer32, pointer64

_RELEASED_BYTES = cython.declare(cython.const_int, 1 << 22)  # allocated and freed once by PushColumns
_SLOTS = cython.declare(cython.const_int, 2048)  # of the hash table that finds templates by key, in pairs

_SUFFIXES = cython.declare(cython.const_int, 0)
_PAYLOADS = cython.declare(cython.const_int, 1)
_ATTACHMENTS = cython.declare(cython.const_int, 2)


@cython.final
@cython.cclass
class PushColumns:
    """Decoded PUSH messages of one buffer; allocated once, filled by a `BatchDecoder`, used again after `clear`.

    `row_count`, `template_count` and `frame_count` are the numbers of entries, `row_limit`, `template_limit` and
    `frame_limit` their maxima; `data` is the buffer the rows were decoded from. All views of the arrays are valid until
    `clear`. The fields are declared in `table.pxd`.
    """

    def __init__(
        self, rows: cython.Py_ssize_t = 65536, templates: cython.Py_ssize_t = 0, frames: cython.Py_ssize_t = 0
    ) -> None:
        """Allocate memory for `rows` rows, and for as many templates and frames unless other numbers are given."""
        self.row_limit = rows
        self.template_limit = templates or rows
        self.frame_limit = frames or rows
        if min(rows, self.template_limit, self.frame_limit) < 1:
            limits = f"{rows} rows, {self.template_limit} templates and {self.frame_limit} frames"
            raise UsageError(f"{limits} were requested: each must be at least 1")
        self._memory = (
            zeros("I", rows),
            zeros("I", rows),
            zeros("Q", rows),
            zeros("I", rows),
            zeros("I", self.frame_limit),
            zeros("I", self.frame_limit),
            zeros("I", self.frame_limit),
            zeros("I", (self.template_limit + 1) * RECORD_WORDS),  # a head is parsed into the last if all are taken
            zeros("I", _SLOTS),
        )
        self._starts = pointer32(self._memory[0])
        self._stops = pointer32(self._memory[1])
        self._timestamps = pointer64(self._memory[2])
        self._row_templates = pointer32(self._memory[3])
        self._frame_sns = pointer32(self._memory[4])
        self._frame_lanes = pointer32(self._memory[5])
        self._frame_rows = pointer32(self._memory[6])
        self._templates = pointer32(self._memory[7])
        self._slots = pointer32(self._memory[8])
        self._busy = False
        self._needs_template = False
        # glibc raises its threshold when so much is freed; below it, every read's memory is returned to the system
        uninitialized_bytes(_RELEASED_BYTES)
        self.clear()

    def clear(self) -> None:
        """Remove all rows, templates and frames, and release the buffer they refer to."""
        check_idle(self._busy)
        self.data: Any = None  # a Buffer while there are rows
        self._view = memoryview(b"")
        self._data = const_pointer8(self._view)
        self.row_count = 0
        self.template_count = 0
        self.frame_count = 0
        self._current = -1

    def __len__(self) -> int:
        return self.row_count

    # -- one entry per row

    @property
    def payload_start(self) -> memoryview:
        """The position of each payload in `data`."""
        return self._memory[0][: self.row_count].toreadonly()

    @property
    def payload_stop(self) -> memoryview:
        """The position behind each payload in `data`."""
        return self._memory[1][: self.row_count].toreadonly()

    @property
    def timestamp(self) -> memoryview:
        """NTP64; 0 in rows whose template has no `timestamp_id`, and in rows of a clock that reads 0."""
        return self._memory[2][: self.row_count].toreadonly()

    @property
    def template_index(self) -> memoryview:
        """The template of each row: an argument of `template_at`."""
        return self._memory[3][: self.row_count].toreadonly()

    # -- one entry per frame, whose rows end before the first row of the next frame

    @property
    def frame_sn(self) -> memoryview:
        """The sequence number of each frame."""
        return self._memory[4][: self.frame_count].toreadonly()

    @property
    def frame_lane(self) -> memoryview:
        """The lane of each frame: LANE_PRIORITY, LANE_RELIABLE, and LANE_CONTINUED if it began before `clear`."""
        return self._memory[5][: self.frame_count].toreadonly()

    @property
    def frame_row(self) -> memoryview:
        """The first row of each frame."""
        return self._memory[6][: self.frame_count].toreadonly()

    # -- values

    def template_at(self, index: cython.Py_ssize_t) -> PushTemplate:
        """Decode the header fields that the rows of a template share."""
        record: cython.p_uint = _checked_record(self, index)
        meta: cython.uint = record[META]
        suffix = _bytes_at(self, record[SUFFIX_POS], record[SUFFIX_SIZE]).decode()
        mapping = Mapping.SENDER if meta & META_BY_SENDER else Mapping.RECEIVER
        return PushTemplate(
            kind=RowKind.DEL if meta & META_DEL else RowKind.PUT,
            wire_expr=WireExpr(record[SCOPE] & 0xFFFF, suffix, mapping),
            qos=QoS.from_wire(0, meta >> QOS_SHIFT),
            node_id=record[SCOPE] >> 16,
            reliable=meta & LANE_RELIABLE != 0,
            priority=Priority(meta & LANE_PRIORITY),
            timestamp_id=_timestamp_id(self, record) if meta & META_TIMESTAMPED else None,
            encoding=_encoding(self, record),
            source=_source(self, record) if meta & META_SOURCED else None,
            has_attachment=meta & META_ATTACHED != 0,
        )

    def template_key(self, index: cython.Py_ssize_t) -> tuple[object, ...]:
        """Return a hashable key of a template: two with the same bytes have equal keys, also in different buffers."""
        record: cython.p_uint = _checked_record(self, index)
        meta: cython.uint = record[META]
        suffix = _bytes_at(self, record[SUFFIX_POS], record[SUFFIX_SIZE])
        if not (meta & (META_TIMESTAMPED | META_SOURCED) or record[ENCODING]):
            return (meta, record[SCOPE], suffix)
        zid: cython.Py_ssize_t = record[ZID_POS] - 1
        return (
            meta,
            record[SCOPE],
            suffix,
            record[ENCODING],
            _bytes_at(self, record[SCHEMA_POS], record[SIZES] & 0xFF) if record[ENCODING] & 1 else None,
            _bytes_at(self, record[POST_POS], self._view[record[POST_POS]] + 1) if meta & META_TIMESTAMPED else None,
            _bytes_at(self, zid, (self._view[zid] >> 4) + 2) if meta & META_SOURCED else None,
            record[EID] if meta & META_SOURCED else 0,
        )

    def node_id(self, index: cython.Py_ssize_t) -> int:
        """Return the node id of a template without decoding the rest of it."""
        return _checked_record(self, index)[SCOPE] >> 16

    def push(self, row: cython.Py_ssize_t) -> Push:
        """Make the message object of a row, equal to what the object codec reads from the same bytes."""
        if not 0 <= row < self.row_count:
            raise IndexError(f"row {row} of {self.row_count}")
        record: cython.p_uint = template_of(self, row)
        template = self.template_at(self._row_templates[row])
        timestamp = source = attachment = None
        if template.timestamp_id is not None:
            timestamp = Timestamp(self._timestamps[row], template.timestamp_id)
        if template.source is not None:
            source = SourceInfo(template.source.zid, template.source.eid, _source_sn(self, row, record))
        if template.has_attachment:
            start: cython.Py_ssize_t = head_end(self, row, record) - record[ATTACHMENT_DISTANCE]
            attachment = _bytes_at(self, start, record[ATTACHMENT_SIZE])
        body: Put | Del
        if template.kind is RowKind.DEL:
            body = Del(timestamp=timestamp, source_info=source, attachment=attachment)
        else:
            body = Put(
                timestamp=timestamp,
                encoding=template.encoding,
                source_info=source,
                attachment=attachment,
                payload=_bytes_at(self, self._starts[row], self._stops[row] - self._starts[row]),
            )
        return Push(wire_expr=template.wire_expr, qos=template.qos, node_id=template.node_id, body=body)

    def payloads(self) -> BinaryColumn:
        """Return the payload of each row, null for DEL, without copying it."""
        return _binary_column(self, _PAYLOADS)

    def attachments(self) -> BinaryColumn:
        """Return the attachment of each row, or null, without copying it."""
        return _binary_column(self, _ATTACHMENTS)

    def suffixes(self) -> BinaryColumn:
        """Return the key suffix of each row, for buffers in which nearly every row has a key of its own."""
        return _binary_column(self, _SUFFIXES)

    def source_sns(self) -> memoryview:
        """Return the sequence number the publisher gave each row; 0 in rows of templates without a source."""
        numbers = zeros("I", self.row_count)
        out: cython.p_uint = pointer32(numbers)
        begin_work(self)
        with cython.nogil:
            _fill_source_sns(self, out)
        self._busy = False
        return numbers

    def timestamp_summary(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, selected: bytes) -> tuple[int, int]:
        """Return the newest timestamp of rows `start` to `stop`, 0 if none has one, and the number of rows without.

        Counts only PUT rows, and of them those whose template has a nonzero byte in `selected`.
        """
        check_rows(self, start, stop, selected)
        newest: cython.ulonglong = 0
        missing: cython.Py_ssize_t = 0
        marks: cython.p_const_uchar = const_pointer8(memoryview(selected))
        row: cython.Py_ssize_t
        for row in range(start, stop):
            if _lacks_timestamp(self, row, marks):
                missing += 1
            elif marks[self._row_templates[row]] and template_of(self, row)[META] & META_DEL == 0:
                newest = max(newest, self._timestamps[row])
        return newest, missing

    def assign_timestamps(
        self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, selected: bytes, first: cython.ulonglong
    ) -> None:
        """Give the rows that `timestamp_summary` counted as without a timestamp `first`, `first + 1` and so on.

        A `RowForwarder` writes these timestamps into the messages.
        """
        check_rows(self, start, stop, selected)
        marks: cython.p_const_uchar = const_pointer8(memoryview(selected))
        row: cython.Py_ssize_t
        for row in range(start, stop):
            if _lacks_timestamp(self, row, marks):
                self._timestamps[row] = first
                first += 1


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_rows(columns: PushColumns, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, marks: bytes) -> cython.int:
    """Raise if a range of rows is not in the columns, or if there is not one mark for each template."""
    if not 0 <= start <= stop <= columns.row_count:
        raise IndexError(f"rows {start} to {stop} of {columns.row_count}")
    if len(marks) != columns.template_count:
        raise UsageError(f"{len(marks)} marks, expected one for each of {columns.template_count} templates")
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def begin_work(columns: PushColumns) -> cython.int:
    """Mark the columns as in use by this thread while the GIL is released."""
    check_idle(columns._busy)
    columns._busy = True
    return 0


if not cython.compiled:

    def template_of(columns: PushColumns, row: int) -> MutableSequence[int]:
        """Return the template record of a row."""
        return record_at(columns._templates, columns._row_templates[row])

    def head_end(columns: PushColumns, row: int, record: MutableSequence[int]) -> int:
        """Return where the head of a row ends: before the length of its payload, which is in its shortest form."""
        start: int = columns._starts[row]
        return start if record[META] & META_DEL else start - vle_size(columns._stops[row] - start)


@cython.cfunc
def _checked_record(columns: PushColumns, index: cython.Py_ssize_t) -> cython.p_uint:
    if not 0 <= index < columns.template_count:
        raise IndexError(f"template {index} of {columns.template_count}")
    return record_at(columns._templates, index)


@cython.cfunc
def _bytes_at(columns: PushColumns, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> bytes:
    return bytes(columns._view[start : start + size])


@cython.cfunc
def _timestamp_id(columns: PushColumns, record: cython.p_uint) -> object:
    return ZenohId.from_bytes(_bytes_at(columns, record[POST_POS] + 1, columns._view[record[POST_POS]]))


@cython.cfunc
def _encoding(columns: PushColumns, record: cython.p_uint) -> object:
    number: cython.uint = record[ENCODING] >> 1
    if not record[ENCODING] & 1:
        return Encoding(number)
    schema = _bytes_at(columns, record[SCHEMA_POS], record[SIZES] & 0xFF)
    return Encoding(number, schema.decode(errors="surrogateescape"))


@cython.cfunc
def _source(columns: PushColumns, record: cython.p_uint) -> object:
    size: cython.Py_ssize_t = (columns._view[record[ZID_POS] - 1] >> 4) + 1
    return EntityId(ZenohId.from_bytes(_bytes_at(columns, record[ZID_POS], size)), record[EID])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _lacks_timestamp(columns: PushColumns, row: cython.Py_ssize_t, marks: cython.p_const_uchar) -> cython.bint:
    if marks[columns._row_templates[row]] == 0:
        return False
    return template_of(columns, row)[META] & (META_DEL | META_TIMESTAMPED) == 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _source_sn(columns: PushColumns, row: cython.Py_ssize_t, record: cython.p_uint) -> cython.uint:
    end: cython.Py_ssize_t = head_end(columns, row, record)
    return value_of_vle32(read_vle32(columns._data, end - record[SN_DISTANCE], end))


@cython.cfunc
def _binary_column(columns: PushColumns, column: cython.int) -> object:
    starts = zeros("I", columns.row_count)
    stops = zeros("I", columns.row_count)
    first: cython.p_uint = pointer32(starts)
    behind: cython.p_uint = pointer32(stops)
    begin_work(columns)
    with cython.nogil:
        _fill_positions(columns, column, first, behind)
    columns._busy = False
    return BinaryColumn(columns._view, starts, stops)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_positions(
    columns: PushColumns, column: cython.int, starts: cython.p_uint, stops: cython.p_uint
) -> cython.void:
    if column == _PAYLOADS:
        _fill_payload_positions(columns, starts, stops)
    elif column == _ATTACHMENTS:
        _fill_attachment_positions(columns, starts, stops)
    else:
        _fill_suffix_positions(columns, starts, stops)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_payload_positions(columns: PushColumns, starts: cython.p_uint, stops: cython.p_uint) -> cython.void:
    payload_starts: cython.p_uint = columns._starts
    payload_stops: cython.p_uint = columns._stops
    is_put: cython.bint
    row: cython.Py_ssize_t
    for row in range(columns.row_count):
        is_put = template_of(columns, row)[META] & META_DEL == 0
        starts[row] = payload_starts[row] if is_put else ABSENT
        stops[row] = payload_stops[row] if is_put else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_attachment_positions(columns: PushColumns, starts: cython.p_uint, stops: cython.p_uint) -> cython.void:
    row: cython.Py_ssize_t
    record: cython.p_uint
    for row in range(columns.row_count):
        record = template_of(columns, row)
        starts[row] = ABSENT
        if record[META] & META_ATTACHED:
            starts[row] = head_end(columns, row, record) - record[ATTACHMENT_DISTANCE]
            stops[row] = starts[row] + record[ATTACHMENT_SIZE]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_suffix_positions(columns: PushColumns, starts: cython.p_uint, stops: cython.p_uint) -> cython.void:
    row: cython.Py_ssize_t
    record: cython.p_uint
    for row in range(columns.row_count):
        record = template_of(columns, row)
        starts[row] = record[SUFFIX_POS]
        stops[row] = record[SUFFIX_POS] + record[SUFFIX_SIZE]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_source_sns(columns: PushColumns, numbers: cython.p_uint) -> cython.void:
    row: cython.Py_ssize_t
    record: cython.p_uint
    for row in range(columns.row_count):
        record = template_of(columns, row)
        if record[META] & META_SOURCED:
            numbers[row] = _source_sn(columns, row, record)
