"""A lake in plain Parquet files, partitioned as the real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tests.unit.spark.storage.made import RECORDED
from zenspark.arrow import SCHEMA
from zenspark.journal import JournalWriter

PARTITIONS = ds.partitioning(pa.schema([("day", pa.date32()), ("prefix", pa.string())]), flavor="hive")


class Files:
    """Tables as somebody has landed them."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.ends: dict[str, int] = {}

    def land(self, name: str, rows: pa.RecordBatch) -> None:
        """Write rows into a table."""
        table = pa.Table.from_batches([rows])
        table = table.append_column("day", table.column("received_at").cast(pa.date32()))
        prefixes = pc.replace_substring_regex(table.column("key"), "/.*", "")
        number = len(list(self.path.rglob("*.parquet")))
        ds.write_dataset(
            table.append_column("prefix", prefixes),
            self.path / name,
            format="parquet",
            partitioning=PARTITIONS,
            basename_template=f"{number}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
        )
        for recorder, offset in zip(
            rows.column("recorder").to_pylist(), rows.column("offset").to_pylist(), strict=True
        ):
            self.ends[recorder] = max(self.ends.get(recorder, 0), offset + 1)

    def dataset(self, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        schema = pa.schema([*RECORDED, ("day", pa.date32()), ("prefix", pa.string())])
        if not (self.path / name).exists():
            return ds.dataset(schema.empty_table())
        return ds.dataset(self.path / name, schema=schema, partitioning=PARTITIONS)

    def snapshot(self, name: str) -> Snapshot:
        return Snapshot(self.dataset(name), self.ends)

    def newest(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        return self.dataset("samples").to_batches(columns=RECORDED.names), self.ends


class Snapshot(NamedTuple):
    """A table as it is."""

    dataset: Any
    offsets: dict[str, int]


def append(writer: JournalWriter, rows: list[dict[str, Any]]) -> None:
    """Record rows, and acknowledge them."""
    writer.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    writer.flush()
