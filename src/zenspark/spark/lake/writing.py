"""Rows into the files of a table, by Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame

from zenspark.spark.lake.table import Table

SETTINGS = {
    # INT96, which is Spark's default, has no statistics in Parquet's footers, and other readers cannot prune by it
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # without this, each task sorts its rows, payloads and all, only to write one partition after the other
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}
"""How files are written, whatever the session's configuration says."""
DISTINCT = {
    # their values do not repeat: a dictionary of them is built, and then given up, for nothing
    f"parquet.enable.dictionary#{column}": "false"
    for column in ("timestamp", "timestamp_ntp64", "source_sn", "offset")
}
"""How columns are written that have another value in each row."""
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
    writer = rows.write.options(**(DISTINCT | COMMITTER | (LOCAL if table.folder.local else {})))
    writer.partitionBy(*names).parquet(f"{table.folder.spark}/{directory}")
