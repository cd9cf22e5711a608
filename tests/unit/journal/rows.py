"""Rows for the tests of the journal."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from zenspark.arrow import SCHEMA
from zenspark.arrow.decode import NTP64, SN, RowChunk, SharedValues
from zenspark.journal import Journal

START = 1_700_000_000_000_000
"""When the first row came, in microseconds."""
PLAIN: dict[str, Any] = {
    "kind": "PUT",
    "encoding": "zenoh/bytes",
    "priority": "DATA",
    "congestion": "DROP",
    "express": False,
    "reliable": True,
    "via": "feed",
}


def row(number: int, **changes: object) -> dict[str, Any]:
    """A row with its number in its key, its payload and its time: a second for each."""
    own = {"key": f"k/{number}", "payload": b"%d" % number, "received_at": START + number * 1_000_000}
    return PLAIN | own | changes


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), SCHEMA)


def counted(start: int, stop: int) -> pa.RecordBatch:
    return batch(*(row(number) for number in range(start, stop)))


def row_chunk(number: int, rows: int = 3, **changes: object) -> RowChunk:
    """What one read might bring."""
    values = PLAIN | {"timestamp_id": None, "source_zid": None, "source_eid": None, "key": f"k/{number}"} | changes
    payload = pa.array([b"%d" % (number + place) for place in range(rows)], pa.binary())
    stamps = pa.array([(1_700_000_000 + place) << 32 for place in range(rows)], NTP64)
    common = SharedValues(**{name: values[name] for name in SharedValues._fields})
    return RowChunk((common,), None, payload, None, stamps, pa.array(range(rows), SN), START + number, rows)


def read(journal: Journal, start: int | None = None, end: int | None = None) -> pa.Table:
    first = journal.earliest() if start is None else start
    last = journal.latest() if end is None else end
    return pa.Table.from_batches(journal.read(first, last), journal.schema)


def payloads(journal: Journal, start: int | None = None, end: int | None = None) -> list[bytes]:
    found: list[bytes] = read(journal, start, end)["payload"].to_pylist()
    return found
