from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zenspark.lake.parquet_footer import (
    INT64,
    INT96,
    OPTIONAL,
    TRAILER_BYTES,
    ColumnStats,
    Footer,
    LeafColumn,
    parse_footer_size,
    read_footer,
    read_page_index,
)
from zenspark.lake.thrift import I32, ThriftError, encode_struct

TABLE = pa.table(
    {
        "key": ["b", "a", None, "c"],
        "time": pa.array([1, None, 3, 2], pa.timestamp("us", tz="UTC")),
        "milli": pa.array([1, 2, 3, 4], pa.timestamp("ms")),
        "nano": pa.array([1, 2, 3, 4], pa.timestamp("ns")),
        "number": [1, -2, 3, 4],
        "binary": [b"x", b"", None, b"y"],
        "nothing": pa.nulls(4, pa.int64()),
        "nested": [{"key": 1}, None, {"key": 2}, {"key": 3}],
        "list": [[1], [], None, [2]],
    }
)


def written_as(path: Path, table: pa.Table = TABLE, **options: Any) -> tuple[Footer, bytes]:  # noqa: ANN401
    pq.write_table(table, path / "x", **options)
    content = (path / "x").read_bytes()
    length = parse_footer_size(content[-TRAILER_BYTES:])
    return read_footer(content[-TRAILER_BYTES - length : -TRAILER_BYTES]), content


def test_flat_columns_have_statistics(tmp_path: Path) -> None:
    footer, _ = written_as(tmp_path, row_group_size=3)
    assert [group.rows for group in footer.groups] == [3, 1]
    assert [*footer.groups[0].chunks] == [*TABLE.column_names[:-2]]
    chunks = footer.groups[0].chunks
    assert chunks["key"].stats == ColumnStats(b"a", b"b", 1)
    assert chunks["time"].stats == ColumnStats(1, 3, 1)
    assert chunks["milli"].stats == ColumnStats(1000, 3000, 0)
    assert chunks["nano"].stats == ColumnStats(None, None, 0)
    assert chunks["number"].stats == ColumnStats(-2, 3, 0)
    assert chunks["nothing"].stats == ColumnStats(None, None, 3, True)
    assert (chunks["key"].leaf.is_text, chunks["binary"].leaf.is_text) == (True, False)
    assert footer.groups[1].chunks["key"].stats == ColumnStats(b"c", b"c", 0)


def test_missing_metadata_is_none(tmp_path: Path) -> None:
    footer, _ = written_as(tmp_path, TABLE.select(["time", "number"]), write_statistics=False)
    chunk = footer.groups[0].chunks["number"]
    assert chunk.stats.min_value is None
    assert (chunk.offset_index, chunk.column_index) == (None, None)
    footer, _ = written_as(tmp_path, TABLE.select(["time"]), use_deprecated_int96_timestamps=True)
    assert footer.groups[0].chunks["time"].leaf == LeafColumn("time", INT96, OPTIONAL)


def test_dictionary_encoding_of_all_pages_is_detected(tmp_path: Path) -> None:
    table = pa.table({"key": [f"{number:08}" for number in range(1000)]})
    footer, _ = written_as(tmp_path, table)
    assert footer.groups[0].chunks["key"].is_dictionary_encoded
    footer, _ = written_as(tmp_path, table, dictionary_pagesize_limit=100, write_batch_size=10)
    assert not footer.groups[0].chunks["key"].is_dictionary_encoded
    footer, _ = written_as(tmp_path, table, use_dictionary=False)
    assert not footer.groups[0].chunks["key"].is_dictionary_encoded


def test_page_index_of_a_column_chunk(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([1, 2, None, None, 5], pa.int64())})
    options = {"write_page_index": True, "max_rows_per_page": 2, "write_batch_size": 1, "use_dictionary": False}
    footer, content = written_as(tmp_path, table, **options)
    chunk = footer.groups[0].chunks["x"]
    assert chunk.offset_index is not None
    assert chunk.column_index is not None
    offsets, columns = content[slice(*chunk.offset_index)], content[slice(*chunk.column_index)]
    pages = read_page_index(chunk.leaf, offsets, columns)
    assert pages.starts.tolist() == [0, 2, 4]
    assert [start for start, _ in pages.ranges[1:]] == [end for _, end in pages.ranges[:-1]]
    assert pages.stats == [ColumnStats(1, 2, 0), ColumnStats(None, None, 2, True), ColumnStats(5, 5, 0)]
    assert read_page_index(chunk.leaf, offsets, None).stats is None


