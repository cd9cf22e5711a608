"""Where Spark looks for format "zenoh": every package called pyspark_* may have a DefaultSource."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from zenspark.spark import batch, stream
from zenspark.spark.options import BatchOptions, SinkOptions, StreamOptions, reading
from zenspark.spark.sink import BatchWriter, StreamWriter

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Zenoh as a source and a sink. Spark makes one for whatever is to be done; the options tell what."""

    @classmethod
    def name(cls) -> str:
        return "zenoh"

    def schema(self) -> StructType:
        """The columns of what is read."""
        options = reading(self.options)
        if isinstance(options, StreamOptions):
            return from_arrow_schema(stream.schema_of(options))
        return from_arrow_schema(batch.schema_of(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        return batch.reader_of(BatchOptions.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream.ZenohStreamReader(StreamOptions.of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return BatchWriter.of(SinkOptions.of(self.options), schema.names, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return StreamWriter.of(SinkOptions.of(self.options), schema.names)
