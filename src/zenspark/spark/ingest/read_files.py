"""Files of a table as a DataFrame: Spark needs no Delta reader, because it is told which files to read.

Spark lists every path that it is given, one by one, which takes minutes for 100,000 files. What it does not list are
the files that a streaming query of its own has written: those are in a log, `_spark_metadata`. So the files of a
snapshot are written down in that form, in a temporary directory, and Spark is pointed there: it takes names and sizes
from the log, and the partitions from the paths.

Where Spark has no way to the files, as to S3 without jars that it does not come with, tasks read them with Arrow, the
way they were written. A task reads whole files then, as Spark cannot tell a Python function what it will not need; but
a condition on the first partition column, such as the day, still leaves files out: each value is a branch of its own,
in which Spark sees that it is constant.
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

from zenspark.lake.delta_table import Table
from zenspark.lake.parquet_files import File, batches_of
from zenspark.lake.specs import VERSION, Shape
from zenspark.lake.storage_path import Folder

MAX_BRANCHES = 32
"""More make planning slow: the oldest days are read together."""
TASK_BYTES = 128 << 20
"""About so many bytes of files are for one task."""
BLOCK_BYTES = 128 << 20
"""What Spark is told is the block size of the files: by this it divides them into tasks."""

Read = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def frame_of_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A DataFrame of rows in memory, in one chunk: Spark 4.3 ignores rows after an empty one."""
    return spark.createDataFrame(rows.combine_chunks())


def frame(spark: SparkSession, table: Table, files: Sequence[File]) -> DataFrame:
    """The rows of these files, with the columns of the table in its order."""
    schema = spark_schema(table.shape.schema)
    if not files:
        return spark.createDataFrame([], schema)
    if not reaches(spark, table.folder) or _is_irregular(table, files):
        found = [_read_by_tasks(spark, table, value, own) for value, own in branches(table.shape, files)]
        return reduce(DataFrame.unionByName, found)
    with tempfile.TemporaryDirectory(prefix="zenspark-snapshot-") as directory:
        write_file_log(Path(directory), table.folder, files)
        # without partitions Spark looks at files in the directory itself only, unless it is told to look below
        below = "false" if table.shape.partitions.names else "true"
        reader = spark.read.schema(schema).option("recursiveFileLookup", below)
        return reader.parquet(Path(directory).as_uri()).select(schema.names)


def _is_irregular(table: Table, files: Sequence[File]) -> bool:
    """Whether paths do not say which partition a file is in: in lakes of version 1 they have other parts, too."""
    return bool(table.shape.partitions.names) and (
        table.format != VERSION or any(file.path.count("/") != len(table.shape.partitions.names) for file in files)
    )


def write_file_log(directory: Path, folder: Folder, files: Sequence[File]) -> None:
    """Write down files in the form of the log that Spark's own streaming queries keep of theirs."""
    log = directory / "_spark_metadata" / "0"
    log.parent.mkdir()
    entry = {
        "isDir": False,
        "modificationTime": 0,
        "blockReplication": 1,
        "blockSize": BLOCK_BYTES,
        "action": "add",
    }
    scheme, root = folder.spark.split("://", 1)
    paths = (f"{scheme}://{quote(f'{root}/{file.path}')}" for file in files)
    lines = [json.dumps({"path": path, "size": file.size} | entry) for path, file in zip(paths, files, strict=True)]
    log.write_text("\n".join(["v1", *lines]), encoding="utf-8")


def _read_by_tasks(spark: SparkSession, table: Table, value: str | None, files: Sequence[File]) -> DataFrame:
    """The rows of files that have a value of the first partition column in common, or none."""
    schema = spark_schema(table.shape.schema)
    shares = shared(files, spark.sparkContext.defaultParallelism)
    tasks = spark.range(0, len(shares), 1, len(shares))
    rows = tasks.mapInArrow(reading(table.folder, table.shape, shares), schema)
    if value is None:
        return rows
    column = schema[table.shape.partitions.names[0]]
    return rows.withColumn(column.name, F.lit(value).cast(column.dataType))


def branches(shape: Shape, files: Sequence[File]) -> list[tuple[str | None, list[File]]]:
    """Files by the value of the first partition column; of all but the greatest values together."""
    found: dict[str | None, list[File]] = defaultdict(list)
    for file in files:
        found[file.partition[shape.partitions.names[0]] if shape.partitions.names else None].append(file)
    own = set(sorted(value for value in found if value is not None)[-MAX_BRANCHES:])
    rest = [file for value, group in found.items() if value not in own for file in group]
    return [(value, found[value]) for value in sorted(own)] + ([(None, rest)] if rest else [])


def reaches(spark: SparkSession, folder: Folder) -> bool:
    """Whether Spark can read there by itself."""
    if folder.local:
        return True
    jvm: Any = spark._jvm
    scheme, configuration = folder.spark.split("://")[0], spark.sparkContext._jsc.hadoopConfiguration()
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JJavaError:
        return False
    return True


def shared(files: Sequence[File], cores: int) -> list[list[File]]:
    """Files for one task each: of about the same size, enough for all cores, and none very large."""
    most = min(TASK_BYTES, sum(file.size for file in files) // cores + 1)
    found: list[list[File]] = []
    size = most
    for file in files:
        if size >= most:
            found.append([])
            size = 0
        found[-1].append(file)
        size += file.size
    return found


def reading(folder: Folder, shape: Shape, shares: Sequence[Sequence[File]]) -> Read:
    """What gives the rows of shares by their numbers: what tasks of Spark do."""

    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for file in shares[number]:
                    yield from rows_of(folder, file, shape)

    return rows


def rows_of(folder: Folder, file: File, shape: Shape) -> Iterator[pa.RecordBatch]:
    """The rows of a file with all columns of the table."""
    values = [pa.scalar(file.partition[each.name]).cast(each.type) for each in shape.partitions]
    for batch in batches_of(folder, file, shape):
        columns = [*batch.columns, *(pa.repeat(value, batch.num_rows) for value in values)]
        yield from pa.table(columns, names=shape.schema.names).cast(shape.schema).to_batches()


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns for Spark."""
    return from_arrow_schema(schema)


def spark_columns(schema: pa.Schema) -> list[tuple[str, str]]:
    """Names and types of the columns, as `DataFrame.dtypes` tells them."""
    return [(column.name, column.dataType.simpleString()) for column in spark_schema(schema)]
