"""Binary columns are packed as Arrow lays them out, and stay inside their buffer."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import pytest

from tests.unit.wire.columns.samples import (
    KEY,
    batch,
    decoded,
    frame,
    put,
)
from zenspark.errors import UsageError
from zenspark.wire.columns import (
    ABSENT,
    BinaryColumn,
    PushColumns,
)
from zenspark.wire.messages import Del, Push


def test_pack_lays_out_values_as_arrow_does() -> None:
    sent = [put(b"abc"), Push(wire_expr=KEY, body=Del()), put(b"", attachment=b""), put(b"x" * 20, attachment=b"att")]
    columns, _, _ = decoded(batch(frame(*sent)))
    payloads = columns.payloads().pack()
    assert list(payloads.offsets) == [0, 3, 3, 3, 23]
    assert payloads.offsets.format == "i"
    assert payloads.data == b"abc" + b"x" * 20
    assert payloads.validity == bytearray([0b1101])
    assert payloads.null_count == 1
    attachments = columns.attachments().pack()
    assert bytes(attachments.data) == b"att"
    assert attachments.null_count == 2
    assert attachments.validity == bytearray([0b1100])
    suffixes = columns.suffixes().pack()
    assert suffixes.data == b"demo/k" * 4
    assert suffixes.validity is None
    assert list(columns.source_sns()) == [0] * 4


def test_pack_of_no_rows_has_one_offset() -> None:
    columns = PushColumns(1)
    assert len(columns) == 0
    for column in (columns.payloads(), columns.attachments(), columns.suffixes()):
        assert list(column.pack().offsets) == [0]
    assert list(columns.source_sns()) == []


@pytest.mark.parametrize("sizes", [range(40), [100, 7, 8, 9, 16, 17, 0, 3, 4, 5]])
def test_pack_copies_values_of_any_size(sizes: Iterable[int]) -> None:
    pieces = [bytes([size & 0xFF]) * size for size in sizes]
    offsets = array("i", [0])
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece))
    data = b"".join(pieces)
    backwards = BinaryColumn(data, array("I", offsets[-2::-1]), array("I", offsets[:0:-1])).pack()
    assert backwards.data == b"".join(reversed(pieces))
    assert BinaryColumn.from_offsets(data, offsets).pack().data == data


def test_append_to_copies_values_if_there_is_space() -> None:
    column = BinaryColumn(b"abcdef", array("I", [4, 0]), array("I", [6, 3]))
    assert column.measure() == 5
    offsets, data = array("i", [2, 0, 0, 7]), memoryview(bytearray(8))
    assert column.append_to(offsets, data) == 5
    assert (list(offsets), bytes(data)) == ([2, 4, 7, 7], b"\0\0efabc\0")
    assert column.append_to(memoryview(offsets)[2:], data) == -1  # one row has no offset
    assert column.append_to(offsets, data[:6]) == -1
    assert bytes(data) == b"\0\0efabc\0"


def test_append_to_rejects_absent_and_invalid_values() -> None:
    offsets, data = array("i", [0, 0, 0]), memoryview(bytearray(8))
    assert BinaryColumn(b"abc", array("I", [0, ABSENT]), array("I", [3, ABSENT])).append_to(offsets, data) == -1
    assert bytes(data) == bytes(8)
    outside = BinaryColumn(b"abc", array("I", [2]), array("I", [4]))
    for use in (outside.measure, lambda: outside.append_to(offsets, data)):
        with pytest.raises(UsageError, match="row 0 points outside of 3 bytes"):
            use()


def test_validity_bits_start_at_first_bit() -> None:
    offsets = array("i", [0, 1, 2, 3])
    column = BinaryColumn.from_offsets(b"abc", offsets, validity=bytes([0b01010000, 1]), first_bit=6)
    assert [column.value(row) for row in range(3)] == [b"a", None, b"c"]
    assert bytes(column.pack().data) == b"ac"
    with pytest.raises(UsageError, match="too few for 3 bits from bit 14 on"):
        BinaryColumn.from_offsets(b"abc", offsets, validity=bytes(2), first_bit=14)


def test_values_outside_of_the_buffer_are_rejected() -> None:
    column = BinaryColumn(b"abc", array("I", [0, 2, 3, ABSENT, 1]), array("I", [3, 1, 4, 0, 1]))
    assert column.value(0) == b"abc"
    assert column.value(3) is None
    assert column.value(4) == b""
    for row in (1, 2):
        with pytest.raises(UsageError, match=f"row {row} points outside of 3 bytes"):
            column.value(row)
    for row in (-1, 5):
        with pytest.raises(IndexError):
            column.value(row)
    with pytest.raises(UsageError, match="row 1 points outside of 3 bytes"):
        column.pack()
    with pytest.raises(UsageError, match="1 starts, but 2 stops"):
        BinaryColumn(b"", array("I", [0]), array("I", [0, 0]))


def test_packed_column_of_2_gib_is_a_usage_error() -> None:
    size = 1 << 26
    column = BinaryColumn(bytes(size), array("I", [0] * 32), array("I", [size] * 32))
    with pytest.raises(UsageError, match=r"row 31 .* is 2 GiB behind the first"):
        column.pack()


def test_constant_spans_are_the_same_everywhere() -> None:
    assert BinaryColumn.constant(b"x").value(1000) == b"x"
    assert BinaryColumn.constant(None).value(5) is None
    assert BinaryColumn.constant(b"x").is_constant
