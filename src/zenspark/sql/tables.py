"""Tables of a lake for the embedded engine: their description, and the scans by which a connection reads them.

The engine reads the Parquet files of a table on a local disk itself. Tables in object stores, and files of other tools,
are read by Arrow. Derived tables (`latest`, `gaps`, `traffic`) have all rows that are in `samples` now: from the
public table if it is up to date, otherwise resolved in memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from zenspark.lake.delta_table import LakeTable
from zenspark.lake.lake import STATE_TABLE_SPECS, Lake
from zenspark.lake.specs import LAKE_FORMAT_VERSION

if TYPE_CHECKING:
    import pyarrow.dataset as ds

ZENSPARK_FILE = re.compile(r"(?:[^/]+/)*part-[0-9a-z]+-[0-9a-f]{32}\.parquet")
"""Paths of files that zenspark wrote: with the number of a batch, or the label of compaction or retention."""
GLOB_CHARACTERS = frozenset("*?[]{}")
"""Characters that have a meaning in the file names that the engine is given."""

TYPE_NAMES = {
    pa.string(): "varchar",
    pa.binary(): "blob",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
}
"""SQL types by Arrow type; all others of a lake are times."""
TIME_TYPE_NAME = "timestamptz"


@dataclass(frozen=True)
class ColumnInfo:
    """Name and SQL type of a column.

    Attributes:
        name: Name of the column.
        type: Its type in SQL, such as `varchar` or `timestamptz`.

    Example:
        >>> engine.tables()[0].columns[0]
        ColumnInfo(name='key', type='varchar')
    """

    name: str
    type: str


@dataclass(frozen=True)
class TableInfo:
    """Description of a table, from its log.

    Attributes:
        name: Name of the table.
        columns: Its columns, in order.
        rows: Number of rows; None for a derived table that is not up to date, whose rows only a query counts.
        bytes: Size of its files, in bytes.
        files: Number of its files.

    Example:
        >>> samples = engine.tables()[0]
        >>> samples.name, samples.rows, samples.files
        ('samples', 30, 1)
    """

    name: str
    columns: tuple[ColumnInfo, ...]
    rows: int | None
    bytes: int
    files: int


@dataclass(frozen=True)
class FileScan:
    """A table that the engine reads from files."""

    paths: Sequence[str]
    select: str
    """SQL query that reads them."""


@dataclass(frozen=True)
class ArrowScan:
    """A table whose rows Arrow has or reads."""

    rows: pa.Table | ds.Dataset


Scan = FileScan | ArrowScan


def describe_tables(lake: Lake) -> list[TableInfo]:
    """Describe all tables of a lake."""
    return [_describe(lake, name) for name in lake.tables()]


def _describe(lake: Lake, name: str) -> TableInfo:
    table = lake.table(name)
    files = table.files
    columns = tuple(ColumnInfo(field.name, type_name(field.type)) for field in table.spec.schema)
    rows = sum(file.rows for file in files) if _is_current(lake, name) else None
    return TableInfo(name, columns, rows, sum(file.size for file in files), len(files))


def _is_current(lake: Lake, name: str) -> bool:
    """Whether the files of a table have all its rows."""
    if name not in STATE_TABLE_SPECS:
        return True
    from zenspark.lake.derived.resolve import (
        is_public_table_complete,
    )  # imported here: most queries are not about these tables

    return is_public_table_complete(lake, name)


def type_name(kind: pa.DataType) -> str:
    """SQL name of the type of a column of a lake."""
    return TYPE_NAMES.get(kind, TIME_TYPE_NAME)


def plan_scan(lake: Lake, name: str) -> Scan:
    """Choose the scan by which a connection reads a table."""
    if not _is_current(lake, name):
        from zenspark.lake.derived.resolve import resolve

        return ArrowScan(resolve(lake, name))
    table = lake.table(name)
    files = [file.path for file in table.files]
    if not files:
        return ArrowScan(table.spec.schema.empty_table())
    if not _can_engine_read(table, files):
        return plan_arrow_scan(lake, name)
    paths = [f"{table.location.address}/{path}" for path in files]
    columns = ", ".join(f'"{column}"' for column in table.spec.schema.names)
    types = ", ".join(f"'{field.name}': {type_name(field.type)}" for field in table.spec.partitions)
    partitions = f"hive_partitioning = true, hive_types = {{{types}}}" if types else "hive_partitioning = false"
    listed = ", ".join(quote(path) for path in paths)
    return FileScan(paths, f"select {columns} from read_parquet([{listed}], {partitions})")


def plan_arrow_scan(lake: Lake, name: str) -> Scan:
    """Read a table with Arrow, wherever its files are and whatever tool wrote them."""
    dataset = lake.dataset(name)
    return ArrowScan(dataset)


def _can_engine_read(table: LakeTable, files: Sequence[str]) -> bool:
    location = table.location
    return (
        location.is_local
        and table.format == LAKE_FORMAT_VERSION
        and not GLOB_CHARACTERS & set(location.address)
        and all(ZENSPARK_FILE.fullmatch(path) for path in files)
    )


def quote(text: str) -> str:
    """Write a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
