# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Row forwarder: rows of `PushColumns` written behind other heads, for a peer that they are forwarded to."""

from __future__ import annotations

import cython

from zenspark.errors import UsageError
from zenspark.wire.columns.memory import zeros

if not cython.compiled:
    from zenspark.wire._bytes import copy_bytes, vle_size, write_vle
    from zenspark.wire.columns.layout import HEAD_POS, META, META_TIMESTAMPED, NO_LANE, POST_SIZE, PRE_SIZE, record_at
    from zenspark.wire.columns.memory import const_pointer8, pointer8, pointer32
    from zenspark.wire.columns.table import PushColumns, check_rows, head_end


@cython.final
@cython.cclass
class RowForwarder:
    """Writes rows of `PushColumns` for one peer, each behind a new head, and keeps the position of the next row.

    For each template there are a lane (priority, reliability and LANE_EXPRESS, or NO_LANE) and a head: all bytes
    before the body. The body is copied; a timestamp that `PushColumns.assign_timestamps` gave the row is added to it,
    with `zid` as its clock. The columns must not be cleared before the last row is written.
    """

    lane = cython.declare(cython.int, visibility="readonly")
    """The lane of the next row; -1 if there is none."""
    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """The size of the next row as a message, in bytes."""
    measured_rows = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """The number of rows in the last `measure`."""
    _row: cython.Py_ssize_t
    _stop: cython.Py_ssize_t
    _until: cython.Py_ssize_t  # the row behind those that were measured
    _columns: PushColumns
    _views: tuple[memoryview, ...]
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
        check_rows(columns, start, stop, lanes)
        if len(heads) != len(lanes):
            raise UsageError(f"{len(heads)} heads for {len(lanes)} templates")
        bounds = zeros("I", len(heads) + 1)
        self._views = (memoryview(lanes), memoryview(b"".join(heads)), bounds, memoryview(bytes([len(zid)]) + zid))
        self._columns = columns
        self._lanes = const_pointer8(self._views[0])
        self._heads = const_pointer8(self._views[1])
        self._bounds = pointer32(bounds)
        self._zid = const_pointer8(self._views[3])
        self._zid_size = 1 + len(zid)
        index: cython.Py_ssize_t
        for index in range(len(heads)):
            self._bounds[index + 1] = self._bounds[index] + len(heads[index])
        self._stop = stop
        self._move_to(start)

    def measure(self, capacity: cython.Py_ssize_t) -> int:
        """Return the size in bytes of the next rows of one lane: the first, and as many as fit `capacity` with it."""
        self._check_rest()
        total: cython.Py_ssize_t = self.size
        count: cython.Py_ssize_t = 1
        row: cython.Py_ssize_t = self._row + 1
        lane: cython.int
        size: cython.Py_ssize_t
        while row < self._stop:
            lane = self._lanes[self._columns._row_templates[row]]
            if lane == self.lane:
                size = self._size_of(self._columns, row)
                if total + size > capacity:
                    break
                total += size
                count += 1
            elif lane != NO_LANE:
                break
            row += 1
        self._until = row
        self.measured_rows = count
        return total

    def write(self, out: bytearray, at: cython.Py_ssize_t) -> None:
        """Write the rows that were measured to `out[at:]`, and move behind them."""
        self._check_rest()
        target: cython.p_uchar = pointer8(memoryview(out))
        end: cython.Py_ssize_t = len(out)
        row: cython.Py_ssize_t
        for row in range(self._row, self._until):
            if self._lanes[self._columns._row_templates[row]] != NO_LANE:
                if at < 0 or self._size_of(self._columns, row) > end - at:
                    raise UsageError(f"{end} bytes are too few for the measured rows")
                at = self._write(self._columns, row, target, at)
        self._move_to(self._until)

    def message(self) -> bytearray:
        """Return the next row as a message, and move behind it."""
        out = bytearray(self.measure(0))
        self.write(out, 0)
        return out

    @cython.cfunc
    def _check_rest(self) -> object:
        if self._stop > self._columns.row_count:
            raise UsageError("the columns of the rows to forward were cleared")
        if self.lane < 0:
            raise IndexError("there is no row left")
        return None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _move_to(self, row: cython.Py_ssize_t) -> cython.void:
        """Move to the first row from `row` on that has a lane."""
        while row < self._stop and self._lanes[self._columns._row_templates[row]] == NO_LANE:
            row += 1
        self._row = row
        self._until = row
        self.lane = -1
        self.size = 0
        if row < self._stop:
            self.lane = self._lanes[self._columns._row_templates[row]]
            self.size = self._size_of(self._columns, row)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _size_of(self, columns: PushColumns, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        index: cython.Py_ssize_t = columns._row_templates[row]
        record: cython.p_uint = record_at(columns._templates, index)
        size: cython.Py_ssize_t = self._bounds[index + 1] - self._bounds[index] + 1 + record[POST_SIZE]
        if record[META] & META_TIMESTAMPED:
            size += vle_size(columns._timestamps[row])
        elif columns._timestamps[row]:
            size += vle_size(columns._timestamps[row]) + self._zid_size
        return size + columns._stops[row] - head_end(columns, row, record)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _write(
        self, columns: PushColumns, row: cython.Py_ssize_t, out: cython.p_uchar, at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        index: cython.Py_ssize_t = columns._row_templates[row]
        record: cython.p_uint = record_at(columns._templates, index)
        body: cython.Py_ssize_t
        rest: cython.Py_ssize_t = head_end(columns, row, record) - record[POST_SIZE]
        body = copy_bytes(out, at, self._heads, self._bounds[index], self._bounds[index + 1] - self._bounds[index])
        out[body] = columns._data[record[HEAD_POS] + record[PRE_SIZE] - 1]
        at = body + 1
        if record[META] & META_TIMESTAMPED:
            at = write_vle(out, at, columns._timestamps[row])
        elif columns._timestamps[row]:
            out[body] |= 0x20
            at = write_vle(out, at, columns._timestamps[row])
            at = copy_bytes(out, at, self._zid, 0, self._zid_size)
        return copy_bytes(out, at, columns._data, rest, columns._stops[row] - rest)
