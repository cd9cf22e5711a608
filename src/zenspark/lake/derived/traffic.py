"""`traffic`: samples, bytes and latency per key prefix and minute of reception.

Latency is `received_at` minus `timestamp`, in microseconds, of the samples that have a timestamp; it is negative where
the publisher's clock is ahead. The state has partial sums of each refresh; the public table has their totals.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.lake.levels import NEW_PART
from zenspark.lake.partitioning import partition_prefixes
from zenspark.lake.specs import TRAFFIC, TRAFFIC_STATE

MICROSECONDS_PER_MINUTE = 60_000_000
SECONDS_PER_MINUTE = 60.0
SUMS = {
    "messages": "sum",
    "bytes": "sum",
    "stamped": "sum",
    "latency_sum": "sum",
    "latency_min": "min",
    "latency_max": "max",
}
"""Aggregate function of each column of the state."""


class TrafficAggregation:
    """Aggregates samples to the derived table `traffic`."""

    state = TRAFFIC_STATE
    public = TRAFFIC
    order: tuple[str, ...] = ("minute", "prefix")
    columns: tuple[str, ...] = ("key", "payload", "timestamp", "received_at")
    partial_schema = TRAFFIC_STATE.schema
    needs_state = False
    propagates_deletes = False

    def aggregate_rows(self, rows: pa.Table) -> pa.Table:
        """Sum up samples per prefix and minute."""
        keys = rows["key"].chunk(0)
        prefixes = partition_prefixes(keys.dictionary).dictionary_encode()
        received = rows["received_at"].chunk(0).cast(pa.int64())
        latency = pc.subtract(received, rows["timestamp"].chunk(0).cast(pa.int64()))
        minutes = received.to_numpy() // MICROSECONDS_PER_MINUTE * MICROSECONDS_PER_MINUTE
        measures = pa.table(
            {
                "prefix": prefixes.indices.take(keys.indices),
                "minute": pa.array(minutes),
                "bytes": pc.fill_null(pc.binary_length(rows["payload"].chunk(0)), 0).cast(pa.int64()),
                "latency": latency,
                "sum": latency.cast(pa.float64()),  # float: timestamps that are years off do not overflow it
            }
        )
        aggregates = [
            ("bytes", "count"),
            ("bytes", "sum"),
            ("latency", "count"),
            ("sum", "sum"),
            ("latency", "min"),
            ("latency", "max"),
        ]
        grouped = measures.group_by(["prefix", "minute"]).aggregate(aggregates)
        columns = [
            prefixes.dictionary.take(grouped["prefix"]),
            grouped["minute"],
            *(grouped[f"{name}_{what}"] for name, what in aggregates),
            pa.repeat(NEW_PART, grouped.num_rows),
        ]
        return pa.table(columns, names=TRAFFIC_STATE.schema.names).cast(TRAFFIC_STATE.schema)

    def combine_rows(self, partials: pa.Table, state: pa.Table) -> pa.Table:
        return partials

    def reduce(self, rows: pa.Table) -> pa.Table:
        """Merge rows into one per prefix and minute."""
        grouped = rows.cast(TRAFFIC_STATE.columns).group_by(["prefix", "minute"]).aggregate(list(SUMS.items()))
        names = [*("prefix", "minute"), *(f"{name}_{how}" for name, how in SUMS.items())]
        return grouped.select(names).rename_columns(TRAFFIC_STATE.columns.names).cast(TRAFFIC_STATE.columns)

    def drop_expired(self, rows: pa.Table, wildcard_rows: pa.Table, limits: Mapping[str, int]) -> pa.Table:
        return rows

    def to_public_rows(self, rows: pa.Table, wildcard_rows: pa.Table) -> pa.Table:
        """Return the rows of the public table."""
        stamped = pc.if_else(pc.greater(rows["stamped"], 0), rows["stamped"].cast(pa.float64()), None)
        columns = {
            "messages_per_second": pc.divide(rows["messages"].cast(pa.float64()), SECONDS_PER_MINUTE),
            "bytes_per_second": pc.divide(rows["bytes"].cast(pa.float64()), SECONDS_PER_MINUTE),
            "latency_min_us": rows["latency_min"],
            "latency_avg_us": pc.divide(rows["latency_sum"], stamped),
            "latency_max_us": rows["latency_max"],
        }
        unchanged = {name: rows[name] for name in ("prefix", "minute", "messages", "bytes")}
        return pa.table(unchanged | columns).select(TRAFFIC.schema.names).cast(TRAFFIC.schema)
