"""How tasks of Spark write."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa

from zenspark.lake.network_tables import NETWORK_TABLE_SPECS
from zenspark.lake.parquet_files import read_batches
from zenspark.lake.specs import LATEST_STATE
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest.write_files import split_partition_columns, write_batches


def test_task_writes_a_file_per_partition_and_returns_them(tmp_path: Path) -> None:
    folder = StoragePath.at(tmp_path)
    rows = [{"key": f"k{number}", "offset": number, "part": "wild" if number % 3 else "new"} for number in range(6)]
    batches = [pa.RecordBatch.from_pylist(rows[start : start + 2], schema=LATEST_STATE.schema) for start in (0, 2, 4)]
    (result,) = write_batches(folder, LATEST_STATE, "one", iter(batches))
    files = {file.partition["part"]: file for file in pickle.loads(result["files"][0].as_py())}
    assert {part: file.rows for part, file in files.items()} == {"new": 2, "wild": 4}
    assert (files["wild"].min_values, files["wild"].max_values) == ({"key": "k1"}, {"key": "k5"})
    found = pa.Table.from_batches(read_batches(folder, files["wild"], LATEST_STATE))
    assert found["offset"].to_pylist() == [1, 2, 4, 5]
    (result,) = write_batches(folder, LATEST_STATE, "two", iter([]))
    assert pickle.loads(result["files"][0].as_py()) == []


def test_rows_of_a_table_without_partitions_stay_together() -> None:
    rows = pa.table({"x": [1, 2]})
    assert [
        (own.equals(rows), part) for own, part in split_partition_columns(rows, NETWORK_TABLE_SPECS["sessions"])
    ] == [(True, {})]
