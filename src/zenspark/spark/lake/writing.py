"""How Spark writes files of a table: rows that it has itself, or through functions that its tasks call.

`write` is for what Spark has computed, which is little. What is only passed on, samples, goes from Arrow to Arrow in
Python (files.py): Java's rows would cost ten times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

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


def write(rows: DataFrame, table: Table, directory: str) -> None:
    """Lets Spark write rows into a directory of a table, one file per task and partition."""
    for name, value in SETTINGS.items():
        rows.sparkSession.conf.set(name, value)
    names = table.shape.partitions.names
    writer = rows.write.options(**(COMMITTER | (LOCAL if table.folder.local else {})))
    writer.partitionBy(*names).parquet(f"{table.folder.spark}/{directory}")


def on_workers(spark: SparkSession, function: Callable[[Work], Result], work: Sequence[Work]) -> list[Result]:
    """What a function makes of each of these, a task of Spark for each."""
    if not work:
        return []
    return spark.sparkContext.parallelize(work, len(work)).map(function).collect()
