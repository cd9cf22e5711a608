"""Rows into Parquet files, and what is said of them."""

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.rows import samples
from zenspark.arrow import SCHEMA
from zenspark.journal.packing import WORDS, spelled
from zenspark.spark.lake import files as files_module
from zenspark.spark.lake.files import Files, batches_of, escaped, grouped, limits
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.shapes import Shape
from zenspark.spark.lake.table import partition_of

SHAPE = Shape("s", SCHEMA, pa.schema([("part", pa.string())]), described=("key", "received_at"))


def read(folder: Path, path: str) -> pa.Table:
    return pq.ParquetFile(folder / path).read()


def test_rows_are_read_as_they_were_written_in_a_file_for_each_partition(tmp_path: Path) -> None:
    files = Files(Folder.at(tmp_path), SHAPE, "batch=1")
    rows = pa.Table.from_batches([samples(0, 100)])
    files.write(rows[:50], {"part": "a/b"})
    files.write(rows[50:60].cast(spelled(SCHEMA, WORDS)), {"part": "c"})
    files.write(rows[60:], {"part": "a/b"})
    one, other = files.close()
    assert one.path.startswith("batch=1/part=a%2Fb/")
    assert (one.rows, one.partition, one.size) == (90, {"part": "a/b"}, (tmp_path / one.path).stat().st_size)
    assert read(tmp_path, one.path).equals(pa.concat_tables([rows[:50], rows[60:]]))
    assert read(tmp_path, other.path).equals(rows[50:60])
    assert one.least == {"key": "fleet/r0/pose", "received_at": rows["received_at"][0].as_py()}
    assert one.greatest == {"key": "fleet/r6/pose", "received_at": rows["received_at"][99].as_py()}


def test_a_file_is_read_with_texts_as_dictionaries(tmp_path: Path) -> None:
    folder = Folder.at(tmp_path)
    files = Files(folder, SHAPE, "batch=1")
    files.write(pa.Table.from_batches([samples(0, 9)]), {"part": "a"})
    (file,) = files.close()
    (batch,) = batches_of(folder, file, SHAPE, ["kind", "source_sn"])
    assert batch.schema.types == [WORDS, pa.int64()]
    assert [found.num_columns for found in batches_of(folder, file, SHAPE)] == [len(SCHEMA)]


def test_no_more_files_stay_open_than_may_be(tmp_path: Path) -> None:
    files = Files(Folder.at(tmp_path), SHAPE, "batch=1")
    rows = pa.Table.from_batches([samples(0, 1)])
    with patch.object(files_module, "OPEN", 3):
        for _ in range(2):
            for part in range(4):
                files.write(rows, {"part": str(part)})
            files.end_group()
            assert not files._open
        files.write(rows, {"part": "5"})
        files.end_group()
        assert len(files._open) == 1
    assert [file.rows for file in files.close()] == [1] * 9


@pytest.mark.parametrize(("rows", "size", "expected"), [(10, 1 << 30, [12, 12, 6]), (1 << 30, 1, [4] * 7 + [2])])
def test_rows_are_grouped_by_their_number_or_their_size(rows: int, size: int, expected: list[int]) -> None:
    batches = [samples(start, min(start + 4, 30)).cast(spelled(SCHEMA, WORDS)) for start in range(0, 30, 4)]
    with patch.object(files_module, "ROWS", rows), patch.object(files_module, "BYTES", size):
        found = list(grouped(batches))
    assert [table.num_rows for table in found] == expected
    assert all(column.num_chunks == 1 for table in found for column in table.columns)
    assert pa.concat_tables(table.cast(SCHEMA) for table in found).equals(pa.Table.from_batches([samples(0, 30)]))


@pytest.mark.parametrize("value", ["a", "x=y", "100%", "a:b", "[z]", "ü", "\\", "{c", "'q'", "a b", "\x01", "*"])
def test_a_value_in_the_name_of_a_directory_is_found_again(value: str) -> None:
    assert "/" not in escaped(value + "/")
    assert partition_of(f"batch=1/part={escaped(value)}/f.parquet", ["part"]) == {"part": value}


def test_limits_of_a_column_without_values_are_unknown(tmp_path: Path) -> None:
    rows = pa.table({"x": pa.array([None, None, 5], pa.int64()), "y": pa.nulls(3, pa.int64())})
    pq.write_table(rows, tmp_path / "f", row_group_size=2)
    assert limits(pq.read_metadata(tmp_path / "f"), ["x", "y"]) == ({"x": 5}, {"x": 5})
