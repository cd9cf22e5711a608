"""The Arrow schema of samples: the same for received, recorded, stored and published ones."""

from __future__ import annotations

import pyarrow as pa

UTC = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("kind", pa.string()),
        ("payload", pa.binary()),
        ("encoding", pa.string()),
        ("timestamp", UTC),
        ("timestamp_ntp64", pa.int64()),
        ("timestamp_id", pa.string()),
        ("attachment", pa.binary()),
        ("source_zid", pa.string()),
        ("source_eid", pa.int64()),
        ("source_sn", pa.int64()),
        ("priority", pa.string()),
        ("congestion", pa.string()),
        ("express", pa.bool_()),
        ("reliable", pa.bool_()),
        ("received_at", UTC),
        ("via", pa.string()),
    ]
)
"""The sample schema: one row per PUT or DELETE."""
KIND_NAMES = ("PUT", "DELETE")
"""Values of the column `kind`, in the order of `zenspark.wire.columns.RowKind`."""
