"""Where Spark looks for format "zenoh": every package called pyspark_* may have a DefaultSource.

Spark makes one in each of the many short-lived processes in which it plans and runs a query. So each imports only what
it needs, when it needs it.
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

from zenspark.spark.options import BatchOptions, SinkOptions, StreamOptions, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DefaultSource", "activate"]


class DefaultSource(DataSource):
    """Zenoh as a source and a sink; the options tell what is to be done."""

    @classmethod
    def name(cls) -> str:
        return "zenoh"

    def schema(self) -> StructType:
        """The columns of what is read."""
        from pyspark.sql.pandas.types import from_arrow_schema

        options = reading(self.options)
        return from_arrow_schema(_module_of(options).schema_of(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = BatchOptions.of(self.options)
        reader: DataSourceReader = _module_of(options).reader_of(options)
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
    """Lets the calling thread write with `df.write.format("zenoh")`; every thread but the main one must call it once.

    Spark's writer looks formats in Python up in the session that is active in its thread, and in a new thread none is.
    """
    java = getattr(spark, "_jvm", None)
    if java is not None:  # over Spark Connect there is none, and no thread misses a session
        java.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def _module_of(options: BatchOptions | StreamOptions) -> ModuleType:
    """What reads with these options."""
    if isinstance(options, StreamOptions):
        from zenspark.spark.source import stream

        return stream
    if options.selector:
        from zenspark.spark.source import live_query

        return live_query
    from zenspark.spark.source import batch

    return batch
