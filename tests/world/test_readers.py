"""Every table of a lake reads the same to deltalake, Polars, DuckDB, pyarrow and zenspark, whatever its keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests import lake_tables
from tests.lake_model import Row
from tests.spark.lakes import Ingester
from tests.world.mixture import ODD_PREFIXES, Journals, Mixture, Shares
from tests.world.readers import READERS, in_order, plain
from zenspark.journal import Journal, JournalWriter
from zenspark.journal.format import SCHEMAS
from zenspark.lake.lake import TABLE_SPECS
from zenspark.lake.partitioning import partition_prefix
from zenspark.lake.specs import JOURNAL_SCHEMA
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark

BATCHES = 2
ROWS = 800
"""In a batch."""
EVERYTHING = Shares(new=0.1, wild=0.01, skipped=0.02, repeated=0.01, sizes=(1, 2, 4, 20, 20, 10, 2, 1))


class Filled(NamedTuple):
    """A lake, the rows ingested into it, and its tables as zenspark reads them."""

    path: Path
    rows: list[Row]
    tables: dict[str, pa.Table]

    def places(self, is_meant: Callable[[Row], bool]) -> list[tuple[str, int]]:
        """Recorder and offset of some rows, in order."""
        return sorted((row["recorder"], row["offset"]) for row in self.rows if is_meant(row))


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A lake of mixed traffic of two recorders in awkward partitions; some of its files have been compacted."""
    path = tmp_path_factory.mktemp("readers") / "lake"
    lake = Lake(path)
    lake.create()
    journals = Journals(Mixture(11, ODD_PREFIXES, EVERYTHING), ("robot", "hall 2 ü"), hours=3)
    ingester = Ingester(spark, lake)
    rows: list[Row] = []
    for _ in range(BATCHES):
        rows += (new := journals.rows(ROWS))
        ingester.ingest(new)
    lake.observe([observed(path)], "test")
    lake.refresh(spark)
    lake.publish(spark)
    return Filled(path, rows, {name: in_order(read(spark, lake, name)) for name in TABLE_SPECS})


def read(spark: SparkSession, lake: Lake, name: str) -> pa.Table:
    return lake.read(spark, name).toArrow().cast(TABLE_SPECS[name].schema)


def observed(lake: Path) -> Journal:
    """A journal beside the lake with a few rows of everything that a recorder observes."""
    path = lake.parent / "observed"
    JournalWriter(path, recorder="robot").close()
    for name in TABLE_SPECS.keys() & SCHEMAS.keys() - {"samples"}:
        with JournalWriter(path / name, recorder="robot", row_type=name) as writer:
            schema = SCHEMAS[name]
            columns = [pa.array([None, *range(1, 20)], pa.int64()).cast(column.type) for column in schema]
            writer.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return Journal(path)


def test_ingested_rows_are_readable(filled: Filled) -> None:
    ingested = in_order(filled.tables["samples"].select(JOURNAL_SCHEMA.names))
    assert plain(ingested) == plain(in_order(pa.Table.from_pylist(filled.rows, schema=JOURNAL_SCHEMA)))


@pytest.mark.parametrize("name", TABLE_SPECS)
@pytest.mark.parametrize("reader", READERS)
def test_other_readers_return_the_same_rows(filled: Filled, reader: str, name: str) -> None:
    assert filled.tables[name].num_rows > 0
    assert READERS[reader](filled.path, name).to_pylist() == filled.tables[name].to_pylist()


@pytest.mark.parametrize("name", TABLE_SPECS)
def test_a_table_has_the_documented_columns_and_nothing_else(filled: Filled, name: str) -> None:
    table = DeltaTable(filled.path / name)
    assert [field.name for field in table.schema().fields] == TABLE_SPECS[name].schema.names
    assert table.metadata().partition_columns == TABLE_SPECS[name].partitions.names


def test_conditions_on_a_prefix_find_its_rows(filled: Filled) -> None:
    """Readers leave files out by the partitions and statistics in the log: none of the wrong ones."""
    path = str(filled.path / "samples")
    table, lazy = DeltaTable(path), pl.scan_delta(path)
    columns = ["recorder", "offset"]
    with duckdb.connect() as connection:
        connection.register("dataset", table.to_pyarrow_dataset())
        for prefix in {partition_prefix(row["key"]) for row in filled.rows}:
            wanted = filled.places(lambda row: partition_prefix(row["key"]) == prefix)  # noqa: B023 - called at once
            assert sorted(lazy.filter(pl.col("prefix") == prefix).select(columns).collect().rows()) == wanted, prefix
            query = 'select recorder, "offset" from dataset where prefix = $1'
            assert sorted(connection.execute(query, [prefix]).fetchall()) == wanted, prefix
            found = table.to_pyarrow_table(filters=[("prefix", "=", prefix)], columns=columns)
            assert sorted(zip(*found.to_pydict().values(), strict=True)) == wanted, prefix


def test_conditions_on_a_key_and_a_time_find_their_rows(filled: Filled) -> None:
    path = str(filled.path / "samples")
    lazy = pl.scan_delta(path)
    with duckdb.connect() as connection:
        connection.register("dataset", DeltaTable(path).to_pyarrow_dataset())
        for example in filled.rows[:: len(filled.rows) // 40]:
            key, micros = example["key"], example["received_at"]
            wanted = filled.places(lambda row: row["key"] == key and row["received_at"] <= micros)  # noqa: B023 - as above
            time = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)
            condition = (pl.col("key") == key) & (pl.col("received_at") <= time)
            assert sorted(lazy.filter(condition).select("recorder", "offset").collect().rows()) == wanted
            query = 'select recorder, "offset" from dataset where key = $1 and received_at <= $2'
            assert sorted(connection.execute(query, [key, time]).fetchall()) == wanted


def test_derived_tables_equal_their_model(filled: Filled) -> None:
    lake_tables.assert_equal(filled.tables, filled.rows)
