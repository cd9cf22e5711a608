"""Table specifications of a lake: columns, partition columns, and columns with statistics in the log."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from zenspark.arrow import SCHEMA, UTC

LAKE_FORMAT_VERSION = "2"
"""Format version of a lake, a property of each table: 2 is the standard Delta layout, with separate state tables."""
READABLE_VERSIONS = ("1", LAKE_FORMAT_VERSION)
"""An older format is read-only; `zenspark lake upgrade` converts it to the current one."""

JOURNAL_SCHEMA = pa.schema([*SCHEMA, pa.field("recorder", pa.string()), pa.field("offset", pa.int64())])
"""Schema of the rows that a journal of samples returns."""


NO_PARTITIONS = pa.schema([])


@dataclass(frozen=True)
class TableSpec:
    """Schema and partition columns of one table."""

    name: str
    columns: pa.Schema
    """Columns in the data files, without the partition columns."""
    partitions: pa.Schema = NO_PARTITIONS
    stats_columns: tuple[str, ...] = ()
    """Columns whose minimum and maximum the log has for each file, so that readers can skip files."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.columns, *self.partitions])


SAMPLES = TableSpec(
    "samples",
    JOURNAL_SCHEMA,
    partitions=pa.schema([("day", pa.date32()), ("prefix", pa.string())]),
    stats_columns=("key", "timestamp", "source_sn", "received_at", "recorder", "offset"),
)
LATEST = TableSpec("latest", JOURNAL_SCHEMA, stats_columns=("key", "received_at"))
GAPS = TableSpec(
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
    stats_columns=("source_zid", "noticed_at"),
)
TRAFFIC = TableSpec(
    "traffic",
    pa.schema(
        [
            ("prefix", pa.string()),
            ("minute", UTC),
            ("messages", pa.int64()),
            ("bytes", pa.int64()),
            ("messages_per_second", pa.float64()),
            ("bytes_per_second", pa.float64()),
            ("latency_min_us", pa.int64()),
            ("latency_avg_us", pa.float64()),
            ("latency_max_us", pa.int64()),
        ]
    ),
    stats_columns=("prefix", "minute"),
)

PART_COLUMN = pa.schema([("part", pa.string())])
"""Partition column of state tables: new files of refreshes, merged levels, and the partition that refreshes replace."""
LATEST_STATE = TableSpec("latest", JOURNAL_SCHEMA, partitions=PART_COLUMN, stats_columns=("key",))
GAPS_STATE = TableSpec("gaps", GAPS.columns, partitions=PART_COLUMN, stats_columns=("source_zid",))
TRAFFIC_STATE = TableSpec(
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
    partitions=PART_COLUMN,
    stats_columns=("minute",),
)
