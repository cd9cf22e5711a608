"""What the tables of a lake look like: their columns, how they are partitioned, which columns their log describes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from zenspark.arrow import SCHEMA, UTC

FORMAT_VERSION = "2"
"""The format of a lake, kept in each of its tables: 2 is the layout of every Delta writer, internal state apart."""
READABLE_VERSIONS = ("1", FORMAT_VERSION)
"""A lake of an older format can be read; `zenspark lake upgrade` makes it one that can be written."""

JOURNAL_SCHEMA = pa.schema([*SCHEMA, pa.field("recorder", pa.string()), pa.field("offset", pa.int64())])
"""The rows a journal of samples gives."""


NO_PARTITIONS = pa.schema([])


@dataclass(frozen=True)
class TableSpec:
    """One table: what its files hold, and the partitions they are in."""

    name: str
    columns: pa.Schema
    """As they stand in the files, without the partitions."""
    partitions: pa.Schema = NO_PARTITIONS
    stats_columns: tuple[str, ...] = ()
    """Columns whose least and greatest values the log keeps for each file, so that readers can leave files out."""

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
"""How the internal tables are divided: into what refreshes append, what merges write, and what is replaced."""
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
