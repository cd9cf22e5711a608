"""Parquet data files and their statistics."""

from pathlib import Path
from unittest.mock import patch
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.rows import samples
from zenspark.arrow import SCHEMA
from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake import parquet_files as files_module
from zenspark.lake.parquet_files import (
    KEY_ORDER_SIZES,
    LARGE_PAYLOAD_BYTES,
    DataFile,
    DataFileWriter,
    RowGroupSizes,
    compact_dictionaries,
    escape_path_value,
    group_batches,
    read_batches,
    read_min_max,
    split_into_row_groups,
)
from zenspark.lake.specs import TableSpec
from zenspark.lake.storage_path import StoragePath

SPEC = TableSpec("s", SCHEMA, pa.schema([("part", pa.string())]), stats_columns=("key", "received_at"))


def read(location: Path, path: str) -> pa.Table:
    return pq.ParquetFile(location / path).read()


def test_rows_round_trip_with_one_file_per_partition(tmp_path: Path) -> None:
    files = DataFileWriter(StoragePath.at(tmp_path), SPEC, "batch")
    rows = pa.Table.from_batches([samples(0, 100)])
    files.write(rows[:50], {"part": "a/b"})
    files.write(rows[50:60].cast(with_text_type(SCHEMA, DICTIONARY_TYPE)), {"part": "c"})
    files.write(rows[60:], {"part": "a/b"})
    one, other = files.close()
    assert one.path.startswith("part=a%2Fb/part-batch-")
    assert (one.rows, one.partition, one.size) == (90, {"part": "a/b"}, (tmp_path / one.path).stat().st_size)
    assert read(tmp_path, one.path).equals(pa.concat_tables([rows[:50], rows[60:]]))
    assert read(tmp_path, other.path).equals(rows[50:60])
    assert one.min_values == {"key": "fleet/r0/pose", "received_at": rows["received_at"][0].as_py()}
    assert one.max_values == {"key": "fleet/r6/pose", "received_at": rows["received_at"][99].as_py()}


def test_texts_are_read_as_dictionaries(tmp_path: Path) -> None:
    location = StoragePath.at(tmp_path)
    files = DataFileWriter(location, SPEC, "batch")
    files.write(pa.Table.from_batches([samples(0, 9)]), {"part": "a"})
    (file,) = files.close()
    (batch,) = read_batches(location, file, SPEC, ["kind", "source_sn"])
    assert batch.schema.types == [DICTIONARY_TYPE, pa.int64()]
    assert [found.num_columns for found in read_batches(location, file, SPEC)] == [len(SCHEMA)]


def test_number_of_open_files_is_limited(tmp_path: Path) -> None:
    files = DataFileWriter(StoragePath.at(tmp_path), SPEC, "batch")
    rows = pa.Table.from_batches([samples(0, 1)])
    with patch.object(files_module, "MAX_OPEN_FILES", 3):
        for _ in range(2):
            for part in range(4):
                files.write(rows, {"part": str(part)})
            files.roll_over()
            assert not files._open
        files.write(rows, {"part": "5"})
        files.roll_over()
        assert len(files._open) == 1
    assert [file.rows for file in files.close()] == [1] * 9


@pytest.mark.parametrize(("rows", "size", "expected"), [(10, 1 << 30, [12, 12, 6]), (1 << 30, 1, [4] * 7 + [2])])
def test_batches_are_grouped_by_rows_or_bytes(rows: int, size: int, expected: list[int]) -> None:
    batches = [
        samples(start, min(start + 4, 30)).cast(with_text_type(SCHEMA, DICTIONARY_TYPE)) for start in range(0, 30, 4)
    ]
    found = list(group_batches(batches, rows, size))
    assert [table.num_rows for table in found] == expected
    assert all(column.num_chunks == 1 for table in found for column in table.columns)
    assert pa.concat_tables(table.cast(SCHEMA) for table in found).equals(pa.Table.from_batches([samples(0, 30)]))


@pytest.mark.parametrize("value", ["a", "x=y", "100%", "a:b", "[z]", "ü", "\\", "{c", "'q'", "a b", "\x01", "*"])
def test_partition_values_in_directory_names_round_trip(value: str) -> None:
    assert "/" not in escape_path_value(value + "/")
    assert unquote(escape_path_value(value)) == value


def test_min_max_of_column_without_values_is_unknown(tmp_path: Path) -> None:
    rows = pa.table({"x": pa.array([None, None, 5], pa.int64()), "y": pa.nulls(3, pa.int64())})
    pq.write_table(rows, tmp_path / "f", row_group_size=2)
    assert read_min_max(pq.read_metadata(tmp_path / "f"), ["x", "y"]) == ({"x": 5}, {"x": 5})