def page_index(starts: list[int]) -> bytes:
    return encode_struct({1: [{1: 4 + at, 2: I32(1), 3: start} for at, start in enumerate(starts)]})


@pytest.mark.parametrize(
    ("offsets", "columns"),
    [
        (page_index([]), None),
        (page_index([1, 2]), None),
        (page_index([0, 2, 2]), None),
        (page_index([0]), encode_struct({1: [], 2: [], 3: [], 4: I32(0)})),
        (page_index([0]), encode_struct({1: [1], 2: [b""]})),
        (encode_struct({1: [{1: 1}]}), None),
        (encode_struct({2: 1}), None),
    ],
)
def test_invalid_page_index_is_rejected(offsets: bytes, columns: bytes | None) -> None:
    with pytest.raises(ThriftError, match="page index of column x"):
        read_page_index(LeafColumn("x", INT64, OPTIONAL), offsets, columns)


def test_invalid_footer_is_rejected() -> None:
    with pytest.raises(ThriftError, match="the last four bytes"):
        parse_footer_size(b"\x01\0\0\0PAR2")
    with pytest.raises(ThriftError, match="the metadata"):
        read_footer(encode_struct({1: I32(1)}))
    with pytest.raises(ThriftError, match="the metadata"):
        read_footer(encode_struct({2: [{4: b"schema"}], 4: [{1: [{1: 2}], 3: 1}]}))


def test_deprecated_min_max_is_used_for_numbers_only(tmp_path: Path) -> None:
    low, high = np.int64(1).tobytes(), np.int64(9).tobytes()
    metadata = {2: [I32(0)], 4: I32(0), 5: 1, 6: 9, 7: 9, 9: 4, 12: {1: high, 2: low}}
    columns = [
        {2: 4, 3: {1: I32(2), 3: [b"n"], **metadata}},
        {2: 4, 3: {1: I32(6), 3: [b"t"], **metadata}},
    ]
    schema: list[dict[int, Any]] = [{4: b"s", 5: I32(2)}]
    schema += [{1: I32(2), 3: I32(1), 4: b"n"}, {1: I32(6), 3: I32(1), 4: b"t", 6: I32(0)}]
    chunks = read_footer(encode_struct({1: I32(1), 2: schema, 3: 1, 4: [{1: columns, 2: 9, 3: 1}]})).groups[0].chunks
    assert chunks["n"].stats == ColumnStats(1, 9)
    assert chunks["t"].stats == ColumnStats()


def test_row_group_with_columns_of_different_length_is_rejected(tmp_path: Path) -> None:
    column = {2: 4, 3: {1: I32(2), 2: [I32(0)], 3: [b"n"], 4: I32(0), 5: 1, 6: 9, 7: 9, 9: 4}}
    schema: list[dict[int, Any]] = [{4: b"s", 5: I32(1)}, {1: I32(2), 3: I32(1), 4: b"n"}]
    with pytest.raises(ThriftError, match="2 values of each column in row group 0"):
        read_footer(encode_struct({1: I32(1), 2: schema, 3: 1, 4: [{1: [column], 2: 9, 3: 2}]}))


def a_footer(**fields: Any) -> bytes:  # noqa: ANN401
    """Of one column `key` of texts, with other values in its metadata: by their number, as `f4=...`."""
    metadata = {1: I32(6), 2: [I32(0)], 3: [b"key"], 4: I32(0), 5: 1, 7: 10, 9: 4, 12: {5: b"z", 6: b"a"}}
    metadata |= {int(name[1:]): value for name, value in fields.items()}
    leaf = {1: I32(6), 3: I32(OPTIONAL), 4: b"key", 6: I32(0)}
    return encode_struct(
        {1: I32(2), 2: [{4: b"schema", 5: I32(1)}, leaf], 3: 1, 4: [{1: [{3: metadata}], 2: 10, 3: 1}]}
    )


@pytest.mark.parametrize(
    "fields", [{"f12": {5: 7, 6: 1}}, {"f4": b"x"}, {"f2": [b"x"]}, {"f9": b"x"}, {"f7": b"x"}, {"f11": b"x"}]
)
def test_metadata_of_wrong_type_is_rejected(fields: dict[str, Any]) -> None:
    assert read_footer(a_footer()).groups[0].chunks["key"].stats == ColumnStats(b"a", b"z", None)
    with pytest.raises(ThriftError, match="expected the metadata of a Parquet file"):
        read_footer(a_footer(**fields))
