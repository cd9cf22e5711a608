"""How Spark writes files of a table: rows that it has itself, or through functions that its tasks call.

`written` is for what Spark has computed, which is little. What is only passed on, samples, goes from Arrow to Arrow in
Python (files.py): Java's rows would cost ten times as much. So does everything that is not for a local disk: to reach
other places Spark needs jars, and in most of them it cannot rename what is done, which is how it writes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from zenspark.spark.lake.files import File, Files, grouped
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.shapes import Shape
from zenspark.spark.lake.table import Table

Work = TypeVar("Work")
Result = TypeVar("Result")

SETTINGS = {
    # INT96, which is Spark's default, has no statistics in Parquet's footers, and other readers cannot prune by it
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # without this, each task sorts its rows, payloads and all, only to write one partition after the other
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}
"""How files are written, whatever the session's configuration says."""
COMMITTER = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
LOCAL = {
    # without the checksum file beside each file: for each of both, Hadoop starts a `chmod`
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""How Hadoop writes on a local disk."""


def written(rows: DataFrame, table: Table, directory: str) -> list[File]:
    """Writes what Spark has into a directory of a table, one file per task and partition; which files these are."""
    if table.folder.local:
        write(rows, table, directory)
        return table.described(directory)
    write_share = partial(write_batches, table.folder, table.shape, directory)
    told = rows.mapInArrow(write_share, "files binary").collect()
    return [file for row in told for file in pickle.loads(row.files)]


def write_batches(
    folder: Folder, shape: Shape, directory: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Writes what one task has into files, by partition; what they are."""
    files = Files(folder, shape, directory)
    for rows in grouped(batches):
        for own, partition in by_partition(rows, shape):
            files.write(own, partition)
        files.end_group()
    yield pa.record_batch({"files": [pickle.dumps(files.close())]})


def by_partition(rows: pa.Table, shape: Shape) -> Iterator[tuple[pa.Table, dict[str, str]]]:
    """Rows without the columns of their partition, and which that is."""
    names = shape.partitions.names
    for partition in rows.select(names).group_by(names).aggregate([]).to_pylist():
        own = rows
        for name, value in partition.items():
            own = own.filter(pc.equal(own[name], value))
        yield own.drop_columns(names), partition


def write(rows: DataFrame, table: Table, directory: str) -> None:
    """Lets Spark write by itself, on a local disk."""
    for name, value in SETTINGS.items():
        rows.sparkSession.conf.set(name, value)
    names = table.shape.partitions.names
    writer = rows.write.options(**(COMMITTER | LOCAL))
    writer.partitionBy(*names).parquet(f"{table.folder.spark}/{directory}")


def on_workers(spark: SparkSession, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
    """What a function makes of each of these, a task of Spark for each."""
    if not work:
        return []
    return spark.sparkContext.parallelize(work, len(work)).map(function).collect()
