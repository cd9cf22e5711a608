"""Partial aggregates of samples, made by tasks."""

from __future__ import annotations

from pathlib import Path

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from zenspark.lake.parquet_files import ROWS, File
from zenspark.lake.pending import Extent
from zenspark.lake.storage_path import Folder
from zenspark.spark.ingest.latest import Latest
from zenspark.spark.ingest.partial_aggregates import iterate_digests, share_files, write_digests
from zenspark.spark.ingest.traffic import Traffic
from zenspark.spark.lake import Lake


def test_files_are_shared_among_tasks_by_their_rows() -> None:
    files = [File(f"f{number}", 1, rows, {}) for number, rows in enumerate([ROWS // 2, ROWS // 2, ROWS, 1, 1])]
    assert [[each.path for each in share] for share in share_files(files)] == [["f0", "f1"], ["f2"], ["f3", "f4"]]
    assert share_files([]) == []


def test_a_digest_leaves_out_what_was_taken_in_before(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{} for _ in range(1000)], 0, "r"))
    samples = lake.table("samples")
    for start, end, count in ((0, 1000, 1000), (751, 1000, 249), (10, 20, 10), (1000, 1000, 0)):
        extent = Extent({"r": start}, {"r": end})
        found = iterate_digests(Traffic(), samples.folder, extent, samples.files)
        assert sum(sum(digest["messages"].to_pylist()) for digest in found) == count


def test_digests_are_written_in_order_and_by_part(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{"key": key, "kind": "PUT"} for key in ("k/c", "k/*", "k/a", "k/b")], 0, "r"))
    samples, target = lake.table("samples"), Folder.at(tmp_path / "state")
    files = write_digests(Latest(), target, "test", samples.folder, Extent({}, {"r": 4}), samples.files)
    assert {(file.partition["part"], file.least["key"], file.greatest["key"], file.rows) for file in files} == {
        ("new", "k/a", "k/c", 3),
        ("wild", "k/*", "k/*", 1),
    }
