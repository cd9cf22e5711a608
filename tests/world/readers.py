"""The tables of a lake as others read them: by deltalake, Polars, DuckDB and pyarrow, none of which knows zenspark.

Every reader gives an Arrow table of the documented columns and types, whatever it calls them itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tests.lake_model import Row
from zenspark.lake.lake import TABLE_SPECS

Reader = Callable[[Path, str], pa.Table]


def by_deltalake(lake: Path, name: str) -> pa.Table:
    return _documented(name, DeltaTable(lake / name).to_pyarrow_table())


def by_polars(lake: Path, name: str) -> pa.Table:
    return _documented(name, pl.read_delta(str(lake / name)).to_arrow())


def by_lazy_polars(lake: Path, name: str) -> pa.Table:
    return _documented(name, pl.scan_delta(str(lake / name)).collect().to_arrow())


def by_duckdb(lake: Path, name: str) -> pa.Table:
    """By SQL over the dataset that deltalake makes of the log."""
    with duckdb.connect() as connection:
        connection.register("rows", DeltaTable(lake / name).to_pyarrow_dataset())
        return _documented(name, connection.sql("select * from rows").to_arrow_table())


def by_duckdb_from_files(lake: Path, name: str) -> pa.Table:
    """By SQL over the files, with the partitions that their directories name."""
    files = DeltaTable(lake / name).file_uris()
    if not files:
        return TABLE_SPECS[name].schema.empty_table()
    partitions = {
        column.name: {"date32[day]": "DATE"}.get(str(column.type), "VARCHAR") for column in TABLE_SPECS[name].partitions
    }
    how = f", hive_partitioning = true, hive_types = {partitions}" if partitions else ""
    with duckdb.connect() as connection:
        found = connection.sql(f"select * from read_parquet($files{how})", params={"files": files})
        return _documented(name, found.to_arrow_table())


def by_pyarrow(lake: Path, name: str) -> pa.Table:
    """As a dataset of Parquet files, with the partitions that their directories name."""
    files = DeltaTable(lake / name).file_uris()
    if not files:
        return TABLE_SPECS[name].schema.empty_table()
    spec = TABLE_SPECS[name]
    hive = ds.partitioning(spec.partitions, flavor="hive") if spec.partitions.names else None
    found = ds.dataset(files, spec.schema, format="parquet", partition_base_dir=str(lake / name), partitioning=hive)
    return _documented(name, found.to_table())


READERS: dict[str, Reader] = {
    "deltalake": by_deltalake,
    "polars": by_polars,
    "polars, lazily": by_lazy_polars,
    "duckdb": by_duckdb,
    "duckdb, from files": by_duckdb_from_files,
    "pyarrow": by_pyarrow,
}


def _documented(name: str, rows: pa.Table) -> pa.Table:
    """The same rows in the documented types, in an order that does not depend on the reader."""
    schema = TABLE_SPECS[name].schema
    found = pa.Table.from_arrays([rows.column(column) for column in schema.names], names=schema.names).cast(schema)
    return in_order(found)


def in_order(rows: pa.Table) -> pa.Table:
    """Rows by their texts, numbers and times, so that two tables of the same rows are equal."""
    names = [column.name for column in rows.schema if not pa.types.is_binary(column.type)]
    return rows.sort_by([(name, "ascending") for name in reversed(names)]).combine_chunks()


def plain(rows: pa.Table) -> list[Row]:
    """Rows with times as microseconds, as the model has them."""
    columns = [each.with_type(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in rows.schema]
    return list(rows.cast(pa.schema(columns)).to_pylist())
