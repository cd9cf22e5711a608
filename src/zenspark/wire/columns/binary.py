# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Binary columns: a byte string or null for each row, as positions in one buffer or packed as in Arrow."""

from __future__ import annotations

from array import array

import cython
import msgspec

from zenspark.errors import UsageError
from zenspark.wire.columns.memory import Buffer, IntegerBuffer, uninitialized_bytes, view_as, zeros

if not cython.compiled:
    from zenspark.wire._bytes import copy_bytes
    from zenspark.wire.columns.layout import ABSENT
    from zenspark.wire.columns.memory import const_pointer8, const_pointer32, pointer8, pointer32


class PackedBinary(msgspec.Struct, frozen=True):
    """Values copied one behind the other: the three buffers of an Arrow binary array."""

    offsets: memoryview
    """Signed 32-bit integers, one more than there are values."""
    data: memoryview
    validity: bytearray | None
    """One bit for each value, the lowest first; None if no value is null."""
    null_count: int


@cython.final
@cython.cclass
class BinaryColumn:
    """Byte strings of one buffer, one for each row: value `row` is `data[starts[row]:stops[row]]`.

    A value is null where its start is ABSENT, or where its bit of `validity`, counted from `first_bit`, is 0. The
    fields, and what C code of other modules reads of them, are in `binary.pxd`.
    """

    def __init__(
        self,
        data: Buffer,
        starts: IntegerBuffer,
        stops: IntegerBuffer,
        validity: Buffer | None = None,
        first_bit: cython.Py_ssize_t = 0,
    ) -> None:
        self.data = view_as("B", data)
        self.starts = view_as("I", starts)
        self.stops = view_as("I", stops)
        self.count = len(self.starts)
        if len(self.stops) != self.count:
            raise UsageError(f"{self.count} starts, but {len(self.stops)} stops")
        bits = view_as("B", b"" if validity is None else validity)
        if validity is not None and not 0 <= first_bit <= len(bits) * 8 - self.count:
            raise UsageError(f"{len(bits)} bytes are too few for {self.count} bits from bit {first_bit} on")
        self._views = (view_as("B", self.data), view_as("I", self.starts), view_as("I", self.stops), bits)
        self._data = const_pointer8(self._views[0])
        self._size = len(self.data)
        self._starts = const_pointer32(self._views[1])
        self._stops = const_pointer32(self._views[2])
        self._step = 1
        self._has_validity = validity is not None
        self._validity = const_pointer8(bits)
        self._first_bit = first_bit

    @staticmethod
    def constant(value: Buffer | None) -> BinaryColumn:
        """Make a column with the same value, or null, in every row."""
        bounds = [ABSENT, ABSENT]
        if value is not None:
            bounds = [0, len(value)]
        starts, stops = (array("I", [bound]) for bound in bounds)
        column: BinaryColumn = BinaryColumn(value or b"", starts, stops)
        column._step = 0
        return column

    @staticmethod
    def from_offsets(
        data: Buffer, offsets: IntegerBuffer, validity: Buffer | None = None, first_bit: int = 0
    ) -> BinaryColumn:
        """Make a column from the buffers of an Arrow binary array, where each value stops at the start of the next."""
        bounds = view_as("I", offsets)
        return BinaryColumn(data, bounds[: len(bounds) - 1], bounds[1:], validity, first_bit)

    @property
    def is_constant(self) -> bool:
        """Whether `constant` made this column."""
        return self._step == 0

    def value(self, row: cython.Py_ssize_t) -> bytes | None:
        """Copy the value of a row; None if it is null."""
        view = self.view(row)
        return None if view is None else bytes(view)

    def view(self, row: cython.Py_ssize_t) -> memoryview | None:
        """Return the value of a row without copying it; None if it is null."""
        if row < 0 or row * self._step >= self.count:
            raise IndexError(f"row {row} of {self.count}")
        size: cython.Py_ssize_t = value_size(self, row)
        if size < -1:
            raise UsageError(f"row {row} points outside of {self._size} bytes")
        start: cython.Py_ssize_t = value_start(self, row)
        value: memoryview | None = None if size < 0 else self.data[start : start + size]
        return value

    def pack(self) -> PackedBinary:
        """Copy the values one behind the other into new memory."""
        offsets = zeros("i", self.count + 1)
        validity = bytearray((self.count + 7) >> 3)
        places: cython.p_uint = pointer32(view_as("I", offsets))
        nulls: cython.Py_ssize_t = _fill_offsets(self, places, validity)
        data = memoryview(uninitialized_bytes(offsets[self.count]))
        out: cython.p_uchar = pointer8(data)
        with cython.nogil:
            _copy_values(self, places, out)
        return PackedBinary(offsets, data, validity if nulls else None, nulls)

    def append_to(self, offsets: IntegerBuffer, data: memoryview) -> int:
        """Copy the values to `data`, from the position in the first offset on, and fill in the offsets behind it.

        Returns the number of bytes copied. Returns -1, and copies nothing, if a value is null or the memory is too
        small for all values.
        """
        numbers = view_as("I", offsets)
        if len(numbers) <= self.count:
            return -1
        places: cython.p_uint = pointer32(numbers)
        start: cython.Py_ssize_t = places[0]
        if _fill_offsets(self, places, bytearray((self.count + 7) >> 3)) or places[self.count] > len(data):
            return -1
        out: cython.p_uchar = pointer8(data)
        with cython.nogil:
            _copy_values(self, places, out)
        return places[self.count] - start

    def measure(self) -> int:
        """Sum the sizes of all values, in bytes."""
        offsets = zeros("i", self.count + 1)
        _fill_offsets(self, pointer32(view_as("I", offsets)), bytearray((self.count + 7) >> 3))
        return offsets[self.count]


