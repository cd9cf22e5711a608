"""When reading had better wait a moment."""

from __future__ import annotations

from zenspark.net.loop.read_coalescing import BULK_GAP_SECONDS, BULK_READ_BYTES, BULK_READS_TO_START, ReadCoalescer

BUFFER_BYTES = BULK_READ_BYTES * 8


def coalescer_in_bulk() -> ReadCoalescer:
    """One that has just become a flow, at second 1."""
    flow = ReadCoalescer()
    delays = [
        flow.should_delay_next_read(BULK_READ_BYTES, BUFFER_BYTES, 0, 1.0) for _ in range(BULK_READS_TO_START + 1)
    ]
    assert delays == [False] * BULK_READS_TO_START + [True]
    return flow


def test_consecutive_bulk_reads_delay_the_next_read() -> None:
    assert coalescer_in_bulk().should_delay_next_read(BULK_READ_BYTES, BUFFER_BYTES, 0, 1.0 + BULK_GAP_SECONDS / 2)


def test_reads_that_fill_the_buffer_are_not_delayed() -> None:
    flow = coalescer_in_bulk()
    assert not flow.should_delay_next_read(BUFFER_BYTES, BUFFER_BYTES, 0, 1.0)
    assert flow.should_delay_next_read(BUFFER_BYTES - 1, BUFFER_BYTES, 0, 1.0)


def test_bulk_ends_with_a_small_read_a_write_or_a_gap() -> None:
    for count, bytes_sent, now in (
        (BULK_READ_BYTES - 1, 0, 1.0),
        (BULK_READ_BYTES, 1, 1.0),
        (BULK_READ_BYTES, 0, 1.0 + 2 * BULK_GAP_SECONDS),
    ):
        flow = coalescer_in_bulk()
        delays = [
            flow.should_delay_next_read(count if not step else BULK_READ_BYTES, BUFFER_BYTES, bytes_sent, now)
            for step in range(BULK_READS_TO_START + 1)
        ]
        assert delays == [False] * BULK_READS_TO_START + [True]
