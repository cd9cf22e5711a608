"""Which rows of which files a refresh looks at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from zenspark.journal.packing import WORDS, spelled
from zenspark.spark.lake import Lake
from zenspark.spark.lake.digests import Extent, iterate_digests, share_files, write_digests
from zenspark.spark.lake.files import ROWS, File
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.latest import Latest
from zenspark.spark.lake.shapes import JOURNAL
from zenspark.spark.lake.traffic import Traffic

EXTENT = Extent({"a": 5}, {"a": 8, "b": 3})


def test_an_extent_without_rows_is_empty() -> None:
    assert not EXTENT.empty
    assert Extent({"a": 8, "b": 3}, {"a": 8, "b": 3}).empty
    assert Extent({}, {}).empty
    assert Extent({"gone": 4}, {}).empty


def test_a_backlog_is_limited_for_each_recorder() -> None:
    assert EXTENT.limited(2) == Extent({"a": 5}, {"a": 7, "b": 2})
    assert EXTENT.limited(100) == EXTENT


def file(least: tuple[str, int] | None, greatest: tuple[str, int] | None) -> File:
    described = [dict(zip(("recorder", "offset"), each, strict=True)) if each else {} for each in (least, greatest)]
    return File("f", 1, 1, {}, described[0], described[1])


@pytest.mark.parametrize(
    ("least", "greatest", "may"),
    [
        (("a", 0), ("a", 4), False),
        (("a", 0), ("a", 5), True),
        (("a", 7), ("a", 9), True),
        (("a", 8), ("a", 9), False),
        (("b", 0), ("b", 0), True),
        (("unknown", 0), ("unknown", 9), False),
        (("a", 0), ("b", 0), True),  # of several recorders
        (None, None, True),
    ],
)
def test_files_that_can_have_its_rows(
    least: tuple[str, int] | None, greatest: tuple[str, int] | None, may: bool
) -> None:
    assert EXTENT.may_hold(file(least, greatest)) is may


def test_a_file_without_statistics_of_offsets_may_hold_rows_of_its_recorder() -> None:
    known, unknown = (File("f", 1, 1, {}, {"recorder": name}, {"recorder": name}) for name in ("a", "c"))
    assert EXTENT.may_hold(known)
    assert not EXTENT.may_hold(unknown)


def test_rows_are_chosen_one_by_one_whatever_is_beside_them() -> None:
    given = [("a", 4), ("a", 5), ("b", 0), ("a", 8), ("b", 3), (None, None), ("c", 1), ("a", None), (None, 6), ("a", 7)]
    rows = pa.RecordBatch.from_pylist([{"recorder": name, "offset": at} for name, at in given], schema=JOURNAL)
    found = EXTENT.rows_of(rows.cast(spelled(JOURNAL, WORDS))).cast(JOURNAL).to_pylist()
    assert [(row["recorder"], row["offset"]) for row in found] == [("a", 5), ("b", 0), ("a", 7)]


def test_rows_that_landed_late_belong_to_it_as_far_as_they_were_passed_over() -> None:
    extent = Extent({"a": 10}, {"a": 12}, {"a": ((2, 4), (8, 11))})
    assert not extent.empty
    assert not Extent({"a": 12}, {"a": 12}, {"a": ((2, 4),)}).empty
    rows = pa.RecordBatch.from_pylist([{"recorder": "a", "offset": at} for at in range(20)], schema=JOURNAL)
    found = extent.rows_of(rows.cast(spelled(JOURNAL, WORDS)))
    assert found["offset"].to_pylist() == [2, 3, 8, 9, 10, 11]
    assert [at for at in range(20) if extent.may_hold(file(("a", at), ("a", at)))] == [2, 3, 8, 9, 10, 11]
    assert extent.limited(1).rows_of(rows.cast(spelled(JOURNAL, WORDS)))["offset"].to_pylist() == [2, 3, 8, 9, 10]


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
