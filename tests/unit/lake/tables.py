"""Tables of samples with files that were not written by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from zenspark.lake.delta_table import LakeTable
from zenspark.lake.parquet_files import DataFile, DataFileWriter
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES
from zenspark.lake.storage_path import StoragePath


def samples_at(path: Path) -> LakeTable:
    return LakeTable(StoragePath.at(path), SAMPLES)


def written(table: LakeTable, label: str, rows: list[dict[str, object]], day: str = "2026-11-16") -> list[DataFile]:
    """A file of the table with these rows."""
    files = DataFileWriter(table.location, SAMPLES, label)
    files.write(pa.Table.from_pylist(rows, schema=JOURNAL_SCHEMA), {"day": day, "prefix": "a:b"})
    return files.close()


def file(path: str, size: int = 1, day: str = "2026-11-16", **limits: object) -> DataFile:
    """A file that is only talked about."""
    stats_columns: Mapping[str, object] = {"recorder": "robot", "offset": 0} | limits
    return DataFile(path, size, 1, {"day": day, "prefix": "a"}, stats_columns, stats_columns)
