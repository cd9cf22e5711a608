"""Attachments as rmw_zenoh makes them, with bytes from eclipse-zenoh's own serializer."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zenoh import ZBytes
from zenoh.ext import Int64, z_deserialize, z_serialize

from zenspark.lake.rmw_attachments import LAYOUTS, SEQUENCE_NUMBER_LIMIT, find_sequence_numbers

A_TIME = 1_763_300_000_000_000_000
GID = bytes(range(16))


def current(number: int, gid: bytes = GID, time: int = A_TIME) -> bytes:
    return bytes(z_serialize((Int64(number), Int64(time), gid)))


def older(number: int, gid: bytes = GID, time: int = A_TIME) -> bytes:
    named = ("sequence_number", Int64(number), "source_timestamp", Int64(time), "source_gid", gid)
    return bytes(z_serialize(named))


def found(attachments: list[bytes | None]) -> list[tuple[int, int, str]]:
    """Row, number and publisher of each attachment that has a number."""
    numbered = find_sequence_numbers(pa.array(attachments, pa.binary()))
    gids = [numbered.gids[each] for each in numbered.publisher.tolist()]
    return list(zip(numbered.row_indices.tolist(), numbered.numbers.tolist(), gids, strict=True))


def test_layouts_have_the_serialized_sizes() -> None:
    assert [layout.size for layout in LAYOUTS] == [len(current(1)), len(older(1))] == [33, 77]


def test_both_layouts_are_found_among_other_attachments() -> None:
    other = bytes(reversed(GID))
    attachments = [None, current(5), b"", b"x" * 33, older(6, other), b"y" * 77, current(2**40, other), b"note", None]
    assert found(attachments) == [(1, 5, GID.hex()), (4, 6, other.hex()), (6, 2**40, other.hex())]


def test_sliced_column_is_read_from_its_offset() -> None:
    column = pa.array([current(1), None, b"abc", current(2), current(3)], pa.binary())
    numbered = find_sequence_numbers(column[1:4])
    assert (numbered.row_indices.tolist(), numbered.numbers.tolist()) == ([2], [2])


@pytest.mark.parametrize("column", [[], [None, None], [b"", b"abc"]])
def test_column_without_sequence_numbers_gives_none(column: list[bytes | None]) -> None:
    assert found(column) == []


@pytest.mark.parametrize("make", [current, older])
def test_invalid_sequence_number_or_time_is_skipped(make: Callable[..., bytes]) -> None:
    assert found([make(0), make(SEQUENCE_NUMBER_LIMIT - 1)]) == [(0, 0, GID.hex()), (1, 2**48 - 1, GID.hex())]
    assert found([make(-1), make(SEQUENCE_NUMBER_LIMIT), make(1, GID, -1)]) == []


numbers = st.integers(0, SEQUENCE_NUMBER_LIMIT - 1)
attachments = st.builds(current, numbers, st.binary(min_size=16, max_size=16)) | st.builds(older, numbers)


@pytest.mark.slow
@given(attachments, st.integers(0, 76), st.integers(0, 255))
def test_mutated_attachment_equals_reference_or_is_skipped(attachment: bytes, place: int, value: int) -> None:
    changed = bytearray(attachment)
    changed[place % len(attachment)] = value
    fields = tuple[Int64, Int64, bytes] if len(attachment) == 33 else tuple[str, Int64, str, Int64, str, bytes]
    for _, number, gid in found([bytes(changed)]):
        values = list(z_deserialize(fields, ZBytes(bytes(changed))))
        assert number in values
        assert bytes.fromhex(gid) in values
    assert found([attachment])


@pytest.mark.slow
@given(st.integers(0, 254).filter(lambda number: number != 16))
def test_other_gid_length_is_skipped(length: int) -> None:
    changed = bytearray(current(1))
    changed[16] = length
    assert found([bytes(changed)]) == []
