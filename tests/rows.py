"""Rows whose content follows from their number, so that a test can distinguish any two of them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from zenspark.arrow import SCHEMA

EPOCH = 1_700_000_000_000_000
"""When row 0 was received, in microseconds; each row came a millisecond after the one before."""
ROBOTS = 7


def sample(number: int) -> dict[str, object]:
    """One row."""
    is_put = number % 10 != 9
    return {
        "key": f"fleet/r{number % ROBOTS}/pose",
        "kind": "PUT" if is_put else "DELETE",
        "payload": f"value {number}".encode() if is_put else None,
        "encoding": "text/plain" if is_put else "zenoh/bytes",
        "timestamp": EPOCH + 1000 * number,
        "timestamp_ntp64": ((EPOCH + 1000 * number) // 1_000_000 << 32) + number,
        "timestamp_id": "ab12",
        "attachment": b"note" if number % 3 == 0 else None,
        "source_zid": "cd34",
        "source_eid": 1,
        "source_sn": number,
        "priority": "DATA",
        "congestion": "DROP",
        "express": False,
        "reliable": True,
        "received_at": EPOCH + 1000 * number,
        "via": "ef56",
    }


def samples(start: int, end: int) -> pa.RecordBatch:
    """Rows from one number up to before another."""
    return pa.RecordBatch.from_pylist([sample(number) for number in range(start, end)], schema=SCHEMA)


def numbers(rows: Iterable[object]) -> list[int]:
    """The numbers of rows that have a `source_sn`, in order."""
    return sorted(row["source_sn"] for row in rows)  # type: ignore[index]  # Row is not typed
