"""Partial aggregates of samples, made by tasks."""

from __future__ import annotations

from pathlib import Path

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from zenspark.lake.parquet_files import BUFFER_ROWS, DataFile
from zenspark.lake.pending_rows import OffsetRanges
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest.latest import Latest
from zenspark.spark.ingest.partial_aggregates import split_into_tasks, write_partials
from zenspark.spark.lake import Lake


def test_files_are_shared_among_tasks_by_their_rows() -> None:
    files = [
        DataFile(f"f{number}", 1, rows, {})
        for number, rows in enumerate([BUFFER_ROWS // 2, BUFFER_ROWS // 2, BUFFER_ROWS, 1, 1])
    ]
    assert [[each.path for each in share] for share in split_into_tasks(files)] == [["f0", "f1"], ["f2"], ["f3", "f4"]]
    assert split_into_tasks([]) == []


def test_partial_aggregates_are_written_by_part_with_key_ranges(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{"key": key, "kind": "PUT"} for key in ("k/c", "k/*", "k/a", "k/b")], 0, "r"))
    samples, target = lake.table("samples"), StoragePath.at(tmp_path / "state")
    files = write_partials(Latest(), target, "test", samples.location, OffsetRanges({}, {"r": 4}), samples.files)
    assert {(file.partition["part"], file.min_values["key"], file.max_values["key"], file.rows) for file in files} == {
        ("new", "k/a", "k/c", 3),
        ("wild", "k/*", "k/*", 1),
    }
