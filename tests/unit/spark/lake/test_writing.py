"""How Spark is told to write, and how its tasks write where it cannot."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa

from zenspark.spark.lake.files import batches_of
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.shapes import LATEST
from zenspark.spark.lake.writing import COMMITTER, LOCAL, SETTINGS, write_batches


def test_times_are_written_so_that_readers_can_leave_files_out() -> None:
    assert SETTINGS["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"


def test_what_is_for_one_kind_of_place_does_not_stand_in_the_way_of_the_other() -> None:
    assert not COMMITTER.keys() & LOCAL.keys()


def test_a_task_writes_a_file_for_each_partition_and_tells_of_them(tmp_path: Path) -> None:
    folder = Folder.at(tmp_path)
    rows = [{"key": f"k{number}", "offset": number, "part": "wild" if number % 3 else "new"} for number in range(6)]
    batches = [pa.RecordBatch.from_pylist(rows[start : start + 2], schema=LATEST.schema) for start in (0, 2, 4)]
    (told,) = write_batches(folder, LATEST, "batch=1", iter(batches))
    files = {file.partition["part"]: file for file in pickle.loads(told["files"][0].as_py())}
    assert {part: file.rows for part, file in files.items()} == {"new": 2, "wild": 4}
    assert (files["wild"].least, files["wild"].greatest) == ({"key": "k1"}, {"key": "k5"})
    found = pa.Table.from_batches(batches_of(folder, files["wild"], LATEST))
    assert found["offset"].to_pylist() == [1, 2, 4, 5]
    (told,) = write_batches(folder, LATEST, "batch=2", iter([]))
    assert pickle.loads(told["files"][0].as_py()) == []
