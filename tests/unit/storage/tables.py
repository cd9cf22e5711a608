"""A lake whose `samples` are filled by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.unit.storage.made import RECORDED
from zenspark.arrow import SCHEMA
from zenspark.journal import JournalWriter
from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.ingested_offsets import list_recorders, offset_app_versions, read_offsets
from zenspark.lake.parquet_files import ARRIVAL_ORDER_SIZES, DataFile, DataFileWriter, RowGroupSizes, read_batches
from zenspark.lake.partitioning import split_by_partition
from zenspark.spark.lake import Lake


class FakeLake:
    """Tables as an ingestion leaves them."""

    def __init__(self, path: str | Path, options: Mapping[str, str] | None = None) -> None:
        self.lake = Lake(path, options)

    def ingest(self, rows: pa.RecordBatch, sizes: RowGroupSizes = ARRIVAL_ORDER_SIZES) -> list[DataFile]:
        """Bring rows into `samples`."""
        table = self.table("samples")
        files = DataFileWriter(table.location, table.spec, "test", sizes)
        for partition, own in split_by_partition(
            pa.Table.from_batches([rows]).cast(with_text_type(RECORDED, DICTIONARY_TYPE)).combine_chunks()
        ):
            files.write(own, partition)
        reached: dict[str, int] = {}
        for recorder, offset in zip(*(rows.column(name).to_pylist() for name in ("recorder", "offset")), strict=True):
            reached[recorder] = max(reached.get(recorder, 0), offset + 1)
        added = files.close()
        table.commit(Transaction(add=added, app_versions=offset_app_versions(reached)))
        return added

    def table(self, name: str) -> LakeTable:
        return self.lake.table(name)

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        table = self.table("samples")
        batches = (
            batch.cast(RECORDED) for file in table.files for batch in read_batches(table.location, file, table.spec)
        )
        return batches, read_offsets(table, list_recorders(table))


def append(writer: JournalWriter, rows: list[dict[str, Any]]) -> None:
    """Record rows, and acknowledge them."""
    writer.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    writer.flush()
