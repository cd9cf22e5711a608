"""Values of a result as texts for people: payloads by their encoding, times with zone, units, short ids.

Everything that came from the network is shown without control characters, so that no payload can control the terminal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from zenspark.cli.formatters import printable
from zenspark.sql.payloads import decode_result_column, find_encodings
from zenspark.types.payload_text import decode_text

CELL_PREVIEW_BYTES = 16
"""Bytes of a binary value that are shown as hexadecimal digits."""
ID_COLUMNS = frozenset({"source_zid", "timestamp_id", "via", "zid", "remote_zid", "session"})
"""Columns with ids of 32 hexadecimal digits, of which the first few are shown."""
ID_DIGITS = 8

Formatter = Callable[[Any], str]


def format_columns(rows: pa.Table, *, is_short: bool) -> list[list[str]]:
    """Format the cells of each column; `is_short` shortens ids and times."""
    return [
        [printable(text) for text in _format_column(rows, column_index, is_short)]
        for column_index in range(rows.num_columns)
    ]


def _format_column(rows: pa.Table, column_index: int, is_short: bool) -> list[str]:
    name, column = rows.column_names[column_index], rows.column(column_index)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return _format_payloads(rows, column_index)
    if pa.types.is_timestamp(column.type):
        return _format_times(column.to_pylist(), is_short)
    if is_short and name in ID_COLUMNS:
        return [shorten_id(value) for value in column.to_pylist()]
    formatter = COLUMN_FORMATTERS.get(name) if _is_number(column.type) else None
    return [("" if value is None else (formatter or format_value)(value)) for value in column.to_pylist()]


def _format_payloads(rows: pa.Table, column_index: int) -> list[str]:
    """Format bytes as text if they are text; payloads that are not have their size and encoding."""
    payloads, encoding_column = rows.column(column_index).to_pylist(), find_encodings(rows, column_index)
    encodings = [None] * len(payloads) if encoding_column is None else encoding_column.to_pylist()
    cells = []
    for text, encoding, payload in zip(decode_result_column(rows, column_index), encodings, payloads, strict=True):
        if text is not None or payload is None:
            cells.append(text or "")
        elif encoding is None or encoding.startswith("zenoh/") or len(payload) <= CELL_PREVIEW_BYTES:
            cells.append(_format_hex(payload))
        else:
            cells.append(f"{format_size(len(payload))} of {encoding}")
    return cells


def format_bytes(value: bytes | None) -> str:
    """Format bytes as text if they are text, otherwise as hexadecimal digits with their number."""
    if value is None:
        return ""
    text = decode_text(value)
    return _format_hex(value) if text is None else text


def _format_hex(value: bytes) -> str:
    digits = value[:CELL_PREVIEW_BYTES].hex()
    return f"0x{digits}" if len(value) <= CELL_PREVIEW_BYTES else f"0x{digits}… ({format_size(len(value))})"


def _format_times(values: Sequence[datetime | None], is_short: bool) -> list[str]:
    """Format times with their zone; short ones up to milliseconds, without digits that are zero in all of them."""
    times = [value for value in values if value is not None]
    if not is_short:
        unit = "microseconds"
    elif any(value.microsecond for value in times):
        unit = "milliseconds"
    else:
        unit = "seconds" if any(value.second for value in times) else "minutes"
    return ["" if value is None else format_time(value, unit) for value in values]


def format_time(value: datetime, unit: str = "milliseconds") -> str:
    """Format a time in UTC, marked by Z, or a time without zone."""
    zone = "" if value.tzinfo is None else "Z"
    return value.replace(tzinfo=None).isoformat(sep=" ", timespec=unit) + zone


def shorten_id(value: object) -> str:
    """Shorten an id to its first digits."""
    text = "" if value is None else str(value)
    return text if len(text) <= ID_DIGITS + 1 else f"{text[:ID_DIGITS]}…"


def format_value(value: object) -> str:
    """Format a value of any other type."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.6g}"
        case bytes():
            return format_bytes(value)
        case datetime():
            return format_time(value, "microseconds")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case list() | dict():
            return json.dumps(value, ensure_ascii=False, default=format_value)
    return str(value)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_right_aligned(kind: pa.DataType) -> bool:
    """Whether the cells of a column are aligned to the right."""
    return _is_number(kind)


# --- units ------------------------------------------------------------------------------------------------------------


def format_size(value: float) -> str:
    """Format a number of bytes."""
    return _scale(value, ("B", "kB", "MB", "GB", "TB", "PB"))


def format_microseconds(value: float) -> str:
    """Format a duration given in microseconds."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.4g} s" if abs(value) < 1e10 else f"{value / 1e6:.3g} s"
    return f"{value / 1e3:.4g} ms" if abs(value) >= 1000 else f"{value:.4g} µs"


def _scale(value: float, units: Sequence[str]) -> str:
    size = float(value)
    for unit in units:
        if abs(size) < 1000 or unit == units[-1]:
            return f"{size:.0f} {unit}" if size == int(size) and unit == units[0] else f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError("there is a last unit")


COLUMN_FORMATTERS: dict[str, Formatter] = {
    "bytes": format_size,
    "bytes_per_second": lambda value: f"{format_size(value)}/s",
    "messages_per_second": lambda value: f"{value:.4g} /s",
    "latency_min_us": format_microseconds,
    "latency_avg_us": format_microseconds,
    "latency_max_us": format_microseconds,
}
"""Formatters of the numeric columns that have a unit, by name."""
