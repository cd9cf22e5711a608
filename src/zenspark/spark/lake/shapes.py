"""What the tables of a lake look like: their columns, how they are partitioned, which columns their log describes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from zenspark.arrow import SCHEMA, UTC

VERSION = "1"
"""Of all tables together; kept in each of them. A lake of another version is refused."""

JOURNAL = pa.schema([*SCHEMA, pa.field("recorder", pa.string()), pa.field("offset", pa.int64())])
"""The rows a journal of samples gives."""


NONE = pa.schema([])


@dataclass(frozen=True)
class Shape:
    """One table: what its files hold, and the partitions they are in."""

    name: str
    columns: pa.Schema
    """As they stand in the files, without the partitions."""
    partitions: pa.Schema = NONE
    described: tuple[str, ...] = ()
    """Columns whose least and greatest values the log keeps for each file, so that readers can leave files out."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.columns, *self.partitions])


SAMPLES = Shape(
    "samples",
    JOURNAL,
    partitions=pa.schema([("day", pa.date32()), ("prefix", pa.string())]),
    described=("key", "timestamp", "source_sn", "received_at", "recorder", "offset"),
)
LATEST = Shape("latest", JOURNAL, partitions=pa.schema([("part", pa.string())]), described=("key",))
GAPS = Shape(
    "gaps",
    pa.schema(
        [
            ("source_zid", pa.string()),
            ("source_eid", pa.int64()),
            ("kind", pa.string()),
            ("first_sn", pa.int64()),
            ("last_sn", pa.int64()),
            ("count", pa.int64()),
            ("noticed_at", UTC),
        ]
    ),
    partitions=pa.schema([("part", pa.string())]),
)
TRAFFIC = Shape(
    "traffic",
    pa.schema(
        [
            ("prefix", pa.string()),
            ("minute", UTC),
            ("messages", pa.int64()),
            ("bytes", pa.int64()),
            ("stamped", pa.int64()),
            ("latency_sum", pa.float64()),
            ("latency_min", pa.int64()),
            ("latency_max", pa.int64()),
        ]
    ),
    partitions=pa.schema([("part", pa.string())]),
    described=("minute",),
)
