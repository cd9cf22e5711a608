"""Spark data source "zenoh": Spark looks for a `DefaultSource` in every package called pyspark_*.

Spark creates one in each of the many short-lived processes in which it plans and runs a query. So each method imports
only what it needs.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from zenspark.spark.options import BatchOptions, SinkOptions, StreamOptions, options_for_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DefaultSource", "activate"]


class DefaultSource(DataSource):
    """Format `zenoh`: reads journals in batch or as they grow, queries or records a network, publishes rows.

    The options decide: `journal` (or the path of `load`) reads journals, `selector` with `connect` queries a network,
    `subscribe` records one while the stream runs; writing publishes each row on its `key`. `BatchOptions`,
    `StreamOptions` and `SinkOptions` of `zenspark.spark.options` have all options, docs/spark.md has their tables.

    Args:
        options: Options of the source or sink; Spark passes those of `option`, `options`, `load` and `save`.

    Example:
        >>> samples = spark.read.format("zenoh").load("journal")
        >>> replies = spark.read.format("zenoh").options(connect="tcp/localhost:7447", selector="a/**").load()
        >>> stream = spark.readStream.format("zenoh").load("journal")
        >>> samples.write.format("zenoh").mode("append").options(connect="tcp/localhost:7447").save()
    """

    @classmethod
    def name(cls) -> str:
        return "zenoh"

    def schema(self) -> StructType:
        """Return the columns of the source."""
        from pyspark.sql.pandas.types import from_arrow_schema

        options = options_for_reader(self.options)
        return from_arrow_schema(_module_of(options).schema_of(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = BatchOptions.of(self.options)
        reader: DataSourceReader = _module_of(options).make_reader(options)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from zenspark.spark.source.stream import ZenohStreamReader

        return ZenohStreamReader(StreamOptions.of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from zenspark.spark.sink import BatchWriter

        return BatchWriter.of(SinkOptions.of(self.options), schema.names, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from zenspark.spark.sink import StreamWriter

        return StreamWriter.of(SinkOptions.of(self.options), schema.names)


def activate(spark: SparkSession) -> None:
    """Activate the session in the calling thread; every thread but the main one must do so once before it writes.

    `df.write.format("zenoh")` looks up Python data sources in the active session of its thread, which a new thread
    does not have.

    Args:
        spark: The Spark session.

    Example:
        >>> activate(spark)
    """
    java = getattr(spark, "_jvm", None)
    if java is not None:  # over Spark Connect there is no JVM, and no need for an active session
        java.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def _module_of(options: BatchOptions | StreamOptions) -> ModuleType:
    """Return the module of the source for these options."""
    if isinstance(options, StreamOptions):
        from zenspark.spark.source import stream

        return stream
    if options.selector:
        from zenspark.spark.source import live_query

        return live_query
    from zenspark.spark.source import batch

    return batch
