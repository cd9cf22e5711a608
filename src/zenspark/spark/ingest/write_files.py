"""Writes files of a table by Spark tasks: rows of a DataFrame, or rows that the tasks read themselves.

Rows go from Arrow to Parquet in Python (lake/parquet_files.py): Java's rows would cost ten times as much, and to write
to anything but a local disk Spark needs additional jars and the right to rename.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.lake.delta_table import LakeTable
from zenspark.lake.parquet_files import DataFile, DataFileWriter, group_batches
from zenspark.lake.specs import TableSpec
from zenspark.lake.storage_path import StoragePath

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = TypeVar("Work")
Result = TypeVar("Result")


def write_dataframe(rows: DataFrame, table: LakeTable, label: str) -> list[DataFile]:
    """Write a DataFrame into new files of a table, one per task and partition. Returns the files."""
    write_task = partial(write_batches, table.location, table.spec, label)
    results = rows.mapInArrow(write_task, "files binary").collect()
    return [file for row in results for file in pickle.loads(row.files)]


def write_batches(
    folder: StoragePath, spec: TableSpec, label: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task into files by partition. Yields the pickled list of files."""
    files = DataFileWriter(folder, spec, label)
    for rows in group_batches(batches):
        for selected, partition in split_partition_columns(rows, spec):
            files.write(selected, partition)
        files.roll_over()
    yield pa.record_batch({"files": [pickle.dumps(files.close())]})


def split_partition_columns(rows: pa.Table, spec: TableSpec) -> Iterator[tuple[pa.Table, dict[str, str]]]:
    """Yield the rows of each partition without the partition columns, and the partition values."""
    names = spec.partitions.names
    if not names:
        yield rows, {}
        return
    for partition in rows.select(names).group_by(names).aggregate([]).to_pylist():
        selected = rows
        for name, value in partition.items():
            selected = selected.filter(pc.equal(selected[name], value))
        yield selected.drop_columns(names), partition


def run_on_executors(spark: SparkSession, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
    """Apply a function to each item of `work` on executors, one Spark task per item. Returns the results in order."""
    if not work:
        return []
    return spark.sparkContext.parallelize(work, len(work)).map(function).collect()
