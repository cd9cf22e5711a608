"""A lake whose `samples` are filled by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.unit.storage.made import RECORDED
from zenspark.arrow import SCHEMA
from zenspark.journal import JournalWriter
from zenspark.journal.block_codec import WORDS, spelled
from zenspark.lake.delta_table import Change, Table
from zenspark.lake.offset_marks import marks, offsets, recorders
from zenspark.lake.parquet_files import ARRIVAL, File, Files, Sizes, batches_of
from zenspark.lake.partitioning import parted
from zenspark.spark.lake import Lake


class Landed:
    """Tables as a landing leaves them."""

    def __init__(self, path: str | Path, options: Mapping[str, str] | None = None) -> None:
        self.lake = Lake(path, options)

    def land(self, rows: pa.RecordBatch, sizes: Sizes = ARRIVAL) -> list[File]:
        """Bring rows into `samples`."""
        table = self.table("samples")
        files = Files(table.folder, table.shape, "test", sizes)
        for partition, own in parted(pa.Table.from_batches([rows]).cast(spelled(RECORDED, WORDS)).combine_chunks()):
            files.write(own, partition)
        reached: dict[str, int] = {}
        for recorder, offset in zip(*(rows.column(name).to_pylist() for name in ("recorder", "offset")), strict=True):
            reached[recorder] = max(reached.get(recorder, 0), offset + 1)
        added = files.close()
        table.commit(Change(add=added, marks=marks(reached)))
        return added

    def table(self, name: str) -> Table:
        return self.lake.table(name)

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        table = self.table("samples")
        batches = (
            batch.cast(RECORDED) for file in table.files for batch in batches_of(table.folder, file, table.shape)
        )
        return batches, offsets(table, recorders(table))


def append(writer: JournalWriter, rows: list[dict[str, Any]]) -> None:
    """Record rows, and acknowledge them."""
    writer.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    writer.flush()
