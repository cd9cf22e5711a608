"""Values as texts for people."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from zenspark.cli.result_cells import (
    format_bytes,
    format_columns,
    format_microseconds,
    format_size,
    format_value,
    is_right_aligned,
    shorten_id,
)

MOMENT = datetime(2026, 11, 17, 15, 4, 5, 123456, UTC)
NUMBER = (42).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (1 / 3, "0.333333"),
        (12, "12"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 1, 2), "2026-01-02"),
        (MOMENT, "2026-11-17 15:04:05.123456Z"),
        ([1, None, MOMENT], '[1, null, "2026-11-17 15:04:05.123456Z"]'),
        (b"text", "text"),
    ],
)
def test_cell_values_are_formatted_as_text(value: object, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (b"hello", "hello"),
        (b"two\nlines", "two\nlines"),
        (b"\x00\x01", "0x0001"),
        (b"\xff" * 17, f"0x{'ff' * 16}… (17 B)"),
        (b"", ""),
    ],
)
def test_bytes(value: bytes | None, text: str) -> None:
    assert format_bytes(value) == text


def test_payloads_are_decoded_by_their_encoding() -> None:
    rows = pa.table(
        {
            "payload": [b'{"x": 1}', NUMBER, b"\xff" * 4096, b"\xff\x01", None, b"\x00", b"2\n", b"AB"],
            "encoding": [
                "application/json",
                "zenoh/serialized;int32",
                "image/jpeg",
                "zenoh/bytes",
                "text/plain",
                None,
                "zenoh/bytes",
                "zenoh/serialized",
            ],
        }
    )
    shown = ['{"x": 1}', "42", "4.1 kB of image/jpeg", "0xff01", "", "0x00", "2\\n", "0x4142"]
    assert format_columns(rows, is_short=True)[0] == shown
    assert format_columns(rows.select(["payload"]), is_short=True)[0][0] == '{"x": 1}'
    twice = pa.table([pa.array([b"a"]), pa.array([b"\x01"])], ["payload", "payload"])
    assert format_columns(twice, is_short=True) == [["a"], ["0x01"]]


def test_times_have_their_zone_and_no_digits_that_are_zero() -> None:
    def shown(*values: datetime | None, is_short: bool = True) -> list[str]:
        column = pa.array(values, pa.timestamp("us", "UTC"))
        return format_columns(pa.table({"t": column}), is_short=is_short)[0]

    assert shown(MOMENT, None) == ["2026-11-17 15:04:05.123Z", ""]
    assert shown(MOMENT, is_short=False) == ["2026-11-17 15:04:05.123456Z"]
    assert shown(MOMENT.replace(microsecond=0)) == ["2026-11-17 15:04:05Z"]
    assert shown(MOMENT.replace(microsecond=0, second=0)) == ["2026-11-17 15:04Z"]
    naive = pa.table({"t": pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("us"))})
    assert format_columns(naive, is_short=True)[0] == ["2026-11-17 15:04:05.123"]


def test_columns_with_a_known_unit() -> None:
    rows = pa.table({"bytes": [999, 1_234_567], "latency_avg_us": [12.5, None], "n": [1, 2]})
    sizes, latencies, numbers = format_columns(rows, is_short=True)
    assert sizes == ["999 B", "1.23 MB"]
    assert latencies == ["12.5 µs", ""]
    assert numbers == ["1", "2"]
    assert format_columns(pa.table({"bytes": ["text"]}), is_short=True) == [["text"]]


@pytest.mark.parametrize(
    ("value", "text"),
    [(5, "5 µs"), (1500, "1.5 ms"), (-2_500_000, "-2.5 s"), (3e15, "3e+09 s")],
)
def test_microseconds_are_formatted_with_a_unit(value: float, text: str) -> None:
    assert format_microseconds(value) == text


def test_sizes_are_formatted_with_a_unit() -> None:
    assert [format_size(value) for value in (0, 1000, 5e18)] == ["0 B", "1 kB", "5e+03 PB"]


def test_ids_are_shortened_in_tables_only() -> None:
    rows = pa.table({"via": ["0123456789abcdef", None, "ef56"]})
    assert format_columns(rows, is_short=True) == [["01234567…", "", "ef56"]]
    assert format_columns(rows, is_short=False)[0][0] == "0123456789abcdef"
    assert shorten_id("123456789") == "123456789"


def test_control_characters_are_escaped() -> None:
    rows = pa.table({"payload": [b"a\x1b[2Jb\n\tc\x7f"], "encoding": ["text/plain"]})
    assert format_columns(rows, is_short=True)[0] == [r"a\x1b[2Jb\n\tc\x7f"]


def test_unprintable_characters_are_escaped_with_as_many_digits_as_their_code_point_needs() -> None:
    rows = pa.table({"payload": ["a\x85\u200bb\U000e0001".encode()], "encoding": ["text/plain"]})
    assert format_columns(rows, is_short=True)[0] == [r"a\x85\u200bb\U000e0001"]


def test_numbers_are_aligned_to_the_right() -> None:
    assert is_right_aligned(pa.int64())
    assert is_right_aligned(pa.decimal128(10, 2))
    assert not is_right_aligned(pa.string())