def test_large_payloads_are_in_separate_row_groups(tmp_path: Path) -> None:
    large = b"x" * LARGE_PAYLOAD_BYTES
    rows = pa.Table.from_batches([samples(0, 6)])
    payloads = pa.array([b"a", large, b"b", None, large, b"c"], pa.binary())
    rows = rows.set_column(rows.schema.get_field_index("payload"), rows.schema.field("payload"), payloads)
    files = DataFileWriter(StoragePath.at(tmp_path), SPEC, "x")
    files.write(rows, {"part": "a"})
    (file,) = files.close()
    found = pq.ParquetFile(tmp_path / file.path)
    groups = [found.read_row_group(number)["payload"].to_pylist() for number in range(found.num_row_groups)]
    assert groups == [[b"a", b"b", None, b"c"], [large, large]]


def test_null_counts_are_in_the_log() -> None:
    types = {"x": pa.int64()}
    written = DataFile("p", 1, 3, {}, {"x": 1}, {"x": 2}, {"x": 1, "y": 2})
    assert written.null_counts == {"x": 1, "y": 2}
    assert DataFile.from_log("p", 1, {}, written.stats, types, 0).null_counts == {"x": 1}
    assert DataFile.from_log("p", 1, {}, None, types, 0).null_counts == {}
    assert DataFile.from_log("p", 1, {}, '{"nullCount": {"x": "many"}}', types, 0).null_counts == {}


def test_row_groups_are_limited_by_rows_and_bytes() -> None:
    rows = pa.table({"payload": pa.array([b"xx"] * 7 + [b"y" * 9], pa.binary())})
    sizes = RowGroupSizes(rows=3, small_bytes=4, large_bytes=4)
    assert [group.num_rows for group in split_into_row_groups(rows, sizes)] == [2, 2, 2, 1, 1]
    assert [group.num_rows for group in split_into_row_groups(rows, RowGroupSizes(rows=3))] == [3, 3, 2]
    assert [
        group.num_rows for group in split_into_row_groups(pa.table({"x": [1, 2, 3, 4]}), RowGroupSizes(rows=3))
    ] == [3, 1]
    assert KEY_ORDER_SIZES.small_bytes < KEY_ORDER_SIZES.large_bytes


def test_unused_dictionary_values_are_removed() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([3, None, 1, 3], pa.int32()), pa.array(["a", "b", "c", "d"]))
    nothing = pa.DictionaryArray.from_arrays(pa.array([None] * 4, pa.int32()), pa.array(["secret", "other"]))
    rows = pa.table({"x": words, "n": nothing, "y": [1, 2, 3, 4]})
    found = compact_dictionaries(rows)
    assert found["x"].to_pylist() == ["d", None, "b", "d"]
    assert found["x"].chunk(0).dictionary.to_pylist() == ["b", "d"]
    assert found["n"].chunk(0).dictionary.to_pylist() == []
    assert found["n"].null_count == 4
    assert compact_dictionaries(found).equals(found)


def test_file_does_not_disclose_keys_of_another_partition(tmp_path: Path) -> None:
    rows = (
        pa.Table.from_batches([samples(0, 100)])
        .cast(with_text_type(SCHEMA, DICTIONARY_TYPE))
        .unify_dictionaries()
        .combine_chunks()
    )
    files = DataFileWriter(StoragePath.at(tmp_path), SPEC, "x")
    files.write(rows[:1], {"part": "a"})
    (file,) = files.close()
    assert b"fleet/r3" not in (tmp_path / file.path).read_bytes()
    assert rows["key"].chunk(0).dictionary.to_pylist()[3].startswith("fleet/r3")


def test_files_are_deleted_after_an_error(tmp_path: Path) -> None:
    files = DataFileWriter(StoragePath.at(tmp_path), SPEC, "x")
    files.write(pa.Table.from_batches([samples(0, 1)]), {"part": "a"})
    files.discard()
    assert not list(tmp_path.glob("**/*.parquet"))
    assert files.close() == []


def test_file_of_another_writer_is_conformed_to_the_table_schema(tmp_path: Path) -> None:
    location = StoragePath.at(tmp_path)
    rows = pa.table({"key": pa.array(["a", "b"], pa.large_string()), "payload": [b"1", b"2"], "more": [1, 2]})
    pq.write_table(rows, tmp_path / "f.parquet")
    (batch,) = read_batches(location, DataFile("f.parquet", 1, 2, {}), SPEC)
    assert batch.schema == with_text_type(SCHEMA, DICTIONARY_TYPE)
    assert batch.column("key").to_pylist() == ["a", "b"]
    assert batch.column("kind").null_count == 2


def test_max_time_in_milliseconds_is_widened() -> None:
    stats = '{"maxValues": {"t": "2026-11-16T00:00:00.001Z", "u": "2026-11-16T00:00:00.001002Z"}}'
    types = dict.fromkeys("tu", pa.timestamp("us", "UTC"))
    greatest = DataFile.from_log("f", 1, {}, stats, types, 0).max_values
    assert (greatest["t"].microsecond, greatest["u"].microsecond) == (1999, 1002)
