"""How tasks of Spark write files of a table: rows that Spark has, or rows that the tasks read themselves.

Everything goes from Arrow to Parquet in Python (files.py): Java's rows would cost ten times as much, and to reach other
places than a local disk Spark needs jars and the right to rename.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from zenspark.lake.delta_table import Table
from zenspark.lake.parquet_files import File, Files, grouped
from zenspark.lake.specs import Shape
from zenspark.lake.storage_path import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = TypeVar("Work")
Result = TypeVar("Result")


def written(rows: DataFrame, table: Table, label: str) -> list[File]:
    """Write what Spark has into new files of a table, one per task and partition; which files these are."""
    write_share = partial(write_batches, table.folder, table.shape, label)
    told = rows.mapInArrow(write_share, "files binary").collect()
    return [file for row in told for file in pickle.loads(row.files)]


def write_batches(
    folder: Folder, shape: Shape, label: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write what one task has into files, by partition; what they are."""
    files = Files(folder, shape, label)
    for rows in grouped(batches):
        for own, partition in by_partition(rows, shape):
            files.write(own, partition)
        files.end_group()
    yield pa.record_batch({"files": [pickle.dumps(files.close())]})


def by_partition(rows: pa.Table, shape: Shape) -> Iterator[tuple[pa.Table, dict[str, str]]]:
    """Rows without the columns of their partition, and which that is."""
    names = shape.partitions.names
    if not names:
        yield rows, {}
        return
    for partition in rows.select(names).group_by(names).aggregate([]).to_pylist():
        own = rows
        for name, value in partition.items():
            own = own.filter(pc.equal(own[name], value))
        yield own.drop_columns(names), partition


def on_workers(spark: SparkSession, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
    """What a function makes of each of these, a task of Spark for each."""
    if not work:
        return []
    return spark.sparkContext.parallelize(work, len(work)).map(function).collect()
