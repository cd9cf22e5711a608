"""The one schema of a sample."""

from __future__ import annotations

import pyarrow as pa

from zenspark.arrow import SCHEMA
from zenspark.arrow.schema import KIND_NAMES
from zenspark.wire.columns import RowKind

SPARK_TAKES = {pa.string(), pa.binary(), pa.int64(), pa.bool_(), pa.timestamp("us", tz="UTC")}


def test_schema_has_the_documented_names_and_order() -> None:
    assert SCHEMA.names == [
        *("key", "kind", "payload", "encoding", "timestamp", "timestamp_ntp64", "timestamp_id", "attachment"),
        *("source_zid", "source_eid", "source_sn", "priority", "congestion", "express", "reliable"),
        *("received_at", "via"),
    ]


def test_every_type_is_one_that_spark_takes() -> None:
    assert {field.type for field in SCHEMA} <= SPARK_TAKES
    assert all(field.nullable for field in SCHEMA)


def test_names_of_kinds_are_in_the_order_of_row_kinds() -> None:
    assert {kind: KIND_NAMES[kind] for kind in RowKind} == {RowKind.PUT: "PUT", RowKind.DEL: "DELETE"}
