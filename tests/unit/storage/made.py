"""Rows as a recorder writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from zenspark.arrow import SCHEMA

RECORDED = pa.schema([*SCHEMA, ("recorder", pa.string()), ("offset", pa.int64())])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CLOCK = "a1"


def row(
    key: str, payload: bytes | None, second: float | None = None, *, received: float | None = None, **other: object
) -> dict[str, Any]:
    """A sample: deleted if there is no payload; timestamped if it has a second."""
    received = received if received is not None else (second or 0.0)
    made: dict[str, Any] = {
        "key": key,
        "kind": "DELETE" if payload is None else "PUT",
        "payload": payload,
        "encoding": None if payload is None else "zenoh/bytes",
        "received_at": EPOCH + timedelta(seconds=received),
    }
    if second is not None:
        made["timestamp"] = EPOCH + timedelta(seconds=second)
        ntp64 = int(second * 2**32)
        made["timestamp_ntp64"] = ntp64 - (1 << 64) if ntp64 >= 1 << 63 else ntp64
        made["timestamp_id"] = CLOCK
    return made | other


def recorded(rows: list[dict[str, Any]], first: int = 0, recorder: str = "r") -> pa.RecordBatch:
    """Rows with their offsets."""
    full = [{"recorder": recorder, "offset": first + at, **each} for at, each in enumerate(rows)]
    return pa.RecordBatch.from_pylist(full, schema=RECORDED)
