"""Samples put into a lake without ingestion, and derived tables as plain values to compare with a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import pyarrow as pa

from tests import lake_model
from tests.lake_model import Gap, Minute, Row
from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.delta_table import Transaction
from zenspark.lake.ingested_offsets import offset_app_versions
from zenspark.lake.lake import Lake
from zenspark.lake.parquet_files import DataFileWriter
from zenspark.lake.partitioning import split_by_partition
from zenspark.lake.specs import GAPS, JOURNAL_SCHEMA, LATEST, SAMPLES, TRAFFIC

PUBLIC = {spec.name: spec.schema for spec in (LATEST, GAPS, TRAFFIC)}


def put_in(lake: Lake, rows: Sequence[Row], more: Mapping[str, int] | None = None, reached: bool = True) -> None:
    """Commits samples to a lake as an ingestion would: by partition, with the offsets behind them, and `more` marks."""
    samples = lake.table("samples")
    files = DataFileWriter(samples.location, SAMPLES, f"{0:09}")
    table = (
        pa.Table.from_pylist(list(rows), schema=JOURNAL_SCHEMA)
        .cast(with_text_type(JOURNAL_SCHEMA, DICTIONARY_TYPE))
        .combine_chunks()
    )
    for partition, own in split_by_partition(table):
        files.write(own, partition)
    ends: dict[str, int] = {}
    for row in rows if reached else []:
        ends[row["recorder"]] = max(row["offset"] + 1, ends.get(row["recorder"], 0))
    samples.commit(Transaction(add=files.close(), app_versions=offset_app_versions(ends) | dict(more or {})))


def published(lake: Lake, name: str) -> pa.Table:
    """A public table as deltalake reads it."""
    found = lake.table(name).to_deltalake().to_pyarrow_table()
    assert found.schema.names == PUBLIC[name].names
    return found.cast(PUBLIC[name])


def latest_of(table: pa.Table) -> dict[str, Row]:
    rows = _plain(table)
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: row for row in rows}


def traffic_of(table: pa.Table) -> dict[tuple[str, int], Minute]:
    rows = _plain(table)
    found = {(row["prefix"], row["minute"]): Minute(*(row[name] for name in Minute._fields)) for row in rows}
    assert len(found) == len(rows)
    assert all(row["messages_per_second"] == row["messages"] / 60 for row in rows)
    assert all(row["bytes_per_second"] == row["bytes"] / 60 for row in rows)
    return found


def gaps_of(table: pa.Table) -> set[Gap]:
    rows = _plain(table)
    found = {Gap(*(row[each.name] for each in fields(Gap))) for row in rows}
    assert len(found) == len(rows)
    return found


def _plain(table: pa.Table) -> list[Row]:
    """Rows with times as microseconds."""
    columns = [each.with_type(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in table.schema]
    return table.cast(pa.schema(columns)).to_pylist()  # type: ignore[no-any-return]


def assert_equal(tables: Mapping[str, pa.Table], rows: Sequence[Row]) -> None:
    """Compares derived tables with what they must have of these samples."""
    expected = {key: {name: row[name] for name in JOURNAL_SCHEMA.names} for key, row in lake_model.latest(rows).items()}
    assert latest_of(tables["latest"]) == expected
    assert gaps_of(tables["gaps"]) == lake_model.gaps(rows)
    counted, wanted = traffic_of(tables["traffic"]), lake_model.traffic(rows)
    assert {name: _rounded(each) for name, each in counted.items()} == {
        name: _rounded(each) for name, each in wanted.items()
    }


def _rounded(minute: Minute) -> Minute:
    """Sums of floating-point numbers depend on their order."""
    average = minute.latency_avg_us
    return minute._replace(latency_avg_us=None if average is None else round(average, 3))


def assert_published(lake: Lake, rows: Sequence[Row]) -> None:
    """The public tables have what these samples mean."""
    assert_equal({name: published(lake, name) for name in PUBLIC}, rows)
