"""When reading had better wait a moment."""

from __future__ import annotations

from zenspark.net.loop.read_coalescing import BULK_GAP_SECONDS, BULK_READ_BYTES, BULK_READS_TO_START, ReadCoalescer

ROOM = BULK_READ_BYTES * 8


def flowing() -> ReadCoalescer:
    """One that has just become a flow, at second 1."""
    flow = ReadCoalescer()
    answers = [flow.should_delay_next_read(BULK_READ_BYTES, ROOM, 0, 1.0) for _ in range(BULK_READS_TO_START + 1)]
    assert answers == [False] * BULK_READS_TO_START + [True]
    return flow


def test_many_large_reads_in_a_row_deserve_a_rest() -> None:
    assert flowing().should_delay_next_read(BULK_READ_BYTES, ROOM, 0, 1.0 + BULK_GAP_SECONDS / 2)


def test_reads_that_fill_the_buffer_are_not_delayed() -> None:
    flow = flowing()
    assert not flow.should_delay_next_read(ROOM, ROOM, 0, 1.0)
    assert flow.should_delay_next_read(ROOM - 1, ROOM, 0, 1.0)


def test_bulk_ends_with_a_small_read_a_write_or_a_gap() -> None:
    for count, said, now in (
        (BULK_READ_BYTES - 1, 0, 1.0),
        (BULK_READ_BYTES, 1, 1.0),
        (BULK_READ_BYTES, 0, 1.0 + 2 * BULK_GAP_SECONDS),
    ):
        flow = flowing()
        answers = [
            flow.should_delay_next_read(count if not step else BULK_READ_BYTES, ROOM, said, now)
            for step in range(BULK_READS_TO_START + 1)
        ]
        assert answers == [False] * BULK_READS_TO_START + [True]
