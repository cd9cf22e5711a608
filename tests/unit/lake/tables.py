"""Tables of samples with files that were not written by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from zenspark.lake.delta_table import Table
from zenspark.lake.parquet_files import File, Files
from zenspark.lake.specs import JOURNAL, SAMPLES
from zenspark.lake.storage_path import Folder


def samples_at(path: Path) -> Table:
    return Table(Folder.at(path), SAMPLES)


def written(table: Table, label: str, rows: list[dict[str, object]], day: str = "2026-11-16") -> list[File]:
    """A file of the table with these rows."""
    files = Files(table.folder, SAMPLES, label)
    files.write(pa.Table.from_pylist(rows, schema=JOURNAL), {"day": day, "prefix": "a:b"})
    return files.close()


def file(path: str, size: int = 1, day: str = "2026-11-16", **limits: object) -> File:
    """A file that is only talked about."""
    described: Mapping[str, object] = {"recorder": "robot", "offset": 0} | limits
    return File(path, size, 1, {"day": day, "prefix": "a"}, described, described)
