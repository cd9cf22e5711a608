"""Files of a table as a DataFrame: Spark needs no Delta reader, because it is told which files to read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from zenspark.spark.lake.files import File
from zenspark.spark.lake.table import Table


def frame(spark: SparkSession, table: Table, files: Sequence[File]) -> DataFrame:
    """The rows of these files, with the columns of the table in its order."""
    schema = spark_schema(table.shape.schema)
    if not files:
        return spark.createDataFrame([], schema)
    root = table.folder.spark
    # names of files are taken as they are: a key may put brackets and stars into them
    reader = spark.read.schema(schema).option("basePath", root).option("__globPaths__", "false")
    return reader.parquet(*[f"{root}/{file.path}" for file in files]).select(schema.names)


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns for Spark."""
    return from_arrow_schema(schema)


def spark_columns(schema: pa.Schema) -> list[tuple[str, str]]:
    """Names and types of the columns, as `DataFrame.dtypes` tells them."""
    return [(column.name, column.dataType.simpleString()) for column in spark_schema(schema)]