if not cython.compiled:

    def value_start(column: BinaryColumn, row: int) -> int:
        """Return the position of the value of a row."""
        return column._starts[row * column._step]

    def value_size(column: BinaryColumn, row: int) -> int:
        """Return the size of the value of a row in bytes, -1 if it is null, -2 if it is not all inside the buffer."""
        start, stop = column._starts[row * column._step], column._stops[row * column._step]
        bit = column._first_bit + row
        if start == ABSENT or (column._has_validity and not column._validity[bit >> 3] >> (bit & 7) & 1):
            return -1
        return stop - start if start <= stop <= column._size else -2


@cython.cfunc
def _fill_offsets(column: BinaryColumn, offsets: cython.p_uint, validity: bytearray) -> cython.Py_ssize_t:
    """Fill in the offsets behind the first, and the validity bits, and return the number of nulls."""
    bits: cython.p_uchar = pointer8(memoryview(validity))
    nulls: cython.Py_ssize_t
    with cython.nogil:
        nulls = _measure_values(column, offsets, bits)
    if nulls < 0:
        raise UsageError(f"row {-1 - nulls} points outside of {column._size} bytes, or is 2 GiB behind the first")
    return nulls


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _measure_values(column: BinaryColumn, offsets: cython.p_uint, validity: cython.p_uchar) -> cython.Py_ssize_t:
    """Fill in offsets and validity and return the number of nulls; -1 - row at the first row that cannot be copied."""
    total: cython.longlong = offsets[0]
    nulls: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    size: cython.Py_ssize_t
    for row in range(column.count):
        size = value_size(column, row)
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
def _copy_values(column: BinaryColumn, offsets: cython.p_const_uint, out: cython.p_uchar) -> cython.void:
    # fields of the column in variables: the compiler would read them again after each write to `out`
    data: cython.p_const_uchar = column._data
    starts: cython.p_const_uint = column._starts
    row: cython.Py_ssize_t
    for row in range(column.count):
        copy_bytes(out, offsets[row], data, starts[row], offsets[row + 1] - offsets[row])
