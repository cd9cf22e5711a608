"""Reads the files of a table snapshot as a DataFrame, without a Delta reader.

Spark lists every path it is given one by one, which takes minutes for 100,000 files. It does not list files that one of
its own streaming queries wrote: these are in a log, `_spark_metadata`. So the files of a snapshot are written to such
a log in a temporary directory, and Spark reads that: it takes names and sizes from the log, and partitions from the
paths.

Where Spark has no file system for the files, such as S3 without additional jars, tasks read them with Arrow. A task
then reads whole files, because Spark does not push filters into a Python function. A filter on the first partition
column, such as the day, still skips files: each value is a separate branch of a union, in which it is a constant.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from zenspark.lake.delta_table import LakeTable
from zenspark.lake.parquet_files import DataFile, read_batches
from zenspark.lake.specs import LAKE_FORMAT_VERSION, TableSpec
from zenspark.lake.storage_path import StoragePath

MAX_PARTITION_BRANCHES = 32
"""Maximum branches of the union, since more slow down planning; the oldest days share one branch."""
BYTES_PER_TASK = 128 << 20
"""Approximate bytes of files per task."""
BLOCK_BYTES = 128 << 20
"""Block size in the file log, by which Spark splits files into tasks."""

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def dataframe_of_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Make a DataFrame of rows in memory, as a single chunk: Spark 4.3 ignores rows after an empty chunk."""
    return spark.createDataFrame(rows.combine_chunks())


def dataframe(spark: SparkSession, table: LakeTable, files: Sequence[DataFile]) -> DataFrame:
    """Make a DataFrame of the rows of these files, with the columns of the table."""
    schema = spark_schema(table.spec.schema)
    if not files:
        return spark.createDataFrame([], schema)
    if not can_spark_read(spark, table.location) or _has_irregular_paths(table, files):
        frames = [
            _read_with_arrow(spark, table, value, recent)
            for value, recent in group_by_first_partition(table.spec, files)
        ]
        return reduce(DataFrame.unionByName, frames)
    with tempfile.TemporaryDirectory(prefix="zenspark-snapshot-") as directory:
        write_file_log(Path(directory), table.location, files)
        # without partitions Spark reads only files in the directory itself, unless lookup is recursive
        recursive = "false" if table.spec.partitions.names else "true"
        reader = spark.read.schema(schema).option("recursiveFileLookup", recursive)
        return reader.parquet(Path(directory).as_uri()).select(schema.names)


def _has_irregular_paths(table: LakeTable, files: Sequence[DataFile]) -> bool:
    """Whether paths do not encode the partition of a file; in lakes of version 1 they have other components, too."""
    return bool(table.spec.partitions.names) and (
        table.format != LAKE_FORMAT_VERSION
        or any(file.path.count("/") != len(table.spec.partitions.names) for file in files)
    )


def write_file_log(directory: Path, folder: StoragePath, files: Sequence[DataFile]) -> None:
    """Write files to a `_spark_metadata` log, in the format of Spark's file sink."""
    log = directory / "_spark_metadata" / "0"
    log.parent.mkdir()
    entry = {
        "isDir": False,
        "modificationTime": 0,
        "blockReplication": 1,
        "blockSize": BLOCK_BYTES,
        "action": "add",
    }
    scheme, root = folder.spark_uri.split("://", 1)
    paths = (f"{scheme}://{quote(f'{root}/{file.path}')}" for file in files)
    lines = [json.dumps({"path": path, "size": file.size} | entry) for path, file in zip(paths, files, strict=True)]
    log.write_text("\n".join(["v1", *lines]), encoding="utf-8")


def _read_with_arrow(spark: SparkSession, table: LakeTable, value: str | None, files: Sequence[DataFile]) -> DataFrame:
    """Read files with Arrow in tasks; `value` is their common value of the first partition column, if any."""
    schema = spark_schema(table.spec.schema)
    groups = split_by_size(files, spark.sparkContext.defaultParallelism)
    tasks = spark.range(0, len(groups), 1, len(groups))
    rows = tasks.mapInArrow(make_file_reader(table.location, table.spec, groups), schema)
    if value is None:
        return rows
    column = schema[table.spec.partitions.names[0]]
    return rows.withColumn(column.name, F.lit(value).cast(column.dataType))


def group_by_first_partition(spec: TableSpec, files: Sequence[DataFile]) -> list[tuple[str | None, list[DataFile]]]:
    """Group files by the first partition column; files of all but the greatest values are one group."""
    groups: dict[str | None, list[DataFile]] = defaultdict(list)
    for file in files:
        groups[file.partition[spec.partitions.names[0]] if spec.partitions.names else None].append(file)
    recent = set(sorted(value for value in groups if value is not None)[-MAX_PARTITION_BRANCHES:])
    rest = [file for value, group in groups.items() if value not in recent for file in group]
    return [(value, groups[value]) for value in sorted(recent)] + ([(None, rest)] if rest else [])


def can_spark_read(spark: SparkSession, folder: StoragePath) -> bool:
    """Whether Spark has a file system for the path."""
    if folder.is_local:
        return True
    jvm: Any = spark._jvm
    scheme, configuration = folder.spark_uri.split("://")[0], spark.sparkContext._jsc.hadoopConfiguration()
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JJavaError:
        return False
    return True


def split_by_size(files: Sequence[DataFile], cores: int) -> list[list[DataFile]]:
    """Split files into tasks of about the same size, enough for all cores, and none very large."""
    task_bytes = min(BYTES_PER_TASK, sum(file.size for file in files) // cores + 1)
    groups: list[list[DataFile]] = []
    size = task_bytes
    for file in files:
        if size >= task_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def make_file_reader(folder: StoragePath, spec: TableSpec, groups: Sequence[Sequence[DataFile]]) -> BatchFunction:
    """Make the function for `mapInArrow` that yields the rows of file groups, given by index."""

    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for file in groups[number]:
                    yield from read_rows(folder, file, spec)

    return rows


def read_rows(folder: StoragePath, file: DataFile, spec: TableSpec) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with all columns of the table."""
    values = [pa.scalar(file.partition[field.name]).cast(field.type) for field in spec.partitions]
    for batch in read_batches(folder, file, spec):
        columns = [*batch.columns, *(pa.repeat(value, batch.num_rows) for value in values)]
        yield from pa.table(columns, names=spec.schema.names).cast(spec.schema).to_batches()


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to a Spark schema."""
    return from_arrow_schema(schema)


def spark_columns(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return names and types of the columns in the form of `DataFrame.dtypes`."""
    return [(column.name, column.dataType.simpleString()) for column in spark_schema(schema)]
